"""What a rank used over its life: means and peaks, whatever the samples hold."""

from __future__ import annotations

import math

from console.data.run.metrics import Usage, UsageSums
from launcher.state.events import DeviceSample, RankSample


def test_means_of_work_and_peaks_of_what_fills_up() -> None:
    sums = UsageSums()
    for util, memory, heat in ((90.0, 10, 60.0), (50.0, 30, 70.0), (None, 20, None)):
        device = DeviceSample(
            uuid="a", index=0, util=util, memory_used=memory, temperature_c=heat, power_w=300.0
        )
        sums.take(RankSample(rank=0, cpu=100.0, rss=memory * 2), [device])
    assert Usage(util=70.0, cpu=100.0, power=300.0, memory=30, rss=60, temperature=70.0) == sums.usage


def test_without_devices_memory_is_that_of_the_processes_and_what_is_no_number_is_left_out() -> None:
    sums = UsageSums()
    assert Usage() == sums.usage
    sums.take(RankSample(rank=0, cpu=math.nan, rss=5), [])
    sums.take(RankSample(rank=0, rss=3), [])
    assert Usage(memory=5, rss=5) == sums.usage
