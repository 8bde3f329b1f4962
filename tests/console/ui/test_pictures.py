"""Pictures of a terminal: they tell what a person would see changed, and nothing else."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from textual.app import App, ComposeResult
from textual.widgets import Static

from console.ui.rendering.driver import frugal
from tests.console.pictures import Emulated, called, drawn, lettered, names, picture
from tests.console.snapshot_fixture import Album, difference

if TYPE_CHECKING:
    from textual.pilot import Pilot

PLAIN, RED, BOLD = "on #000000", "#ff0000 on #000000", "#ffffff on #000000 bold"


class Sign(App[int]):
    """One line of text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.driver_class = frugal(Emulated)
        self._text = text

    def compose(self) -> ComposeResult:
        yield Static(self._text, id="sign")


async def shown(pilot: Pilot[int], text: str) -> str:
    await pilot.pause()
    pilot.app.query_one("#sign", Static).update(text)
    await pilot.pause()
    return picture(pilot.app)


async def test_what_is_painted_over_is_gone_and_a_wide_letter_takes_two_cells() -> None:
    async with Sign("a long line").run_test(headless=False, size=(20, 3)) as pilot:
        assert "long" in picture(pilot.app)
        lines = (await shown(pilot, "中文 x")).splitlines()

    assert lines[:4] == ["中文 x", "", "", "=" * 20]
    assert lines[4].startswith("01-01 ")
    assert len(lines[4].removeprefix("01-01 ")) == len("中 文  x")


async def test_a_colour_alone_makes_another_picture() -> None:
    async with Sign("x").run_test(headless=False, size=(20, 3)) as pilot:
        red, green = await shown(pilot, "[$error]x[/]"), await shown(pilot, "[$success]x[/]")

    assert red.splitlines()[:3] == green.splitlines()[:3]
    assert "$error" in red
    assert "$success" in green
    assert "+" in difference(red, green)


def test_lines_of_the_same_style_are_told_once_and_the_ground_is_left_out() -> None:
    line = [("a", RED), (" ", PLAIN), (" ", PLAIN), (" ", PLAIN)]
    text = list(drawn([line, line, [(" ", PLAIN)] * 4]))

    letter = lettered(Counter({PLAIN: 9, RED: 1}))[RED]
    assert [
        "a",
        "a",
        "",
        "====",
        f"01-02 {letter}",
        "03-03",
        "====",
        f". {PLAIN}",
        f"{letter} {RED}",
        "",
    ] == text


def test_a_long_run_of_one_style_is_counted() -> None:
    letter = lettered(Counter({PLAIN: 2, RED: 1}))[RED]
    short, long = (list(drawn([[("a", PLAIN)] * 13 + [("b", RED)] * n])) for n in (11, 12))

    assert f"01-01 .{{13}}{letter * 11}" == short[2]
    assert f"01-01 .{{13}}{letter}{{12}}" == long[2]
    assert "a" * 13 + "b" * 12 == long[0]


def test_another_style_renames_none_unless_both_want_its_letter() -> None:
    few = Counter({PLAIN: 9, RED: 2})
    many = few + Counter({f"#{n:06x} on #000000": 1 for n in range(40)})

    assert len(set(lettered(many).values())) == len(many)
    assert lettered(few | Counter({BOLD: 1}))[RED] == lettered(few)[RED]


def test_a_colour_has_our_name_before_a_shade_has_one() -> None:
    known = names({"tint-1": "#ff0000", "error": "#ff0000", "rank-failed": "#f00", "auto": "auto 87%"})

    assert {"#ff0000": "rank-failed"} == known
    assert "$rank-failed on #000000 bold" == called("#ff0000 on #000000 bold", known)


async def test_a_picture_is_kept_when_asked_and_compared_otherwise(tmp_path: Path) -> None:
    async with Sign("first").run_test(headless=False, size=(20, 3)) as pilot:
        with pytest.raises(pytest.fail.Exception, match="no such picture"):
            await Album(tmp_path, update=False).check("sign", pilot.app, pilot)
        await Album(tmp_path, update=True).check("sign", pilot.app, pilot)
        await Album(tmp_path, update=False).check("sign", pilot.app, pilot)
    async with Sign("second").run_test(headless=False, size=(20, 3)) as pilot:
        with pytest.raises(pytest.fail.Exception, match=r"(?s)-first.*\+second"):
            await Album(tmp_path, update=False, patience=0.5).check("sign", pilot.app, pilot)
        assert (tmp_path / "sign.txt").read_text().startswith("first")
