from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pytest

from console.data.logs.book import LogLine, LogState
from console.data.logs.search import Level, Search
from console.ui.logs.pane import LogPane
from console.ui.logs.view import LogView
from launcher.runs.logs.text import shown
from tests.console.themed import ThemedApp

if TYPE_CHECKING:
    from textual.app import ComposeResult


class FakeLines:
    """Lines in memory."""

    def __init__(self, texts: Iterable[bytes]) -> None:
        self.whole = list(texts)
        self.unfinished: list[bytes] = []
        self.read = 0
        self.found: Search | None = None

    def count(self, rank: int | None = None) -> int:
        return len(self._of(rank))

    def total(self, rank: int | None = None) -> int:
        return self.count(rank)

    def line(self, position: int, rank: int | None = None) -> LogLine:
        self.read += 1
        return LogLine(0.0, position % 2, 1, shown(self._of(rank)[position]))

    def live(self, rank: int | None = None) -> list[LogLine]:
        return [LogLine(0.0, 0, 2, shown(data), open=True) for data in self.unfinished]

    def search(self, text: str, rank: int | None = None) -> Search | None:
        from console.data.logs.search import Expression

        pattern = Expression(text)
        self.found = Search(pattern, rank) if text else None
        if self.found is not None:
            for i, data in enumerate(self._of(rank)):
                if pattern.found_in(data.decode()):
                    self.found.found.append(i)
        return self.found

    def at_ordinal(self, ordinal: int, rank: int | None = None) -> int:
        return ordinal

    def at_time(self, moment: float, rank: int | None = None) -> int:
        return 0

    name = "run"

    def filtered(self, text: str, level: Level, rank: int | None = None) -> None:
        return None

    def raw_file(self, rank: int) -> None:
        return None

    def _of(self, rank: int | None) -> list[bytes]:
        return self.whole if rank is None else self.whole[rank::2]


class LogApp(ThemedApp):
    """A log pane alone."""

    def __init__(self, lines: FakeLines) -> None:
        super().__init__()
        self.lines = lines

    def compose(self) -> ComposeResult:
        yield LogPane(id="logs")

    def on_mount(self) -> None:
        self.query_one(LogPane).attach(self.lines)
        self.arrive()

    def arrive(self, *texts: bytes) -> None:
        """Take in more lines."""
        self.lines.whole += texts
        state = LogState(lines=self.lines.count(), searched=1.0)
        self.query_one(LogPane).show(state, 2)

    @property
    def view(self) -> LogView:
        return self.query_one(LogView)

    def screen_lines(self) -> list[str]:
        return [self.view.render_line(y).text.rstrip() for y in range(self.view.size.height)]


def numbered(count: int) -> list[bytes]:
    return [b"line %d" % i for i in range(count)]


@pytest.fixture
def app() -> LogApp:
    return LogApp(FakeLines(numbered(1000)))


async def test_it_starts_at_the_end_and_follows(app: LogApp) -> None:
    async with app.run_test(size=(40, 10)) as pilot:
        await pilot.pause()
        app.arrive(b"newest")
        await pilot.pause()

        assert app.screen_lines()[-1] == "0  newest"
        assert app.query_one(LogPane).border_subtitle == "follow"


async def test_only_lines_on_the_screen_are_read(app: LogApp) -> None:
    async with app.run_test(size=(40, 10)) as pilot:
        await pilot.pause()

        assert app.lines.read < 50


@pytest.mark.parametrize("key", ["k", "up", "pageup", "g", "home", "ctrl+u"])
async def test_moving_up_pauses_and_nothing_moves_the_reader(app: LogApp, key: str) -> None:
    async with app.run_test(size=(40, 10)) as pilot:
        app.view.focus()
        await pilot.press(key)
        await pilot.pause()
        before = app.screen_lines()

        app.arrive(*numbered(7))
        await pilot.pause()

        assert app.screen_lines() == before
        assert app.query_one(LogPane).border_subtitle == "paused · 7 new · G follows"


