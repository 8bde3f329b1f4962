"""What lies in a folder: each file's stamp, by which a change is noticed without reading the file."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import NamedTuple

LEFT_OUT = frozenset({"__pycache__"})


class Stamp(NamedTuple):
    """A file's state. Two stamps are equal if nobody wrote to the file between them.

    Attributes:
        size: in bytes.
        mtime_ns: when it was written last, in nanoseconds since the epoch.
        inode: the file's number in its file system.
        executable: whether its owner may execute it.
        link: where it leads, if it is a symbolic link.
    """

    size: int
    mtime_ns: int
    inode: int
    executable: bool = False
    link: str = ""


class Scan(NamedTuple):
    """The files below a folder, and whether every folder there could be read."""

    found: dict[str, Stamp]
    whole: bool


def stamp_of(status: os.stat_result, link: str = "") -> Stamp:
    """The stamp of a file with this status."""
    if link:
        return Stamp(0, status.st_mtime_ns, status.st_ino, link=link)
    executable = bool(status.st_mode & stat.S_IXUSR)
    return Stamp(status.st_size, status.st_mtime_ns, status.st_ino, executable)


def stamp_at(path: str) -> Stamp | None:
    """The stamp of a regular file or symbolic link; None if there is none."""
    try:
        status = os.lstat(path)
        if stat.S_ISLNK(status.st_mode):
            return stamp_of(status, os.readlink(path))
    except OSError:
        return None
    return stamp_of(status) if stat.S_ISREG(status.st_mode) else None


def scan(root: str) -> Scan:
    """The stamps of all regular files and links below a folder, by their paths from there."""
    found: dict[str, Stamp] = {}
    folders, whole = [""], True
    while folders:
        below = folders.pop()
        try:
            found.update(_files(root, below, folders))
        except OSError:
            whole = False
    return Scan(found, whole)


def _files(root: str, below: str, folders: list[str]) -> Iterator[tuple[str, Stamp]]:
    """The files of one folder; folders in it are appended to `folders`."""
    with os.scandir(os.path.join(root, below)) as entries:
        for entry in entries:
            path = f"{below}/{entry.name}" if below else entry.name
            if entry.is_dir(follow_symlinks=False):
                if entry.name not in LEFT_OUT:
                    folders.append(path)
            elif (stamp := _stamp(entry)) is not None:
                yield path, stamp


def _stamp(entry: os.DirEntry[str]) -> Stamp | None:
    """The stamp of a folder's entry; None for what is no file, or is gone."""
    if entry.is_symlink():
        return stamp_at(entry.path)
    try:
        return stamp_of(entry.stat(follow_symlinks=False)) if entry.is_file(follow_symlinks=False) else None
    except OSError:
        return None
