"""The first frame, what comes before the second one, and what is typed in between."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyte
import pytest
from textual import events
from textual.widgets import Input

from console.app import RankdeckApp
from console.data.launch.draft import Draft
from console.demo import record_demo
from console.settings import ConsoleSettings
from console.ui.launch.more import MoreForm
from console.ui.launch.outline import Outline
from console.ui.launch.screen import LaunchScreen
from console.ui.launch.workbench.reader import FolderReader
from console.ui.logs.pane import LogPane
from console.ui.run.screen import RunScreen
from console.ui.widgets.fields import Choice, Field
from launcher.spec.modes import Mode
from tests.commands import until as until_so
from tests.console.terminals import Pty

if TYPE_CHECKING:
    from rich.style import Style

    from tests.console.conftest import FakeCommands, Until

ROOT = Path(__file__).parents[2]
PLACES = ("banner", "form", "recent", "command")
SIZES = [(60, 15), (80, 24), (149, 30), (150, 30), (120, 40), (200, 60)]
Cell = tuple[str, str]


class Waiting(RankdeckApp):
    """The console as at a terminal; it imports its screens when it is told to."""

    CSS_PATH = str(ROOT / "console" / "console.tcss")

    def __init__(self, root: Path, project: Path, commands: FakeCommands, **more: object) -> None:
        super().__init__(root=root, workdir=project, commands=commands, paint_first=True, **more)  # type: ignore[arg-type]
        self.may_open = threading.Event()

    def _import(self) -> None:
        self.may_open.wait()
        super()._import()


Make = Callable[..., Waiting]


@pytest.fixture
def waiting(root: Path, project: Path, commands: FakeCommands) -> Iterator[Make]:
    """Make an app that shows its first frame until `may_open` is set."""
    made: list[Waiting] = []

    def make(**more: object) -> Waiting:
        made.append(Waiting(root, project, commands, **more))
        return made[-1]

    yield make
    for app in made:
        app.may_open.set()


def delivered(app: RankdeckApp) -> bool:
    return app._ahead is not None and app._ahead.delivered


def ready(app: RankdeckApp) -> bool:
    return isinstance(app.screen, LaunchScreen) and delivered(app)


def cells(app: RankdeckApp) -> list[list[Cell]]:
    """Every cell of the screen: its character and how it looks."""
    lines = app.screen._compositor.render_strips(app.size)
    return [[(c, look(segment.style)) for segment in line for c in segment.text] for line in lines]


def look(style: Style | None) -> str:
    return "" if style is None else str(style.clear_meta_and_links())


def target(app: RankdeckApp) -> Input:
    return app.screen.query_one("#target", Input)


async def typed(app: Waiting, text: str) -> None:
    """Keys as the driver hands them over, as quick as they can come."""
    for character in text:
        key = {"\t": "tab", "\r": "enter", "/": "slash"}.get(character, character)
        app.post_message(events.Key(key, character if character.isprintable() else None))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("mode", [Mode.LOCAL, Mode.CLUSTER])
async def test_the_second_frame_moves_nothing_of_the_first(
    waiting: Make,
    until: Until,
    project: Path,
    size: tuple[int, int],
    mode: Mode,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(FolderReader, "start", lambda _: None)  # how many trainings there are comes later
    app = waiting(draft=Draft(mode=mode, workdir=project))
    async with app.run_test(size=size) as pilot:
        assert isinstance(app.screen, Outline)
        first = {name: app.screen.query_one(f"#{name}").region for name in PLACES}
        before = cells(app)
        app.may_open.set()
        await until(pilot, lambda: ready(app))
        await until(pilot, lambda: target(app).has_focus)
        second = {name: app.screen.query_one(f"#{name}").region for name in PLACES}
        after = cells(app)
    said = {
        (x, y): (was, is_)
        for y, (old, new) in enumerate(zip(before, after, strict=True))
        for x, (was, is_) in enumerate(zip(old, new, strict=True))
        if was[0] != " "
    }

    assert first == second
    assert len(said) > 200
    assert {place: both for place, both in said.items() if both[0][0] != both[1][0]} == {}
    assert {place: both for place, both in said.items() if both[0] != both[1]} == {}


async def test_a_console_that_opens_a_run_begins_empty(waiting: Make, until: Until, root: Path) -> None:
    app = waiting(open_run=record_demo(root, seconds=20))
    async with app.run_test(size=(120, 40)) as pilot:
        assert isinstance(app.screen, Outline)
        assert {c for line in cells(app) for c, _ in line} == {" "}
        app.may_open.set()
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and delivered(app))

        assert [type(screen) for screen in app.screen_stack] == [Outline, LaunchScreen, RunScreen]


async def test_what_is_typed_ahead_goes_where_it_was_meant_to(waiting: Make, until: Until) -> None:
    app = waiting()
    async with app.run_test(size=(120, 40)) as pilot:
        await typed(app, "score.py\t\t--lr 1\t4")
        await pilot.pause()
        app.may_open.set()
        await until(pilot, lambda: ready(app))
        await typed(app, "2")
        # the one that is there already stands before the cursor's place, at the end
        await until(pilot, lambda: app.screen.query_one("#processes", Input).value.endswith("42"))

        assert target(app).value == "score.py"
        assert app.screen.query_one("#args", Input).value == "--lr 1"
        assert app.screen.query_one("#gpu", Choice).value == "auto"


async def test_keys_that_come_during_the_delivery_come_last(waiting: Make, until: Until) -> None:
    app = waiting()
    async with app.run_test(size=(120, 40)) as pilot:
        await typed(app, "abc")
        app.may_open.set()
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen))
        await typed(app, "defgh")
        app.post_message(events.Paste("ij"))
        await until(pilot, lambda: ready(app))
        await until(pilot, lambda: len(target(app).value) == 10)

        assert target(app).value == "abcdefghij"


async def test_a_burst_is_taken_in_the_order_in_which_it_was_typed(
    waiting: Make, until: Until, root: Path
) -> None:
    app = waiting(open_run=record_demo(root, seconds=20))
    async with app.run_test(size=(120, 40)) as pilot:
        app.may_open.set()
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and app.screen.view and delivered(app))
        assert isinstance(app.screen, RunScreen)
        query = app.screen.query_one(LogPane).query_one(Field)
        await typed(app, "/xfz")
        await until(pilot, lambda: "xfz" == query.value)
        assert query.has_focus


async def test_keys_that_come_after_the_one_that_leaves_are_nobodys(waiting: Make, until: Until) -> None:
    app = waiting()
    async with app.run_test(size=(120, 40)) as pilot:
        app.may_open.set()
        await until(pilot, lambda: ready(app))
        app.post_message(events.Key("ctrl+q", None))
        await typed(app, "abc")
        await until(pilot, lambda: app._exit)

    assert app.return_code == 0


async def test_one_can_leave_before_there_is_anything_to_leave(waiting: Make, until: Until) -> None:
    app = waiting()
    async with app.run_test(size=(80, 24)) as pilot:
        await pilot.press("a", "ctrl+c", "ctrl+c")
        await until(pilot, lambda: app._exit)
        app.may_open.set()

    assert app.return_code == 0


async def test_own_keys_and_every_theme_hold_when_the_form_is_there(waiting: Make, until: Until) -> None:
    app = waiting(settings=ConsoleSettings(keys={"launch.more": "ctrl+g", "nope": "x"}), theme="paper")
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        assert app.theme == "paper"
        app.may_open.set()
        await until(pilot, lambda: ready(app))
        await pilot.press("ctrl+g")
        await until(pilot, lambda: app.screen.query_one(MoreForm).unfolded)

        assert {"paper", "midnight", "rankdeck-dark"} <= app.available_themes.keys()
        assert any("nope" in note.message for note in app._notifications)


FIRST = """
import os, sys
os.isatty = lambda _: True
from pathlib import Path
from console.cli import main
from console.app import RankdeckApp
def tell(self):
    sys.__stdout__.write("\\n" + " ".join(sys.modules))
    sys.__stdout__.flush()
    os._exit(0)
