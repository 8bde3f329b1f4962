"""Reading a run folder that may still be growing, or may have been copied from another machine."""

from __future__ import annotations

import contextlib
import heapq
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from ..errors import LauncherError, RecordError
from ..serialization import DecodeError, from_plain, readable_part
from ..spec.job import JobSpec
from ..state import events as ev
from ..state.events import PartUnreadable
from ..state.fold import UNREADABLE_LINES, fold, fold_all
from ..state.run_state import RunState
from . import files, paths
from . import files as opening
from .files import NotPlain
from .logs import writer
from .logs.files import LogFiles
from .results import Summary
from .samples import Stretch, halves, newest, newest_of_each, sample_files, segments
from .status import Owner, Status, read_status

LONGEST_LINE = 16 << 20
_BLOCK = 1 << 20
_MANY = 2000
NumberedLine = tuple[int, bytes]
Choose = Callable[[Iterable[NumberedLine]], Iterable[NumberedLine]]


class LineTail:
    """Whole lines appended to a file since the last call. A torn last line waits for its newline.

    A line that is longer than `LONGEST_LINE` is returned as an empty one, so that memory stays bounded.

    Args:
        path: the file.
        start: where to begin, in bytes.
        run: the run folder, if the file is not in it but in a folder below it.

    Attributes:
        number: of the last line that was returned, counted from 1 where the tail began.
    """

    def __init__(self, path: Path, start: int = 0, *, run: Path | None = None) -> None:
        self.path, self.number = path, 0
        self._run = path.parent if run is None else run
        self._offset = start
        self._too_long = False

    def poll(self) -> Iterator[bytes]:
        """The lines that are new.

        Raises:
            OSError: it is not a regular file, or cannot be read.
        """
        try:
            file = files.open_file(self._run, self.path, buffering=0)
        except FileNotFoundError:
            return
        with file:
            yield from self._read(file.fileno())

    def _read(self, descriptor: int) -> Iterator[bytes]:
        pending = b""
        while block := os.pread(descriptor, _BLOCK, self._offset + len(pending)):
            *lines, pending = (pending + block).split(b"\n")
            for line in lines:
                self._offset += len(line) + 1
                self.number += 1
                yield b"" if self._too_long else line
                self._too_long = False
            if len(pending) > LONGEST_LINE:
                self._offset += len(pending)
                self._too_long, pending = True, b""


class FactTail:
    """The facts of a run, samples among them on request, as they are appended.

    With `recent`, only the newest samples are read at first, at most that many bytes; `skipped` is the rest.
    What cannot be read is skipped, and returned by `unreadable`.
    """

    def __init__(self, run: Path, *, samples: bool = False, recent: int | None = None) -> None:
        self._run, self._recent = run, recent
        self.skipped: tuple[Stretch, ...] = ()
        self._events = LineTail(run / paths.EVENTS)
        self._samples: dict[Path, LineTail] | None = {} if samples else None
        self._partial: set[Path] = set()
        self._refused: set[str] = set()
        self._unreadable: list[ev.PartUnreadable] = []

    def poll(self, *, samples: bool = True, thin: bool = False, leader: int | None = None) -> list[ev.Event]:
        """The new facts in the order in which they were written, with samples put in by their time.

        The written order is the one in which facts were folded for the verdict; the times of two hosts may
        give another order.

        Args:
            samples: whether to read samples too, if this tail does.
            thin: whether to skip samples that newer ones replace, if there are very many.
            leader: the rank of which none is skipped.

        Raises:
            OSError: the folder cannot be read just now.
        """
        facts = self._facts_of(self._events, iter)
        if self._samples is None or not samples:
            return facts
        choose: Choose = partial(_thinned, leader=leader) if thin else iter
        return list(heapq.merge(facts, self._sampled(self._samples, choose), key=lambda e: e.time))

    def unreadable(self) -> list[ev.PartUnreadable]:
        """What was found to be unreadable since the last call."""
        parts, self._unreadable = self._unreadable, []
        return parts

    def _sampled(self, tails: dict[Path, LineTail], choose: Choose) -> list[ev.Event]:
        """New samples. The thinned file is read only at first: later it gets only samples from segments."""
        try:
            files = segments(self._run / paths.SAMPLES) if tails else sample_files(self._run)
        except (NotPlain, PermissionError) as error:
            self._refuse(paths.SAMPLES, error)
            return []
        if self._recent is not None and not tails:
            self.skipped = tuple(halves(files, self._recent)[0])
            tails.update((s.path, LineTail(s.path, s.end, run=self._run)) for s in self.skipped)
            self._partial.update(tails)
        return [fact for path in files for fact in self._facts_of(self._tail_of(tails, path), choose)]

    def _tail_of(self, tails: dict[Path, LineTail], path: Path) -> LineTail:
        if path not in tails:
            tails[path] = LineTail(path, run=self._run)
        return tails[path]

    def _facts_of(self, tail: LineTail, choose: Choose) -> list[ev.Event]:
        facts: list[ev.Event] = []
        wrong: list[tuple[int, str]] = []
        try:
            for number, line in choose((tail.number, line) for line in tail.poll()):
                try:
                    facts.append(ev.decode(line))
                except ValueError as error:
                    wrong.append((number, str(error)))
        except (NotPlain, PermissionError) as error:
            self._refuse(tail.path.relative_to(self._run).as_posix(), error)
        if wrong:
            lines = () if tail.path in self._partial else tuple(number for number, _ in wrong)
            self._note(tail.path.relative_to(self._run).as_posix(), wrong[0][1], lines, len(wrong))
        return facts

    def _refuse(self, file: str, error: OSError) -> None:
        """Note, only once, that a whole file cannot be read."""
        if file not in self._refused:
            self._refused.add(file)
            self._note(file, error.strerror or str(error))

    def _note(self, file: str, reason: str, lines: tuple[int, ...] = (), count: int = 0) -> None:
        few = lines[:UNREADABLE_LINES]
        self._unreadable.append(ev.PartUnreadable(time=0.0, file=file, lines=few, count=count, reason=reason))


