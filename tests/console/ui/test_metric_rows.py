"""A sampled metric is one row of the table: with that it is on every screen that shows such figures."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from console.data.cluster.model import ClusterView, GpuView, HostView, Use
from console.data.cluster.query import MapQuery, arranged, charted_metrics, parse_machine_filter
from console.data.ranks.columns import usual_columns
from console.data.run.health import Alarms, AlertInput
from console.data.run.metrics import CLOCK, TABLE, UTIL, Aggregate, Metric, Rule, Source
from console.data.run.model import RankViews, RunView
from console.data.run.progress import Past
from console.ui.cluster.machine_detail import gpu_rows, host_rows
from console.ui.cluster.machines import gpu_row, head_row, host_row
from console.ui.run.charts import gpu_figures, sampled_rows, system_figures
from console.ui.run.rank_cells import CompactRows, compact_lines
from console.ui.run.rank_detail import detail_rows
from console.ui.run.rank_table import RankTable
from console.ui.widgets.rows import Row
from launcher.spec.places import Assignment, Device
from launcher.state import events as ev
from launcher.state.fold import fold_all


def links(amount: float | None) -> str:
    return "no links" if amount is None else f"{amount:.0f}lk"


def tasks(amount: float | None) -> str:
    return "no tasks" if amount is None else f"{amount:.0f}tk"


def per_core(amount: float | None) -> str:
    return "no load" if amount is None else f"{amount:.0f}pc"


LINKS = Metric(
    name="nvlinks", key="nvl", source=Source.DEVICE, field="nvlink_active", together=Aggregate.SUM,
    life=Aggregate.MAX, written=links, top=18.0, keep=8, plot="NVLinks of all ranks",
    rules=(Rule("too few NVLinks", lambda v: v < 4, lambda v: v >= 4, 0.0),),
)  # fmt: skip
TASKS = Metric(
    name="tasks", source=Source.PROCESSES, field="processes", together=Aggregate.SUM, life=Aggregate.MAX,
    written=tasks, top=50.0, keep=8,
)  # fmt: skip
BUSY = Metric(
    name="pressure", source=Source.HOST, field="load1", together=Aggregate.MEAN, life=None,
    written=per_core, keep=8,
)  # fmt: skip


@pytest.fixture(autouse=True)
def _more_rows(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setattr(TABLE, "rows", (*TABLE.rows, LINKS, TASKS, BUSY))
        yield


def told(row: Row) -> str:
    return "".join(text for text, _ in row)


def all_of(rows: list[Row]) -> str:
    return "\n".join(map(told, rows))


def view(*, devices: bool) -> RunView:
    """Two ranks of one host, after two seconds of samples: 7 and 3 links, 5 and 6 processes."""
    own = [(Device(rank, f"GPU-{rank}", "H100"),) if devices else () for rank in range(2)]
    places = tuple(
        Assignment(
            rank=rank, world_size=2, local_rank=rank, local_world_size=2, node_rank=0, node_count=1,
            agent=0, host="gpu-1", devices=own[rank], threads=1,
        )
        for rank in range(2)
    )  # fmt: skip
    submitted = ev.RunSubmitted(time=1.0, name="t", target="t.py:main", mode="local", num_processes=2)
    facts: list[ev.Event] = [
        submitted,
        ev.AgentJoined(time=1.0, agent=0, host="gpu-1", pid=9),
        ev.GangPlaced(time=1.5, ranks=places),
        *(ev.RankStarted(time=2.0, rank=rank, pid=rank + 9) for rank in range(2)),
        *map(sampled, (3.0, 4.0)),
    ]
    state, past = fold_all(facts), Past()
    past.take(facts, state)
    ranks = RankViews().of(state, now=4.0, written={}, past=past.history, step_s=None, life=past.life)
    return RunView(state, 4.0, ranks, past.progress(state, 4.0))


def sampled(time: float) -> ev.Sampled:
    devices = [
        ev.DeviceSample(uuid=f"GPU-{rank}", index=rank, nvlink_active=count, sm_clock_mhz=1980)
        for rank, count in enumerate((7, 3))
    ]
    ranks = [ev.RankSample(rank=rank, processes=5 + rank) for rank in range(2)]
    system = ev.HostSample(cpu=5.0, load1=2.0)
    return ev.Sampled(
        time=time, agent=0, host="gpu-1", system=system, devices=tuple(devices), ranks=tuple(ranks)
    )


@pytest.mark.parametrize(
    ("metric", "devices", "texts"), [(LINKS, True, ("7lk", "3lk")), (TASKS, False, ("5tk", "6tk"))]
)
def test_it_is_a_column_a_choice_and_a_detail_of_each_rank(
    metric: Metric, devices: bool, texts: tuple[str, str]
) -> None:
    run = view(devices=devices)
    first = TABLE.first(devices=devices)

    (column,) = (
        c for c in usual_columns(devices=devices, charted=first, hosts=False) if c.title == metric.name
    )  # fmt: skip
    assert texts == tuple(column.text(rank) for rank in run.ranks)
    rows = RankTable().rows(
        list(run.ranks), 140, cursor=None, devices=devices, metric=metric, hosts=run.state.hosts
    )
    assert all(text in told(row) for text, row in zip(texts, rows[1:], strict=True))

    assert metric in TABLE.choices(devices=devices)
    assert [run.ranks[0].figure(metric)] * 2 == run.ranks[0].past.of(metric, 9)
    assert f" {metric.name}" in (detail := all_of(detail_rows(run.ranks[1], 60)))
    assert texts[1] in detail


def test_ranks_and_hosts_are_summed_up() -> None:
    run = view(devices=True)

    assert gpu_figures(run.ranks).endswith(" 10lk")
    lines = compact_lines(run.ranks, 160)
    (row,) = CompactRows().rows(lines, 160, cursor=(0, 1), metric=LINKS, hosts=run.state.hosts)
    assert " 10lk " in told(row)
    assert system_figures(run.state.hosts[0]).endswith("load 2.0  pressure 2pc")


def test_all_ranks_are_charted() -> None:
    assert "NVLinks of all ranks" in all_of(sampled_rows(view(devices=True), 80))


def test_its_thresholds_alarm() -> None:
    looked = [AlertInput(rank.rank.rank, rank.figures) for rank in view(devices=True).ranks]

    assert [("too few NVLinks", 1)] == [(alert.what, alert.rank) for alert in Alarms().look(1.0, looked)]


def test_gpus_and_machines_show_it_and_are_sought_by_it() -> None:
    samples = sampled(3.0)
    gpus = tuple(
        GpuView(Device(n, sample.uuid, "H100"), sample, Use.FREE) for n, sample in enumerate(samples.devices)
    )
    assert samples.system is not None
    host = HostView("gpu-1", system=samples.system, gpus=gpus)

    assert LINKS in charted_metrics()
    assert "nvlinks" in told(head_row(120, LINKS))
    assert "nvl" in told(head_row(120, UTIL)).split()
    assert "7lk" in told(gpu_row(gpus[0], 120, UTIL))
    assert " nvlinks    7lk" in all_of(list(gpu_rows(host, gpus[0], 80)))
    assert " pressure   2pc" in all_of(list(host_rows(host, 80)))
    cluster = ClusterView((host,))
    item = arranged(cluster, MapQuery())[0]
    assert "pressure 2pc" in told(host_row(item, "gpu-1", 120, UTIL, 2))

    sought = arranged(cluster, MapQuery(parse_machine_filter("nvl>5"), unfolded=True))
    assert [gpus[0]] == [item.gpu for item in sought if item.gpu]


def test_a_row_without_importance_has_a_column_only_while_it_is_charted() -> None:
    def titles(charted: Metric) -> list[str]:
        return [column.title for column in usual_columns(devices=True, charted=charted, hosts=False)]

    assert "clock" not in titles(UTIL)
    assert "clock" in titles(CLOCK)
    assert "1980MHz" in CLOCK.written(view(devices=True).ranks[0].amount(CLOCK))
