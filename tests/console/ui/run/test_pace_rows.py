"""Step times, lag and hosts on the run screen: figures of made-up runs, and where they stand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from console.app import RankdeckApp
from console.ui.run.charts import Charts, host_rows, pace_row, pace_rows
from console.ui.run.header import Headline, headline_rows
from console.ui.run.rank_detail import RankDetail
from console.ui.run.rank_grid import RankGrid
from launcher.state import events as ev
from launcher.state.events import HostSample
from tests.console.looking import shown, text
from tests.console.run_views import view_of, words
from tests.console.scripted import Scripted

if TYPE_CHECKING:
    from tests.console.conftest import Until

Open = Callable[..., RankdeckApp]
GIB = 1 << 30


@pytest.fixture
def slow_run(root: Path) -> Scripted:
    """Four ranks on two hosts, of which one is slower, and stumbles once."""
    run = Scripted(root, hosts=("node1", "node2"))
    run.place(1.0)
    facts: list[ev.Event] = []
    for second in range(2, 30):
        for rank in range(4):
            slow = rank == 3
            late = 4.0 if second == 20 and rank == 1 else 0.0
            facts.append(ev.RankReported(time=second + late, rank=rank, step=second * (2 if slow else 4)))
        facts += [
            ev.Sampled(
                time=second + 0.5,
                agent=agent,
                host=f"node{agent + 1}",
                system=HostSample(cpu=40.0, memory_used=171 * GIB, memory_total=512 * GIB, load1=7.0),
            )
            for agent in (0, 1)
        ]
    run.add(*facts)
    return run


def test_the_slowest_rank_and_the_one_behind_are_named(slow_run: Scripted) -> None:
    steps, lag = words(pace_rows(view_of(slow_run)))

    assert steps == "step p50 0.25 s p99 0.5 max 1.25 (r1) r3 ×2.0"
    assert lag.endswith("r3 58 steps behind")


def test_where_all_go_together_nobody_is_named(root: Path) -> None:
    run = Scripted(root)
    run.place(1.0)
    run.add(*(ev.RankReported(time=t, rank=r, step=t * 4) for t in range(2, 9) for r in range(4)))

    steps, lag = words(pace_rows(view_of(run)))
    assert steps == "step p50 0.25 s p99 0.25 max 0.25 (r0)"
    assert lag.endswith("no rank is behind")


def test_nothing_is_said_of_what_nobody_reports(root: Path) -> None:
    run = Scripted(root)
    run.place(1.0)

    assert pace_rows(view_of(run)) == []
    assert pace_row(view_of(run)) == ()
    assert host_rows(view_of(run)) == []


def test_hosts_say_what_they_do(slow_run: Scripted) -> None:
    assert words(host_rows(view_of(slow_run))) == [
        f"{host} 2 ranks CPU 40% RAM 171G of 512G load 7.0" for host in ("node1", "node2")
    ]


def test_an_unknown_figure_of_a_host_is_a_dash(slow_run: Scripted) -> None:
    slow_run.add(ev.Sampled(time=40, agent=0, host="node1", system=HostSample(cpu=3.0)))

    assert words(host_rows(view_of(slow_run)))[0] == "node1 2 ranks CPU 3% RAM – of – load –"


def test_ranks_that_trained_apart_are_a_warning_without_colour_too(root: Path) -> None:
    run = Scripted(root, ranks=2)
    run.place(1.0)
    run.add(*(ev.RankExited(time=3, rank=rank, exit_code=0, signal=None) for rank in range(2)))
    run.add(ev.SeparateTrainings(time=3, ranks=2, frameworks=("torch",), cure="make them meet"))
    run.add(ev.RunEnded(time=3, state="succeeded", exit_code=0, why="2 separate trainings with torch"))

    assert words(headline_rows(view_of(run), 78)) == ["! 2 separate trainings with torch"]


def test_the_headline_has_one_line_where_there_is_little_room(slow_run: Scripted) -> None:
    view = view_of(slow_run)

    assert len(headline_rows(view, 78)) == 1
    assert ", max 1.25 s r1" in words(headline_rows(view, 78))[0]
    assert "p99 0.5" in words(headline_rows(view, 118, tall=True))[1]
    one = replace(view, ranks=view.ranks[:1])
    assert len(headline_rows(one, 118, tall=True)) == 1


async def test_they_stand_where_one_looks(open_app: Open, until: Until, slow_run: Scripted) -> None:
    app = open_app(run=slow_run.folder)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: shown(app))
        await until(pilot, lambda: "p99 0.5" in text(app.screen.query_one(Headline)))
        await pilot.press("2")
        await until(pilot, lambda: "RAM 171G of 512G  load 7.0" in text(app.screen.query_one(RankDetail)))
        await pilot.press("5", "z")
        charts = app.screen.query_one(Charts)
        await until(pilot, lambda: "r3 ×2.0" in text(charts))

        assert "node2" in text(charts)
        assert "s/step 0." in text(charts)


@pytest.mark.parametrize("ended", [False, True])
async def test_lines_of_hosts_say_what_the_host_does_while_it_lasts(
    open_app: Open, until: Until, ended: bool
) -> None:
    app = open_app(ranks=128, seconds=12, until=99.0 if ended else 9.0)
    async with app.run_test(size=(200, 60)) as pilot:
        await until(pilot, lambda: shown(app))
        await pilot.press("1", "z")
        grid = app.screen.query_one(RankGrid)
        await until(pilot, lambda: "kW" in text(grid))

        assert ended is not ("%  61.0G" in text(grid).splitlines()[0])
