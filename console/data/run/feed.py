"""A thread that watches one run's folder and publishes a frozen view of it whenever it has changed."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from launcher.errors import LauncherError, RecordError
from launcher.runs import paths
from launcher.runs.artifacts import read_artifacts
from launcher.runs.reader import Presence, StateTail, read_spec, read_summary, reason_of
from launcher.runs.status import Status, read_status
from launcher.state.artifacts import Artifact, merged
from launcher.state.changes import changed
from launcher.state.events import Event, PartUnreadable
from launcher.state.ranks import RankPhase
from launcher.state.run_state import Phase, RunState
from launcher.state.usage import RankUsage

from ..curves.run_curves import RunCurves
from ..logs.book import LogBook
from ..polling import Poller
from .health import Alarms, Alert, AlertInput
from .metrics import Metric
from .model import Life, RankListing, RankView, RankViews, RunView
from .narration import deleted_line
from .progress import PastReader
from .usage import UsageFile, life_amounts

if TYPE_CHECKING:
    from ..curves.making import CurveSource

_LOST_CHECK_S = 2.0
_IDLE_S = 1.0
_REST_FACTOR = 12.0
_SAMPLES_REST_FACTOR = 4.0
_CATCH_UP_REST_FACTOR = 0.5
_MIN_PAUSE_S = 0.01
_RECENT_BYTES = 1 << 20
_RECALL_S = 0.05


class Arrange(Protocol):
    """Lists ranks at a time; `live` is whether their figures can still change."""

    def __call__(self, ranks: Sequence[RankView], *, now: float, live: bool) -> RankListing:
        """The listed ranks, in order."""


@dataclass(frozen=True, slots=True)
class _Limits:
    max_restarts: int = 0
    no_progress_s: float | None = None


def usual_interval() -> float:
    """Seconds between reads: short on a local terminal, longer over SSH, where each frame loads the line."""
    return 0.5 if os.environ.get("SSH_CONNECTION") or os.environ.get("SSH_TTY") else 0.2


class RunFeed:
    """Watches one run until closed. `publish` and `failed` are called in the thread of its poller."""

    def __init__(
        self,
        run: Path,
        *,
        publish: Callable[[RunView], None],
        failed: Callable[[str], None],
        interval: float | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.book = LogBook(run)
        self._run, self._failed, self._clock = run, failed, clock
        self._interval = usual_interval() if interval is None else interval
        self._tail = StateTail(run, recent=_RECENT_BYTES)
        self._past, self._views, self._alarms = PastReader(), RankViews(), Alarms()
        self._curves: CurveSource | None = None
        self._arrange: Arrange | None = None
        self._arranged_by: Arrange | None = None
        self._alerts: tuple[Alert, ...] = ()
        self._alerts_at = 0
        self._lost_check = 0.0
        self._presence, self._gone = Presence(run), False
        self._state = self._tail.state
        self._results: tuple[dict[str, object], ...] = ()
        self._artifacts: Mapping[str, Artifact] = {}
        self._usage = UsageFile(run)
        self._limits: _Limits | None = None
        self._more = False
        self._has_read_samples, self._sampled_at, self._samples_due = False, 0, 0.0
        self.poller = Poller(self.read, publish, self._pause, name="rankdeck-feed")

    def close(self) -> None:
        """Stop watching; returns when the thread has ended or a second has passed."""
        self.book.abandon()
        self.poller.close(wait_s=1.0)
        self.book.close()

    def list_ranks(self, arrange: Arrange) -> None:
        """List the ranks like this in the views to come; it is called in the poller's thread."""
        self._arrange = arrange
        self.poller.nudge()

    def look(self) -> bool:
        """Read and publish once, in the caller's thread; return whether more is left to read."""
        self.poller.look()
        return self._more

    def read(self) -> Iterator[RunView]:
        """The current view; a folder that cannot be read is reported by `failed`."""
        self._more = False
        began = time.thread_time()
        try:
            facts = self._read_on()
            last = self.poller.last
            if last is None or self._needs_new_view(last, facts):
                yield self._view()
            else:
                # what was computed of the ranks is kept, too
                yield changed(last, now=self._now(), logs=self.book.view(), recalled=self._recalled())
            self._check_folder()
        except (OSError, ValueError, TypeError, LauncherError) as error:
            self._more = False
            self._failed(f"{self._run.name} cannot be read: {error}")
        if self._has_read_samples:
            self._samples_due = time.monotonic() + (time.thread_time() - began) * _SAMPLES_REST_FACTOR

    def _read_on(self) -> Sequence[Event]:
        """Read what is new; return the new facts."""
        facts = self._read_facts()
        self._past.take(facts, self._tail.state, self._tail.skipped)
        self._more = self._recall() if self.poller.last is not None else bool(self._tail.skipped)
        if self._tail.state.phase.final:
            self.book.end()
        self._more = self.book.tick() or self._more
        self._note_unreadable()
        if facts:
            self._results = self._read_results()
            if self._tail.state.artifacts != self._state.artifacts:
                self._artifacts = self._read_artifacts()
        if facts or self._tail.state.unreadable != self._state.unreadable:
            self._state = self._tail.state
        if self._has_read_samples and (wrong := self._usage.look()):
            self._tail.note(PartUnreadable(time=0.0, file=paths.USAGE, reason=wrong))
        self._check_end()
        return facts

    def _read_facts(self) -> list[Event]:
        """The new facts. Samples are read once a second, those of a large gang less often."""
        second, first = int(self._clock()), self.poller.last is None
        self._has_read_samples = first or (
            second != self._sampled_at and time.monotonic() >= self._samples_due
        )
        facts = self._tail.poll(samples=self._has_read_samples, thin=not first)
        if self._tail.state.phase.final and not self._has_read_samples:
            self._has_read_samples = True
            facts += self._tail.poll(thin=True)
        if self._has_read_samples:
            self._sampled_at = second
        return facts

    def _needs_new_view(self, last: RunView, facts: Sequence[Event]) -> bool:
        """Whether more than the log and the time is to be shown anew; views of all ranks take long."""
        state = self._state
        return (
            self._has_read_samples
            or bool(facts)
            or (self._past.recalled == 1.0) != (last.recalled == 1.0)
            or (state.phase, state.unreadable) != (last.state.phase, last.state.unreadable)
            or self._arrange is not self._arranged_by
        )

    def _note_unreadable(self) -> None:
        for part in self.book.unreadable:
            self._tail.note(part)

    def _read_results(self) -> tuple[dict[str, object], ...]:
        try:
            return tuple(read_summary(self._run))
        except RecordError as error:
            self._tail.note(PartUnreadable(time=0.0, file=paths.SUMMARY, reason=reason_of(error.__cause__)))
            return ()

    def _read_artifacts(self) -> Mapping[str, Artifact]:
        try:
            return merged(read_artifacts(self._run))
        except RecordError as error:
            reason = reason_of(error.__cause__)
            self._tail.note(PartUnreadable(time=0.0, file=paths.ARTIFACT_INDEX, reason=reason))
            return {}

    def _check_folder(self) -> None:
        """Report once that the record of a running run was deleted."""
        if not self._gone and not self._state.phase.final and self._presence.gone():
            self._gone = True
            self._failed(deleted_line(self._presence.seen))

    def _recall(self) -> bool:
        """Read a part of a long past, after the new facts; return whether more is left."""
        until = time.monotonic() + _RECALL_S
        return self._past.recall(self._tail.state, lambda: time.monotonic() >= until)

    def _pause(self, spent: float) -> float:
        """Seconds to the next read, after one that took `spent` seconds of CPU time.

        It is long after a long read, so that the screen still reacts to keys at once. Samples have their own
        pause: meanwhile the logs go on.
        """
        if self._more:
            return min(max(spent * _CATCH_UP_REST_FACTOR, _MIN_PAUSE_S), self._interval)
        ended = self.poller.last is not None and not self.poller.last.live
        if ended:
            return _IDLE_S
        return self._interval if self._has_read_samples else max(self._interval, spent * _REST_FACTOR)

    def _view(self) -> RunView:
        state, now, past = self._state, self._time(), self._past.known
        recorded = self._usage.ranks
        ranks = self._views.of(
            state,
            now=now,
            written=self.book.written,
            past=past.history,
            step_s=past.step_s,
            life=_lives(past.life, recorded) if recorded and not state.attempt else past.life,
            skew=past.skew,
        )
        alerts = self._alerts_of(ranks, now)
        self._arranged_by = arrange = self._arrange
        live = not state.phase.final
        view = RunView(
            listing=None if arrange is None else arrange(ranks, now=now, live=live),
            state=state,
            now=self._now(),
            ranks=ranks,
            progress=past.progress(state, now),
            results=self._results,
            artifacts=self._artifacts,
            logs=self.book.view(),
            max_restarts=self._read_limits().max_restarts,
            alerts=alerts,
            recalled=self._recalled(),
            curves=self._read_curves(),
            usage=past.usage if recorded is None else recorded,
        )
        view.prepare()
        return view

    def _read_curves(self) -> RunCurves:
        if self._curves is None:
            from ..curves.making import CurveSource  # with NumPy, in this thread

            self._curves = CurveSource(self._run)
        return self._curves.read(self._state, self._alerts, poll=self._has_read_samples)

    def _time(self) -> float:
        return self._state.ended if self._state.phase.final and self._state.ended else self._clock()

    def _now(self) -> float:
        """The time as it is shown: of a run that goes on, in whole seconds."""
        return self._time() if self._state.phase.final else float(int(self._time()))

    def _recalled(self) -> float:
        return int(self._past.recalled * 100) / 100

    def _alerts_of(self, ranks: tuple[RankView, ...], now: float) -> tuple[Alert, ...]:
        """The alerts, updated once a second."""
        if int(now) != self._alerts_at:
            self._alerts_at = int(now)
            not_finite = self._past.known.not_finite
            inputs = [_alert_input(v, not_finite(v.rank.rank)) for v in ranks if v.rank.alive]
            self._alerts = self._alarms.look(now, inputs)
        return self._alerts

    def _read_limits(self) -> _Limits:
        """The limits of the run's request; without a readable request, the defaults."""
        if self._limits is None:
            try:
                spec = read_spec(self._run)
                self._limits = _Limits(spec.max_restarts, spec.no_progress_timeout_s)
            except RecordError:
                self._limits = _Limits()
        return self._limits

    def _check_end(self) -> None:
        """Check for an end that no fact records: the owner died, or the facts cannot be read."""
        now = self._clock()
        if self._state.phase.final or now - self._lost_check < _LOST_CHECK_S:
            return
        self._lost_check = now
        status = read_status(self._run)
        if status is not None and status.state is Phase.LOST:
            self._state = _lost(self._state, status)
        elif status is not None and status.state.final and _facts_are_unreadable(self._state):
            self._state = _ended(self._state, status)
            self.book.end()


