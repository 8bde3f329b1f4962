"""How files of a run folder are opened: to be read, whoever wrote them; to be written, for their owner only.

A name in the folder may have been put there to lead out of it (a link), to keep who opens it waiting (a FIFO,
a device) or to fill the memory (a file without end). So nothing below the folder is followed that is a link,
only regular files are opened, and what is read whole is bounded. Whoever writes a run opens its files itself.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from errno import EFBIG, EINVAL, ELOOP, ENOTDIR
from pathlib import Path
from typing import BinaryIO

from . import paths

MOST_BYTES = 16 << 20
_LEAST_READ = 1 << 16

_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NONBLOCK | os.O_CLOEXEC
_KINDS = {
    stat.S_IFLNK: "is a symbolic link",
    stat.S_IFIFO: "is a FIFO",
    stat.S_IFSOCK: "is a socket",
    stat.S_IFCHR: "is a device",
    stat.S_IFBLK: "is a device",
    stat.S_IFDIR: "is a folder",
}


class NotPlain(OSError):
    """What has the name of a run's file is none: a link, a FIFO, a device, a folder, or far too large."""


def open_descriptor(run: Path, path: Path) -> int:
    """A descriptor of a run's file, for reading.

    Args:
        run: the run folder; it may itself be reached through links.
        path: the file, somewhere below `run`.

    Raises:
        NotPlain: it is no regular file, or a folder on the way to it is a link.
        OSError: it is not there, or cannot be opened.
    """
    with _parent(run, path) as (folder, name):
        # before it is opened: to open a device may already do something
        _require_plain(os.stat(name, dir_fd=folder, follow_symlinks=False), path)
        descriptor = os.open(name, _FILE, dir_fd=folder)
    try:
        _require_plain(os.fstat(descriptor), path)
    except NotPlain:
        os.close(descriptor)
        raise
    return descriptor


def open_file(run: Path, path: Path, *, buffering: int = -1) -> BinaryIO:
    """The same as a binary file.

    Raises:
        NotPlain, OSError: as `open_descriptor`.
    """
    return os.fdopen(open_descriptor(run, path), "rb", buffering)


def read_whole(run: Path, path: Path, most: int = MOST_BYTES) -> bytes:
    """All that a run's file holds.

    Raises:
        NotPlain: as `open_descriptor`, or it holds more than `most` bytes.
        OSError: it cannot be read.
    """
    with open_file(run, path, buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise NotPlain(EFBIG, f"is larger than {most >> 20} MiB", str(path))
        parts, left = [], most + 1
        # a read takes memory for all that it may get, so it may get little more than there is
        while left > 0 and (part := file.read(min(left, max(size + 1, _LEAST_READ)))):
            parts.append(part)
            left -= len(part)
    if left <= 0:  # it grew meanwhile
        raise NotPlain(EFBIG, f"is larger than {most >> 20} MiB", str(path))
    return b"".join(parts)


def stat_file(run: Path, path: Path) -> os.stat_result:
    """Size and times of a run's file.

    Raises:
        NotPlain, OSError: as `open_descriptor`.
    """
    with _parent(run, path) as (folder, name):
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    _require_plain(found, path)
    return found


def is_file(run: Path, path: Path) -> bool:
    """Whether a run has this file, and it is a regular one."""
    try:
        stat_file(run, path)
    except OSError:
        return False
    return True


def names_in(run: Path, folder: Path) -> list[str]:
    """The names in a run's folder, or in one below it, sorted; none if it is not there.

    Raises:
        NotPlain: it is no folder, or a link to one.
        OSError: it cannot be read.
    """
    try:
        with _opened(run, _parts(run, folder)) as descriptor:
            return sorted(os.listdir(descriptor))
    except FileNotFoundError:
        return []


def files_below(run: Path) -> Iterator[Path]:
    """Every regular file below a run's folder, by name; links are not followed, and are not among them."""
    yield from _files_below(run, run)


def _files_below(run: Path, folder: Path) -> Iterator[Path]:
    try:
        with _opened(run, _parts(run, folder)) as descriptor, os.scandir(descriptor) as entries:
            found = sorted((e.name, e.is_dir(follow_symlinks=False)) for e in entries if _is_own(e))
    except OSError:
        return
    for name, inner in found:
        if inner:
            yield from _files_below(run, folder / name)
        else:
            yield folder / name


def _is_own(entry: os.DirEntry[str]) -> bool:
    return entry.is_dir(follow_symlinks=False) or entry.is_file(follow_symlinks=False)


@contextmanager
def _parent(run: Path, path: Path) -> Iterator[tuple[int, str]]:
    """The folder that a file is in, as a descriptor, and its name there."""
    *folders, name = _parts(run, path) or [""]
    if not name:
        raise NotPlain(EINVAL, "is a folder", str(path))
    with _opened(run, folders) as descriptor:
        yield descriptor, name


@contextmanager
def _opened(run: Path, folders: list[str]) -> Iterator[int]:
    """A folder below `run`, none of which is a link, as a descriptor."""
    descriptor = os.open(run, _FOLDER)
    try:
        for name in folders:
            descriptor = _step(descriptor, name)
        yield descriptor
    finally:
        os.close(descriptor)


def _step(above: int, name: str) -> int:
    """One folder further down; the one above is closed where that works."""
    try:
        below = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=above)
    except OSError as error:
        if error.errno in (ELOOP, ENOTDIR):
            raise NotPlain(error.errno, "is no folder", name) from None
        raise
    os.close(above)
    return below


