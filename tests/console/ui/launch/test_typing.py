"""What a typed character costs: its own paint first, and the checks behind it once for a burst."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from textual.screen import Screen

from console.app import RankdeckApp
from console.data.launch.draft import Draft
from console.ui.launch.form import LaunchForm
from console.ui.launch.panes import CommandLine
from console.ui.launch.screen import LaunchScreen
from console.ui.widgets.fields import Field

if TYPE_CHECKING:
    import pytest
    from textual.pilot import Pilot

    from tests.console.conftest import Until

Open = Callable[..., RankdeckApp]


async def opened(app: RankdeckApp, pilot: Pilot[int], until: Until) -> LaunchScreen:
    await until(pilot, lambda: isinstance(app.screen, LaunchScreen))
    screen = app.screen
    assert isinstance(screen, LaunchScreen)
    await until(pilot, lambda: screen.query_one(LaunchForm)._detected is not None and screen._reading is None)
    await pilot.pause()
    return screen


async def test_a_typed_character_lays_nothing_out_again(
    open_app: Open, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    layouts: list[object] = []
    usual = Screen._refresh_layout

    def counted(self: Screen[Any], *args: Any, **options: Any) -> None:
        layouts.append(self)
        usual(self, *args, **options)

    monkeypatch.setattr(Screen, "_refresh_layout", counted)
    app = open_app()
    async with app.run_test(size=(100, 40)) as pilot:
        screen = await opened(app, pilot, until)
        field = screen.query_one("#processes", Field)
        field.focus()
        await pilot.pause(0.2)
        layouts.clear()
        await pilot.press(*"24")
        await until(pilot, lambda: "-n 24" in screen.query_one(CommandLine).command)
        await pilot.pause(0.1)

        assert "24" in field.render_line(0).text
        assert layouts == []


async def test_a_long_text_scrolls_with_its_cursor(open_app: Open, until: Until) -> None:
    app = open_app()
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await opened(app, pilot, until)
        field = screen.query_one("#args", Field)
        field.focus()
        await pilot.press(*"--name ", *(letter for n in range(30) for letter in f"{n:03}"))
        await until(pilot, lambda: field.render_line(0).text.rstrip().endswith("028029"))
        await pilot.press("home")
        await until(pilot, lambda: field.render_line(0).text.startswith("--name 000"))


async def test_of_a_burst_only_the_first_and_the_newest_are_checked(
    open_app: Open, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, read = threading.Event(), list[str]()
    usual = LaunchScreen._read

    def slow(self: LaunchScreen, draft: Draft) -> LaunchScreen.Checked:
        read.append(draft.target)
        go_on.wait(30)
        return usual(self, draft)

    app = open_app()
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await opened(app, pilot, until)
        monkeypatch.setattr(LaunchScreen, "_read", slow)
        await pilot.press(*"abcdef")
        await until(pilot, lambda: "run abcdef " in screen.query_one(CommandLine).command)
        assert read == ["a"]
        go_on.set()
        await until(pilot, lambda: "no file abcdef" in (screen.query_one(CommandLine).problem or ""))

    assert read == ["a", "abcdef"]
