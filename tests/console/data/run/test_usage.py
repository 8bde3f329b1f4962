"""What a rank used over its life: means and peaks, whatever the samples hold."""

from __future__ import annotations

import math

from console.data.run.figures import LifeSums, sampled_figures
from console.data.run.metrics import CPU, MEMORY, POWER, RSS, TEMPERATURE, UTIL
from launcher.state.events import DeviceSample, RankSample


def test_means_of_work_and_peaks_of_what_fills_up() -> None:
    sums = LifeSums()
    for util, memory, heat in ((90.0, 10, 60.0), (50.0, 30, 70.0), (None, 20, None)):
        device = DeviceSample(
            uuid="a", index=0, util=util, memory_used=memory, temperature_c=heat, power_w=300.0
        )
        sums.take(sampled_figures([device], RankSample(rank=0, cpu=100.0, rss=memory * 2), lag=3.0))
    used = {UTIL: 70.0, CPU: 100.0, POWER: 300.0, MEMORY: 30, RSS: 60, TEMPERATURE: 70.0}
    assert used == sums.amounts


def test_what_is_no_number_is_left_out() -> None:
    sums = LifeSums()
    assert {} == sums.amounts
    sums.take(sampled_figures([], RankSample(rank=0, cpu=math.nan, rss=5), lag=None))
    sums.take(sampled_figures([], RankSample(rank=0, rss=3), lag=None))
    assert {RSS: 5} == sums.amounts
