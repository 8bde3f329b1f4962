"""The help: a sentence for each pane, the keys in groups, and nothing that is cut."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from textual.widgets import Static

from console import ui
from console.app import RankdeckApp
from console.data.finding.own import OwnCommand
from console.settings import ConsoleSettings
from console.ui.finding.help import HelpScreen, Keys, Line, PaneHelp, columns_for, laid_out
from console.ui.finding.prose import PANES, prose_of
from console.ui.history.screen import HistoryScreen
from console.ui.widgets.rows import width_of
from tests.console.looking import shown

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from tests.console.conftest import FakeCommands, Until

Open = Callable[..., RankdeckApp]


async def helped(pilot: Pilot[int], until: Until, *keys: str) -> HelpScreen:
    await pilot.press(*keys, "f1")
    await until(pilot, lambda: isinstance(pilot.app.screen, HelpScreen))
    screen = pilot.app.screen
    assert isinstance(screen, HelpScreen)
    return screen


@pytest.mark.parametrize(
    ("way", "panes"),
    [
        ((), ["Ranks", "Curves and alerts", "Logs", "Result"]),
        (("f4",), ["New run", "Recent runs", "Trainings here", "Preview", "Command"]),
        (("f2",), ["Runs", "Run in full"]),
        (("f3",), ["Machines", "Runs and engines", "In full"]),
    ],
)
async def test_each_pane_that_is_shown_has_its_sentence(
    open_app: Open, until: Until, way: tuple[str, ...], panes: list[str]
) -> None:
    app = open_app(seconds=20)
    async with app.run_test(size=(150, 40)) as pilot:
        await until(pilot, lambda: shown(app))
        await pilot.press(*way)
        await pilot.pause(0.1)
        screen = app.screen
        unknown = [pane for pane in screen.query(".pane") if pane.region and prose_of(pane) is None]
        help_shown = await helped(pilot, until)

        assert [] == unknown, "console/ui/finding/prose.py tells what a pane shows"
        assert panes == [pane.name for pane in help_shown.query_one(Keys).panes]
        assert all(pane.text.endswith(".") for pane in help_shown.query_one(Keys).panes)


def test_every_sentence_is_of_a_pane_that_there_is() -> None:
    modules = [importlib.import_module(m.name) for m in pkgutil.walk_packages(ui.__path__, "console.ui.")]
    classes = {name for module in modules for name, value in vars(module).items() if isinstance(value, type)}

    assert set() == PANES.keys() - classes


class Told(Static):
    """A pane that tells itself what it shows."""

    PROSE = ("Wall", "Every GPU as a bar.")


def test_a_pane_can_tell_itself_what_it_shows() -> None:
    assert ("Wall", "Every GPU as a bar.") == prose_of(Told())
    assert None is prose_of(Static())


async def test_in_a_low_terminal_only_the_pane_with_the_focus_is_told(open_app: Open, until: Until) -> None:
    app = open_app(seconds=20)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: shown(app))
        screen = await helped(pilot, until)

        assert [("Logs", True)] == [(pane.name, pane.here) for pane in screen.query_one(Keys).panes]


@pytest.mark.parametrize("size", [(50, 14), (80, 24), (120, 40), (200, 60)])
async def test_nothing_is_cut_at_any_size(open_app: Open, until: Until, size: tuple[int, int]) -> None:
    app = open_app(seconds=20)
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: shown(app))
        keys = (await helped(pilot, until)).query_one(Keys)
        width = keys.scrollable_content_region.width

        assert all(width_of(row) <= width or not row[-1][0].strip() for row in keys.rows(width))
        assert "…" not in "".join(text for row in keys.rows(width) for text, _ in row)


def test_two_columns_are_better_than_ids_and_a_search_has_ids() -> None:
    assert [(1, False), (1, True), (2, False), (2, True)] == [columns_for(n) for n in (40, 66, 98, 140)]
    assert (1, True) == columns_for(98, searched=True)


def test_a_long_name_wraps_and_loses_no_letter() -> None:
    line = Line("ctrl+alt+shift+f12", "something that takes many words to be told", "commands." + "x" * 32)
    rows = line.rows()

    assert "commands." + "x" * 32 == "".join(row[2][0].strip() for row in rows if row[2:])
    assert "ctrl+alt+shift+f12" == "".join(row[0][0].strip() for row in rows)


def test_what_only_moves_comes_last() -> None:
    lines = [Line("j", "Down", "list.down", "Moving"), Line("x", "Stop", "run.stop", "Run")]
    words = "".join(text for row in laid_out(lines, 1, True) for text, _ in row).split()

    assert ["Run", "x", "Stop", "run.stop", "Moving", "j", "Down", "list.down"] == words


async def test_the_keys_of_the_key_line_come_first(open_app: Open, until: Until) -> None:
    app = open_app(seconds=20)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: shown(app))
        await pilot.press("f2")
        await until(pilot, lambda: isinstance(app.screen, HistoryScreen))
        lines = (await helped(pilot, until)).query_one(Keys).lines
        history = [line.ids for line in lines if line.group == "History"]

        assert ["history.filter", "history.compare", "history.again", "history.edit"] == history[:4]


async def test_a_persons_commands_and_keys_are_told_as_they_are(
    root: Path, project: Path, commands: FakeCommands, until: Until
) -> None:
    own = OwnCommand("code", ("code", "{folder}"), "ctrl+g, alt+c", "the folder in the editor")
    settings = ConsoleSettings(keys={"go.history": "f12"}, commands={"code": own})
    app = RankdeckApp(root=root, workdir=project, commands=commands, settings=settings)
    async with app.run_test(size=(200, 60)) as pilot:
        await until(pilot, lambda: app.screen.query("#target"))
        lines = {line.ids: line for line in (await helped(pilot, until)).query_one(Keys).lines}

        assert "f12" == lines["go.history"].keys
        told = lines["commands.code"]
        assert ("^g alt+c", "the folder in the editor", "Your commands") == (told.keys, told.what, told.group)
        assert not any("Detach" in line.what for line in lines.values()), "no run is open"


def test_a_pane_that_has_the_focus_says_so() -> None:
    pane = PaneHelp("3", "Logs", "What the ranks print.", here=True)

    assert "3  Logs (here): What the ranks print." == "".join(t for t, _ in pane.rows(90)[0]).strip()
