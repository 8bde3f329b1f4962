"""Follows one run's folder, and writes what is new to one tracker until the run has ended.

The folder is the queue: while a tracker cannot be written, nothing more is read, and nothing is held but one
batch. So a slow tracker costs no memory, and a run of a week survives a tracker's outage of an hour.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

from ..errors import RecordError
from ..runs import paths
from ..runs.reader import FactTail, LineTail, decoded, read_spec
from ..runs.samples import sample_files
from ..spec.redaction import redacted_text
from ..state import events as ev
from .base import Record, TrackedRun, TrackerWriter, Verdict
from .reports import Leader, Point

PERIOD_S = 1.0
_LINES, _LAST_LINES = 2_000, 20_000
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 30.0
_LAST_PAUSE_S = 0.25
_LAST_TRIES = 2
_REASON = 200
T = TypeVar("T")


class GaveUp(Exception):
    """The run has ended, and the tracker still cannot be written."""


class EndOfRun:
    """The end of the run, for all followers: not yet, or how it ended."""

    def __init__(self) -> None:
        self._known = threading.Event()
        self.verdict: Verdict | None = None

    def come(self, verdict: Verdict) -> None:
        """The run has ended: nothing more will be reported."""
        self.verdict = verdict
        self._known.set()

    def wait(self, limit_s: float) -> None:
        """Wait until the run has ended, at most so long."""
        self._known.wait(limit_s)


class ReportTail:
    """The ranks' reports in a folder's samples, as they are appended."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self._tail: LineTail | None = None

    def take(self, most: int = _LINES) -> list[ev.RankReported]:
        """The next reports of at most so many lines; none if there is nothing new.

        Raises:
            OSError: the folder cannot be read just now.
        """
        lines: list[bytes] = []
        for path in [file for file in sample_files(self._run) if file.stem.isdigit()]:
            if self._tail is not None and path.name < self._tail.path.name:
                continue
            if self._tail is None or path != self._tail.path:
                self._tail = LineTail(path, run=self._run)
            lines += islice(self._tail.poll(), most - len(lines))
            if len(lines) >= most:
                break
        reports = decoded(line for line in lines if b'"rank_reported"' in line)
        return [fact for fact in reports if isinstance(fact, ev.RankReported)]


