"""The table of metrics: what several values come to, scales, choices, and what is written."""

from __future__ import annotations

import math
from dataclasses import fields
from typing import Any

import pytest

from console.data.run.figures import HISTORY, Figures, Histories, charted, sampled_figures
from console.data.run.metrics import (
    CLOCK,
    CPU,
    HOST_CPU,
    LAG,
    LOAD,
    MEMORY,
    POWER,
    RSS,
    TABLE,
    TEMPERATURE,
    UTIL,
    Metric,
    Source,
)
from launcher.state.events import DeviceSample, HostSample, RankSample

SAMPLES: dict[Source, Any] = {
    Source.DEVICE: DeviceSample,
    Source.PROCESSES: RankSample,
    Source.HOST: HostSample,
}


def test_every_field_of_the_table_is_sampled() -> None:
    for metric in TABLE.rows:
        if metric.source is not Source.STEPS:
            names = {field.name for field in fields(SAMPLES[metric.source])}
            assert {metric.field, metric.whole} - {""} <= names, metric


def test_keys_are_told_once_for_each_source_and_charts_once_for_all() -> None:
    assert len(TABLE.rows) == len({(metric.source, metric.key) for metric in TABLE.rows})
    assert len(TABLE.charted) == len({metric.title for metric in TABLE.charted})


def test_devices_of_a_rank_are_taken_together_as_the_table_says() -> None:
    devices = [
        DeviceSample(uuid="a", util=90.0, memory_used=10, memory_total=80, power_w=300.0, temperature_c=60.0),
        DeviceSample(uuid="b", util=50.0, memory_used=30, memory_total=80, power_w=100.0, temperature_c=70.0),
        DeviceSample(uuid="c"),
    ]
    figures = sampled_figures(devices, RankSample(rank=0, cpu=104.0), lag=2.0)

    amounts = {UTIL: 70.0, MEMORY: 40, POWER: 400.0, TEMPERATURE: 70.0, CPU: 104.0, LAG: 2.0}
    assert amounts == figures.amounts
    assert (25.0, None) == (figures.figure(MEMORY), figures.figure(POWER))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 10**400])
@pytest.mark.parametrize("more", [(), (DeviceSample(uuid="b", util=40.0),)])
def test_what_is_no_number_is_unknown(value: float, more: tuple[DeviceSample, ...]) -> None:
    figures = sampled_figures([DeviceSample(uuid="a", util=value), *more], None, None)

    assert figures.amounts == ({UTIL: 40.0} if more else {})


def test_a_share_without_a_finite_value_is_unknown() -> None:
    assert [None] * 3 == [POWER.figure(1e308, 1e-308), POWER.figure(1.0, 0), POWER.figure(1.0, None)]


def test_the_last_figures_are_kept_metric_by_metric() -> None:
    histories = Histories()
    for second in range(HISTORY + 3):
        histories.take(7, charted(Figures({CPU: float(second), MEMORY: 3}, {MEMORY: 4})))
    past = histories.of(7)

    assert past is histories.of(7)
    assert HISTORY == len(past)
    assert ([121.0, 122.0], [75.0], [None]) == (past.of(CPU, 2), past.of(MEMORY, 1), past.of(UTIL, 1))
    assert [] == past.of(CPU, 0) == histories.of(8).of(CPU, 5)


def test_choices_go_round_among_what_ranks_have() -> None:
    def round_(*, devices: bool) -> list[Metric]:
        choices = [TABLE.first(devices=devices)]
        while len(choices) == len(set(choices)):
            choices.append(TABLE.after(choices[-1], devices=devices))
        return choices

    assert [UTIL, MEMORY, POWER, TEMPERATURE, CLOCK, LAG, CPU, UTIL] == round_(devices=True)
    assert [CPU, LAG, CPU] == round_(devices=False)
    assert TABLE.after(UTIL, devices=False) is LAG


def test_late_hot_and_idle_are_worse_and_unknown_is_last() -> None:
    assert LAG.badness(5.0) > LAG.badness(1.0) > LAG.badness(None)
    assert TEMPERATURE.badness(90.0) > TEMPERATURE.badness(60.0)
    assert UTIL.badness(3.0) > UTIL.badness(99.0) > UTIL.badness(None)


def test_only_some_scales_follow_the_figures() -> None:
    assert (100.0, 410.0) == (UTIL.scale_of([410.0]), CPU.scale_of([10.0, None, 410.0, math.nan]))
    assert (100.0, 8.0) == (CPU.scale_of([]), LAG.scale_of([20.0]))


@pytest.mark.parametrize(
    ("metric", "title", "amount", "figure", "life"),
    [
        (UTIL, "GPU", "3%", "3%", "GPU mean"),
        (MEMORY, "memory", "0M of 0M", "3%", "mem peak"),
        (POWER, "power", "3W of 4W", "3%", "W mean"),
        (TEMPERATURE, "temp °C", "3°", "3°", "temp peak"),
        (CLOCK, "clock MHz", "3MHz", "3MHz", "MHz mean"),
        (LAG, "lag steps", "3", "3", ""),
        (CPU, "CPU", "3%", "3%", "CPU mean"),
        (RSS, "RSS B", "0M", "0M", "RSS peak"),
        (HOST_CPU, "CPU", "3%", "3%", ""),
        (LOAD, "load", "3.0", "3.0", ""),
    ],
)
def test_titles_and_texts(metric: Metric, title: str, amount: str, figure: str, life: str) -> None:
    assert (title, amount, figure) == (metric.title, metric.amount_text(3, 4), metric.figure_text(3))
    assert metric.life is None or life == metric.life_label(9)
