"""Filter, level, going somewhere, wrap, times, saving and paging: on a real folder, with a feed by hand."""

from __future__ import annotations

import os
import stat
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from console.data.logs.book import LogBook
from console.ui.logs.pane import LogPane
from console.ui.logs.view import LogView
from launcher.runs import paths
from launcher.runs.logs import writer
from launcher.runs.logs.writer import LogWriter
from tests.console.themed import ThemedApp

if TYPE_CHECKING:
    from collections.abc import Iterator

    from textual.app import ComposeResult

    from tests.console.conftest import Until

BEGIN = 1_767_261_600


class BookApp(ThemedApp):
    """A log pane over a folder; `tick` is the feed."""

    def __init__(self, run: Path) -> None:
        super().__init__()
        run.joinpath(paths.LOGS).mkdir(parents=True)
        self.writer, self.book = LogWriter(run, 0), LogBook(run)
        self.written = 0

    def compose(self) -> ComposeResult:
        yield LogPane(id="logs")

    def on_mount(self) -> None:
        self.pane.attach(self.book)
        self.view.focus()
        self.tick()

    def on_log_pane_searched(self) -> None:
        self.tick()

    def say(self, *texts: str, rank: int = 0) -> None:
        """Output that arrives a second after what was there."""
        for text in texts:
            self.written += 1
            data = f"{text}\n".encode()
            chunk = writer.Chunk((BEGIN + self.written) * 10**9, rank, len(data), paths.STDOUT)
            self.writer.append([(chunk, memoryview(data))])

    def tick(self) -> None:
        while self.book.tick():
            pass
        self.pane.show(self.book.view(), 2)

    @property
    def pane(self) -> LogPane:
        return self.query_one(LogPane)

    @property
    def view(self) -> LogView:
        return self.query_one(LogView)

    @property
    def title_text(self) -> str:
        return self.pane.border_title or ""

    def shown(self) -> list[str]:
        lines = (self.view.render_line(y).text.rstrip() for y in range(self.view.size.height))
        return [line for line in lines if line]


@pytest.fixture
def app(tmp_path: Path) -> BookApp:
    app = BookApp(tmp_path / "run")
    for step in range(50):
        app.say(f"step {step}")
        if step % 10 == 7:
            app.say(f"WARNING slow {step}", rank=1)
        if step % 20 == 9:
            app.say(f"ERROR broken {step}", rank=1)
    return app


async def test_a_filter_hides_what_does_not_match_and_goes_on_with_what_comes(app: BookApp) -> None:
    async with app.run_test(size=(80, 12)) as pilot:
        await pilot.press("ampersand", *"step .7", "enter")
        await pilot.pause()
        first = app.shown()
        app.say("step 57", "step 58")
        app.tick()
        await pilot.pause()

        assert [f"0  step {n}7" for n in (1, 2, 3, 4)] == first
        assert "0  step 57" == app.shown()[-1]
        assert "60 lines · &step .7 · 5 kept" in app.title_text


async def test_a_filter_can_be_turned_round_and_escape_ends_it_where_one_is(app: BookApp) -> None:
    async with app.run_test(size=(80, 12)) as pilot:
        await pilot.press("ampersand", *"!step", "enter", "g")
        await pilot.pause()
        assert ["1  WARNING slow 7", "1  ERROR broken 9"] == app.shown()[:2]
        await pilot.press("escape")
        await pilot.pause()

        assert "kept" not in app.title_text
        assert not app.view.follow
        assert "1  WARNING slow 7" in app.shown()


async def test_levels_are_a_filter(app: BookApp) -> None:
    async with app.run_test(size=(80, 12)) as pilot:
        kept = []
        for _ in range(3):
            await pilot.press("v")
            kept.append(app.view.lines.count() if app.view.lines else -1)
        assert [8, 3, 58] == kept


async def test_a_filter_is_for_the_rank_that_is_shown(app: BookApp) -> None:
    async with app.run_test(size=(80, 12)) as pilot:
        await pilot.press("ampersand", *"[79]$", "enter")
        counts = []
        for rank in (None, 0, 1):
            app.pane.select(rank)
            app.tick()
            counts.append(app.view.lines.count(rank) if app.view.lines else -1)
        await pilot.pause()

        assert [18, 10, 8] == counts
        assert " ERROR broken 49" == app.shown()[-1]


async def test_a_search_looks_among_what_the_filter_shows(app: BookApp) -> None:
    async with app.run_test(size=(80, 12)) as pilot:
        await pilot.press("slash", *"7$", "enter")
        await pilot.pause()
        assert "/7$ 10/10" in app.title_text
        await pilot.press("ampersand", *"slow", "enter")
        await pilot.press("n")
        await pilot.pause()

        assert "/7$ 1/5" in app.title_text
        assert 0 == app.view.current


async def test_a_broken_filter_changes_nothing(app: BookApp) -> None:
    async with app.run_test(size=(80, 12)) as pilot:
        await pilot.press("ampersand", *"(", "enter")
        await pilot.pause()

        assert "kept" not in app.title_text
        assert "0  step 49" in app.shown()


