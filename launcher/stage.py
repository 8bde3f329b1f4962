"""What became of one launch of a backend, and how long to wait for what does not come."""

from __future__ import annotations

from dataclasses import dataclass

from launcher.errors import CannotPlace, InternalError, LauncherError
from launcher.spec import JobSpec, Mode
from launcher.state import RunState

JOIN_LIMIT_S = 60.0
DESERTED_S = 2.0
ABORTED_S = 5.0


@dataclass(slots=True)
class Stage:
    """One launch.

    Attributes:
        launched: when, by the engine's clock.
        expected: since when agents are being started; None while there is no place for them yet.
        over: whether no agent will come any more.
        error: what it ended with, if that was no fact of its own.
        deserted: since when it has had no agents, while it should be ending.
        aborted: whether it was told to end.
        given_up: whether it did not, and may be there still.
    """

    launched: float
    expected: float | None = None
    over: bool = False
    error: LauncherError | None = None
    deserted: float | None = None
    aborted: bool = False
    given_up: bool = False

    def tend(self, now: float, *, deserted: bool) -> bool:
        """Whether it has to be told to end: it has no agents, and Spark may not know.

        If it does not even end then, it is given up, and counts as over.
        """
        if self.over or not deserted:
            self.deserted = None
        elif self.deserted is None:
            self.deserted = now
        elif now >= self.patience and self.aborted:
            self.over = self.given_up = True
        elif now >= self.patience:
            self.aborted = True
            return True
        return False

    def failure(self, state: RunState) -> LauncherError | None:
        """What a run ends with when this is over, where neither its ranks nor a person ended it."""
        lost_early = state.stop is not None and state.stop.by == "loss" and not state.ranks
        if (state.stop is not None and not lost_early) or state.all_ended:
            return None
        nothing = InternalError("the agents ended before the ranks could start")
        known = state.ranks or state.losses or state.cancelled
        return self.error or (None if known else nothing)

    @property
    def refused(self) -> bool:
        """Whether it ended because it cannot be: another attempt could not either."""
        return isinstance(self.error, CannotPlace)

    @property
    def limits(self) -> list[float]:
        """The times at which `tend` has something to do."""
        return [] if self.deserted is None else [self.patience]

    @property
    def patience(self) -> float:
        """Until when it may go on without agents."""
        return (self.deserted or 0.0) + DESERTED_S + (ABORTED_S if self.aborted else 0.0)


def join_limit(stage: Stage, spec: JobSpec) -> tuple[float, float]:
    """How long all agents may take to come, in seconds, and until when they may.

    On this machine it is known when there is room and agents are being started. Where Spark has slots to
    wait for, the backend knows more about them and gives up first, and Spark may let given tasks wait.
    """
    if spec.mode is Mode.LOCAL and stage.expected is not None:
        return JOIN_LIMIT_S, stage.expected + JOIN_LIMIT_S
    limit_s = spec.start_timeout_s + (0.0 if spec.mode is Mode.LOCAL else JOIN_LIMIT_S)
    return limit_s, stage.launched + limit_s
