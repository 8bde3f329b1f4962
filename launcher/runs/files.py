"""Opening the files of a run folder: for reading, whoever wrote them; for writing, private to their owner.

A folder from somebody else may contain traps: a link that leads out of it, a FIFO or a device that blocks on
opening, a file without end that fills the memory. So links below the folder are not followed, only regular
files are opened, and a file that is read whole must not be too large. A run's writer does not need these
checks.
"""

from __future__ import annotations

import contextlib
import os
import resource
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from errno import EFBIG, EINVAL, ELOOP, EMFILE, ENFILE, ENOTDIR
from pathlib import Path
from typing import BinaryIO

from . import paths

MOST_BYTES = 16 << 20
TOO_MANY_OPEN = (EMFILE, ENFILE)
"""The errors that say that no more files can be opened."""

_LEAST_OPEN, _MOST_OPEN = 16, 4096
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
    """A run's file is not a regular file but a link, a FIFO, a device or a folder, or it is far too large."""


def most_open() -> int:
    """How many files of a run may stay open: a quarter of what this process may open (``ulimit -n``)."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return _MOST_OPEN if soft == resource.RLIM_INFINITY else min(max(soft // 4, _LEAST_OPEN), _MOST_OPEN)


def open_descriptor(run: Path, path: Path) -> int:
    """A descriptor of a run's file, for reading.

    Args:
        run: the run folder; it may itself be reached through links.
        path: the file, somewhere below `run`.

    Raises:
        NotPlain: it is no regular file, or a folder in its path is a link.
        OSError: it does not exist, or cannot be opened.
    """
    with _parent(run, path) as (folder, name):
        # before it is opened: opening a device may already have effects
        _require_plain(os.stat(name, dir_fd=folder, follow_symlinks=False), path)
        descriptor = os.open(name, _FILE, dir_fd=folder)
    try:
        _require_plain(os.fstat(descriptor), path)
    except NotPlain:
        os.close(descriptor)
        raise
    return descriptor


def open_file(run: Path, path: Path, *, buffering: int = -1) -> BinaryIO:
    """A run's file, for reading in binary mode.

    Raises:
        NotPlain, OSError: as `open_descriptor`.
    """
    return os.fdopen(open_descriptor(run, path), "rb", buffering)


def read_whole(run: Path, path: Path, most: int = MOST_BYTES) -> bytes:
    """The content of a run's file.

    Raises:
        NotPlain: as `open_descriptor`, or it holds more than `most` bytes.
        OSError: it cannot be read.
    """
    with open_file(run, path, buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            raise NotPlain(EFBIG, f"is larger than {most >> 20} MiB", str(path))
        parts, left = [], most + 1
        # a read allocates memory for all that it may return: so let it return little more than the size
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
    """The names in a run's folder, or in one below it, sorted; none if it does not exist.

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
    """Every regular file below a run's folder, sorted by name; links are neither followed nor included."""
    yield from _files_below(run, run)


def _files_below(run: Path, folder: Path) -> Iterator[Path]:
    try:
        with _opened(run, _parts(run, folder)) as descriptor, os.scandir(descriptor) as entries:
            found = sorted((e.name, e.is_dir(follow_symlinks=False)) for e in entries if _is_plain(e))
    except OSError:
        return
    for name, is_folder in found:
        if is_folder:
            yield from _files_below(run, folder / name)
        else:
            yield folder / name


def _is_plain(entry: os.DirEntry[str]) -> bool:
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
    """A descriptor of a folder below `run`; no folder in its path may be a link."""
    descriptor = os.open(run, _FOLDER)
    try:
        for name in folders:
            descriptor = _step(descriptor, name)
        yield descriptor
    finally:
        os.close(descriptor)


def _step(above: int, name: str) -> int:
    """A descriptor of a folder in the folder `above`, which is closed unless this fails."""
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
    """For `open(…, opener=opener)`: a new file is private."""
    return os.open(path, flags, paths.FILE_MODE)


def write_whole(path: Path, data: bytes) -> None:
    """Replace a file as a whole: a reader sees the old one or the new one, never half of either.

    Raises:
        OSError: it could not be written; the new one has been removed.
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
            OSError: a write failed; `size` is the length with what was written before.
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
            OSError: it could not be written.
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
            OSError: it cannot be shortened.
        """
        if self.size > size:
            os.ftruncate(self.descriptor, size)
            self.size = size

    def close(self) -> None:
        """Close it; an error that a remote disk reports only now is ignored."""
        with contextlib.suppress(OSError):
            os.close(self.descriptor)
