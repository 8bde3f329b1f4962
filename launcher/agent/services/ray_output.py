"""What the workers of a Ray node print, from the files to which Ray redirects it.

Ray writes a file for each worker and stream into the session's ``logs``, and lines in between that name the
job, the task or the actor (ray/_private/ray_constants.py). Each line is passed on with that name and the
worker's pid before it, as a driver prints it. With RAY_ROTATION_MAX_BYTES, Ray renames a file of that size
and begins a new one: the file before is ``NAME.1``, the one before that ``NAME.2``.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO

STDOUT, STDERR = 1, 2
Write = Callable[[int, bytes], None]
_FILE = re.compile(r"worker-.*-(\d+)\.(out|err)")
_MARK = re.compile(rb":(job_id|actor_name|task_name):(.*)")
_PIECE = 1 << 20
_LONGEST = 64 << 10


@dataclass(slots=True)
class _File:
    """What a worker writes to one stream.

    Attributes:
        path: of the file that it writes to.
        inode: of the file that was read last, which may have been renamed since; 0 before the first.
        offset: how far that one was read.
        name: who prints: a task or an actor.
        rest: the line that is not complete yet.
    """

    path: str
    stream: int
    pid: str
    inode: int = 0
    offset: int = 0
    name: bytes = b""
    rest: bytearray = field(default_factory=bytearray)


class WorkerOutput:
    """The files of all workers below a folder of logs, which need not exist yet."""

    def __init__(self, folder: str, write: Write) -> None:
        self._folder = folder
        self._write = write
        self._files: dict[str, _File] = {}

    def forward(self) -> None:
        """Pass on the lines that were completed since the last call."""
        self._find()
        for file in self._files.values():
            for data in self._read(file):
                file.rest += data
                self._lines(file)

    def finish(self) -> None:
        """Pass on all that is left, lines without an end too."""
        self.forward()
        for file in self._files.values():
            if file.rest:
                self._line(file, bytes(file.rest))
                file.rest.clear()

    def _find(self) -> None:
        with contextlib.suppress(OSError):  # no session yet, or none any more
            for name in os.listdir(self._folder):
                if name not in self._files and (match := _FILE.fullmatch(name)):
                    stream = STDOUT if match[2] == "out" else STDERR
                    self._files[name] = _File(os.path.join(self._folder, name), stream, match[1])

    def _read(self, file: _File) -> Iterator[bytes]:
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            now = os.stat(file.path)
            if now.st_ino == file.inode and now.st_size <= file.offset:
                return
            for inode, source in reversed(_unread(file, stack).items()):
                if inode != file.inode:
                    file.inode, file.offset = inode, 0
                source.seek(file.offset)
                while data := source.read(_PIECE):
                    file.offset += len(data)
                    yield data

    def _lines(self, file: _File) -> None:
        *lines, rest = file.rest.split(b"\n")
        for line in lines:
            self._line(file, bytes(line))
        file.rest = rest
        if len(rest) > _LONGEST:  # a progress bar, or no text: it does not wait for its end
            self._line(file, bytes(rest))
            file.rest = bytearray()

    def _line(self, file: _File, line: bytes) -> None:
        if mark := _MARK.fullmatch(line):
            if mark[1] != b"job_id":
                file.name = mark[2] + b" "
            return
        self._write(file.stream, b"(%spid=%s) %s\n" % (file.name, file.pid.encode(), line))


def _unread(file: _File, stack: contextlib.ExitStack) -> dict[int, BinaryIO]:
    """What was not read yet, by inode: the file, and those before it back to the one that was read last.

    Ray may rename them meanwhile, so one may be found by two names.
    """
    found: dict[int, BinaryIO] = {}
    for suffix in itertools.chain([""], map(".{}".format, itertools.count(1))):
        try:
            source = stack.enter_context(open(file.path + suffix, "rb"))  # noqa: SIM115  the stack closes it
        except FileNotFoundError:
            break
        inode = os.fstat(source.fileno()).st_ino
        found.setdefault(inode, source)
        if inode == file.inode:
            break
    return found
