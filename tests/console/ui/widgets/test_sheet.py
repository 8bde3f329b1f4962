"""Rows of text in a pane: laid out for the width that there is, a scroll bar or none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

from console.ui.widgets.lists import LongList
from console.ui.widgets.rows import Row, ScrollingSheet, Sheet
from tests.console.themed import ThemedApp

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.screen import Screen

    from tests.console.conftest import Until


class Ruled(ScrollingSheet):
    """As many rows as it is told, each as wide as it may be."""

    DEFAULT_CSS = "Ruled { height: 1fr; }"
    count = 3

    def rows(self, width: int) -> Sequence[Row]:
        return [((f"{n:<{width - 1}}|", ""),) for n in range(self.count)]


class RuledList(LongList[int]):
    """The same as a list."""

    DEFAULT_CSS = "RuledList { height: 1fr; }"
    count = 3

    @property
    def length(self) -> int:
        return self.count

    def head_row(self, width: int) -> Row:
        return (("-" * width, ""),)

    def item_row(self, index: int, width: int, ground: str) -> Row:
        return ((f"{index:<{width - 1}}|", ground.strip()),)


class Moody(ScrollingSheet):
    """Needs a scroll bar only where there is none."""

    DEFAULT_CSS = "Moody { height: 1fr; }"
    asked = 0

    def rows(self, width: int) -> Sequence[Row]:
        self.asked += 1
        return [((str(width), ""),)] * (60 if width == 40 else 2)


class SheetApp(ThemedApp):
    """One sheet alone."""

    def __init__(self, sheet: Sheet) -> None:
        super().__init__()
        self.sheet = sheet

    def compose(self) -> ComposeResult:
        yield self.sheet


def ends(sheet: Sheet) -> set[int]:
    """Where the rows that are seen end."""
    lines = [sheet.render_line(y).text for y in range(1, min(sheet.size.height, 10))]
    return {line.index("|") for line in lines if "|" in line}


@pytest.mark.parametrize("kind", [Ruled, RuledList])
async def test_rows_end_beside_a_scroll_bar_and_at_the_edge_without_one(
    until: Until, kind: type[Ruled] | type[RuledList]
) -> None:
    sheet = kind()
    app = SheetApp(sheet)
    async with app.run_test(size=(40, 20)) as pilot:
        await until(pilot, lambda: ends(sheet) == {39})
        sheet.count = 50
        sheet.refresh_rows()
        await until(pilot, lambda: ends(sheet) == {38})
        assert sheet.show_vertical_scrollbar
        sheet.count = 3
        sheet.refresh_rows()
        await until(pilot, lambda: ends(sheet) == {39})

        assert not sheet.show_vertical_scrollbar


@pytest.mark.parametrize("kind", [Ruled, RuledList])
async def test_a_terminal_that_becomes_too_low_brings_a_scroll_bar(
    until: Until, kind: type[Ruled] | type[RuledList]
) -> None:
    sheet = kind()
    sheet.count = 12
    app = SheetApp(sheet)
    async with app.run_test(size=(40, 20)) as pilot:
        await until(pilot, lambda: ends(sheet) == {39})
        await pilot.resize_terminal(40, 8)
        await until(pilot, lambda: ends(sheet) == {38})
        await pilot.resize_terminal(40, 20)
        await until(pilot, lambda: ends(sheet) == {39})


async def test_a_terminal_that_becomes_too_low_later_brings_a_scroll_bar_for_rows_that_came(
    until: Until,
) -> None:
    sheet = Ruled()
    app = SheetApp(sheet)
    async with app.run_test(size=(40, 20)) as pilot:
        await until(pilot, lambda: ends(sheet) == {39})
        sheet.count = 12
        sheet.refresh_rows()
        await pilot.resize_terminal(40, 8)
        await until(pilot, lambda: ends(sheet) == {38})

        assert sheet.show_vertical_scrollbar


async def test_rows_that_come_and_go_leave_the_layout_of_the_screen_as_it_is(until: Until) -> None:
    sheet = Ruled()
    app = SheetApp(sheet)
    laid_out: list[Screen[object]] = []
    async with app.run_test(size=(40, 20)) as pilot:
        await until(pilot, lambda: ends(sheet) == {39})
        await pilot.pause()
        app.screen.screen_layout_refresh_signal.subscribe(sheet, laid_out.append)
        for count, last in ((12, "11"), (3, ""), (4, "3")):
            sheet.count = count
            sheet.refresh_rows()
            await pilot.pause()
            assert sheet.render_line(count - 1).text.startswith(last)
            assert not sheet.render_line(count).text.strip()

        assert not laid_out


async def test_rows_that_go_take_the_place_back_to_those_that_are_left(until: Until) -> None:
    sheet = Ruled()
    sheet.count = 100
    app = SheetApp(sheet)
    async with app.run_test(size=(40, 20)) as pilot:
        await until(pilot, lambda: ends(sheet) == {38})
        sheet.action_scroll_end()
        await until(pilot, lambda: sheet.scroll_offset.y == 80)
        sheet.count = 30
        sheet.refresh_rows()
        await until(pilot, lambda: sheet.scroll_offset.y == 10)

        assert sheet.render_line(19).text.startswith("29")


async def test_a_bar_that_is_needed_only_while_it_is_not_there_does_not_come_and_go(until: Until) -> None:
    sheet = Moody()
    app = SheetApp(sheet)
    async with app.run_test(size=(40, 20)) as pilot:
        await until(pilot, lambda: sheet.virtual_size.height == 2)
        for _ in range(20):
            await pilot.pause()

        assert sheet.asked < 10
