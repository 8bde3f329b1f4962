"""What differs where a slow rank runs, and whether GPUs wait for data: told only from known figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from console.data.run.figures import Histories, charted, sampled_figures
from console.data.run.model import Progress, RankViews, RunView
from console.data.run.step_times import Paces
from console.data.run.stragglers import differences, loader_line
from launcher.spec.places import Assignment, Device
from launcher.state import events as ev
from launcher.state.fold import fold_all

GPU = ev.DeviceSample(uuid="", util=90.0, sm_clock_mhz=1980, throttle=(), nvlink_active=18)
HOT = replace(GPU, throttle=("hot",))
HOST = ev.HostSample(cpu=40.0, steal=0.0)


def run(
    gpus: Sequence[ev.DeviceSample | None],
    hosts: Sequence[ev.HostSample] = (HOST, HOST, HOST),
    samples: int = 1,
    ended: int | None = None,
    step_s: float | None = 0.2,
    **figures: Any,
) -> RunView:
    """A view of ranks on hosts of their own, after so many samples of this kind."""
    size = len(gpus)
    places = tuple(Assignment(r, size, 0, 1, r, size, r, f"h{r}", (Device(0, f"G{r}"),)) for r in range(size))
    facts: list[ev.Event] = [
        *(ev.AgentJoined(time=1.0, agent=r, host=f"h{r}", pid=1) for r in range(size)),
        ev.GangPlaced(time=1.0, ranks=places),
        *(ev.RankStarted(time=1.0, rank=r, pid=2) for r in range(size)),
    ]
    histories = Histories()
    for rank, gpu in enumerate(gpus):
        devices = () if gpu is None else (replace(gpu, uuid=f"G{rank}"),)
        sample = ev.RankSample(rank=rank, **{"cpu": 380.0, "processes": 5, **figures})
        facts.append(
            ev.Sampled(
                time=2.0, agent=rank, host=f"h{rank}", system=hosts[rank], devices=devices, ranks=(sample,)
            )
        )
        for _ in range(samples):
            histories.take(rank, charted(sampled_figures(devices, sample, 0.0)))
    if ended is not None:
        facts.append(ev.RankExited(time=3.0, rank=ended, exit_code=0))
    state = fold_all(facts)
    views = RankViews().of(state, now=3.0, written={}, past=histories.of, step_s=step_s)
    return RunView(state=state, now=3.0, ranks=views, progress=Progress(step_s=step_s))


@pytest.mark.parametrize(
    ("gpu", "host", "told"),
    [
        (replace(GPU, sm_clock_mhz=1200), HOST, "GPU clock 1200 MHz, others 1980"),
        (replace(GPU, throttle=("hot",)), HOST, "GPU throttled: hot"),
        (replace(GPU, nvlink_active=12), HOST, "12 NVLinks up, others 18"),
        (GPU, replace(HOST, steal=20.0), "20% of its host's CPU stolen, others 0%"),
        (GPU, replace(HOST, cpu=99.0), "its host's CPU 99% busy, others 40%"),
    ],
)
def test_a_difference_is_told_with_both_figures(gpu: ev.DeviceSample, host: ev.HostSample, told: str) -> None:
    view = run([GPU, gpu, GPU], [HOST, host, HOST])
    assert (told,) == differences(view, 1)
    assert () == differences(view, 0)


@pytest.mark.parametrize(
    ("slow", "others"),
    [
        pytest.param(GPU, GPU, id="nothing differs"),
        pytest.param(None, GPU, id="its figures are unknown"),
        pytest.param(replace(HOT, sm_clock_mhz=1200), replace(HOT, sm_clock_mhz=1190), id="all are slow"),
        pytest.param(replace(GPU, sm_clock_mhz=300, util=0.0), GPU, id="an idle GPU has a low clock"),
    ],
)  # fmt: skip
def test_where_nothing_is_known_to_differ_nothing_is_told(
    slow: ev.DeviceSample | None, others: ev.DeviceSample
) -> None:
    assert () == differences(run([others, slow, others]), 1)


def test_a_rank_that_has_ended_is_compared_with_nobody() -> None:
    slow = replace(GPU, sm_clock_mhz=1200)
    assert () == differences(run([slow, GPU], ended=1), 0)


IDLE = replace(GPU, util=20.0)


def test_gpus_that_wait_while_loaders_work_are_warned_of_with_the_evidence() -> None:
    assert (
        "GPUs are idle between steps, 20% in use, while each rank's processes take 380% of a core:"
        " its data loader may be the limit"
    ) == loader_line(run([IDLE, IDLE], samples=30))


@pytest.mark.parametrize(
    "view",
    [
        pytest.param(run([IDLE, IDLE], samples=29), id="too few samples"),
        pytest.param(run([IDLE, replace(IDLE, util=None)], samples=30), id="one GPU's use is unknown"),
        pytest.param(run([IDLE, IDLE], samples=30, cpu=None), id="the CPU's use is unknown"),
        pytest.param(run([IDLE, IDLE], samples=30, processes=None), id="the processes are unknown"),
        pytest.param(run([IDLE, IDLE], samples=30, processes=1), id="there are no workers"),
        pytest.param(run([IDLE, IDLE], samples=30, cpu=20.0), id="nobody works"),
        pytest.param(run([GPU, GPU], samples=30), id="the GPUs are in use"),
        pytest.param(run([IDLE, IDLE], samples=30, step_s=None), id="no steps"),
    ],
)
def test_without_the_evidence_no_loader_is_blamed(view: RunView) -> None:
    assert "" == loader_line(view)


def test_a_rank_that_has_ended_is_not_the_slow_one() -> None:
    paces = Paces()
    for n in range(1, 5):
        paces.reported(0, n, n * 1.0)
        paces.reported(1, n, n * 2.0)
        paces.reported(2, n, n * 1.5)
    times = paces.times(frozenset({0, 1, 2}))
    assert times is not None
    assert 1 == times.slow_rank
    times = paces.times(frozenset({0, 2}))
    assert times is not None
    assert (2, 2) == (times.slow_rank, times.most_rank)
    assert paces.times(frozenset()) == paces.times(frozenset({0, 1, 2}))