def _thinned(lines: Iterable[NumberedLine], leader: int | None) -> list[NumberedLine]:
    every = list(lines)
    return every if len(every) <= _MANY else newest_of_each(every, keep=leader)


def decoded(lines: Iterable[bytes]) -> list[ev.Event]:
    """The facts on the lines; a line that a full disk tore is skipped."""
    facts = []
    for line in lines:
        with contextlib.suppress(ValueError):
            facts.append(ev.decode(line))
    return facts


class StateTail:
    """A run's state, kept up to date from its folder, for the console and `attach`.

    `recent` is as in `FactTail`: the state is the same if the newest samples include every rank.
    """

    def __init__(self, run: Path, *, recent: int | None = None) -> None:
        self._tail = FactTail(run, samples=True, recent=recent)
        self.state = RunState(id=run.name)

    @property
    def skipped(self) -> tuple[Stretch, ...]:
        """The samples that were left out, oldest first."""
        return self._tail.skipped

    def note(self, part: ev.PartUnreadable) -> None:
        """Add to `state` that another file than those of facts cannot be read."""
        known = {each.file: each for each in self.state.unreadable}
        if known.get(part.file) != part:
            others = tuple(each for each in self.state.unreadable if each.file != part.file)
            self.state = replace(self.state, unreadable=(*others, part))

    def poll(self, *, samples: bool = True, thin: bool = False) -> list[ev.Event]:
        """Fold what is new into `state`, and return it; see `FactTail.poll`."""
        leader = self.state.leader
        fresh = self._tail.poll(samples=samples, thin=thin, leader=leader.rank if leader else None)
        for fact in (*fresh, *self._tail.unreadable()):
            self.state = fold(self.state, fact)
        return fresh


def read_spec(run: Path) -> JobSpec:
    """The request, with secrets redacted.

    Raises:
        RecordError: the folder holds no readable one.
    """
    try:
        return from_plain(JobSpec, _document(run, paths.SPEC))
    except FileNotFoundError as error:
        raise RecordError(f"{run} is not a run folder: it has no {paths.SPEC}") from error
    except (*_UNREADABLE, LauncherError) as error:
        raise RecordError(
            f"{run} is not a run folder: unreadable: {paths.SPEC}: {reason_of(error)}"
        ) from error


def read_state(run: Path) -> RunState:
    """The state folded from all facts, and from the newest samples and reports.

    Raises:
        OSError: the folder cannot be read just now.
    """
    tail = FactTail(run)
    facts = tail.poll()
    try:
        samples = newest(run)
    except (NotPlain, PermissionError):  # the facts alone are enough for how it ended
        samples = []
    return fold_all([*facts, *decoded(samples), *tail.unreadable()], run=run.name)


_COURSE_BYTES = 4 << 20


def device_memory(run: Path, rank: int, attempt: int) -> list[tuple[float, int]]:
    """The device memory of a rank in bytes, and when it was sampled; of the newest samples only."""
    mine = b'"rank":%d,' % rank
    try:
        samples = decoded(line for line in newest(run, _COURSE_BYTES) if mine in line)
    except OSError:
        return []
    return memory_course(samples, rank, attempt)


def memory_course(facts: Iterable[ev.Event], rank: int, attempt: int) -> list[tuple[float, int]]:
    """The samples of a rank's device memory among facts: their times, and bytes."""
    return [
        (each.time, of.device_memory)
        for each in facts
        if isinstance(each, ev.Sampled) and each.attempt == attempt
        for of in each.ranks
        if of.rank == rank and of.device_memory is not None
    ]


