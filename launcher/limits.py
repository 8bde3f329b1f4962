"""What may take only so long: how much of it is left, and when that must be said. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from launcher.events import LimitNear
from launcher.spec import JobSpec
from launcher.state import Phase, RunState

TIME, START, PROGRESS = "time", "start", "progress"
LEAD, LONGEST_LEAD_S, SHORTEST_LEAD_S = 0.2, 60.0, 1.0


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit that counts at the moment.

    Attributes:
        name: ``time``, ``start`` or ``progress``.
        limit_s: its length in seconds.
        left_s: seconds that are left of it.
    """

    name: str
    limit_s: float
    left_s: float

    @property
    def lead_s(self) -> float:
        """Seconds before its end at which it is warned of.

        A fifth of it, but a second at least and a minute at most, and never before its middle.
        """
        lead = min(LONGEST_LEAD_S, max(SHORTEST_LEAD_S, LEAD * self.limit_s))
        return min(lead, self.limit_s / 2)

    @property
    def is_near(self) -> bool:
        """Whether it is to be warned of."""
        return 0 < self.left_s <= self.lead_s


def limits_of(state: RunState, spec: JobSpec, *, now: float, quiet_s: float | None) -> tuple[Limit, ...]:
    """The limits that count: none once the run is being stopped, for then it is the grace period that counts.

    Args:
        state: the run.
        spec: what was asked for.
        now: the engine's clock.
        quiet_s: seconds since the gang's last sign of life; None while none is expected.
    """
    if state.stop is not None or state.phase.final:
        return ()
    found = []
    if spec.timeout_s is not None and state.started is not None:
        found.append(Limit(TIME, spec.timeout_s, state.started + spec.timeout_s - now))
    since = next((at for phase, at in state.attempt_since if phase is Phase.WAITING), None)
    slots = state.waiting if state.phase is Phase.WAITING else None
    if slots is not None and slots.limit_s is not None and since is not None:
        found.append(Limit(START, slots.limit_s, since + slots.limit_s - now))
    if spec.no_progress_timeout_s is not None and quiet_s is not None:
        found.append(Limit(PROGRESS, spec.no_progress_timeout_s, left_s=spec.no_progress_timeout_s - quiet_s))
    return tuple(found)


def warnings(
    limits: Iterable[Limit], warned: Collection[str], state: RunState, now: float
) -> list[LimitNear]:
    """What is to be said of limits that are near, and of which it was not said yet."""
    return [
        LimitNear(time=now, attempt=state.attempt, limit=x.name, limit_s=x.limit_s, at=now + x.left_s)
        for x in limits
        if x.is_near and x.name not in warned
    ]


def wait_s(limits: Iterable[Limit], warned: Collection[str]) -> float | None:
    """Seconds until one is to be warned of, or is reached; None if none is.

    Waiting for slots is ended by who waits: that limit is only warned of.
    """
    waits = []
    for x in limits:
        if x.name not in warned and x.left_s > 0:
            waits.append(x.left_s - x.lead_s)
        elif x.name != START:
            waits.append(x.left_s)
    return max(0.0, min(waits)) if waits else None
