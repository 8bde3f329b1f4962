"""What ranks used over a run: seconds, shares and peaks of all samples, whatever they hold."""

from __future__ import annotations

import math

import pytest

from launcher.spec.places import Device
from launcher.state.events import DeviceSample, RankSample, Sampled
from launcher.state.ranks import Rank
from launcher.state.usage import RankUsage, Usage, UsageSums, idle_share, usage_by_rank

GIB = 1 << 30
ONE = (Rank(0, devices=(Device(index=0, uuid="a", name="H100", memory=80 * GIB),)),)


def sampled(time: float, *devices: DeviceSample, cpu: float | None = None, rss: int | None = None) -> Sampled:
    return Sampled(
        time=time, agent=0, host="h", devices=devices, ranks=(RankSample(rank=0, cpu=cpu, rss=rss),)
    )


def device(
    util: float | None = None, used: int | None = None, *, uuid: str = "a", total: int | None = 80 * GIB
) -> DeviceSample:
    return DeviceSample(uuid=uuid, util=util, memory_used=used, memory_total=total)


def summed(*samples: Sampled, ranks: tuple[Rank, ...] = ONE) -> RankUsage:
    sums = UsageSums()
    for sample in samples:
        sums.take(sample, ranks)
    (only,) = sums.usage.ranks
    return only


def test_a_sample_stands_for_the_time_since_the_last_one() -> None:
    found = summed(sampled(10, device(100.0)), sampled(11, device(50.0)), sampled(14, device(0.0)))
    assert (found.gpu_s, found.used_s) == (5.0, 1.5)
    assert idle_share([found]) == pytest.approx(0.7)


def test_a_long_gap_is_unknown_and_an_old_sample_tells_only_peaks() -> None:
    found = summed(sampled(10, device(100.0)), sampled(900, device(100.0)), sampled(20, device(0.0, GIB)))
    assert found.gpu_s == 11.0
    assert idle_share([found]) == 0.0
    assert found.memory == GIB


def test_unknown_use_takes_no_time_and_is_never_idle() -> None:
    found = summed(sampled(1, device(None)), sampled(2, device(math.nan)), sampled(3, device(-1.0)))
    assert found.gpu_s == 0.0
    assert idle_share([found]) is None


def test_more_than_all_is_all() -> None:
    assert idle_share([summed(sampled(1, device(250.0)))]) == 0.0


def test_the_peak_is_of_all_gpus_of_a_rank_at_one_moment() -> None:
    two = tuple(Device(index=n, uuid=uuid, name="H100", memory=GIB) for n, uuid in enumerate("ab"))
    first = sampled(1, device(100.0, 7 * GIB), device(50.0, GIB, uuid="b"))
    second = sampled(2, device(100.0, 2 * GIB), device(50.0, 5 * GIB, uuid="b"))
    found = summed(first, second, ranks=(Rank(0, devices=two),))
    assert (found.memory, found.memory_total) == (8 * GIB, 160 * GIB)
    assert (found.gpu_s, found.used_s) == (4.0, 3.0)


def test_processors_and_memory_of_ranks_without_a_gpu() -> None:
    found = summed(
        sampled(1, cpu=150.0, rss=5), sampled(3, cpu=50.0, rss=9), sampled(4, rss=2), ranks=(Rank(0),)
    )
    assert (found.cpu_s, found.core_s, found.rss, found.memory) == (3.0, 2.5, 9, None)


def test_a_rank_that_the_gang_does_not_have_is_left_out() -> None:
    sums = UsageSums()
    sums.take(sampled(1, device(5.0)), ())
    assert sums.usage == Usage(1.0)


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf, 1e308])
def test_a_share_of_garbage_is_unknown_or_a_share(wrong: float) -> None:
    for usages in (
        [RankUsage(0, gpu_s=wrong, used_s=1.0)] * 2,
        [RankUsage(0, gpu_s=1.0, used_s=wrong)],
        [RankUsage(0, gpu_s=wrong, used_s=wrong)] * 2,
    ):
        share = idle_share(usages)
        assert share is None or 0.0 <= share <= 1.0


def test_of_a_rank_that_is_told_twice_the_last_counts() -> None:
    assert usage_by_rank(Usage(0.0, (RankUsage(3, rss=1), RankUsage(3, rss=2)))) == {3: RankUsage(3, rss=2)}
