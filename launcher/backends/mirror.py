"""What an engine beside the agents has recorded, as pieces that ours can append one after another.

Its folder is read while it grows, on storage that both see, or whole after it came home. In either case
the pieces come in an order in which ours may be read meanwhile: bytes before the facts that follow them,
all of an attempt before the next, a rank's value before the fact that it is there.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from launcher import events as ev
from launcher.backends import Mirror
from launcher.runs import chunks, paths
from launcher.runs.chunks import Chunk
from launcher.runs.private import opener
from launcher.runs.reader import FactTail
from launcher.state import Phase

PIECE_BYTES = 4 << 20
SETTLE_S = 1.0
_RECORDS = 4096

Pieces = list[tuple[Chunk, memoryview]]


class FieldReader:
    """Reads one engine's folder.

    Args:
        run: its run folder, which may not be there yet.
        home: ours, where ranks' values are brought.
        attempt: the attempt with which that engine began.
        began: when it was asked for, by our clock.
        clock: the time of day.

    Attributes:
        begun: whether anything has been read.
        ended: whether that engine has ended.
        left: whether it did so without a verdict, or with one that is not its to give.
    """

    def __init__(
        self, run: Path, home: Path, attempt: int, began: float, clock: Callable[[], float] = time.time
    ) -> None:
        self.begun = self.ended = self.left = False
        self._run, self._home, self._attempt = run, home, attempt
        self._began, self._clock = began, clock
        self._facts = FactTail(run, samples=True)
        self._output = OutputTail(run, attempt)
        self._skew: float | None = None
        self._waiting: list[ev.Event] = []
        self._head: ev.Event | None = None
        self._since = 0.0
        self._unkept: set[int] = set()

    def poll(self, *, final: bool = False) -> Iterator[Mirror]:
        """What is new; with `final` also what was still to settle, since nothing more will come."""
        with contextlib.suppress(
            OSError
        ):  # shared storage comes and goes; what it has not shown yet, it will
            if fresh := self._facts.poll():  # before the output: what came before them is then there
                self._waiting += fresh
                self._relate(fresh)
        yield from self._bytes(final=final)
        group: list[ev.Event] = []
        results: list[tuple[int, Path]] = []
        while self._waiting and not self.ended:
            fact = self._waiting[0]
            if not self._is_ready(fact, results, final=final):
                break
            self._waiting.pop(0)
            if not self._is_known(fact) and not self._is_end(fact):
                group.append(self._moved(fact))
            if self._begins_anew(fact):
                yield from self._bytes(final=True)
                yield Mirror(facts=tuple(group), results=tuple(results))
                group, results = [], []
                self._output = OutputTail(self._run, fact.attempt)
                yield from self._bytes(final=final)
        if group:
            yield Mirror(facts=tuple(group), results=tuple(results))

    def _bytes(self, *, final: bool) -> Iterator[Mirror]:
        for pieces in self._output.poll(final=final):
            self.begun = True
            moved = [(replace(chunk, time_ns=self._moved_ns(chunk.time_ns)), data) for chunk, data in pieces]
            yield Mirror(output=tuple(moved))

    def _is_ready(self, fact: ev.Event, results: list[tuple[int, Path]], *, final: bool) -> bool:
        """Whether what it speaks of is here; storage may show one file of a folder before another."""
        if not isinstance(fact, (ev.RankReturned, ev.GangRestarted, ev.RunEnded)):
            return True
        if self._head is not fact:
            self._head, self._since = fact, time.monotonic()
        settled = final or time.monotonic() >= self._since + SETTLE_S
        return self._fetch(fact, results, final=settled) if isinstance(fact, ev.RankReturned) else settled

    def _is_known(self, fact: ev.Event) -> bool:
        """What we have told ourselves already."""
        return isinstance(fact, ev.RunSubmitted) or (
            isinstance(fact, ev.GangRestarted) and fact.attempt <= self._attempt
        )

    def _begins_anew(self, fact: ev.Event) -> bool:
        return isinstance(fact, ev.GangRestarted) and fact.attempt > self._attempt and not self.ended

    def _is_end(self, fact: ev.Event) -> bool:
        """Whether it is an end there and not here: after a loss ours decides, which knows what Spark says."""
        restart = isinstance(fact, ev.GangRestarted) and not fact.in_place and fact.attempt > self._attempt
        lost = isinstance(fact, ev.RunEnded) and fact.state == Phase.LOST
        self.ended = restart or isinstance(fact, ev.RunEnded)
        self.left = restart or lost
        return self.left

    def _fetch(self, fact: ev.RankReturned, results: list[tuple[int, Path]], *, final: bool) -> bool:
        """Bring a rank's value here, under a name that nobody looks at; whether it is whole."""
        value = paths.result_file(self._run, fact.rank)
        near = paths.result_file(self._home, fact.rank)
        near = near.with_name(f".{near.name}.mirrored")
        try:
            source = open(value, "rb")  # noqa: SIM115  # an error of the other end's storage is no end of ours
        except OSError:
            return final
        try:
            with source, open(near, "wb", opener=opener) as copy:
                shutil.copyfileobj(source, copy, PIECE_BYTES)
        except OSError:
            if final:  # a full disk here loses the value, and not the run
                near.unlink(missing_ok=True)
                self._unkept.add(fact.rank)
            return final
        if near.stat().st_size != fact.size and not final:
            return False
        results.append((fact.rank, near))
        return True

    # --- two clocks ----------------------------------------------------------------------------------

    def _relate(self, facts: Sequence[ev.Event]) -> None:
        self.begun = True
        if self._skew is None:
            times = [fact.time for fact in facts]
            self._skew = clock_skew(min(times), max(times), began=self._began, now=self._clock())

    def _moved(self, fact: ev.Event) -> ev.Event:
        if isinstance(fact, ev.RankReturned) and fact.rank in self._unkept:
            self._unkept.remove(fact.rank)
            fact = replace(fact, kept=False)
        return replace(fact, time=fact.time - self._skew) if self._skew else fact

    def _moved_ns(self, time_ns: int) -> int:
        return max(0, time_ns - int((self._skew or 0.0) * 1e9))


