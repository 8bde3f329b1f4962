"""Time travel on the run screen: every key of it, what the panes show, and the way back to now."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from console.app import RankdeckApp
from console.data.replay import replay
from console.demo import RECORDED_AT, record_demo
from console.ui.finding.help import HelpScreen
from console.ui.logs.pane import LogPane
from console.ui.logs.view import LogView
from console.ui.run.charts import Charts
from console.ui.run.header import Headline, RunHeader
from console.ui.run.rank_grid import RankGrid
from console.ui.run.result import ResultPane
from console.ui.run.screen import RunScreen
from console.ui.travel.timeline import Timeline
from console.ui.widgets.fields import Field
from console.ui.widgets.key_line import KeyLine
from tests.console.looking import shown, text

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from tests.console.conftest import Until

Open = Callable[..., RankdeckApp]
SIZES = [(50, 14), (80, 24), (120, 40), (200, 60)]


def run_screen(app: RankdeckApp) -> RunScreen:
    screen = app.screen
    assert isinstance(screen, RunScreen)
    return screen


def words(app: RankdeckApp) -> str:
    return text(app.screen.query_one(Timeline)).partition("\n")[0]


def at(app: RankdeckApp) -> float:
    """The moment that is shown, in seconds after the recorded run's start."""
    moment = app.screen.query_one(Timeline).moment
    return -1.0 if moment is None else round(moment.at - RECORDED_AT, 2)


async def move(app: RankdeckApp, pilot: Pilot[int], until: Until, key: str) -> None:
    """Press a key that goes to another moment."""
    before = at(app)
    await pilot.press(key)
    await until(pilot, lambda: at(app) != before)


async def travel(app: RankdeckApp, pilot: Pilot[int], until: Until, *pressed: str) -> None:
    """Enter time travel on the recorded run, and press keys one after the other."""
    await until(pilot, lambda: shown(app))
    await pilot.press("t")
    await until(pilot, lambda: at(app) >= 0)
    for key in pressed:
        await move(app, pilot, until, key)


@pytest.mark.parametrize("size", SIZES)
async def test_it_is_clear_that_this_is_the_past(open_app: Open, until: Until, size: tuple[int, int]) -> None:
    app = open_app(seconds=30)
    async with app.run_test(size=size) as pilot:
        await travel(app, pilot, until, "shift+left")

        assert words(app).startswith(" ◀ PAST  at 00:00:00 of 00:00:29 · paused")
        await pilot.press("t")
        await until(pilot, lambda: at(app) < 0)
        assert not app.screen.query_one(Timeline).display
        assert "succeeded" in text(app.screen.query_one(RunHeader))


async def test_every_key_goes_where_it_says(open_app: Open, until: Until) -> None:
    app = open_app(seconds=30)
    async with app.run_test(size=(120, 40)) as pilot:
        await travel(app, pilot, until)
        end = at(app)
        moments = []
        for key in ("home", "end", "[", "[", "]", "{", "}", "left", "right", "shift+left", "right"):
            await move(app, pilot, until, key)
            moments.append(at(app))

        steps = (26.75, 25.75, 26.75, 16.75, 26.75)
        assert moments == [0.0, end, *steps, 25.75, 26.75, 0.0, 1.0]


async def test_all_panes_show_the_moment(open_app: Open, until: Until) -> None:
    app = open_app(seconds=30, fail=True)
    async with app.run_test(size=(120, 40)) as pilot:
        await travel(app, pilot, until, "home", *["right"] * 12)
        await pilot.pause()

        assert " ● running" in text(app.screen.query_one(RunHeader))
        assert "step 24" in text(app.screen.query_one(Headline))
        assert "raised" not in text(app.screen.query_one(Headline))
        assert len(re.findall(r"● +\d +running", text(app.screen.query_one(RankGrid)))) == 8
        assert "0/8 returned" in str(app.screen.query_one(ResultPane).border_title)
        log = app.screen.query_one(LogView)
        last = log.visible_text().splitlines()[-1]
        assert last.startswith("step   24")
        assert app.screen.query_one(Charts).look.cursor == 24.0

        await pilot.press("end")
        await until(pilot, lambda: "OutOfMemoryError" in text(app.screen.query_one(Headline)))
        assert "OutOfMemoryError" in log.visible_text()


async def test_the_log_of_one_rank_with_a_filter_ends_at_the_moment_too(open_app: Open, until: Until) -> None:
    app = open_app(seconds=30)
    async with app.run_test(size=(120, 40)) as pilot:
        await travel(app, pilot, until, "home", *["right"] * 12)
        pane, log = app.screen.query_one(LogPane), app.screen.query_one(LogView)
        pane.select(0)
        await pilot.pause()
        whole = log.visible_text().splitlines()
        pane.filter_by("step +(8|16|24|32) ")
        await until(pilot, lambda: len(log.visible_text().splitlines()) == 3)
        before = at(app)
        await pilot.press("right", "right", "right")
        await until(pilot, lambda: at(app) == before + 3)
        await until(pilot, lambda: len(log.visible_text().splitlines()) == 4)
        await pilot.press("home")
        await until(pilot, lambda: not log.visible_text())

        assert len(whole) == 4
        assert "0 lines" in str(pane.border_title)


