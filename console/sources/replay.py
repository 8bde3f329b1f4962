"""A recorded run, written again into a fresh folder in its own time, as if it were live."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from launcher import events as ev
from launcher.runs import chunks, opening, paths
from launcher.runs.catalog import create_folder
from launcher.runs.reader import FactTail, read_spec
from launcher.runs.writer import RunWriter
from launcher.state import RankPhase

Piece = tuple[chunks.Chunk, bytes]
Moment = ev.Event | Piece

_NEVER = 1 << 63
_MOST_RECORDS = 256 << 20
_APART_NS = 1000  # a time in seconds, as facts have it, tells no finer


class Replay:
    """One replay, in a thread of its own; `run` is the folder that grows."""

    def __init__(self, recorded: Path, root: Path, *, speed: float = 1.0, ahead_s: float = 0.0) -> None:
        self._start = time.time() - ahead_s / speed
        self._speed = speed
        self._moments = list(moments(recorded))
        self._first = time_of(self._moments[0])
        self.run = create_folder(root, time.time())
        self._writer = RunWriter(self.run, read_spec(recorded))
        self._ending: tuple[str, bool] | None = None
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._play, name="rankdeck-replay", daemon=True)

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def stop(self, by: str = "person", *, force: bool = False) -> None:
        """End the replayed run as a stop would have."""
        self._ending = (by, force)
        self._wake.set()

    def join(self, timeout: float | None = None) -> bool:
        """Wait for the end; whether it has come."""
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def _play(self) -> None:
        for moment in self._moments:
            due = self._shift(time_of(moment))
            self._wake.wait(max(due - time.time(), 0.0))
            if self._ending is not None:
                self._end(*self._ending)
                break
            self._write(moment, due)
        self._writer.close()

    def _shift(self, then: float) -> float:
        return self._start + (then - self._first) / self._speed

    def _write(self, moment: Moment, now: float) -> None:
        if isinstance(moment, ev.Event):
            self._writer.append(replace(moment, time=now))
            if isinstance(moment, ev.RankReturned):
                self._writer.open_result(moment.rank).commit()
        else:
            chunk, data = moment
            self._writer.output([(replace(chunk, time_ns=int(now * 1e9)), memoryview(data))])

    def _end(self, by: str, force: bool) -> None:
        """Write what a stop leaves behind, unless the run has ended meanwhile."""
        if self._writer.state.phase.final:
            return
        now, name = time.time(), "SIGKILL" if force else "SIGTERM"
        attempt = self._writer.state.attempt
        self._writer.append(
            ev.StopRequested(time=now, attempt=attempt, by=by, reason="stopped on request", exit_code=143)
        )
        for rank in self._writer.state.ranks:
            if rank.phase not in (RankPhase.SUCCEEDED, RankPhase.FAILED):
                code = 137 if force else 143
                self._writer.append(
                    ev.RankExited(
                        time=now + 0.2, attempt=attempt, rank=rank.rank, exit_code=code, signal=name
                    )
                )
        self._writer.append(
            ev.RunEnded(time=now + 0.3, state="stopped", exit_code=143, why="stopped on request")
        )


def replay(recorded: Path, root: Path, *, speed: float = 1.0, ahead_s: float = 0.0) -> Replay:
    """Start to write `recorded` again under `root`, `ahead_s` seconds of it at once."""
    again = Replay(recorded, root, speed=speed, ahead_s=ahead_s)
    again.start()
    return again


def moments(recorded: Path) -> Iterator[Moment]:
    """Every fact and every piece of output of a run, by time; output stays within its attempt."""
    facts = FactTail(recorded, samples=True).poll()
    begins = {f.attempt: int(f.time * 1e9) for f in facts if isinstance(f, ev.GangRestarted)}
    mixed: list[Moment] = [*facts, *_pieces(recorded, begins)]
    return iter(sorted(mixed, key=time_of))


def time_of(moment: Moment) -> float:
    """When it happened."""
    return moment.time if isinstance(moment, ev.Event) else moment[0].time_ns / 1e9


def _pieces(recorded: Path, begins: Mapping[int, int]) -> Iterator[Piece]:
    """The output of every attempt; two hosts' clocks may put a piece beyond its attempt's bounds."""
    for attempt in paths.attempts(recorded):
        first, end = begins.get(attempt, 0), begins.get(attempt + 1, _NEVER) - _APART_NS
        for chunk, data in _pieces_of(recorded, attempt):
            yield replace(chunk, time_ns=min(max(chunk.time_ns, first), end)), data


def _pieces_of(recorded: Path, attempt: int) -> Iterator[Piece]:
    try:
        order = paths.log_folder(recorded, attempt) / paths.CHUNKS
        records = opening.read_whole(recorded, order, _MOST_RECORDS)[len(chunks.MAGIC) :]
    except FileNotFoundError:
        return
    at: dict[Path, int] = {}
    for chunk in chunks.unpack(records):
        path = paths.log_file(recorded, attempt, chunk.rank, chunk.stream)
        offset = at.get(path, 0)
        yield chunk, _slice(recorded, path, offset, chunk.length)
        at[path] = offset + chunk.length


def _slice(recorded: Path, path: Path, offset: int, length: int) -> bytes:
    descriptor = opening.open_descriptor(recorded, path)
    try:
        return os.pread(descriptor, length, offset)
    finally:
        os.close(descriptor)