@pytest.mark.parametrize(("typed", "line"), [("1", 0), ("11", 10), ("0%", 0), ("50%", 28), ("9,999", 57)])
async def test_going_to_a_line(app: BookApp, typed: str, line: int) -> None:
    async with app.run_test(size=(80, 12)) as pilot:
        await pilot.press("colon", *typed, "enter")
        await pilot.pause()

        assert line == app.view.current
        assert app.view.follow == (line == 57)
        assert any(app.book.line(line).text in row for row in app.shown())


async def test_going_to_a_time(app: BookApp, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    async with app.run_test(size=(80, 12)) as pilot:
        import time

        clock = time.strftime("%H:%M:%S", time.localtime(BEGIN + 20))
        await pilot.press("colon", *clock, "enter")
        await pilot.pause()

        assert 19 == app.view.current


async def test_times_since_the_first_line(app: BookApp) -> None:
    async with app.run_test(size=(80, 12)) as pilot:
        await pilot.press("d", "d", "g")
        await pilot.pause()
        assert ["+0.000 0  step 0", "+1.000 0  step 1"] == [row.strip() for row in app.shown()[:2]]
        assert "since start" in (app.pane.border_subtitle or "")
        await pilot.press("d")
        await pilot.pause()

        assert "0  step 0" == app.shown()[0]


async def test_long_lines_are_wrapped_and_moved_through_by_rows(app: BookApp) -> None:
    app.say("a" * 100, "b" * 30 + "END")
    async with app.run_test(size=(41, 10)) as pilot:
        await pilot.press("w")
        await pilot.pause()
        assert ["0  " + "a" * 37, "a" * 40, "a" * 23, "0  " + "b" * 30 + "END"] == app.shown()[-4:]
        assert app.view.follow
        before = app.shown()
        await pilot.press("k")
        await pilot.pause()
        assert before[:-1] == app.shown()[1:]
        assert not app.view.follow
        await pilot.press("j")
        await pilot.pause()
        assert before == app.shown()
        assert app.view.follow
        app.say("c" * 60)
        app.tick()
        await pilot.pause()
        assert "c" * 23 == app.shown()[-1]
        await pilot.press("w")
        await pilot.pause()
        assert "0  " + "c" * 37 == app.shown()[-1]


async def test_what_is_shown_is_saved_and_nothing_is_replaced_unasked(
    app: BookApp, tmp_path: Path, until: Until
) -> None:
    target = tmp_path / "saved.log"
    target.write_text("mine")
    app.say("\x1b[31mred\x1b[0m \x1b[2J7")
    async with app.run_test(size=(80, 12)) as pilot:
        await pilot.press("ampersand", *"7$", "enter", "s")
        field = app.pane.query_one("#search")
        field.value = str(target)  # type: ignore[attr-defined]
        await pilot.press("enter")
        await pilot.pause()
        assert "mine" == target.read_text()
        await pilot.press("enter")
        await until(pilot, lambda: app.pane.copied is None and target.read_text() != "mine")

        assert ["r0 | step 7", "r1 | WARNING slow 7"] == target.read_text().splitlines()[:2]
        assert "r0 | red 7" == target.read_text().splitlines()[-1]


async def test_saving_where_that_cannot_be_is_said(app: BookApp, tmp_path: Path, until: Until) -> None:
    async with app.run_test(size=(80, 12), notifications=True) as pilot:
        await pilot.press("s")
        app.pane.query_one("#search").value = str(tmp_path / "no" / "such")  # type: ignore[attr-defined]
        await pilot.press("enter")
        await until(pilot, lambda: any("not saved: No such" in n.message for n in app._notifications))


@pytest.fixture
def pager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A pager that keeps what it was given."""
    program, seen = tmp_path / "pager", tmp_path / "seen"
    program.write_text(f'#!/bin/sh\ncat "$1" > {seen}\necho "$1" > {seen}.name\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PAGER", str(program))
    return seen


@contextmanager
def nothing() -> Iterator[None]:
    yield


async def test_the_pager_gets_merged_lines_or_a_ranks_own_bytes(
    app: BookApp, pager: Path, monkeypatch: pytest.MonkeyPatch, until: Until
) -> None:
    terminal, other = os.openpty()
    monkeypatch.setattr("console.ui.external.TERMINAL", os.ttyname(other))
    monkeypatch.setattr(app, "suspend", nothing)
    app.say("\x1b[1mbold")
    async with app.run_test(size=(80, 12)) as pilot:
        await pilot.press("p")
        await until(pilot, lambda: pager.exists() and app.pane.copied is None)
        assert "r0 | step 0\n" == pager.read_text()[:12]
        assert not Path(pager.with_name("seen.name").read_text().strip()).exists()
        app.pane.select(0)
        await pilot.press("p")

        assert pager.read_text().startswith("step 0\nstep 1\n")
        assert pager.read_text().endswith("\x1b[1mbold\n")
    os.close(terminal)
    os.close(other)


async def test_without_a_terminal_of_its_own_there_is_no_pager(app: BookApp, until: Until) -> None:
    async with app.run_test(size=(80, 12), notifications=True) as pilot:
        app.pane.select(0)
        await pilot.press("p")
        await until(pilot, lambda: any("needs a terminal" in n.message for n in app._notifications))
