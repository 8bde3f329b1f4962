"""A person's settings in the console: what they settle holds, and what is wrong is said and harms nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from console.app import RankdeckApp
from console.demo import record_demo
from console.settings import load
from console.ui.launch.screen import LaunchScreen
from console.ui.logs.paint import Times
from console.ui.logs.view import LogView
from launcher.spec.modes import Mode
from tests.console.looking import shown

if TYPE_CHECKING:
    from tests.console.conftest import FakeCommands, Until

Settled = Callable[..., RankdeckApp]


@pytest.fixture
def settled(home: Path, root: Path, project: Path, commands: FakeCommands) -> Settled:
    """Make an app with a config file and own themes, by name and text."""

    def make(config: str, *, run: bool = False, **themes: str) -> RankdeckApp:
        folder = home / "config" / "themes"
        folder.mkdir(parents=True)
        (folder.parent / "config.toml").write_text(config)
        for name, text in themes.items():
            (folder / f"{name}.toml").write_text(text)
        opened = record_demo(root, seconds=20) if run else None
        return RankdeckApp(root=root, workdir=project, open_run=opened, commands=commands, settings=load())

    return make


async def test_an_own_theme_is_taken_and_can_be_left_while_a_run_is_shown(
    settled: Settled, until: Until
) -> None:
    own = 'name = "own"\nprimary = "#ff0000"\nbackground = "#102030"\ndark = true\n'
    app = settled('[console]\ntheme = "own"\n', run=True, own=own)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await until(pilot, lambda: shown(app))
        before = app.screen.styles.background.hex
        await pilot.press("ctrl+p")
        await until(pilot, lambda: type(app.screen).__name__ == "BarScreen")
        await pilot.press("escape")
        app.theme = "paper"
        await pilot.pause()
        after = app.screen.styles.background.hex

        assert (before, after) == ("#102030", "#F8F2E4")
        assert list(app._notifications) == []


async def test_what_is_wrong_is_said_and_the_console_opens(settled: Settled, until: Until) -> None:
    config = '[console]\ntheme = "gone"\nmouse = 3\n[keys]\nnope = "x"\n[engine]\nidle_s = "\\u001b[2J"\n'
    app = settled(config, bad='name = "bad"\nprimary = "[red]no colour"\n', worse="= = =")
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen))
        notes = [note.message for note in app._notifications]

        assert app.theme == "rankdeck-dark"
        assert len(notes) == 6
        assert not any("\x1b" in note for note in notes)
        for said in ("'gone'", "config.toml:3", "nope", "config.toml:7", "bad.toml", "worse.toml"):
            assert any(said in note for note in notes), said


async def test_the_form_begins_as_the_defaults_say(settled: Settled, until: Until) -> None:
    config = '[defaults]\nmode = "cluster"\nnum_processes = 4\nspark = "spark://head:7077"\n'
    app = settled(config)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen))
        screen = app.screen
        assert isinstance(screen, LaunchScreen)
        await until(pilot, lambda: screen.draft.processes == "4")

        assert (screen.draft.mode, screen.draft.spark) == (Mode.CLUSTER, "spark://head:7077")


async def test_logs_begin_with_the_times_that_are_wanted(settled: Settled, until: Until) -> None:
    app = settled('[console]\ntimestamps = "clock"\n', run=True)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: shown(app))

        assert app.screen.query_one(LogView).times is Times.CLOCK