def clock_skew(first: float, last: float, *, began: float, now: float) -> float:
    """The least difference of two clocks by which nothing happened before its cause, or after it was read.

    Args:
        first: when the first of what was read happened, by the other clock.
        last: the same of the last.
        began: when it was asked for, by ours.
        now: when it was read, by ours.
    """
    if first < began:
        return first - began
    return max(0.0, last - now)


class OutputTail:
    """Ranks' output in one attempt of a growing folder, in the order in which it came."""

    def __init__(self, run: Path, attempt: int) -> None:
        self._run, self._attempt = run, attempt
        self._position = len(chunks.MAGIC)
        self._read: dict[tuple[int, int], int] = {}

    def poll(self, *, final: bool = False) -> Iterator[Pieces]:
        """What is new, in bounded pieces. Bytes that a record promises are waited for, but not at the end."""
        while batch := self._records():
            before = self._position
            pieces = self._pieces(batch, final=final)
            if pieces:
                yield pieces
            if self._position == before:
                return

    def _records(self) -> list[Chunk]:
        path = paths.log_folder(self._run, self._attempt) / paths.CHUNKS
        try:
            with open(path, "rb", buffering=0) as file:
                return list(chunks.unpack(os.pread(file.fileno(), _RECORDS * chunks.SIZE, self._position)))
        except OSError:
            return []

    def _pieces(self, batch: Sequence[Chunk], *, final: bool) -> Pieces:
        pieces: Pieces = []
        size = 0
        with contextlib.ExitStack() as files:
            opened: dict[tuple[int, int], int] = {}
            for chunk in batch:
                data = self._data(chunk, opened, files)
                if len(data) < chunk.length and not final:
                    break
                self._position += chunks.SIZE
                key = (chunk.rank, chunk.stream)
                self._read[key] = self._read.get(key, 0) + len(data)
                if data:
                    pieces.append((replace(chunk, length=len(data)), memoryview(data)))
                size += len(data)
                if size >= PIECE_BYTES:
                    break
        return pieces

    def _data(self, chunk: Chunk, opened: dict[tuple[int, int], int], files: contextlib.ExitStack) -> bytes:
        key = (chunk.rank, chunk.stream)
        if key not in opened:
            path = paths.log_file(self._run, self._attempt, *key)
            try:
                opened[key] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                return b""
            files.callback(os.close, opened[key])
        try:
            return os.pread(opened[key], chunk.length, self._read.get(key, 0))
        except OSError:
            return b""