def _lives(life: Life, recorded: Mapping[int, RankUsage]) -> Life:
    """The amounts over ranks' lives: as recorded; what is not, from the samples that were read."""

    def known(rank: int) -> Mapping[Metric, float] | None:
        read, usage = life(rank), recorded.get(rank)
        return read if usage is None else {**(read or {}), **life_amounts(usage)}

    return known


def _alert_input(view: RankView, not_finite: Mapping[str, int | None]) -> AlertInput:
    silent = min((age for age in (view.step_age, view.log_age) if age is not None), default=None)
    return AlertInput(view.rank.rank, view.figures, silent, not_finite)


def _lost(state: RunState, status: Status) -> RunState:
    times = [v for r in state.ranks for v in (r.reported_at, r.sampled_at, r.started) if v is not None]
    ended = max(times, default=state.started)
    lost = [replace(r, phase=RankPhase.LOST, ended=ended) for r in state.ranks if not r.phase.ended]
    ranks = state.ranks.changed(lost)
    code, why = status.exit_code, status.why
    return replace(state, phase=Phase.LOST, ranks=ranks, ended=ended, exit_code=code, why=why)


def _facts_are_unreadable(state: RunState) -> bool:
    return any(part.file == paths.EVENTS for part in state.unreadable)


def _ended(state: RunState, status: Status) -> RunState:
    """The end of a run by its status, where its facts cannot be read."""
    return replace(
        state,
        phase=status.state,
        name=state.name or status.name,
        started=status.started if state.started is None else state.started,
        ended=status.ended,
        exit_code=status.exit_code,
        why=status.why,
    )
