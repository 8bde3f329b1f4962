"""Which ranks show no activity, and for which of them the gang waits. Pure: no function reads a clock.

A rank is idle while it shows no step, output, use of CPUs or GPUs, and no I/O. That alone is no fault: it may
wait for another rank that works. It is *silent* after half of its limit. It is *hung* after all of it, if
no rank of the gang makes progress, none is at work, and its stacks do not show that it is one of those that
wait. If none is active and the stacks single out no rank, all idle ranks are: the gang stands still.

What cannot be measured counts as activity, so that no rank is called hung for a lack of figures.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

from ..state import events as ev
from ..state.ranks import Rank
from ..state.run_state import RunState
from .stacks import standstills, waiting_among

IDLE_CPU, IDLE_GPU = 5.0, 5.0
IO_PER_S = 256 << 10
SPIN_GPU, SPIN_POWER = 95.0, 0.5
GAP_S = 10.0
_PACES = 32


@dataclass(frozen=True, slots=True)
class SilenceLimits:
    """When idle ranks count as hung.

    Attributes:
        least_s: after so many seconds at the earliest.
        steps: and not before so many of its steps would have been done.
        silent_s: ranks are silent after so many seconds, if that is less than half of the time of a hang.
        gap_s: samples that are further apart show nothing of the time between them.
    """

    least_s: float = 60.0
    steps: float = 10.0
    silent_s: float = math.inf
    gap_s: float = GAP_S

    def of(self, step_s: float | None) -> float:
        """The seconds for a rank whose steps take `step_s`."""
        return max(self.least_s, self.steps * (step_s or 0.0))


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast a rank makes steps.

    Attributes:
        step: its last step, reported at `stepped_at`.
        last: its last seconds a step.
        step_s: their median; None while there is none.
    """

    step: int | None = None
    stepped_at: float | None = None
    last: tuple[float, ...] = ()
    step_s: float | None = None


@dataclass(frozen=True, slots=True)
class Pulse:
    """What was seen of one rank until now; times are on the engine's clock.

    Attributes:
        progress_at: its last step or output, or its start.
        active_at: its last sign of activity, or the last moment of which nothing is known.
        worked_at: like `active_at`, without samples that only show a GPU's kernel that waits for others.
        sampled_at: its last sample.
        io: the bytes that it had read and written by then.
        pace: how fast it makes steps.
    """

    progress_at: float
    active_at: float
    worked_at: float
    sampled_at: float | None = None
    io: int | None = None
    pace: Pace = Pace()

    def restarted(self, now: float) -> Pulse:
        """The same rank, judged by what it does from now on."""
        return replace(self, progress_at=now, active_at=now, worked_at=now)


def observe(
    before: Pulse | None,
    rank: Rank,
    devices: Sequence[ev.DeviceSample],
    *,
    written: float | None,
    now: float,
    gap_s: float = GAP_S,
) -> Pulse:
    """A rank's pulse after one more look. It is made once: a look at a large gang makes thousands of them.

    Args:
        before: its pulse at the last look.
        rank: the rank as folded.
        devices: the last samples of its devices.
        written: the time of its last output.
        now: the time of the look.
        gap_s: see `SilenceLimits`.
    """
    pulse = before or Pulse(progress_at=now, active_at=now, worked_at=now)
    progress = pulse.progress_at
    for sign in (rank.reported_at, written, rank.entered, rank.started):
        if sign is not None and sign > progress:
            progress = max(progress, min(sign, now))
    active, worked = max(pulse.active_at, progress), max(pulse.worked_at, progress)
    sampled_at, io, pace = pulse.sampled_at, pulse.io, _pace(pulse.pace, rank)
    if rank.sampled_at is not None and rank.sampled_at != sampled_at:
        sampled_at, sample = rank.sampled_at, rank.sample or ev.RankSample(rank=rank.rank)
        io, busy = _io(sample), _is_busy(pulse, sample, _utils(rank, devices), sampled_at, gap_s)
        if busy is not False:
            active = max(active, sampled_at)
        if busy is None or (busy and not _spins(devices)):
            worked = max(worked, sampled_at)
    elif progress == pulse.progress_at and pace is pulse.pace:
        return pulse
    return Pulse(progress, active, worked, sampled_at, io, pace)


def _pace(before: Pace, rank: Rank) -> Pace:
    if rank.step is None or rank.step == before.step:
        return before
    at, last, step_s = before.stepped_at, before.last, before.step_s
    if (
        before.step is not None
        and at is not None
        and rank.reported_at is not None
        and rank.step > before.step
    ):
        last = (*last, max(rank.reported_at - at, 0.0) / (rank.step - before.step))[-_PACES:]
        step_s = median(last)
    return Pace(rank.step, rank.reported_at, last, step_s)


def _is_busy(
    pulse: Pulse, sample: ev.RankSample, utils: Sequence[float | None], at: float, gap_s: float
) -> bool | None:
    """Whether a sample shows activity since the one before; None if one of the figures is unknown."""
    moved, elapsed = _io(sample), 0.0 if pulse.sampled_at is None else at - pulse.sampled_at
    if sample.cpu is None or moved is None or pulse.io is None or not 0.0 < elapsed <= gap_s:
        return None
    known = [util for util in utils if util is not None]
    if len(known) < len(utils):
        return None
    io = moved - pulse.io >= IO_PER_S * elapsed
    return sample.cpu >= IDLE_CPU or io or sample.disk_wait is True or any(u >= IDLE_GPU for u in known)


