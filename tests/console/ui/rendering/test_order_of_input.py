"""Keys and clicks have their effect in the order in which they were sent, however fast they come."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.app import App, ComposeResult

from console.ui.rendering.type_ahead import TypeAhead, is_typed
from console.ui.widgets.fields import Field
from tests.console.ui.rendering.test_terminal import Terminal

TRAIN = "def main(lr: float = 1.0, tags: str = '', steps: int = 1): ...\n"


def mouse(kind: type[events.MouseEvent], x: int, y: int) -> events.MouseEvent:
    return kind(None, x, y, 0, 0, 1, False, False, False, x, y)


class Two(App[int]):
    """Two fields, one below the other, and what is typed kept in order."""

    def __init__(self) -> None:
        super().__init__()
        self.ahead = TypeAhead(self)

    def compose(self) -> ComposeResult:
        yield Field(id="upper")
        yield Field(id="lower")

    def on_mount(self) -> None:
        self.ahead.begin()

    async def on_event(self, event: events.Event) -> None:
        if not (is_typed(event) and self.ahead.keeps(event)):
            await super().on_event(event)

    def values(self) -> list[str]:
        return [field.value for field in self.query(Field)]


def key(letter: str) -> events.Key:
    return events.Key(letter, letter)


@pytest.mark.parametrize(
    "between",
    [
        [],
        [(events.MouseMove, 3, 0), (events.MouseMove, 3, 1)],
        [(events.MouseScrollDown, 3, 0), (events.MouseScrollUp, 3, 0)],
    ],
    ids=["nothing", "moves", "wheel"],
)
async def test_a_press_does_not_overtake_the_letters_before_it(between: list[Any]) -> None:
    app = Two()
    async with app.run_test(size=(20, 4)) as pilot:
        app.query_one("#upper").focus()
        await pilot.pause()
        for letter in "abcd":
            app.post_message(key(letter))
        for what in between:
            app.post_message(mouse(*what))
        app.post_message(mouse(events.MouseDown, 3, 1))
        app.post_message(mouse(events.MouseUp, 3, 1))
        for letter in "xyz":
            app.post_message(key(letter))
        async with asyncio.timeout(30):
            while "".join(app.values()) != "abcdxyz":
                await pilot.pause(0.01)

        assert ["abcd", "xyz"] == app.values()


@pytest.mark.terminal
@pytest.mark.process
@pytest.mark.parametrize("attempt", range(3))
def test_in_a_terminal_letters_stay_in_the_field_they_were_typed_in(
    rankdeck: str, tmp_path: Path, attempt: int, wait_for_form: Callable[[Terminal], str]
) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    env = {**os.environ, "TERM": "xterm-256color", "LANG": "C.UTF-8"}
    terminal = Terminal(rankdeck, size=(120, 40), cwd=tmp_path, env=env)
    lines = wait_for_form(terminal).splitlines()
    at = {name: y for y, line in enumerate(lines, 1) for name in ("lr", "tags") if f" {name} " in line}

    def click(name: str) -> str:
        return f"\x1b[<0;30;{at[name]}M\x1b[<0;30;{at[name]}m"

    terminal.press(click("lr") + "0.01" + click("tags") + "a,b")
    terminal.until("--param lr=0.01 --param tags=a,b")
    terminal.press("\x11")

    assert 0 == terminal.exit_code()


@pytest.fixture
def wait_for_form() -> Callable[[Terminal], str]:
    """Name the function, and wait for its fields."""

    def wait(terminal: Terminal) -> str:
        terminal.until("1 New run")
        terminal.press("train.py:main")
        return terminal.until("steps", "tags", "ready")

    return wait