def read_restarts(run: Path) -> dict[int, ev.GangRestarted]:
    """Why each attempt after the first began, by its number."""
    return {fact.attempt: fact for fact in FactTail(run).poll() if isinstance(fact, ev.GangRestarted)}


def read_summary(run: Path) -> list[dict[str, Any]]:
    """The return values' summaries, by rank; empty if there are none yet.

    Raises:
        RecordError: they cannot be read.
    """
    try:
        data = _document(run, paths.SUMMARY, most=_MOST_SUMMARY)
        if not isinstance(data, list):
            raise DecodeError("it is no list")
        return [asdict(from_plain(Summary, entry)) for entry in data]
    except FileNotFoundError:
        return []
    except _UNREADABLE as error:
        raise RecordError(f"unreadable: {paths.SUMMARY} of run {run.name}: {reason_of(error)}") from error


class Presence:
    """Checks whether a run's record still exists.

    Attributes:
        seen: when it last existed, in seconds since the epoch.
    """

    def __init__(self, run: Path) -> None:
        self.seen = time.time()
        self._facts = run / paths.EVENTS

    def gone(self) -> bool:
        """Whether the record was deleted."""
        if not self._facts.exists():
            return True
        self.seen = time.time()
        return False


def status_of(run: Path) -> Status:
    """The run's status, as far as it can be known.

    Raises:
        RecordError: there is neither a readable status nor a fact.
    """
    status = known_status(run)
    if status.unreadable is not None and not (status.target or status.owner.pid):
        raise RecordError(f"{run} has no readable {paths.STATUS}, and no facts")
    return status


def known_status(run: Path) -> Status:
    """The run's status, judged; without a readable one, the status from its facts, and what is unreadable."""
    return read_status(run) or _salvaged(run)


def _salvaged(run: Path) -> Status:
    try:
        folded = Status.of(read_state(run), Owner("", 0, 0))
    except OSError:
        folded = Status(id=run.name)
    try:
        part, errors = readable_part(Status, _document(run, paths.STATUS), id=run.name, unreadable=None)
    except FileNotFoundError:
        return replace(folded, unreadable=f"{paths.STATUS}: there is none")
    except _UNREADABLE as error:
        return replace(folded, unreadable=f"{paths.STATUS}: {reason_of(error)}")
    names = [re.split(r"[.\[]", error.path)[0] for error in errors]
    status = replace(part, **{name: getattr(folded, name) for name in names})
    return replace(status, unreadable=f"{paths.STATUS}: {'; '.join(map(str, errors))}").judged()


_UNREADABLE = (OSError, ValueError, RecursionError)
_MOST_SUMMARY = 64 << 20


def _document(run: Path, name: str, most: int = files.MOST_BYTES) -> Any:
    """A JSON file of the folder."""
    try:
        return json.loads(files.read_whole(run, run / name, most))
    except (ValueError, RecursionError):
        raise DecodeError("it is no JSON") from None


def reason_of(error: BaseException | None) -> str:
    """Why a file cannot be read, from the error that caused a `RecordError`."""
    return (error.strerror if isinstance(error, OSError) else None) or str(error)


_RECORDS = 4096
_MOST_LOGS = 4096


def examined(run: Path, state: RunState) -> RunState:
    """The state, with all that cannot be read in the request, the results and the output.

    The output itself is not read, only the newest records of its chunks.
    """
    for name, read in ((paths.SPEC, read_spec), (paths.SUMMARY, read_summary)):
        try:
            read(run)
        except RecordError as error:
            state = fold(state, PartUnreadable(time=0.0, file=name, reason=reason_of(error.__cause__)))
    for attempt in paths.attempts(run):
        for part in _unreadable_logs(run, attempt):
            state = fold(state, part)
    return state


def _unreadable_logs(run: Path, attempt: int) -> list[PartUnreadable]:
    with closing(LogFiles(run, attempt)) as files:
        try:
            names = opening.names_in(run, paths.log_folder(run, attempt))
        except OSError as error:
            return [PartUnreadable(time=0.0, file=f"{paths.LOGS}/{attempt}", reason=error.strerror or "")]
        for name in names[:_MOST_LOGS]:
            files.try_file(paths.log_folder(run, attempt) / name)
        order = paths.log_folder(run, attempt) / paths.CHUNKS
        try:
            size = opening.stat_file(run, order).st_size
        except (FileNotFoundError, NotPlain, PermissionError):
            return list(files.unreadable.values())
        first = max((size - len(writer.MAGIC)) // writer.SIZE - _RECORDS, 0)
        records = files.records(attempt, len(writer.MAGIC) + first * writer.SIZE, _RECORDS)
        if records is not None and records.wrong:
            files.note_wrong(attempt, first, records.wrong)
        return list(files.unreadable.values())
