"""Looks once a second whether ranks have become silent or hung, and records when that changes."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from functools import partial

from ..diagnosis.silence import Pulse, SilenceLimits, SilenceReport, changes, judge, observe
from ..errors import SpecError
from ..runs.writer import RunWriter
from ..spec.job import JobSpec
from ..state import events as ev
from ..state.ranks import Rank
from ..state.run_state import CLOCKS_DIFFER_S, RunState
from .agents import Roster
from .watchdog import Watchdog

LOOK_S = 1.0
_ROUNDS = 6  # how many times stacks may be taken in the least time of a hang
HUNG_VARIABLE = "RANKDECK_HUNG_S"


def chosen_limits(spec: JobSpec, environ: Mapping[str, str] = os.environ) -> SilenceLimits:
    """The limits of a run: a rank is silent by half of the run's limit without progress at the latest.

    Raises:
        SpecError: the variable `HUNG_VARIABLE` is no number of at least 1.
    """
    default = SilenceLimits()
    text = environ.get(HUNG_VARIABLE, "")
    try:
        least_s = float(text) if text else default.least_s
    except ValueError:
        least_s = 0.0
    if not 1.0 <= least_s < 1e9:
        raise SpecError(f"{HUNG_VARIABLE} must be a number of seconds, at least 1, not {text!r}")
    tolerated_s = math.inf if spec.no_progress_timeout_s is None else spec.no_progress_timeout_s
    return SilenceLimits(least_s, silent_s=tolerated_s / 2, gap_s=max(default.gap_s, 3 * spec.sample_s))


class SilenceWatch:
    """Applies the rule of `launcher.diagnosis.silence` to one run, and has stacks taken where it needs them.

    Args:
        writer: records what the rule finds.
        roster: knows when ranks have printed something.
        watchdog: takes the stacks.
        clock: the time of day.
        limits: after what time a rank is hung.
    """

    def __init__(
        self,
        writer: RunWriter,
        roster: Roster,
        watchdog: Watchdog,
        clock: Callable[[], float],
        limits: SilenceLimits,
    ) -> None:
        self._writer = writer
        self._roster = roster
        self._watchdog = watchdog
        self._clock = clock
        self._limits = limits
        self._looked_at = -math.inf
        self._attempt = 0
        self._forget()

    def _forget(self) -> None:
        self._pulses: dict[int, Pulse] = {}
        self._asked: frozenset[int] = frozenset()
        self._asked_at = -math.inf

    def look(self) -> None:
        """Observe all ranks and record what has changed, at most every `LOOK_S` seconds."""
        state, now = self._writer.state, self._clock()
        if abs(now - self._looked_at) < LOOK_S:
            return
        self._looked_at = now
        if state.attempt != self._attempt:
            self._attempt = state.attempt
            self._forget()
        services = {service.rank for service in state.services if service.is_rank}
        ranks = [rank for rank in state.ranks if rank.alive and rank.rank not in services]
        if not ranks or state.stop is not None:
            return
        self._observe(state, ranks, now)
        for fact in changes(state, self._report(state, ranks, now), now=now):
            self._writer.append(fact)

    def _report(self, state: RunState, ranks: list[Rank], now: float) -> SilenceReport:
        """What the rule finds: with the ranks' stacks, if these were taken since the same ranks are idle."""
        stacks = partial(self._stacks, state, now)
        limits, gang = self._limits, len(state.ranks)
        report = judge(ranks, self._pulses, now=now, limits=limits, gang=gang, stacks=stacks)
        if not report.idle:
            self._asked = frozenset()  # the next spell has stacks of its own, even of the same ranks
        return report

    def _stacks(self, state: RunState, now: float, idle: frozenset[int]) -> list[ev.StacksTaken] | None:
        """The stacks since these ranks are idle, requested if they are not there; None until they are."""
        if self._watchdog.takes_stacks:
            return None
        if idle != self._asked:
            if now - self._asked_at >= self._limits.least_s / _ROUNDS:
                self._asked, self._asked_at = idle, now
                self._watchdog.take_stacks()
            return None
        since = self._asked_at - CLOCKS_DIFFER_S
        return [taken for taken in state.stacks if taken.time >= since]

    def _observe(self, state: RunState, ranks: list[Rank], now: float) -> None:
        """Take each rank's pulse. Whatever ranks do while one is excused says nothing against them later."""
        excused = any(is_excused(rank) for rank in ranks)
        for rank in ranks:
            devices = _devices(state, rank)
            written = self._roster.written.get(rank.rank)
            before, gap_s = self._pulses.get(rank.rank), self._limits.gap_s
            pulse = observe(before, rank, devices, written=written, now=now, gap_s=gap_s)
            self._pulses[rank.rank] = pulse.restarted(now) if excused else pulse


def is_excused(rank: Rank) -> bool:
    """Whether it is known why the rank does nothing."""
    return rank.paused is not None or rank.awaits_rows is not None or rank.awaits_log


def _devices(state: RunState, rank: Rank) -> list[ev.DeviceSample]:
    host = state.hosts.get(rank.agent)
    known = {} if host is None else host.devices
    return [known[device.uuid] for device in rank.devices if device.uuid in known]
