from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from textual.drivers.headless_driver import HeadlessDriver

from console.app import RankdeckApp
from console.data.finding.entry import Kind
from console.data.replay import replay
from console.demo import record_demo
from console.themes import theme_names
from console.ui.finding.bar import BarList, BarScreen
from console.ui.finding.help import _GROUPS, HelpScreen, Keys
from console.ui.launch.panes import CommandLine
from console.ui.launch.screen import LaunchScreen
from console.ui.logs.view import LogView
from console.ui.rendering.pace import is_remote
from console.ui.rendering.terminal import clipboard_sequence
from console.ui.run.rank_grid import RankGrid
from console.ui.run.screen import RunScreen
from console.ui.widgets.fields import Field
from console.ui.widgets.key_line import KeyLine
from tests.console.looking import shown, text

if TYPE_CHECKING:
    from tests.console.conftest import FakeCommands, Until

Open = Callable[..., RankdeckApp]


class CountingDriver(HeadlessDriver):
    """Counts what a terminal would be sent."""

    sent = 0

    @property
    def is_headless(self) -> bool:
        return False

    def write(self, data: str) -> None:
        CountingDriver.sent += len(data.encode())


@pytest.mark.parametrize("theme", [*theme_names(Path("/nonexistent")), "nord", "textual-light"])
async def test_every_theme_paints_both_screens(open_app: Open, until: Until, theme: str) -> None:
    app = open_app(theme=theme, fail=True)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: shown(app))
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen))

        assert app.theme == theme


async def test_an_unknown_theme_is_said_and_the_default_taken(open_app: Open) -> None:
    app = open_app(theme="nope")
    async with app.run_test(notifications=True) as pilot:
        await pilot.pause()

        assert app.theme == "rankdeck-dark"
        assert any("no theme 'nope'" in n.message for n in app._notifications)


async def test_a_theme_can_be_changed_while_a_run_is_shown(open_app: Open, until: Until) -> None:
    app = open_app(seconds=20)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: shown(app))
        before = app.screen.query_one("#header").render_line(0)
        app.theme = "okabe-ito-light"
        await pilot.pause()

        assert app.screen.query_one("#header").render_line(0) != before


async def test_help_lists_the_keys_of_what_has_the_focus(open_app: Open, until: Until) -> None:
    app = open_app(seconds=20)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: shown(app))
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))
        screen = app.screen
        assert isinstance(screen, HelpScreen)
        said = {line.what: line.keys for line in screen._lines}
        top = screen.query_one(Keys).render_line(0).text
        keys_shown = ["".join(text for text, _ in row).strip() for row in screen.query_one(Keys)._rows]
        await pilot.press("escape")

        assert {"Search", "Follow", "Run again", "Zoom", "Copy", "Top", "Leave"} <= set(said)
        assert "Detach" not in said  # the run has ended, and the line below says so too
        assert said["Top"] == "home g"
        assert "…" not in "".join(keys_shown)
        groups = [word for word in keys_shown if word in _GROUPS.values()]
        assert ["Run", "Log", "Go to", "Everywhere"] == groups, "those that only move come last"
        assert {"Page Left", "Page Right", "Scroll Left", "Scroll Right"}.isdisjoint(said)
        assert top.strip()
        assert isinstance(app.screen, RunScreen)


async def test_one_ctrl_c_explains_and_two_leave(
    open_app: Open, until: Until, commands: FakeCommands
) -> None:
    app = open_app(seconds=20)
    async with app.run_test(notifications=True) as pilot:
        await until(pilot, lambda: shown(app))
        await pilot.press("ctrl+c")
        explained = [n.message for n in app._notifications]
        await pilot.press("ctrl+c")

    assert "nothing was stopped" in explained[0]
    assert (app.return_value, commands.stopped) == (0, [])


