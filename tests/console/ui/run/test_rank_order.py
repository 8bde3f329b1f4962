"""The ranks' pane with a filter and an order: keys, the mouse, small terminals, cells, and chosen columns."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from console.app import RankdeckApp
from console.demo import record_demo
from console.settings import ConsoleSettings
from console.ui.run.rank_detail import RankDetail
from console.ui.run.rank_filter import RankFilter
from console.ui.run.rank_grid import RankGrid
from console.ui.run.screen import RunScreen
from launcher.state import events as ev
from tests.console.looking import shown, text
from tests.console.scripted import Scripted
from tests.console.terminals import Pty

if TYPE_CHECKING:
    from tests.console.conftest import FakeCommands, Until

SIZES = [(50, 14), (80, 24), (120, 40), (200, 60)]
Open = Callable[..., RankdeckApp]


def grid_of(app: RankdeckApp) -> RankGrid:
    return app.screen.query_one(RankGrid)


def order(app: RankdeckApp) -> list[int]:
    return [view.rank.rank for view in grid_of(app)._order]


def title(app: RankdeckApp) -> str:
    return str(grid_of(app).border_title)


def uneven(root: Path, ranks: int = 6) -> Scripted:
    """Ranks on three hosts; rank 4 has failed, and the loss of each is its number."""
    run = Scripted(root, ranks=ranks)
    run.place(2.0)
    run.add(
        *(
            ev.RankReported(time=5.0, rank=r, step=80 + r % 3, metrics={"loss": float(r), "a\\x1b]0;b": 1.0})
            for r in range(ranks)
        )
    )
    run.fail(9.0, 4)
    run.writer.close()
    return run


@pytest.mark.parametrize("size", SIZES)
async def test_keys_sort_by_each_column_and_back(
    open_app: Open, until: Until, root: Path, size: tuple[int, int]
) -> None:
    app = open_app(run=uneven(root).folder)
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: shown(app))
        await pilot.press("1", "g", "j")
        await pilot.press("o")
        assert " · by state ↓" in title(app)
        assert 4 == order(app)[0]
        assert 1 == grid_of(app).cursor == app.screen.query_one(RankDetail).rank, "it stays on its rank"
        seen = []
        for _ in range(30):
            if "by" not in title(app):
                break
            seen.append(title(app).rpartition("by ")[2])
            await pilot.press("o")
        assert "step ↓" in seen or size[0] == 50
        assert [0, 1, 2, 3, 4, 5] == order(app)
        await pilot.press("O")
        assert [5, 4, 3, 2, 1, 0] == order(app)
        assert title(app).endswith("by rank ↓")
        assert text(grid_of(app)).splitlines()[0].lstrip().startswith("↓rank")


@pytest.mark.parametrize("size", SIZES)
async def test_a_filter_is_typed_corrected_and_removed(
    open_app: Open, until: Until, root: Path, size: tuple[int, int]
) -> None:
    app = open_app(run=uneven(root).folder)
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: shown(app))
        await pilot.press("1", "f", *"loss>1 foo>3")
        assert app.screen.query_one(RankFilter).display
        assert "✗ no rank has a figure 'foo'" in str(app.screen.query_one("RankFilter .wrong").render())
        await pilot.press(*["backspace"] * 6)
        assert [2, 3, 4, 5] == order(app)
        await pilot.press("enter")
        await pilot.pause()
        assert not app.screen.query_one(RankFilter).display
        assert grid_of(app).has_focus
        assert "1 Ranks · 4 of 6" in title(app)
        assert "loss>1" in str(grid_of(app).border_subtitle)
        assert 4 == grid_of(app).cursor, "the failed one is among them"
        await pilot.press("g", "]", "]", "]", "]")
        assert 2 == grid_of(app).cursor, "around, from one listed rank to the next"
        await pilot.press("f", *"gone")
        assert [] == order(app)
        assert "no rank matches: f changes the filter, esc removes it" in text(grid_of(app)) or size[0] == 50
        await pilot.press("enter", "j", "k", "w", "enter", "m", "s", "s", "o", "O", "]", "G")
        await pilot.press("1", "escape")
        assert isinstance(app.screen, RunScreen), "the first escape removes the filter"
        assert 6 == len(order(app))
        await pilot.press("f", "x", "escape")
        assert 6 == len(order(app))
        await pilot.press("escape")
        assert not isinstance(app.screen, RunScreen)


async def test_a_click_on_a_head_sorts_and_again_the_other_way(
    open_app: Open, until: Until, root: Path
) -> None:
    app = open_app(run=uneven(root).folder)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: shown(app))
        head = text(grid_of(app)).splitlines()[0]
        at = head.index("step") + 2
        await pilot.click(RankGrid, offset=(at + 1, 1))
        assert title(app).endswith("by step ↓")
        first = order(app)
        head = text(grid_of(app)).splitlines()[0]
        assert "↓step" in head
        await pilot.click(RankGrid, offset=(head.index("step") + 2, 1))
        assert title(app).endswith("by step ↑")
        assert first != order(app)
        await pilot.click(RankGrid, offset=(5, 1))
        assert [0, 1, 2, 3, 4, 5] == order(app)


async def test_the_feed_sorts_and_a_rank_that_fails_is_listed_at_once(
    open_app: Open, until: Until, root: Path
) -> None:
    run = Scripted(root, ranks=4)
    run.place(2.0)
    app = open_app(run=run.folder)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: shown(app))
        await pilot.press("1", "f", *"state:failed", "enter")
        assert [] == order(app)
        run.fail(9.0, 2)
        await until(pilot, lambda: order(app) == [2])
        view = grid_of(app).view
        assert view is not None
        assert view.listing is not None
        assert view.listing.query is grid_of(app).asked, "listed in the feed's thread"
        assert 2 == grid_of(app).cursor
    run.writer.close()


async def test_cells_are_sorted_and_a_filter_that_leaves_few_makes_them_a_table(
    open_app: Open, until: Until
) -> None:
    app = open_app(ranks=1024, seconds=12)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: shown(app))
        await pilot.press("1", "o", "o", "o", "o")
        assert not grid_of(app).is_table
        assert " · by step ↓" in title(app)
        await pilot.press("f", *"rank:100-131 rank>101", "enter")
        assert grid_of(app).is_table
        assert "1 Ranks · 30 of 1,024" in title(app)
        assert 102 <= grid_of(app).cursor <= 131
        await pilot.press("g", "j")
        assert grid_of(app).cursor == order(app)[1]
        await pilot.press("f", *"rank<900", "enter", "o", "j", "l", "G", "w", "g")
        assert 900 == len(order(app))
        assert not grid_of(app).is_table
        await pilot.press("escape")
        assert 1024 == len(order(app))


async def test_columns_are_those_of_the_settings(
    root: Path, project: Path, commands: FakeCommands, until: Until
) -> None:
    run = record_demo(root, seconds=20)
    settings = ConsoleSettings(columns={"ranks": ("loss", "state", "mem", "host", "a\x1b]0;x")})
    app = RankdeckApp(root=root, workdir=project, open_run=run, commands=commands, settings=settings)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: shown(app))
        head, *rows = text(grid_of(app)).splitlines()
        assert ["rank", "loss", "state", "mem", "host"] == head.split()[:5]
        assert "gpu-01" in rows[1]
        await pilot.press("1", "o")
        assert " · by loss ↓" in title(app)
        await pilot.resize_terminal(50, 14)
        await pilot.pause()
        assert ["rank", "↓loss", "state", "mem", "host"] == text(grid_of(app)).splitlines()[0].split()[:5]
        await pilot.resize_terminal(30, 14)
        await pilot.pause()
        assert ["rank", "↓loss", "state"] == text(grid_of(app)).splitlines()[0].split()


@pytest.mark.terminal
@pytest.mark.process
def test_the_keys_work_in_a_terminal(home: Path) -> None:
    run = uneven(home / "runs").folder
    command: list[str | Path] = [Path(sys.executable).with_name("rankdeck"), "attach", run.name]
    with Pty(command, columns=100, rows=30) as terminal:
        terminal.await_text("1 Ranks")
        terminal.press("1")
        terminal.press("o")
        terminal.await_text("by state")
        terminal.press("f")
        terminal.await_text("state:failed, gpu<50")
        terminal.press("loss>4\r")
        terminal.await_text("1 of 6")
        terminal.press("q")
