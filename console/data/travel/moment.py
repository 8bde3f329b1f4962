"""A thread that shows a run at any moment of its time, as views like those of a run that is watched."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from launcher.errors import LauncherError
from launcher.runs import paths
from launcher.runs.files import NotPlain
from launcher.runs.reader import LineTail, decoded
from launcher.state.run_state import RunState

from ..polling import Poller
from ..run.feed import Arrange
from ..run.model import RunView
from .course import Clock, Course, Dated, together
from .marks import Landmark, Landmarks
from .past_states import PastStates
from .samples import Samples
from .shown import ShownMoment

WINDOW_BYTES, SETTLED_BYTES, WINDOW_S = 384 << 10, 2 << 20, 120.0
MOST_FACTS, MOST_NEAR = 200_000, 4000
"""How many facts are read of a run, and how many of these, without samples, for what was before a moment."""

ON_S = 30.0
"""How far a moment may lie ahead to be reached by going on from the last one."""

SPEEDS = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)
_REAL = SPEEDS.index(1.0)
_SLICE_S, _IDLE_S, _LIVE_S = 0.03, 3600.0, 1.0
_REST_S, _RANK_BYTES = 0.3, 300
_AHEAD_PIECES = 64


@dataclass(frozen=True)
class Moment:
    """A run at one moment, and what its timeline shows.

    Attributes:
        at, begin, end: the moment, and the run's first and last, in seconds since the epoch.
        view: the run then.
        marks: what happened, over the whole run.
        playing, speed: whether time goes on, and how fast.
        old_s: of how many seconds ago the newest figures are, where only some are kept; else None.
        exact: whether all that was said before has been read.
    """

    at: float
    begin: float
    end: float
    view: RunView
    marks: Sequence[Landmark] = field(default=(), compare=False)
    playing: bool = False
    speed: float = 1.0
    old_s: int | None = None
    exact: bool = True


@dataclass
class _Goal:
    """Where to go next. Shared by the screen's thread and the reader's."""

    moment: float
    steps: int = 0
    playing: bool = False
    pace: int = _REAL
    seen_at: float = 0.0


class MomentFeed:
    """Shows a run at moments that a person chooses, until closed.

    `publish` and `failed` are called in the thread of its poller; the other methods in the screen's.
    """

    def __init__(
        self,
        run: Path,
        now: RunView,
        *,
        publish: Callable[[Moment], None],
        failed: Callable[[str], None],
        interval: float = 0.25,
        clock: Callable[[], float] = time.time,
        piece: int | None = None,
    ) -> None:
        self._run, self._failed, self._clock, self._interval = run, failed, clock, interval
        self._now = now
        self._arrange: Arrange | None = None
        self._lock, self._goal = threading.Lock(), _Goal(math.inf)
        self._tail = LineTail(run / paths.EVENTS)
        self._dates, self._course, self._landmarks = Clock(), Course(run.name), Landmarks()
        self._samples = Samples(run, clock=clock) if piece is None else Samples(run, piece=piece, clock=clock)
        self._states = PastStates(self._course, self._samples)
        self._shown = ShownMoment(RunState(id=run.name))
        self._read_at = self._arrived_at = -math.inf
        self._skimming = self._was_live = True
        self.poller: Poller[Moment] = Poller(self.read, publish, self._pause, name="rankdeck-moment")

    def close(self) -> None:
        """Stop; what is being read is not published any more."""
        self.poller.close()

    # --- what a person wants ---------------------------------------------------------------------------

    def go(self, moment: float) -> None:
        """Show a moment, in seconds since the epoch; the nearest one if the run was not there."""
        with self._lock:
            self._goal = replace(self._goal, moment=moment, steps=0, seen_at=time.monotonic())
        self.poller.nudge()

    def move(self, seconds: float) -> None:
        """Go on by some seconds, or back."""
        with self._lock:
            begin, end = self.span
            moment = min(max(min(self._goal.moment, end) + seconds, begin), end)
            self._goal = replace(self._goal, moment=moment, steps=0, seen_at=time.monotonic())
        self.poller.nudge()

    def step(self, by: int) -> None:
        """Go to the leading rank's report so many steps ahead, or back."""
        with self._lock:
            self._goal = replace(self._goal, steps=self._goal.steps + by, playing=False)
        self.poller.nudge()

    def play(self, *, on: bool | None = None) -> None:
        """Let time go on, or pause; without `on`, the other of both."""
        with self._lock:
            playing = not self._goal.playing if on is None else on
            self._goal = replace(self._goal, playing=playing, seen_at=time.monotonic())
        self.poller.nudge()

    def pace(self, by: int) -> None:
        """Play faster by so many of `SPEEDS`, or slower."""
        with self._lock:
            pace = min(max(self._goal.pace + by, 0), len(SPEEDS) - 1)
            self._goal = replace(self._goal, pace=pace)
        self.poller.nudge()

    def list_ranks(self, arrange: Arrange) -> None:
        """List the ranks like this in the views to come; it is called in the poller's thread."""
        self._arrange = arrange

    def know(self, now: RunView) -> None:
        """Note the newest view of the run."""
        self._now = now

    @property
    def span(self) -> tuple[float, float]:
        """The run's first and last moment."""
        facts, state = self._course.facts, self._now.state
        begin = facts[0].moment if facts else state.started or 0.0
        last = self._samples.pieces[-1].begin if self._samples.pieces else begin
        end = self._clock() if self._now.live else max(state.ended or 0.0, self._dates.moment, last)
        return begin, max(begin, end)

    # --- the thread ------------------------------------------------------------------------------------

    def read(self) -> Iterator[Moment]:
        """The moment to show; then, slice by slice, what makes it exact, and it again."""
        try:
            self._read_on()
            if not self._course.facts:
                return
            goal = self._aim()
            if goal.moment != self._shown.at:
                self._arrived_at = time.monotonic()
                self._go(goal)
                yield self._moment(goal)
            elif not goal.playing and self._settle(goal):
                yield self._moment(goal)
            elif (last := self.poller.last) is not None:
                now = self._moment(goal, view=last.view)
                yield now
        except (OSError, ValueError, TypeError, LauncherError) as error:
            self._failed(f"{self._run.name} cannot be read: {error}")

    def _read_on(self) -> None:
        """Read what is new; once more when the run has ended."""
        live = self._now.live
        if not (live or self._was_live) or (live and time.monotonic() - self._read_at < _LIVE_S):
            return
        self._read_at, self._was_live = time.monotonic(), live
        self._dates.latest = self._clock() + 60
        try:
            facts = [*map(self._dates.date, decoded(self._tail.poll()))]
        except NotPlain:
            facts = []
        facts = facts[: MOST_FACTS - len(self._course)]
        self._course.add(facts)
        self._landmarks.take(facts)
        if self._course.facts:
            self._samples.poll(self._course.facts[0].moment)
        self._skimming = True

    def _aim(self) -> _Goal:
        """Where to go now: it moves on while time goes on, and to the steps that were asked for."""
        with self._lock:
            goal, (begin, end) = self._goal, self.span
            moment = min(max(goal.moment, begin), end)
            now = time.monotonic()
            if goal.playing:
                moment = min(moment + (now - goal.seen_at) * SPEEDS[goal.pace], end)
            ends = goal.playing and moment >= end and not self._now.live
            steps = goal.steps
            self._goal = goal = replace(
                goal, moment=moment, steps=0, seen_at=now, playing=goal.playing and not ends
            )
        if steps:
            reached = self._after_steps(moment, steps)
            with self._lock:
                if self._goal.moment == moment:
                    self._goal = goal = replace(self._goal, moment=reached)
        return goal

    def _after_steps(self, moment: float, steps: int) -> float:
        leader = self._shown.state.leader
        begin, end = self.span
        for _ in range(abs(steps)):
            sign = 1 if steps > 0 else -1
            found = self._report(moment, sign, leader.rank if leader is not None else 0)
            moment = min(max(moment + sign if found is None else found, begin), end)
        return moment

    def _report(self, moment: float, sign: int, rank: int) -> float | None:
        """The next moment at which a rank reported a step, or the last one before; None if none is near."""
        number, count = max(self._samples.at(moment), 0), len(self._samples.pieces)
        for each in range(number, number + sign * _AHEAD_PIECES, sign):
            if not 0 <= each < count:
                return None
            times = [at for at, _ in self._samples.reports(each, rank) if (at - moment) * sign > 0]
            if times:
                return min(times) if sign > 0 else max(times)
        return None

    def _go(self, goal: _Goal) -> None:
        """Show another moment: from the last one on if it is near, else with what was shortly before it."""
        moment, before = goal.moment, self._shown.at
        self._shown.written = self._written()
        if before <= moment <= before + ON_S:
            self._shown.advance(moment, self._between(before, moment, max(self._samples.at(before), 0)))
            self._shown.thinned = self._is_thinned(moment)
        else:
            ranks = self._now.size
            self._shown = self._surroundings(moment, WINDOW_BYTES + ranks * _RANK_BYTES)

    def _surroundings(
        self, moment: float, most: int, give_up: Callable[[], bool] | None = None
    ) -> ShownMoment:
        """A moment with at most so many bytes of the samples before it."""
        samples = self._samples
        if samples.at(moment) < 0:
            shown = ShownMoment(self._course.state_at(moment), moment, exact=True, settled=True)
            shown.written = self._written()
            shown.advance(moment, ())
            return shown
        first = max(samples.window(moment, most, WINDOW_S), samples.at(self._course.back(moment, MOST_NEAR)))
        begin = samples.pieces[first].begin
        state, exact = self._states.before(first, give_up)
        whole = most == SETTLED_BYTES or first == 0
        shown = ShownMoment(state, begin, exact=exact, settled=whole, thinned=self._is_thinned(moment))
        shown.written = self._written()
        shown.advance(moment, self._between(begin, moment, first, whole=True), give_up)
        return shown

    def _between(self, after: float, until: float, first: int, *, whole: bool = False) -> list[Dated]:
        """The facts after a moment up to another, with samples from a piece on; of it all, if `whole`."""
        at = self._samples.at(until)
        sampled = self._samples.facts(first, at) if at >= 0 else []
        lower = -math.inf if whole else after
        return [
            *together(self._course.between(after, until), (x for x in sampled if lower < x.moment <= until))
        ]

    def _written(self) -> Mapping[int, float]:
        """When each rank wrote last, by the newest view: nothing tells it of an earlier moment."""
        now = self._now
        return {
            v.rank.rank: (v.rank.ended or now.now) - v.log_age for v in now.ranks if v.log_age is not None
        }

    def _is_thinned(self, moment: float) -> bool:
        at = self._samples.at(moment)
        return at >= 0 and self._samples.pieces[at].thinned

    def _settle(self, goal: _Goal) -> bool:
        """Read more of the past, for a short time; return whether there is a better view of the moment."""
        until = time.monotonic() + _SLICE_S
        while self._skimming and time.monotonic() < until:
            self._skimming = self._states.advance()
        if self._skimming or self._shown.settled or time.monotonic() - self._arrived_at < _REST_S:
            return False
        shown = self._surroundings(goal.moment, SETTLED_BYTES, lambda: self._goal.moment != goal.moment)
        if self._goal.moment != goal.moment:
            return False
        self._shown = shown
        return True

    def _pause(self, _: float) -> float:
        with self._lock:
            playing = self._goal.playing
            behind = self._goal.steps or self._goal.moment != self._shown.at
        if not playing and (behind or self._skimming):
            return 0.001
        if not playing and not self._shown.settled:
            return _REST_S
        return self._interval if playing else _LIVE_S if self._now.live else _IDLE_S

    # --- what is shown ---------------------------------------------------------------------------------

    def _moment(self, goal: _Goal, view: RunView | None = None) -> Moment:
        begin, end = self.span
        now = self._now
        if view is None:
            view = self._view()
        elif (view.curves, view.logs) != (now.curves, now.logs):
            view = replace(view, curves=now.curves, logs=now.logs)
        return Moment(
            at=goal.moment,
            begin=begin,
            end=end,
            view=view,
            marks=self._landmarks.all(now.curves),
            playing=goal.playing,
            speed=SPEEDS[goal.pace],
            old_s=self._shown.old_s,
            exact=self._shown.exact,
        )

    def _view(self) -> RunView:
        shown, now = self._shown, self._now
        state, at = shown.state, shown.at
        ranks, arrange = shown.views, self._arrange
        view = RunView(
            listing=None if arrange is None else arrange(ranks, now=at, live=False),
            state=state,
            now=at,
            ranks=ranks,
            progress=shown.past.progress(state, at),
            results=tuple(each for each in now.results if _has_returned(state, each)),
            artifacts=now.artifacts if state.artifacts else {},
            logs=now.logs,
            max_restarts=now.max_restarts,
            alerts=shown.alarms.alerts,
            curves=now.curves,
            usage={} if not state.phase.final else now.usage,
        )
        view.prepare()
        return view


def _has_returned(state: RunState, result: Mapping[str, object]) -> bool:
    rank = result.get("rank")
    if not isinstance(rank, int) or not 0 <= rank < len(state.ranks):
        return False
    return state.ranks[rank].returned is not None
