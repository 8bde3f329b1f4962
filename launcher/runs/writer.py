"""Appending to a run folder. One writer a run; every append is one `write` call on an O_APPEND file.

So a reader never sees half a fact except the last line, and a writer that is killed loses nothing that
it had already said.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import Any

from launcher import events as ev
from launcher.codec import to_plain
from launcher.fold import fold
from launcher.runs import chunks, paths
from launcher.runs.private import write_whole
from launcher.runs.samples import SampleWriter
from launcher.runs.status import Owner, Status, write_status
from launcher.spec import JobSpec
from launcher.state import RunState

_APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
_IOV = 512


class RunWriter:
    """Writes one run's folder, and keeps the state folded from what it has written.

    Not thread-safe: the run's own thread owns it.
    """

    def __init__(self, folder: Path, spec: JobSpec, *, payload: bytes | None = None) -> None:
        self.folder = folder
        self.id = folder.name
        self.state = RunState(id=self.id)
        self._owner = Owner.this()
        write_whole(folder / paths.SPEC, json.dumps(to_plain(spec.redacted()), indent=1).encode())
        if payload is not None:
            write_whole(folder / paths.TARGET, payload)
        for name in (paths.LOGS, paths.RESULT):
            (folder / name).mkdir(mode=paths.FOLDER_MODE)
        self._events = os.open(folder / paths.EVENTS, _APPEND, paths.FILE_MODE)
        self._samples = SampleWriter(folder)
        self._logs = LogWriter(folder, 0)
        self._torn = False
        self._summaries: dict[int, dict[str, Any]] = {}
        self._summary_stale = False

    def append(self, event: ev.Event) -> RunState:
        """Write one fact and return the state after it."""
        before, self.state = self.state, fold(self.state, event)
        if isinstance(event, (ev.Sampled, ev.RankReported)):
            with contextlib.suppress(OSError):  # telemetry that cannot be kept ends no training
                self._samples.append(event)
        else:
            self._record(event)
        if before.phase is not self.state.phase or isinstance(event, ev.RunSubmitted):
            write_status(self.folder, Status.of(self.state, self._owner))
        if isinstance(event, ev.RankReturned):
            self._summarise(event)
        return self.state

    def output(self, pieces: list[tuple[chunks.Chunk, memoryview]]) -> None:
        """Append pieces of output in the order they came."""
        self._logs.append(pieces)

    def open_result(self, rank: int) -> ResultFile:
        """Where a rank's return value is streamed to."""
        return ResultFile(paths.result_file(self.folder, rank))

    def settle(self) -> None:
        """Write what is written as a whole and has changed: once a turn, not once a rank."""
        if self._summary_stale:
            self._summary_stale = False
            listed = [to_plain(self._summaries[rank]) for rank in sorted(self._summaries)]
            write_whole(self.folder / paths.SUMMARY, json.dumps(listed).encode())

    def close(self) -> None:
        """Close every file."""
        self.settle()
        self._samples.close()
        self._logs.close()
        os.close(self._events)

    def _record(self, event: ev.Event) -> None:
        """Append a fact; after one that a full disk cut short, on a line of its own."""
        line = ev.encode(event, self.id)
        before, self._torn = self._torn, True
        _write_all(self._events, [memoryview(b"\n" + line if before else line)])
        self._torn = False

    def _summarise(self, event: ev.RankReturned) -> None:
        """Keep the last value that each rank returned, for people."""
        entry: dict[str, Any] = {"rank": event.rank, "type": event.type, "size": event.size}
        entry["value"] = event.value if event.json else event.preview
        entry["json"] = event.json
        self._summaries[event.rank] = entry
        self._summary_stale = True


class LogWriter:
    """The bytes of every rank and stream of one attempt, and the record of their order."""

    def __init__(self, run: Path, attempt: int) -> None:
        self._run = run
        self._attempt = attempt
        folder = paths.log_folder(run, attempt)
        folder.mkdir(mode=paths.FOLDER_MODE)
        self._chunks = os.open(folder / paths.CHUNKS, _APPEND, paths.FILE_MODE)
        os.write(self._chunks, chunks.MAGIC)
        self._files: dict[tuple[int, int], int] = {}

    def append(self, pieces: list[tuple[chunks.Chunk, memoryview]]) -> None:
        """Write the pieces, bytes before records: a record never promises bytes that are not there."""
        by_file: dict[tuple[int, int], list[memoryview]] = {}
        for chunk, data in pieces:
            by_file.setdefault((chunk.rank, chunk.stream), []).append(data)
        for key, buffers in by_file.items():
            _write_all(self._file(key), buffers)
        _write_all(self._chunks, [memoryview(b"".join(chunks.pack(c) for c, _ in pieces))])

    def close(self) -> None:
        """Close every file."""
        for descriptor in (*self._files.values(), self._chunks):
            os.close(descriptor)
        self._files.clear()

    def _file(self, key: tuple[int, int]) -> int:
        if key not in self._files:
            path = paths.log_file(self._run, self._attempt, *key)
            self._files[key] = os.open(path, _APPEND, paths.FILE_MODE)
        return self._files[key]


def _write_all(descriptor: int, buffers: list[memoryview]) -> None:
    """`writev` until everything is written; a short write goes on where it ended."""
    queue = list(buffers)
    while queue:
        written = os.writev(descriptor, queue[:_IOV])
        while queue and written >= len(queue[0]):
            written -= len(queue.pop(0))
        if written:
            queue[0] = queue[0][written:]


class ResultFile:
    """A return value on its way to disk: nothing is seen under its name until it is whole."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._partial = path.with_name(f".{path.name}.partial")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        self._fd = os.open(self._partial, flags, paths.FILE_MODE)
        self.size = 0

    def write(self, data: memoryview) -> None:
        """Append bytes."""
        _write_all(self._fd, [data])
        self.size += len(data)

    def commit(self) -> None:
        """The value is whole: give the file its name."""
        os.close(self._fd)
        self._partial.replace(self._path)

    def discard(self) -> None:
        """The value will not come: leave nothing."""
        os.close(self._fd)
        self._partial.unlink(missing_ok=True)