RankdeckApp.{when} = tell
RankdeckApp(root=Path({root!r}), workdir=Path({root!r}), paint_first=True).run(headless=True, size=(80, 24))
"""


def modules_when(when: str, root: Path) -> set[str]:
    """What is loaded when the app comes to a method of its."""
    code = FIRST.format(when=when, root=os.fspath(root))
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    return set(done.stdout.splitlines()[-1].split())


def test_the_first_frame_needs_little(root: Path) -> None:
    loaded = modules_when("_import", root)
    ours = {name for name in loaded if name.startswith(("console.ui.", "console.data.", "launcher."))}

    assert "console.ui.launch.outline" in ours
    assert ours <= {
        "console.ui.launch",
        "console.ui.launch.outline",
        "console.ui.launch.workbench",
        "console.ui.launch.workbench.layout",
        "console.ui.rendering",
        "console.ui.rendering.containment",
        "console.ui.rendering.driver",
        "console.ui.rendering.insides",
        "console.ui.rendering.pace",
        "console.ui.rendering.terminal",
        "console.ui.rendering.type_ahead",
        "launcher.errors",
        "launcher.names",
        "launcher.notify",
        "launcher.notify.settings",
        "launcher.settings",
        "launcher.runs",
        "launcher.runs.files",
        "launcher.runs.paths",
    }
    assert set() == loaded & {"torch", "pyspark", "sqlite3", "psutil", "pynvml", "numpy", "email"}


def test_the_form_needs_no_part_that_runs_anything(root: Path) -> None:
    loaded = modules_when("_import_next", root)

    assert "console.ui.launch.screen" in loaded
    assert set() == loaded & {
        "launcher.distributor",
        "launcher.supervisor.supervisor",
        "launcher.agent.agent",
        "console.data.launch.preflight",
        "console.ui.run.screen",
        "console.ui.launch.picker",
        "torch",
        "pyspark",
    }


@pytest.mark.terminal
@pytest.mark.process
def test_what_is_typed_right_at_the_start_reaches_the_form(
    rankdeck: str, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    screen = pyte.Screen(120, 40)
    with Pty([rankdeck]) as terminal:
        terminal.press("sco")
        terminal.await_text("New run")
        terminal.press("re.py")

        def shown() -> str:
            screen.reset()
            pyte.ByteStream(screen).feed(terminal.received)
            return "\n".join(screen.display)

        until_so(lambda: "$ rankdeck run score.py -n 1" in shown(), within=60)
