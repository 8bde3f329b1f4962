"""Alerts: raised after a while, ended after a while, and nothing between two thresholds changes anything."""

from __future__ import annotations

from console.data.run.health import BEHIND, FULL, GANG, HOT, IDLE, REMEMBERED, SILENT, Alarms, Looked
from console.data.run.metrics import Metric, Reading, usual_metric


def reading(**figures: float) -> Reading:
    return tuple(figures.get(metric.name) for metric in Metric)  # type: ignore[return-value]


def said(alarms: Alarms, now: float, *ranks: Reading, silent: float | None = None) -> list[tuple[str, int]]:
    looked = [Looked(rank, each, silent) for rank, each in enumerate(ranks)]
    return [(alert.what, alert.rank) for alert in alarms.look(now, looked) if alert.over is None]


def test_a_figure_must_stay_bad_before_it_alarms() -> None:
    alarms = Alarms()

    assert said(alarms, 0, reading(HEAT=90)) == []
    assert said(alarms, HOT.hold_s - 1, reading(HEAT=90)) == []
    assert said(alarms, HOT.hold_s, reading(HEAT=90)) == [(HOT.what, 0)]


def test_one_good_look_begins_the_wait_anew() -> None:
    alarms = Alarms()
    said(alarms, 0, reading(HEAT=90))
    said(alarms, 4, reading(HEAT=80))

    assert said(alarms, 6, reading(HEAT=90)) == []


def test_between_the_thresholds_all_stays_as_it_was() -> None:
    alarms = Alarms()
    said(alarms, 0, reading(MEMORY=98))
    said(alarms, 10, reading(MEMORY=98))

    assert said(alarms, 100, reading(MEMORY=95.5)) == [(FULL.what, 0)]
    assert said(alarms, 101, reading(MEMORY=90)) == [(FULL.what, 0)]
    assert said(alarms, 110, reading(MEMORY=90)) == []
    assert [(a.since, a.over) for a in alarms.alerts] == [(0, 110)]


def test_what_is_unknown_neither_raises_nor_ends() -> None:
    alarms = Alarms()
    said(alarms, 0, reading(LAG=9))
    said(alarms, 9, reading(LAG=9))

    assert said(alarms, 99, reading()) == [(BEHIND.what, 0)]


def test_an_idle_gpu_is_alarming_only_among_busy_ones() -> None:
    alone, among = Alarms(), Alarms()
    for now in (0, 60):
        nobody = said(alone, now, reading(USE=0), reading(USE=0), reading(USE=0))
        one = said(among, now, reading(USE=0), reading(USE=97), reading(USE=99))

    assert nobody == []
    assert one == [(IDLE.what, 0)]


def test_silence_is_the_gangs_and_one_voice_ends_it() -> None:
    alarms = Alarms()

    assert said(alarms, 0, reading(), silent=400) == [(SILENT.what, GANG)]
    assert said(alarms, 1, reading(), silent=1) == []


def test_an_alert_of_a_rank_that_is_gone_is_over_and_few_are_remembered() -> None:
    alarms = Alarms()
    many = [reading(LAG=5)] * (REMEMBERED + 20)
    said(alarms, 0, *many)

    assert len(said(alarms, 10, *many)) == REMEMBERED + 20
    assert said(alarms, 11) == []
    assert len(alarms.alerts) == REMEMBERED


def test_metrics_go_round_among_those_that_ranks_have() -> None:
    with_devices, without = [usual_metric(devices=True)], [usual_metric(devices=False)]
    for _ in range(6):
        with_devices.append(with_devices[-1].following(devices=True))
        without.append(without[-1].following(devices=False))

    assert set(with_devices) == set(Metric)
    assert with_devices[-1] is with_devices[0]
    assert set(without) == {Metric.CPU, Metric.LAG}


def test_late_hot_and_idle_are_worse_and_unknown_is_last() -> None:
    assert Metric.LAG.badness(5.0) > Metric.LAG.badness(1.0) > Metric.LAG.badness(None)
    assert Metric.HEAT.badness(90.0) > Metric.HEAT.badness(60.0)
    assert Metric.USE.badness(3.0) > Metric.USE.badness(99.0) > Metric.USE.badness(None)
