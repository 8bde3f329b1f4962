"""A filter or a search that would never end: the console answers, says so, and takes the next one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from console.app import RankdeckApp
from console.ui.logs.pane import LogPane
from console.ui.run.rank_grid import RankGrid
from console.ui.run.screen import RunScreen
from tests.console.scripted import Scripted

if TYPE_CHECKING:
    from tests.console.conftest import Until

Open = Callable[..., RankdeckApp]
ENDLESS = "(a|aa)+$"


@pytest.fixture
def run(root: Path) -> Path:
    """A run whose ranks said things that some expressions stumble over."""
    scripted = Scripted(root)
    scripted.place(1.0)
    endless = "a" * 200 + "!\n"
    scripted.add((2.0, 0, "at first\n"), *((3.0, r, endless) for r in range(4)), (4.0, 0, "last\n"))
    scripted.writer.close()
    return scripted.folder


def shown(app: RankdeckApp) -> bool:
    view = app.screen.view if isinstance(app.screen, RunScreen) else None
    return view is not None and bool(view.ranks) and view.logs.lines == 6


def titled(app: RankdeckApp, *texts: str) -> bool:
    return all(text in (app.screen.query_one(LogPane).border_title or "") for text in texts)


def told(app: RankdeckApp) -> list[str]:
    return [notice.message for notice in app._notifications]


@pytest.mark.parametrize("way", ["filter", "search"])
async def test_it_is_given_up_and_the_next_one_works(
    open_app: Open, until: Until, run: Path, way: str
) -> None:
    app = open_app(run=run)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: shown(app))
        pane = app.screen.query_one(LogPane)
        begin = pane.filter_by if way == "filter" else pane._begin_search
        for count in (1, 2):
            begin(ENDLESS)
            await until(pilot, lambda count=count: len(told(app)) == count)  # type: ignore[misc]
            assert "takes too long" in told(app)[-1]
            await until(pilot, lambda: titled(app, ENDLESS, "given up at 0%"))
        begin("first|last")

        await until(pilot, lambda: titled(app, "2 kept" if way == "filter" else "2/2"))
        assert len(told(app)) == 2


async def test_keys_are_answered_while_it_looks(open_app: Open, until: Until, run: Path) -> None:
    """With an engine that holds the interpreter this would never end."""
    app = open_app(run=run)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: shown(app))
        app.screen.query_one(LogPane).filter_by(ENDLESS)
        await pilot.press("1", "j", "j")

        assert app.screen.query_one(RankGrid).cursor == 2


async def test_a_screen_that_is_left_waits_for_no_filter(open_app: Open, until: Until, run: Path) -> None:
    app = open_app(run=run)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: shown(app))
        screen = app.screen
        assert isinstance(screen, RunScreen)
        screen.query_one(LogPane).filter_by(ENDLESS)
        await pilot.press("escape", "escape")

        await until(pilot, lambda: not screen._feed.poller._thread.is_alive())