@pytest.mark.parametrize("key", ["G", "end", "f"])
async def test_going_to_the_end_follows_again(app: LogApp, key: str) -> None:
    async with app.run_test(size=(40, 10)) as pilot:
        app.view.focus()
        await pilot.press("g")
        app.arrive(b"newest")
        await pilot.press(key)
        await pilot.pause()

        assert app.screen_lines()[-1] == "0  newest"
        assert app.view.follow


async def test_g_is_the_top(app: LogApp) -> None:
    async with app.run_test(size=(40, 10)) as pilot:
        app.view.focus()
        await pilot.press("g")
        await pilot.pause()

        assert app.screen_lines()[0] == "0  line 0"


async def test_an_unfinished_line_is_one_live_row_below(app: LogApp) -> None:
    async with app.run_test(size=(40, 10)) as pilot:
        app.lines.unfinished = [b"\r10%"]
        app.arrive()
        await pilot.pause()
        first = app.screen_lines()[-1]
        app.lines.unfinished = [b"\r10%\r20%"]
        app.arrive()
        await pilot.pause()

        assert first == "0 ▎10%"
        assert app.screen_lines()[-2:] == ["1  line 999", "0 ▎20%"]


async def test_a_line_cannot_control_the_terminal() -> None:
    app = LogApp(FakeLines([b"\x1b[2J\x1b]0;x\x07safe\x00 \xff", b"\x1b[31mred\x1b[0m"]))
    async with app.run_test(size=(40, 10)) as pilot:
        await pilot.pause()

        assert app.screen_lines()[:2] == ["0  safe �", "1  red"]


async def test_one_ranks_lines_are_shown_without_its_number(app: LogApp) -> None:
    async with app.run_test(size=(40, 10)) as pilot:
        app.query_one(LogPane).select(1)
        await pilot.pause()

        assert app.screen_lines()[-1] == " line 999"
        assert "rank 1 · 500 lines" in (app.query_one(LogPane).border_title or "")


async def test_a_search_goes_to_the_last_match_and_n_to_others(app: LogApp) -> None:
    async with app.run_test(size=(40, 10)) as pilot:
        app.view.focus()
        await pilot.press("slash", *"line 5.0", "enter")
        app.arrive()
        await pilot.pause()
        last = app.view.current
        await pilot.press("N")
        previous = app.view.current
        await pilot.press("n", "n")

        assert (last, previous, app.view.current) == (590, 580, 500)
        assert any("line 500" in line for line in app.screen_lines())
        assert "/line 5.0 1/10" in (app.query_one(LogPane).border_title or "")


async def test_what_is_searched_for_is_no_markup(app: LogApp) -> None:
    async with app.run_test(size=(60, 10)) as pilot:
        app.view.focus()
        await pilot.press("slash", *"[bold]", "enter")
        app.arrive()
        await pilot.pause()

        assert r"/\[bold]" in (app.query_one(LogPane).border_title or "")


async def test_escape_ends_the_search_and_leaves_the_field(app: LogApp) -> None:
    async with app.run_test(size=(40, 10)) as pilot:
        app.view.focus()
        await pilot.press("slash", "x", "escape")
        await pilot.pause()

        assert app.lines.found is None
        assert app.view.has_focus


async def test_the_pane_follows_when_it_is_made_smaller(app: LogApp) -> None:
    async with app.run_test(size=(40, 20)) as pilot:
        await pilot.pause()
        await pilot.resize_terminal(40, 8)
        await pilot.pause()

        assert app.view.follow
        assert app.screen_lines()[-1] == "1  line 999"


async def test_long_lines_can_be_looked_along(app: LogApp) -> None:
    async with app.run_test(size=(40, 10)) as pilot:
        app.view.focus()
        app.arrive(b"a" * 40 + b"END")
        await pilot.press("l", "l")
        await pilot.pause()

        assert app.screen_lines()[-1] == "0  " + "a" * 8 + "END"


async def test_times_can_be_shown(app: LogApp) -> None:
    async with app.run_test(size=(40, 10)) as pilot:
        app.view.focus()
        await pilot.press("d")
        await pilot.pause()

        assert ":00:00.000 1  line 999" in app.screen_lines()[-1]