class RunFollower:
    """Writes one run to one tracker, on its own thread.

    Args:
        run: the run's folder.
        writer: the tracker.
        ending: when the run ends.
        say: called with what is for the owner of the run: a note, or where the tracker keeps the run.

    Attributes:
        trouble: why the tracker cannot be written now; empty if it can.
        done: whether everything has been written.
    """

    def __init__(
        self, run: Path, writer: TrackerWriter, ending: EndOfRun, say: Callable[[dict[str, Any]], None]
    ) -> None:
        self._run = run
        self._writer = writer
        self._ending = ending
        self._say = say
        self._facts = FactTail(run)
        self._reports = ReportTail(run)
        self._leader = Leader()
        self._tags: dict[str, str] = {}
        self._submitted: ev.RunSubmitted | None = None
        self._warned = self._begun = False
        self._last_tries = 0
        self.trouble = ""
        self.done = False

    def run(self) -> None:
        """Follow the run to its end. Never raises."""
        try:
            placed = self._await_places()
            if placed is not None:
                self._follow(placed)
            self.done = True
        except GaveUp:
            self.give_up()
        except Exception as error:  # noqa: BLE001  a defect must become a note, for nobody sees this thread
            self.trouble = f"{type(error).__name__}: {error}"
            self.give_up()

    def give_up(self) -> None:
        """Tell the owner what was not written."""
        reason = f": {self.trouble}" if self.trouble else ""
        what = "not all of the run was" if self._begun else "nothing was"
        self._note(f"{what} written to {self._writer.name}{reason}")

    def _await_places(self) -> ev.GangPlaced | None:
        """Wait until the ranks have places; None if the run ends before."""
        while True:
            over = self._ending.verdict is not None
            placed = self._learn()
            if placed is not None or over:
                return placed
            self._ending.wait(PERIOD_S)

    def _learn(self) -> ev.GangPlaced | None:
        """Read new facts, and keep what trackers are told; the places of ranks are returned."""
        placed = None
        for fact in self._facts.poll():
            match fact:
                case ev.RunSubmitted():
                    self._submitted = fact
                case ev.GangPlaced():
                    placed = placed or fact
                case ev.OriginFound() if fact.revision:
                    self._tags |= {"revision": fact.revision, "dirty": "true" if fact.dirty else ""}
                case ev.GangRestarted():
                    self._tags["restarts"] = str(fact.attempt)
        return placed

    def _follow(self, placed: ev.GangPlaced) -> None:
        run = self._describe(placed)
        record = self._persist(partial(self._writer.begin, run))
        self._begun = True
        self._say({"linked": {"tracker": self._writer.name.lower(), **_plain(record)}})
        while True:
            verdict = self._ending.verdict  # before reading: all that was reported until then is read below
            self._learn()
            self._write_tags()
            if self._write_some(last=verdict is not None):
                continue
            if verdict is not None:
                return self._persist(partial(self._writer.end, verdict))
            self._ending.wait(PERIOD_S)

    def _write_tags(self) -> None:
        if tags := {name: value for name, value in self._tags.items() if value}:
            self._tags = {}
            self._persist(partial(self._writer.tag, tags))

    def _write_some(self, *, last: bool) -> bool:
        """Write the next reports; whether there may be more."""
        reports = self._reports.take(_LAST_LINES if last else _LINES)
        points = self._leader.choose(reports)
        if not reports and last:
            points = self._leader.rest()
        if last and self._writer.any_order:
            points = newest_first(points)
        for batch in _batches(points, self._writer.most):
            refused = self._persist(partial(self._writer.write, batch))
            if refused:
                names = ", ".join(repr(name) for name in refused[:5])
                self._note(f"{self._writer.name} does not take the metrics {names}")
        return bool(reports)

    def _persist(self, act: Callable[[], T]) -> T:
        """Do something until it succeeds, with longer and longer pauses.

        Raises:
            GaveUp: the run has ended, and it still fails.
        """
        pause = _FIRST_PAUSE_S
        while True:
            try:
                value = act()
            except Exception as error:  # noqa: BLE001  a tracker's package may raise anything
                self._failed(error)
            else:
                self.trouble = ""
                return value
            if self._ending.verdict is None:
                self._ending.wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_S)
            elif self._last_tries >= _LAST_TRIES:
                raise GaveUp
            else:
                self._last_tries += 1
                threading.Event().wait(_LAST_PAUSE_S)

    def _failed(self, error: Exception) -> None:
        self.trouble = reason_of(error)
        if not self._warned:
            self._warned = True
            self._note(
                f"{self._writer.name} cannot be written: {self.trouble}; tried again until the run ends"
            )

    def _note(self, text: str) -> None:
        self._say({"note": text})

    def _describe(self, placed: ev.GangPlaced) -> TrackedRun:
        by = self._submitted
        target = by.target if by else ""
        parameters = {
            "target": target,
            "arguments": by.args if by else "",
            "world_size": str(len(placed.ranks)),
            "mode": by.mode if by else "",
            **{f"param.{name}": value for name, value in self._keywords()},
        }
        return TrackedRun(
            id=self._run.name,
            name=(by.name if by else "") or self._run.name,
            user=by.user if by else "",
            source=target,
            started=placed.time,
            parameters=parameters,
        )

    def _keywords(self) -> Iterator[tuple[str, str]]:
        """A function's keyword arguments, without secrets, as far as they are recorded."""
        try:
            yield from read_spec(self._run).target.kwargs
        except RecordError:
            return


def newest_first(points: list[Point]) -> list[Point]:
    """The last point of each metric, and then all others: in case that there is no time for all of them."""
    newest = {point.name: point for point in points}
    last = set(map(id, newest.values()))
    return [*newest.values(), *(point for point in points if id(point) not in last)]


def _batches(points: list[Point], most: int) -> Iterator[list[Point]]:
    for start in range(0, len(points), most):
        yield points[start : start + most]


def _plain(record: Record) -> dict[str, str]:
    return {
        "id": record.id,
        "group": record.group,
        "store": redacted_text(record.store),
        "url": redacted_text(record.url),
    }


def reason_of(error: BaseException) -> str:
    """Why a tracker cannot be written, in one line without secrets."""
    text = " ".join(str(error).split()) or type(error).__name__
    return redacted_text(text[: 2 * _REASON])[:_REASON]


def tensorboard_folder(run: Path, word: str) -> Path:
    """The folder of a run's event file: its own below that of the option, or in the run folder."""
    chosen = word.partition("=")[2]
    return Path(chosen, run.name) if chosen else run / paths.TENSORBOARD
