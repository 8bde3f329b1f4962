"""Terminals that show ASCII only, or no colours: what every screen sends them."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from textual.drivers.headless_driver import HeadlessDriver
from textual.filter import Monochrome, NoColor
from textual.screen import Screen

from console import ui
from console.app import RankdeckApp
from console.data.launch.draft import Draft
from console.data.replay import replay
from console.demo import record_demo
from console.settings import ConsoleSettings
from console.ui.dialogs import StartScreen
from console.ui.history.compare import ComparisonScreen
from console.ui.launch.screen import LaunchScreen
from console.ui.run.rank_cells import GLYPHS
from console.ui.run.rank_grid import RankGrid
from console.ui.run.screen import RunScreen
from console.ui.run.stacks import StacksScreen
from console.ui.widgets.rows import Sheet
from tests.console.looking import shown

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from tests.console.conftest import FakeCommands, Until

ROUTES: dict[str, tuple[str, ...]] = {
    "HelpScreen": ("question_mark",),
    "CurvesScreen": ("c",),
    "ManualScreen": ("question_mark", "m"),
    "ConfirmScreen": ("x",),
    "LaunchScreen": ("escape",),
    "PickerScreen": ("escape", "ctrl+f"),
    "PreflightScreen": ("escape", "escape", "p"),
    "SaveScreen": ("escape", "escape", "s"),
    "PresetsScreen": ("escape", "escape", "o"),
    "HistoryScreen": ("f2",),
    "ClusterScreen": ("f3",),
    "BarScreen": ("ctrl+p",),
    "JumpScreen": ("ctrl+o",),
}
"""From a run that goes on, which is a screen too: the keys that lead to every other one."""

MADE: dict[str, Callable[[RunScreen, Path], Screen[Any]]] = {
    "ComparisonScreen": lambda shown, other: ComparisonScreen([shown.run, other]),
    "StartScreen": lambda shown, other: StartScreen([("run", other.name)]),
    "StacksScreen": lambda shown, other: StacksScreen(shown.view, shown.run) if shown.view else shown,
}
"""Screens that need more than keys: how they are made from a run that is shown, and another one."""

SGR = re.compile(r"\x1b\[([\d;:]*)m")


class Terminal(HeadlessDriver):
    """Keeps what a terminal would be sent."""

    sent = ""

    @property
    def is_headless(self) -> bool:
        return False

    def write(self, data: str) -> None:
        Terminal.sent += data


@pytest.fixture
def opened(root: Path, project: Path, commands: FakeCommands) -> Callable[..., RankdeckApp]:
    """Make an app whose terminal is kept, with a run of 8 ranks."""

    def make(
        settings: ConsoleSettings | None = None, run: Path | None = None, *, fail: bool = False
    ) -> RankdeckApp:
        run = run or record_demo(root, seconds=20, fail=fail)
        draft = Draft(target="score.py", workdir=project)
        app = RankdeckApp(
            root=root, workdir=project, open_run=run, draft=draft, commands=commands, settings=settings
        )
        app.driver_class = Terminal
        Terminal.sent = ""
        return app

    return make


async def run_shown(app: RankdeckApp, pilot: Pilot[int], until: Until) -> None:
    await until(pilot, lambda: shown(app))
    await pilot.pause()


def screens() -> set[str]:
    """Every screen that the console has."""
    modules = pkgutil.walk_packages(ui.__path__, "console.ui.")
    found = (
        value
        for module in modules
        for value in vars(importlib.import_module(module.name)).values()
        if isinstance(value, type) and issubclass(value, Screen) and value.__module__ == module.name
    )
    every = set(found)
    return {screen.__name__ for screen in every if not every & set(screen.__subclasses__())}


def test_there_is_a_way_to_every_screen() -> None:
    on_the_way_to_all = {"Outline", "RunScreen"}
    assert screens() - {*on_the_way_to_all, *MADE} <= set(ROUTES)


@pytest.mark.parametrize("screen", ["RunScreen", *ROUTES])
async def test_every_screen_is_drawn_in_ascii(
    opened: Callable[..., RankdeckApp], until: Until, root: Path, tmp_path: Path, screen: str
) -> None:
    live = replay(record_demo(tmp_path / "recorded"), root, ahead_s=30)
    app = opened(ConsoleSettings(ascii=True), run=live.run)
    async with app.run_test(headless=False, size=(80, 24)) as pilot:
        await run_shown(app, pilot, until)
        await pilot.press(*ROUTES.get(screen, ()))
        await until(pilot, lambda: type(app.screen).__name__ == screen)
        await pilot.pause()
    live.stop()
    assert live.join(10)

    assert len(Terminal.sent) > 2000
    assert {c for c in Terminal.sent if not c.isascii()} == set()


@pytest.mark.parametrize("screen", MADE)
async def test_screens_that_need_more_than_keys_are_drawn_in_ascii(
    opened: Callable[..., RankdeckApp], until: Until, tmp_path: Path, screen: str
) -> None:
    app = opened(ConsoleSettings(ascii=True), fail=True)
    async with app.run_test(headless=False, size=(80, 24)) as pilot:
        await run_shown(app, pilot, until)
        assert isinstance(app.screen, RunScreen)
        await app.push_screen(MADE[screen](app.screen, record_demo(tmp_path / "other", seconds=20)))
        await app.workers.wait_for_complete()
        await until(
            pilot, lambda: app.screen.query(".answers") or any(s._rows for s in app.screen.query(Sheet))
        )
        await pilot.pause()

    assert {c for c in Terminal.sent if not c.isascii()} == set()


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_a_failed_run_is_drawn_in_ascii(
    opened: Callable[..., RankdeckApp], until: Until, size: tuple[int, int]
) -> None:
    app = opened(ConsoleSettings(ascii=True), fail=True)
    async with app.run_test(headless=False, size=size, notifications=True) as pilot:
        await run_shown(app, pilot, until)
        await pilot.press("4", "y")
        await pilot.pause()

    assert {c for c in Terminal.sent if not c.isascii()} == set()


async def test_unicode_is_drawn_where_it_can_be(opened: Callable[..., RankdeckApp], until: Until) -> None:
    app = opened()
    async with app.run_test(headless=False, size=(80, 24)) as pilot:
        await run_shown(app, pilot, until)

    assert {"│", "✓"} <= set(Terminal.sent)


@pytest.mark.parametrize("fail", [False, True])
async def test_no_color_sends_no_colour(
    opened: Callable[..., RankdeckApp], until: Until, monkeypatch: pytest.MonkeyPatch, fail: bool
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    app = opened(fail=fail)
    async with app.run_test(headless=False, size=(120, 40), notifications=True) as pilot:
        await run_shown(app, pilot, until)
        await pilot.press("1", "j", "y", "3", "question_mark")
        await pilot.pause()
        await pilot.press("escape", "escape")
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen))

    codes = {part for found in SGR.findall(Terminal.sent) for part in re.split("[;:]", found)}
    assert codes <= {"", "0", "1", "2", "3", "4", "7", "9", "21", "22", "23", "24", "27", "29", "39", "49"}
    assert {"1", "7"} <= codes


async def test_an_empty_no_color_is_none(
    opened: Callable[..., RankdeckApp], until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "")
    app = opened()
    async with app.run_test(headless=False, size=(80, 24)) as pilot:
        await run_shown(app, pilot, until)

        assert not app.no_color
        assert not [f for f in app.get_line_filters() if isinstance(f, (Monochrome, NoColor))]


async def test_every_state_of_a_rank_is_a_glyph_and_a_word(
    opened: Callable[..., RankdeckApp], until: Until
) -> None:
    app = opened(fail=True)
    async with app.run_test(headless=False, size=(120, 40)) as pilot:
        await run_shown(app, pilot, until)
        screen = app.screen
        assert isinstance(screen, RunScreen)
        assert screen.view is not None
        grid = screen.query_one(RankGrid)
        rows = ["".join(text for text, _ in row) for row in grid._rows]

        for view in screen.view.ranks:
            assert any(
                f"{GLYPHS[view.condition]}" in row and f"{view.rank.rank}  {view.condition}" in row
                for row in rows
            )
