"""What a terminal is sent for a part of the screen: little, and the same picture as for all of it."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyte
import pytest
from textual.app import App
from textual.drivers.headless_driver import HeadlessDriver
from textual.geometry import Region
from textual.screen import Screen
from textual.widgets import Static

from console.app import RankdeckApp
from console.ui.logs.pane import LogPane
from console.ui.logs.view import LogView
from console.ui.rendering.compositor import CroppedUpdate, CroppingCompositor
from console.ui.rendering.driver import frugal
from console.ui.widgets.key_line import KeyLine
from launcher.runs.status import Owner, Status
from launcher.serialization import to_plain
from launcher.state.run_state import Phase
from tests.console.looking import shown

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.pilot import Pilot
    from textual.strip import Strip

    from tests.console.conftest import Until

Open = Callable[..., RankdeckApp]
SIZE = (120, 40)


class PictureDriver(HeadlessDriver):
    """Shows what it is sent on a terminal in memory, and counts it."""

    terminal = pyte.Screen(*SIZE)
    stream = pyte.Stream(terminal)
    sent = 0

    @property
    def is_headless(self) -> bool:
        return False

    def write(self, data: str) -> None:
        PictureDriver.sent += len(data.encode())
        PictureDriver.stream.feed(data)


@pytest.fixture
def app(open_app: Open, root: Path) -> RankdeckApp:
    """An ended run, and a folder with others, some with wide names."""
    PictureDriver.terminal.reset()
    app = open_app(seconds=30, fail=True)
    for number, name in enumerate(("模型训练" * 5, "e\u0301te", "plain", "名" * 40)):
        run = f"20260101-{number:06d}-000abc"
        (root / run).mkdir()
        status = Status(id=run, name=name, why=name * 4, state=Phase.FAILED, exit_code=1, owner=Owner.this())
        (root / run / "status.json").write_text(json.dumps(to_plain(status)))
    app.driver_class = frugal(PictureDriver)
    return app


def pictured() -> list[str]:
    """The terminal's lines; a wide character's second cell is empty there."""
    buffer, (columns, rows) = PictureDriver.terminal.buffer, SIZE
    return ["".join(buffer[y][x].data for x in range(columns)).rstrip() for y in range(rows)]


def composed(app: App[Any]) -> list[str]:
    # the terminal joins a letter and its accent
    strips = app.screen._compositor.render_strips()
    return [unicodedata.normalize("NFC", strip.text.rstrip()) for strip in strips]


KEYS = (
    "tab", "m", "j", "tab", "k", "1", "m", "j", "j", "3", "k", "k", "t", "G", "4", "z", "z", "2", "tab", "5",
    "f2", "j", "j", "space", "k", "tab", "j", "tab", "s", "S", "slash", "p", "escape", "tab",
    "f3", "tab", "j", "tab", "f4", "tab", "tab", "escape",
    "question_mark", "j", "j", "escape", "f2", "space", "j", "j", "k", "enter", "y", "1", "j", "m", "3", "k",
)  # fmt: skip


async def test_the_terminal_shows_what_is_composed_after_every_key(app: RankdeckApp, until: Until) -> None:
    async with app.run_test(headless=False, size=SIZE) as pilot:
        await until(pilot, lambda: shown(app))
        for key in KEYS:
            await pilot.press(key)
            try:
                await until(pilot, lambda: pictured() == composed(app))
            except AssertionError:
                raise AssertionError(f"after {key}", differing(pictured(), composed(app))) from None


def differing(one: list[str], other: list[str]) -> list[tuple[str, str]]:
    return [(a, b) for a, b in zip(one, other, strict=True) if a != b]


async def sent_for(pilot: Pilot[int], until: Until, key: str, said: Callable[[], bool]) -> int:
    before = PictureDriver.sent
    await pilot.press(key)
    await until(pilot, said)
    app = pilot.app
    assert isinstance(app, RankdeckApp)
    await until(pilot, lambda: pictured() == composed(app))
    return PictureDriver.sent - before


async def test_a_change_of_focus_sends_little(app: RankdeckApp, until: Until) -> None:
    def line() -> str:
        return app.screen.query_one(KeyLine).render_line(0).text

    async with app.run_test(headless=False, size=SIZE) as pilot:
        await until(pilot, lambda: shown(app))
        await sent_for(pilot, until, "1", lambda: "m Metric" in line())
        await sent_for(pilot, until, "3", lambda: app.screen.query_one(LogView).has_focus)
        sizes = []
        for key, said in (("1", "m Metric"), ("3", "f Follow"), ("1", "m Metric"), ("3", "f Follow")):
            sizes.append(await sent_for(pilot, until, key, lambda said=said: said in line()))  # type: ignore[misc]

    assert all(0 < size < 7_500 for size in sizes), sizes


async def test_a_line_back_from_the_end_and_on_again_sends_little(app: RankdeckApp, until: Until) -> None:
    def says(what: str) -> Callable[[], bool]:
        return lambda: what in str(app.screen.query_one(LogPane).border_subtitle)

    async with app.run_test(headless=False, size=SIZE) as pilot:
        await until(pilot, lambda: shown(app))
        await sent_for(pilot, until, "3", lambda: app.screen.query_one(LogView).has_focus)
        sizes = [
            await sent_for(pilot, until, key, says(said))
            for key, said in (("k", "paused"), ("j", "follow")) * 3
        ]

    assert all(0 < size < 2_000 for size in sizes[1:]), sizes


class Counted(Static):
    """Remembers which of its lines were asked for."""

    def __init__(self, text: str, name: str) -> None:
        super().__init__(text, id=name)
        self.asked: list[int] = []

    def render_line(self, y: int) -> Strip:
        self.asked.append(y)
        return super().render_line(y)


class Cropped(Screen[None]):
    """Two widgets side by side, and one that lies over both."""

    CSS = """
    Cropped { layout: horizontal; layers: below above; }
    Counted { width: 20; height: 10; layer: below; }
    #over { layer: above; offset: 0 4; width: 30; height: 2; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._compositor = CroppingCompositor()

    def compose(self) -> ComposeResult:
        for name in ("left", "right", "over"):
            yield Counted("\n".join(f"{name} {n}" for n in range(10)), name)


async def test_only_the_lines_that_changed_are_made_and_only_where_they_are_seen() -> None:
    app: App[int] = App()
    async with app.run_test(size=SIZE) as pilot:
        await app.push_screen(screen := Cropped())
        await pilot.pause()
        widgets = left, right, over = [screen.query_one(f"#{n}", Counted) for n in ("left", "right", "over")]
        composer = screen._compositor
        composer.render_full_update()
        for widget in widgets:
            widget.asked.clear()
        left.refresh(Region(0, 2, 20, 1), Region(0, 4, 20, 1))
        right.refresh(Region(0, 7, 5, 2))
        composer.update_widgets(set(widgets))
        update = composer.render_partial_update()

    assert ([2], [7, 8], []) == (left.asked, right.asked, over.asked), "line 4 of the first is covered"
    assert isinstance(update, CroppedUpdate)
    sent = update.render_segments(app.console)
    assert all(text in sent for text in ("left 2", "over 0", "right", "\x1b[9;21H"))
    assert "left 4" not in sent
