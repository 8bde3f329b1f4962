"""What the kernel reports of a folder and those below it: files made, closed, renamed (inotify(7)).

Reports may be missing: the kernel drops them when too many wait, allows a user so many folders, and a file in
a new folder may be closed before that folder is watched. So whoever needs all files scans the folder as well.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

from .scan import LEFT_OUT

_CLOSE_WRITE, _MOVED_FROM, _MOVED_TO, _CREATE = 0x8, 0x40, 0x80, 0x100
_IGNORED, _ONLYDIR, _DONT_FOLLOW, _ISDIR = 0x8000, 0x1000000, 0x2000000, 0x40000000
_MASK = _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _CREATE | _ONLYDIR | _DONT_FOLLOW
_EVENT = struct.Struct("iIII")
_BYTES = 64 << 10


@dataclass(slots=True)
class Changes:
    """Files by their paths from the watched folder.

    Attributes:
        made: those that a program has made, and probably has open.
        closed: those that were closed after writing, or got their name.
        renamed: the old name of a file by its new one.
    """

    made: list[str] = field(default_factory=list)
    closed: list[str] = field(default_factory=list)
    renamed: dict[str, str] = field(default_factory=dict)


class FolderEvents:
    """Watches a folder and those below it. Without inotify it reports nothing, and has no descriptor."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._folders: dict[int, str] = {}
        self._moved: dict[int, str] = {}
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor >= 0:
            self._watch("")

    def fileno(self) -> int:
        """The descriptor for a selector; -1 without one."""
        return int(self._descriptor)

    def take(self) -> Changes:
        """All that was reported since the last call."""
        changes = Changes()
        for watch, mask, cookie, name in self._events():
            if mask & _IGNORED:
                self._folders.pop(watch, None)
            elif (folder := self._folders.get(watch)) is not None and name:
                self._note(changes, f"{folder}/{name}" if folder else name, mask, cookie)
        self._moved.clear()
        return changes

    def close(self) -> None:
        """Watch nothing any more."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _note(self, changes: Changes, path: str, mask: int, cookie: int) -> None:
        if mask & _ISDIR:
            if mask & (_CREATE | _MOVED_TO):
                self._watch(path)
        elif mask & _CREATE:
            changes.made.append(path)
        elif mask & _MOVED_FROM:
            self._moved[cookie] = path
        else:
            changes.closed.append(path)
            if mask & _MOVED_TO and cookie in self._moved:
                changes.renamed[path] = self._moved.pop(cookie)

    def _watch(self, path: str) -> None:
        """Watch a folder and those in it. One that cannot be watched is left to scans."""
        if os.path.basename(path) in LEFT_OUT:
            return
        place = os.path.join(self._root, path)
        watch = self._libc.inotify_add_watch(self._descriptor, os.fsencode(place), _MASK)
        if watch < 0:
            return
        self._folders[watch] = path
        try:
            with os.scandir(place) as entries:
                below = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        except OSError:
            return
        for name in below:
            self._watch(f"{path}/{name}" if path else name)

    def _events(self) -> Iterator[tuple[int, int, int, str]]:
        while data := self._read():
            start = 0
            while start < len(data):
                watch, mask, cookie, length = _EVENT.unpack_from(data, start)
                start += _EVENT.size
                yield watch, mask, cookie, os.fsdecode(data[start : start + length].rstrip(b"\0"))
                start += length

    def _read(self) -> bytes:
        try:
            return os.read(self._descriptor, _BYTES) if self._descriptor >= 0 else b""
        except OSError:  # nothing waits
            return b""