async def test_resizing_keeps_everything_inside(open_app: Open, until: Until) -> None:
    app = open_app(fail=True)
    async with app.run_test(size=(200, 60)) as pilot:
        await until(pilot, lambda: shown(app))
        for size in ((80, 24), (40, 12), (120, 40), (20, 6), (200, 60)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
            for widget in app.screen.query(".pane"):
                assert widget.region.right <= size[0]


async def test_an_ended_run_sends_nothing_to_the_terminal(open_app: Open, until: Until) -> None:
    app = open_app(seconds=20)
    app.driver_class = CountingDriver
    async with app.run_test(headless=False, size=(120, 40)) as pilot:
        await until(pilot, lambda: shown(app))
        await pilot.pause(1.5)
        before = CountingDriver.sent
        await pilot.pause(2.5)

        assert before > 5000
        assert CountingDriver.sent == before


async def test_a_paused_log_costs_little_however_much_arrives(
    open_app: Open, until: Until, root: Path, tmp_path: Path
) -> None:
    live = replay(record_demo(tmp_path / "recorded"), root, ahead_s=30)
    app = open_app(run=live.run)
    app.driver_class = CountingDriver
    async with app.run_test(headless=False, size=(120, 40)) as pilot:
        await until(pilot, lambda: shown(app))
        await pilot.press("3", "g", "z")
        await until(pilot, lambda: not app.screen.query_one(LogView).follow)
        await pilot.pause(0.5)
        before = CountingDriver.sent
        await pilot.pause(2.0)
        sent = CountingDriver.sent - before

    live.stop()
    assert live.join(10)
    assert 0 < sent < 6000


def test_the_clipboard_takes_what_a_terminal_takes() -> None:
    assert clipboard_sequence("ab") == "\x1b]52;c;YWI=\a"
    assert clipboard_sequence("x" * 60_000) is None


def test_ssh_is_known_by_its_variables() -> None:
    assert is_remote({"SSH_TTY": "/dev/pts/1"})
    assert not is_remote({"TERM": "xterm"})


def test_over_ssh_textual_paints_seldom_and_runs_do_not_inherit_it() -> None:
    code = (
        "import os, console.app, textual.constants as c;"
        "print(c.MAX_FPS, c.TEXTUAL_ANIMATIONS, 'TEXTUAL_FPS' in os.environ)"
    )
    env = {**os.environ, "SSH_TTY": "/dev/pts/9"}

    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["15", "none", "False"]


async def test_a_click_picks_a_rank_and_a_second_one_opens_its_log(open_app: Open, until: Until) -> None:
    app = open_app(seconds=20)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: shown(app))
        await pilot.pause()
        await pilot.click(RankGrid, offset=(10, 9))
        picked = app.screen.query_one(RankGrid).cursor
        await pilot.click(RankGrid, offset=(10, 7))
        of_host = app.screen.query_one(RankGrid).cursor
        await pilot.click(RankGrid, offset=(10, 9), times=2)
        await pilot.pause()

        assert (5, 4) == (picked, of_host), "a host's line stands for its first rank"
        assert app.screen.query_one(LogView).rank == 5


async def test_a_theme_that_is_picked_says_how_to_keep_it(open_app: Open, until: Until) -> None:
    app = open_app()
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen))
        app.search_themes()
        await until(pilot, lambda: isinstance(app.screen, BarScreen) and app.screen.complete)
        kinds = {entry.kind for entry in app.screen.query_one(BarList).items}
        await pilot.press(*"okabe-ito-l", "enter")
        await until(pilot, lambda: any('theme = "okabe-ito-light"' in n.message for n in app._notifications))

        assert {Kind.THEME} == kinds
        assert app.theme == "okabe-ito-light"


async def test_f1_shows_the_keys_everywhere_and_a_question_mark_in_an_empty_field(
    open_app: Open, until: Until
) -> None:
    app = open_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.screen.query("#target"))
        target = app.screen.query_one("#target", Field)
        await until(pilot, lambda: target.has_focus)
        for pressed in (("f1",), ("question_mark",), ("ctrl+f", "f1")):
            await pilot.press(*pressed)
            await until(pilot, lambda: isinstance(app.screen, HelpScreen))
            await pilot.press("f1")
            await until(pilot, lambda: not isinstance(app.screen, HelpScreen))
        await pilot.press("escape")
        await until(pilot, lambda: target.has_focus)
        await pilot.press(*"a?")

        assert "a?" == target.value


async def test_while_one_types_the_keys_that_are_said_are_not_letters(open_app: Open, until: Until) -> None:
    app = open_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: app.screen.query("#target"))
        command = app.screen.query_one(CommandLine)
        await pilot.press(*"score.py")
        await until(pilot, lambda: "ready" in text(command))
        typing = text(command)
        keys = app.screen.query_one(KeyLine).render_line(0).text
        await pilot.press("escape")
        await until(pilot, lambda: "p checks" in text(command))

    assert "f5 checks" in typing
    assert keys.rstrip().endswith("f1 Help")
