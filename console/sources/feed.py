"""A thread that watches one run folder and says what changed: one frozen view a tick, none without news."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from console.sources.alerts import Alarms, Alert, Looked
from console.sources.logs import LogBook
from console.sources.older import LongPast
from console.sources.rank_views import RankViews
from console.sources.view import RankView, RunView
from launcher.errors import LauncherError, RecordError
from launcher.runs.reader import StateTail, read_spec, read_summary
from launcher.runs.status import Status, read_status
from launcher.state import Phase, RankPhase, RunState

_LOST_CHECK_S = 2.0
_IDLE_S = 1.0
_REST = 12.0
_BEHIND_REST = 0.5
_SHORTEST_S = 0.01
_RECENT_BYTES = 1 << 20
_RECALL_S = 0.05


def usual_interval() -> float:
    """Seconds between looks: often on a local terminal, seldom over a line that every frame loads."""
    return 0.5 if os.environ.get("SSH_CONNECTION") or os.environ.get("SSH_TTY") else 0.2


class RunFeed:
    """Watches one run until closed. `publish` and `failed` are called in the feed's own thread."""

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
        self._run, self._publish, self._failed, self._clock = run, publish, failed, clock
        self._interval = usual_interval() if interval is None else interval
        self._tail = StateTail(run, recent=_RECENT_BYTES)
        self._past, self._views, self._alarms = LongPast(), RankViews(), Alarms()
        self._alerts: tuple[Alert, ...] = ()
        self._alerts_at = 0
        self._last: RunView | None = None
        self._lost_check = 0.0
        self._state = self._tail.state
        self._results: tuple[dict[str, object], ...] = ()
        self._max_restarts: int | None = None
        self._wake, self._closed = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._watch, name="rankdeck-feed", daemon=True)

    def start(self) -> None:
        """Begin watching."""
        self._thread.start()

    def close(self) -> None:
        """Stop watching; returns when the thread has ended or a second has passed."""
        self._closed.set()
        self._wake.set()
        self.book.abandon()
        if self._thread.is_alive():
            self._thread.join(1.0)
        self.book.close()

    def nudge(self) -> None:
        """Look now instead of at the next interval: somebody waits for the answer."""
        self._wake.set()

    def look(self) -> bool:
        """Read what is new and publish it if anything on the screen would change; whether more waits."""
        facts = self._tail.poll()
        self._past.take(facts, self._tail.state, self._tail.skipped)
        more = self._recall() if self._last is not None else bool(self._tail.skipped)
        if self._tail.state.phase.final:
            self.book.end()
        more = self.book.tick() or more
        if facts:
            self._state = self._tail.state
            self._results = tuple(read_summary(self._run))
        self._judge()
        view = self._view()
        if self._differs(view):
            self._last = view
            self._publish(view)
        return more

    def _recall(self) -> bool:
        """Read some of a long past; whether there is more. Nobody waits for it, so what is new goes first."""
        until = time.monotonic() + _RECALL_S
        return self._past.recall(self._tail.state, lambda: time.monotonic() >= until)

    def _watch(self) -> None:
        while not self._closed.is_set():
            began = time.thread_time()
            try:
                more = self.look()
            except (OSError, ValueError, TypeError, LauncherError) as error:
                self._failed(f"{self._run.name} cannot be read: {error}")
                more = False
            self._wake.wait(self._pause(time.thread_time() - began, more=more))
            self._wake.clear()

    def _pause(self, spent: float, *, more: bool) -> float:
        """Seconds to the next look, after one that took `spent` of the processor.

        A large gang is looked at less often, so that who types need not wait for what is counted here.
        """
        if more:
            return min(max(spent * _BEHIND_REST, _SHORTEST_S), self._interval)
        ended = self._last is not None and not self._last.live
        return _IDLE_S if ended else max(self._interval, spent * _REST)

    def _view(self) -> RunView:
        state = self._state
        now = state.ended if state.phase.final and state.ended else self._clock()
        past = self._past.known
        ranks = self._views.of(
            state, now=now, written=self.book.written, past=past.readings, step_s=past.step_s
        )
        return RunView(
            state=state,
            now=float(int(now)) if not state.phase.final else now,
            ranks=ranks,
            progress=past.progress(state, now),
            results=self._results,
            logs=self.book.view(),
            max_restarts=self._restarts_allowed(),
            alerts=self._alerts_of(ranks, now),
            recalled=int(self._past.recalled * 100) / 100,
        )

    def _alerts_of(self, ranks: tuple[RankView, ...], now: float) -> tuple[Alert, ...]:
        """What is alarming, found out once a second."""
        if int(now) != self._alerts_at:
            self._alerts_at = int(now)
            self._alerts = self._alarms.look(now, [_looked(v) for v in ranks if v.rank.alive])
        return self._alerts

    def _restarts_allowed(self) -> int:
        """As the run was asked for; a folder without a readable request says nothing of it."""
        if self._max_restarts is None:
            try:
                self._max_restarts = read_spec(self._run).max_restarts
            except RecordError:
                self._max_restarts = 0
        return self._max_restarts

    def _differs(self, view: RunView) -> bool:
        return view != self._last

    def _judge(self) -> None:
        """See whether the process that owned the run died without a verdict."""
        now = self._clock()
        if self._state.phase.final or now - self._lost_check < _LOST_CHECK_S:
            return
        self._lost_check = now
        status = read_status(self._run)
        if status is not None and status.state is Phase.LOST:
            self._state = _lost(self._state, status)


def _looked(view: RankView) -> Looked:
    silent = min((age for age in (view.step_age, view.log_age) if age is not None), default=None)
    return Looked(view.rank.rank, view.reading, silent)


def _lost(state: RunState, status: Status) -> RunState:
    known = [v for r in state.ranks for v in (r.reported_at, r.sampled_at, r.started) if v is not None]
    ended = max(known, default=state.started)
    ranks = tuple(r if r.phase.ended else replace(r, phase=RankPhase.LOST, ended=ended) for r in state.ranks)
    code, why = status.exit_code, status.why
    return replace(state, phase=Phase.LOST, ranks=ranks, ended=ended, exit_code=code, why=why)
