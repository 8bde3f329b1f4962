"""A thread that watches one run folder and says what changed: one frozen view a tick, none without news."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from console.sources.logs import LogBook
from console.sources.past import Past
from console.sources.view import RunView, rank_views
from launcher.errors import LauncherError
from launcher.runs.reader import StateTail, read_summary
from launcher.runs.status import Status, read_status
from launcher.state import Phase, RankPhase, RunState

_LOST_CHECK_S = 2.0
_IDLE_S = 1.0


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
        self._tail = StateTail(run)
        self._past = Past()
        self._last: RunView | None = None
        self._lost_check = 0.0
        self._state = self._tail.state
        self._results: tuple[dict[str, object], ...] = ()
        self._wake, self._closed = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._watch, name="rankdeck-feed", daemon=True)

    def start(self) -> None:
        """Begin watching."""
        self._thread.start()

    def close(self) -> None:
        """Stop watching; returns when the thread has ended or a second has passed."""
        self._closed.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(1.0)
        self.book.close()

    def nudge(self) -> None:
        """Look now instead of at the next interval: somebody waits for the answer."""
        self._wake.set()

    def look(self) -> bool:
        """Read what is new and publish it if anything on the screen would change; whether more waits."""
        facts = self._tail.poll()
        self._past.take(facts, self._tail.state)
        more = self.book.tick()
        if facts:
            self._state = self._tail.state
            self._results = tuple(read_summary(self._run))
        self._judge()
        view = self._view()
        if self._differs(view):
            self._last = view
            self._publish(view)
        return more

    def _watch(self) -> None:
        while not self._closed.is_set():
            try:
                more = self.look()
            except (OSError, ValueError, TypeError, LauncherError) as error:
                self._failed(f"{self._run.name} cannot be read: {error}")
                more = False
            if not more:
                ended = self._last is not None and not self._last.live
                self._wake.wait(_IDLE_S if ended else self._interval)
                self._wake.clear()

    def _view(self) -> RunView:
        state = self._state
        now = state.ended if state.phase.final and state.ended else self._clock()
        ranks = rank_views(
            state, now=now, written=self.book.written, past=self._past.strip, step_s=self._past.step_s
        )
        return RunView(
            state=state,
            now=float(int(now)) if not state.phase.final else now,
            ranks=ranks,
            progress=self._past.progress(state),
            results=self._results,
            logs=self.book.view(),
        )

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


def _lost(state: RunState, status: Status) -> RunState:
    known = [v for r in state.ranks for v in (r.reported_at, r.sampled_at, r.started) if v is not None]
    ended = max(known, default=state.started)
    ranks = tuple(r if r.phase.ended else replace(r, phase=RankPhase.LOST, ended=ended) for r in state.ranks)
    code, why = status.exit_code, status.why
    return replace(state, phase=Phase.LOST, ranks=ranks, ended=ended, exit_code=code, why=why)