def _utils(rank: Rank, devices: Sequence[ev.DeviceSample]) -> list[float | None]:
    """The use of each of its devices; None for one without a sample."""
    return [device.util for device in devices] + [None] * (len(rank.devices) - len(devices))


def _io(sample: ev.RankSample) -> int | None:
    if sample.read_bytes is None or sample.write_bytes is None:
        return None
    return sample.read_bytes + sample.write_bytes


def _spins(devices: Sequence[ev.DeviceSample]) -> bool:
    """Whether all its GPUs are in full use at little power, as by a collective's kernel that waits."""
    return bool(devices) and all(map(_waits_in_a_kernel, devices))


def _waits_in_a_kernel(device: ev.DeviceSample) -> bool:
    if device.util is None or device.power_w is None or not device.power_limit_w:
        return False
    return device.util >= SPIN_GPU and device.power_w < SPIN_POWER * device.power_limit_w


@dataclass(frozen=True, slots=True)
class SilenceReport:
    """What the rule finds.

    Attributes:
        silent: the silent ranks, hung ones included, and since when each shows no activity.
        hung: the hung ones.
        waiting: those that were seen to wait for the hung ones.
        idle: those that stacks must tell apart from others; empty if no rank can be hung anyway.
    """

    silent: Mapping[int, float] = field(default_factory=dict)
    hung: frozenset[int] = frozenset()
    waiting: frozenset[int] = frozenset()
    idle: frozenset[int] = frozenset()


def judge(
    ranks: Sequence[Rank],
    pulses: Mapping[int, Pulse],
    *,
    now: float,
    limits: SilenceLimits,
    gang: int,
    stacks: Callable[[frozenset[int]], Iterable[ev.StacksTaken] | None],
) -> SilenceReport:
    """Which ranks are silent, and which of those are hung.

    Args:
        ranks: the living ranks that run the target.
        pulses: what was seen of each of them.
        now: the time, on the engine's clock.
        limits: after what time.
        gang: how many ranks the gang has, those that have ended included.
        stacks: is asked for the stacks since these ranks are idle; None if they were not taken yet.
    """
    paces = [pulse.pace.step_s for pulse in pulses.values() if pulse.pace.step_s is not None]
    usual = median(paces) if paces else None
    limit, silent, idle, moving = dict[int, float](), dict[int, float](), set[int](), False
    for rank in ranks:
        number, pulse = rank.rank, pulses[rank.rank]
        limit[number] = most = limits.of(pulse.pace.step_s or usual)
        shown = min(now, pulse.sampled_at or 0.0) - pulse.active_at
        if shown >= min(most / 2, limits.silent_s):
            silent[number] = pulse.active_at
            if shown >= most:
                idle.add(number)
        moving = moving or now - pulse.progress_at < most
    if not idle or moving or gang < 2:
        return SilenceReport(silent)
    report = SilenceReport(silent, idle=frozenset(idle))
    if (taken := stacks(report.idle)) is None:
        return report
    waiting = {rank for place in waiting_among(standstills(taken)) for rank in place.ranks}
    spinning = {r for r in limit if r not in idle and now - pulses[r].worked_at >= limit[r]}
    return _told_apart(report, frozenset(limit), frozenset(waiting & idle | spinning))


def _told_apart(report: SilenceReport, living: frozenset[int], waiting: frozenset[int]) -> SilenceReport:
    """The report with the hung ranks of a gang without progress, of which these wait for others."""
    idle = report.idle
    if living - idle - waiting:  # somebody works, or may do so
        return report
    if (hung := idle - waiting) and waiting:
        return replace(report, hung=hung, waiting=waiting)
    if idle == living and (len(living) > 1 or waiting):
        return replace(report, hung=idle)
    return report


def changes(state: RunState, report: SilenceReport, *, now: float) -> list[ev.RanksSilent | ev.RanksResumed]:
    """The facts by which the state comes to say what the report says.

    A hung rank stays so until it shows activity: that another one does so meanwhile explains nothing.
    """
    known = {rank.rank: rank for rank in state.ranks if rank.silent_since is not None and rank.alive}
    gone = tuple(sorted(known.keys() - report.silent.keys()))
    fresh = tuple(sorted(report.silent.keys() - known.keys() - report.hung))
    hung = tuple(sorted(n for n in report.hung if n not in known or not known[n].hung))
    facts: list[ev.RanksSilent | ev.RanksResumed] = []
    if gone:
        facts.append(ev.RanksResumed(time=now, attempt=state.attempt, ranks=gone))
    for ranks, is_hung in ((fresh, False), (hung, True)):
        if ranks:
            facts.append(
                ev.RanksSilent(
                    time=now,
                    attempt=state.attempt,
                    ranks=ranks,
                    since=max(report.silent[rank] for rank in ranks),
                    hung=is_hung,
                    waiting=tuple(sorted(report.waiting)) if is_hung else (),
                )
            )
    return facts
