"""Reading a run folder that may still be growing, or may have been copied from another machine."""

from __future__ import annotations

import contextlib
import heapq
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from launcher import events as ev
from launcher.codec import from_plain
from launcher.errors import RecordError
from launcher.fold import fold, fold_all
from launcher.runs import paths
from launcher.runs.samples import Stretch, halves, newest, sample_files, segments
from launcher.runs.status import Status, read_status
from launcher.spec import JobSpec
from launcher.state import RunState

_BLOCK = 1 << 20


class LineTail:
    """Whole lines appended to a file since the last look. A torn last line waits for its newline."""

    def __init__(self, path: Path, start: int = 0) -> None:
        self.path = path
        self._offset = start

    def poll(self) -> Iterator[bytes]:
        """The lines that are new."""
        try:
            with open(self.path, "rb", buffering=0) as file:
                yield from self._read(file.fileno())
        except FileNotFoundError:
            return

    def _read(self, descriptor: int) -> Iterator[bytes]:
        pending = b""
        while block := os.pread(descriptor, _BLOCK, self._offset + len(pending)):
            *lines, pending = (pending + block).split(b"\n")
            for line in lines:
                self._offset += len(line) + 1
                yield line


class FactTail:
    """The facts of a run, samples among them on request, as they are appended.

    With `recent`, the samples begin with at most that many bytes; `skipped` is what came before.
    """

    def __init__(self, run: Path, *, samples: bool = False, recent: int | None = None) -> None:
        self._run, self._recent = run, recent
        self.skipped: tuple[Stretch, ...] = ()
        self._events = LineTail(run / paths.EVENTS)
        self._samples: dict[Path, LineTail] | None = {} if samples else None

    def poll(self) -> list[ev.Event]:
        """The new facts. Samples come where their time puts them, the others as they were written.

        That order is the one in which they were folded for the verdict; hosts' clocks may tell another.
        """
        facts = decoded(self._events.poll())
        if self._samples is None:
            return facts
        return list(heapq.merge(facts, self._sampled(self._samples), key=lambda e: e.time))

    def _sampled(self, tails: dict[Path, LineTail]) -> list[ev.Event]:
        """New samples; what is thinned while one looks is not new."""
        files = segments(self._run / paths.SAMPLES) if tails else sample_files(self._run)
        if self._recent is not None and not tails:
            self.skipped = tuple(halves(files, self._recent)[0])
            tails.update((s.path, LineTail(s.path, s.end)) for s in self.skipped)
        return [fact for path in files for fact in decoded(tails.setdefault(path, LineTail(path)).poll())]


def decoded(lines: Iterable[bytes]) -> list[ev.Event]:
    """The facts among the lines: one that a full disk tore must not hide the others."""
    facts = []
    for line in lines:
        with contextlib.suppress(ValueError):
            facts.append(ev.decode(line))
    return facts


class StateTail:
    """A run's state, kept up to date from its folder: what the console and `attach` look at.

    `recent` is as in `FactTail`: the state is the same, as far as the newest samples tell of every rank.
    """

    def __init__(self, run: Path, *, recent: int | None = None) -> None:
        self._tail = FactTail(run, samples=True, recent=recent)
        self.state = RunState(id=run.name)

    @property
    def skipped(self) -> tuple[Stretch, ...]:
        """The samples that were left out, oldest first."""
        return self._tail.skipped

    def poll(self) -> list[ev.Event]:
        """Fold what is new into `state`, and return it."""
        fresh = self._tail.poll()
        for fact in fresh:
            self.state = fold(self.state, fact)
        return fresh


def read_spec(run: Path) -> JobSpec:
    """The request, with secrets redacted.

    Raises:
        RecordError: the folder holds no readable one.
    """
    try:
        return from_plain(JobSpec, json.loads((run / paths.SPEC).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, RecursionError) as error:
        raise RecordError(f"{run} is not a run folder: {error}") from error


def read_state(run: Path) -> RunState:
    """The state folded from all facts, and from the newest samples and reports."""
    facts = FactTail(run).poll()
    return fold_all([*facts, *decoded(newest(run))], run=run.name)


def read_restarts(run: Path) -> dict[int, ev.GangRestarted]:
    """Why each attempt after the first began, by its number."""
    return {fact.attempt: fact for fact in FactTail(run).poll() if isinstance(fact, ev.GangRestarted)}


def read_summary(run: Path) -> list[dict[str, Any]]:
    """The return values' summaries, by rank; empty if there are none yet.

    Raises:
        RecordError: they cannot be read.
    """
    try:
        data: list[dict[str, Any]] = json.loads((run / paths.SUMMARY).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return []
    except (OSError, ValueError, RecursionError) as error:
        raise RecordError(f"{run / paths.SUMMARY} cannot be read: {error}") from error
    return data


def status_of(run: Path) -> Status:
    """The run's status.

    Raises:
        RecordError: the folder holds no readable one.
    """
    status = read_status(run)
    if status is None:
        raise RecordError(f"{run} has no readable {paths.STATUS}")
    return status