async def test_time_goes_on_until_it_is_paused(open_app: Open, until: Until) -> None:
    app = open_app(seconds=30)
    async with app.run_test(size=(120, 40)) as pilot:
        await travel(app, pilot, until, "home")
        await pilot.press("+", "+", "-", "space")
        await until(pilot, lambda: at(app) > 1)
        assert "playing ×2" in words(app)
        assert "space Pause" in text(app.screen.query_one(KeyLine))
        await pilot.press("space")
        await until(pilot, lambda: "paused ×2" in words(app))
        for _ in range(9):
            await pilot.press("+")
        await until(pilot, lambda: "×64" in words(app))
        await pilot.press("space")
        await until(pilot, lambda: at(app) == 29.9)

        await until(pilot, lambda: "paused" in words(app))


async def test_a_click_on_the_timeline_goes_there(open_app: Open, until: Until) -> None:
    app = open_app(seconds=30)
    async with app.run_test(size=(80, 24)) as pilot:
        await travel(app, pilot, until)
        await pilot.pause()
        await pilot.click(Timeline, offset=(40, 1))
        await until(pilot, lambda: 14 < at(app) < 16)
        await pilot.click(Timeline, offset=(0, 1))
        await until(pilot, lambda: at(app) == 0)


async def test_the_key_line_and_the_help_name_the_keys(open_app: Open, until: Until) -> None:
    app = open_app(seconds=20)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: shown(app))
        assert "t Time travel" in text(app.screen.query_one(KeyLine))
        await travel(app, pilot, until)
        await pilot.pause()
        line = text(app.screen.query_one(KeyLine))
        assert line.startswith(" [ Step back ] Step on space Play esc Now ← Second back → Second on"), line
        await pilot.press("question_mark")
        await until(pilot, lambda: isinstance(app.screen, HelpScreen))
        await pilot.pause()
        assert "Time travel" in app.export_screenshot().replace("&#160;", " ")


async def test_outside_of_it_its_keys_mean_what_they_did(open_app: Open, until: Until) -> None:
    app = open_app(seconds=20)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: shown(app))
        grid = app.screen.query_one(RankGrid)
        await pilot.press("]", "]", "[")
        assert grid.cursor == 1
        await travel(app, pilot, until, "[")
        assert grid.cursor == 1
        await pilot.press("escape")
        await until(pilot, lambda: at(app) < 0)
        await pilot.press("]")
        assert grid.cursor == 2
        assert isinstance(app.screen, RunScreen)


async def test_while_text_is_typed_its_keys_are_text(open_app: Open, until: Until) -> None:
    app = open_app(seconds=20)
    async with app.run_test(size=(80, 24)) as pilot:
        await travel(app, pilot, until, "home")
        await pilot.press("slash")
        await pilot.press("t", "space", "[", "+")
        assert app.screen.query_one("#search", Field).value == "t [+"
        assert at(app) == 0


async def test_a_live_run_goes_on_behind_and_its_end_leads_back(
    root: Path, open_app: Open, until: Until, tmp_path: Path
) -> None:
    recorded = record_demo(tmp_path / "recorded", seconds=60)
    running = replay(recorded, root, ahead_s=20.0)
    app = open_app(run=running.run)
    try:
        async with app.run_test(size=(120, 40)) as pilot:
            await until(pilot, lambda: shown(app))
            await pilot.press("t")
            await until(pilot, lambda: run_screen(app).travelling and words(app))
            await pilot.press("shift+left")
            await until(pilot, lambda: "00:00:00 of" in words(app))
            now, past = run_screen(app).now, run_screen(app).view
            await until(pilot, lambda: run_screen(app).now is not now)
            assert run_screen(app).view.state == past.state  # type: ignore[union-attr]
            assert run_screen(app).live
            await until(pilot, lambda: "q Detach" in text(app.screen.query_one(KeyLine)))
            await pilot.press("end")

            assert not run_screen(app).travelling
            assert run_screen(app).view is run_screen(app).now
    finally:
        running.stop()
        running.join(10.0)


async def test_leaving_the_screen_ends_the_reader(open_app: Open, until: Until) -> None:
    app = open_app(seconds=20)
    async with app.run_test(size=(80, 24)) as pilot:
        await travel(app, pilot, until, "home")
        feed = run_screen(app)._moments
        assert feed is not None
        thread = feed.poller._thread
        app.exit()
        await pilot.pause()
    thread.join(10.0)

    assert not thread.is_alive()


async def test_a_paused_moment_writes_nothing(open_app: Open, until: Until) -> None:
    app = open_app(seconds=20)
    async with app.run_test(size=(120, 40)) as pilot:
        await travel(app, pilot, until, "home", "right", "right")
        screen = run_screen(app)
        feed = screen._moments
        assert feed is not None
        await until(pilot, lambda: not feed._skimming and feed._shown.settled)
        await pilot.pause(0.4)
        published: list[object] = []
        screen.show_moment = published.append  # type: ignore[assignment]
        for _ in range(5):
            feed.poller.nudge()
            await pilot.pause(0.05)

        assert published == []


def test_the_clock_of_a_hostile_time_harms_nothing() -> None:
    from console.ui.travel.timeline import _clock_time

    assert _clock_time(1e300) == _clock_time(float("nan")) == "–"
    assert os.environ.get("NO_COLOR") is None
