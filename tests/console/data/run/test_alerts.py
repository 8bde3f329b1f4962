"""Alerts: raised after a while, ended after a while, and nothing between two thresholds changes anything."""

from __future__ import annotations

from console.data.run.figures import Figures
from console.data.run.health import GANG, REMEMBERED, SILENT, Alarms, AlertInput
from console.data.run.metrics import BEHIND, FULL, HOT, IDLE, LAG, MEMORY, TEMPERATURE, UTIL


def hot(degrees: float) -> Figures:
    return Figures({TEMPERATURE: degrees})


def full(percent: float) -> Figures:
    return Figures({MEMORY: percent * 8}, {MEMORY: 800})


def busy(percent: float) -> Figures:
    return Figures({UTIL: percent})


def late(steps: float) -> Figures:
    return Figures({LAG: steps})


def said(alarms: Alarms, now: float, *ranks: Figures, silent: float | None = None) -> list[tuple[str, int]]:
    looked = [AlertInput(rank, each, silent) for rank, each in enumerate(ranks)]
    return [(alert.what, alert.rank) for alert in alarms.look(now, looked) if alert.over is None]


def test_a_figure_must_stay_bad_before_it_alarms() -> None:
    alarms = Alarms()

    assert said(alarms, 0, hot(90)) == []
    assert said(alarms, HOT.hold_s - 1, hot(90)) == []
    assert said(alarms, HOT.hold_s, hot(90)) == [(HOT.what, 0)]


def test_one_good_look_begins_the_wait_anew() -> None:
    alarms = Alarms()
    said(alarms, 0, hot(90))
    said(alarms, 4, hot(80))

    assert said(alarms, 6, hot(90)) == []


def test_between_the_thresholds_all_stays_as_it_was() -> None:
    alarms = Alarms()
    said(alarms, 0, full(98))
    said(alarms, 10, full(98))

    assert said(alarms, 100, full(95.5)) == [(FULL.what, 0)]
    assert said(alarms, 101, full(90)) == [(FULL.what, 0)]
    assert said(alarms, 110, full(90)) == []
    assert [(a.since, a.over) for a in alarms.alerts] == [(0, 110)]


def test_what_is_unknown_neither_raises_nor_ends() -> None:
    alarms = Alarms()
    said(alarms, 0, late(9))
    said(alarms, 9, late(9))

    assert said(alarms, 99, Figures()) == [(BEHIND.what, 0)]


def test_an_idle_gpu_is_alarming_only_among_busy_ones() -> None:
    alone, among = Alarms(), Alarms()
    for now in (0, 60):
        nobody = said(alone, now, busy(0), busy(0), busy(0))
        one = said(among, now, busy(0), busy(97), busy(99))

    assert nobody == []
    assert one == [(IDLE.what, 0)]


def test_silence_is_the_gangs_and_one_voice_ends_it() -> None:
    alarms = Alarms()

    assert said(alarms, 0, Figures(), silent=400) == [(SILENT.what, GANG)]
    assert said(alarms, 1, Figures(), silent=1) == []


def test_an_alert_of_a_rank_that_is_gone_is_over_and_few_are_remembered() -> None:
    alarms = Alarms()
    many = [late(5)] * (REMEMBERED + 20)
    said(alarms, 0, *many)

    assert len(said(alarms, 10, *many)) == REMEMBERED + 20
    assert said(alarms, 11) == []
    assert len(alarms.alerts) == REMEMBERED