def _parts(run: Path, path: Path) -> list[str]:
    parts = [*path.relative_to(run).parts]
    if ".." in parts:
        raise NotPlain(EINVAL, "leads out of the run folder", str(path))
    return parts


def _require_plain(found: os.stat_result, path: Path) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise NotPlain(EINVAL, _KINDS.get(stat.S_IFMT(found.st_mode), "is no file"), str(path))


def opener(path: str, flags: int) -> int:
    """For `open(…, opener=opener)`: a file that is made is made private."""
    return os.open(path, flags, paths.FILE_MODE)


def write_whole(path: Path, data: bytes) -> None:
    """Replace a file as a whole: a reader sees the old one or the new one, never half of either.

    Raises:
        OSError: it could not be written; nothing is left of the new one.
    """
    partial = path.with_name(f".{path.name}.partial")
    try:
        with open(partial, "wb", opener=opener) as file:
            file.write(data)
        partial.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        raise


_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
_IOV = 512

Buffer = bytes | memoryview


class Growing:
    """An append-only file.

    Attributes:
        size: its length, however the last write ended.

    Raises:
        OSError: it cannot be opened.
    """

    def __init__(self, path: Path) -> None:
        self.descriptor = os.open(path, _APPEND, paths.FILE_MODE)
        found = os.fstat(self.descriptor)
        if not stat.S_ISREG(found.st_mode):
            os.close(self.descriptor)
            raise OSError(EINVAL, "it is no regular file", str(path))
        self.size = found.st_size

    def write(self, buffers: Iterable[Buffer]) -> None:
        """Append all buffers; a short write goes on where it ended.

        Raises:
            OSError: the file took no more; `size` says how much it took.
        """
        queue = [memoryview(buffer) for buffer in buffers]
        while queue:
            written = os.writev(self.descriptor, queue[:_IOV])
            self.size += written
            while queue and written >= len(queue[0]):
                written -= len(queue.pop(0))
            if written:
                queue[0] = queue[0][written:]

    def whole(self, buffer: Buffer) -> None:
        """Append a buffer, or nothing of it.

        Raises:
            OSError: the file took no more.
        """
        before = self.size
        try:
            self.write([buffer])
        except OSError:
            self.cut(before)
            raise

    def cut(self, size: int) -> None:
        """Shorten the file.

        Raises:
            OSError: not even that is possible.
        """
        if self.size > size:
            os.ftruncate(self.descriptor, size)
            self.size = size

    def close(self) -> None:
        """Close it; what a remote disk says only now comes too late."""
        with contextlib.suppress(OSError):
            os.close(self.descriptor)
