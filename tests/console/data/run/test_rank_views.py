"""Every rank as it is seen now."""

from __future__ import annotations

from console.data.run.figures import History
from console.data.run.model import RankViews, RunView, one_a_gpu
from console.data.run.progress import Past
from launcher.spec.places import Assignment, Device
from launcher.state import events as ev
from launcher.state.fold import fold_all
from launcher.state.run_state import RunState


def gang(*steps: int) -> RunState:
    """A running gang whose ranks reported these steps at 10.0."""
    size = len(steps)
    places = tuple(
        Assignment(
            rank=rank, world_size=size, local_rank=rank, local_world_size=size, node_rank=0,
            node_count=1, agent=0, host="gpu-1", devices=(), threads=1,
        )
        for rank in range(size)
    )  # fmt: skip
    started = [ev.RankStarted(time=2.0, rank=rank, pid=rank + 9) for rank in range(size)]
    reported = [
        ev.RankReported(time=10.0, rank=rank, step=step, metrics={}) for rank, step in enumerate(steps)
    ]
    submitted = ev.RunSubmitted(time=1.0, name="t", target="t.py:main", mode="local", num_processes=size)
    return fold_all([submitted, ev.GangPlaced(time=1.5, ranks=places), *started, *reported])


def nothing(_: int) -> History:
    return History()


def test_within_a_second_without_news_all_views_are_the_same_object() -> None:
    views, state = RankViews(), gang(5, 5)

    first = views.of(state, now=12.1, written={0: 12.0}, past=nothing, step_s=None)
    second = views.of(state, now=12.9, written={0: 12.8}, past=nothing, step_s=None)

    assert second is first


def test_the_next_second_makes_only_the_ages_anew() -> None:
    views, state = RankViews(), gang(5, 5)

    first = views.of(state, now=12.5, written={0: 12.0, 1: 12.0}, past=nothing, step_s=None)
    second = views.of(state, now=13.5, written={0: 13.2, 1: 12.0}, past=nothing, step_s=None)

    assert ((0, 0), (0, 1)) == ((first[0].log_age, first[1].log_age), (second[0].log_age, second[1].log_age))
    assert [3, 3] == [view.step_age for view in second]


def test_news_are_seen_at_once() -> None:
    views = RankViews()

    first = views.of(gang(5, 5), now=12.5, written={}, past=nothing, step_s=None)
    second = views.of(gang(5, 3), now=12.6, written={}, past=nothing, step_s=None)

    assert (5, 3) == (first[1].rank.step, second[1].rank.step)
    assert (0.0, 2.0) == (second[0].lag, second[1].lag)


def test_a_past_that_was_read_meanwhile_is_seen_at_once() -> None:
    views, state, past, read = RankViews(), gang(5), Past(), Past()
    sample = ev.RankSample(rank=0, cpu=40.0, processes=1, rss=1)
    read.take([ev.Sampled(time=9.0, agent=0, host="gpu-1", system=None, devices=(), ranks=(sample,))], state)

    first = views.of(state, now=12.5, written={}, past=past.history, step_s=None)
    second = views.of(state, now=12.6, written={}, past=read.history, step_s=None)

    assert (0, 1) == (len(first[0].past), len(second[0].past))


def test_a_gpu_that_ranks_share_counts_once() -> None:
    """In the sums of memory and power, and in how many GPUs there are."""
    gib = 1 << 30
    gpus = [Device(index=i, uuid=f"GPU-{i}", name="NVIDIA H100 80GB HBM3", memory=80 * gib) for i in (0, 1)]
    places = tuple(
        Assignment(
            rank=rank, world_size=4, local_rank=rank, local_world_size=4, node_rank=0, node_count=1,
            agent=0, host="gpu-1", devices=(gpus[rank // 2],),
        )
        for rank in range(4)
    )  # fmt: skip
    figures = [ev.DeviceSample(uuid=gpu.uuid, util=50.0, memory_used=20 * gib, memory_total=80 * gib,
                               power_w=300.0, temperature_c=60.0) for gpu in gpus]  # fmt: skip
    facts = [
        ev.RunSubmitted(time=1.0, name="t", target="t.py", mode="local", num_processes=4),
        ev.AgentJoined(time=1.2, agent=0, host="gpu-1", pid=7),
        ev.GangPlaced(time=1.5, ranks=places),
        *(ev.RankStarted(time=2.0, rank=rank, pid=rank + 9) for rank in range(4)),
        ev.Sampled(time=3.0, agent=0, host="gpu-1", devices=tuple(figures)),
    ]
    state = fold_all(facts)
    ranks = RankViews().of(state, now=3.5, written={}, past=nothing, step_s=None)
    view = RunView(state, 3.5, tuple(ranks))

    assert {"H100 80GB HBM3": 2} == view.device_names
    shown = {metric.name: amount for metric, amount in view.amounts.items()}
    assert 40 * gib in shown.values()
    assert 600.0 in shown.values()
    assert [20 * gib] * 4 == [
        next(v.amount(metric) for metric in view.amounts if v.amount(metric) == 20 * gib) for v in ranks
    ]


def test_ranks_without_gpus_are_no_ranks_that_share_one() -> None:
    ranks = RankViews().of(gang(1, 2, 3), now=3.5, written={}, past=nothing, step_s=None)

    assert list(ranks) == list(one_a_gpu(ranks))
