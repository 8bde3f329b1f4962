from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from console.app import RankdeckApp
from console.demo import record_demo
from console.screens.run import RunScreen
from console.sources.replay import replay
from console.widgets.arrangement import arrange
from console.widgets.deck import PANES
from console.widgets.headline import Headline, PhaseStrip, RunHeader
from console.widgets.log_pane import LogPane
from console.widgets.log_view import LogView
from console.widgets.rank_detail import RankDetail
from console.widgets.rank_grid import RankGrid
from console.widgets.result_pane import ResultPane
from console.widgets.sheet import Sheet
from launcher.errors import InternalError

if TYPE_CHECKING:
    from tests.console.conftest import FakeCommands, Until

SIZES = [(80, 24), (120, 40), (200, 60)]
Open = Callable[..., RankdeckApp]


def text(sheet: Sheet) -> str:
    return "\n".join(sheet.render_line(y).text.rstrip() for y in range(sheet.size.height))


def run_screen(app: RankdeckApp) -> RunScreen:
    screen = app.screen
    assert isinstance(screen, RunScreen)
    return screen


def shown(app: RankdeckApp) -> bool:
    return isinstance(app.screen, RunScreen) and app.screen.view is not None


def ended(app: RankdeckApp) -> bool:
    view = run_screen(app).view
    return view is not None and not view.live


def panes(app: RankdeckApp) -> set[str]:
    return {name for name in PANES if app.screen.query_one(f"#{name}").display}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("ranks", [1, 8, 64, 300])
async def test_everything_has_its_place_at_every_size(
    open_app: Open, until: Until, size: tuple[int, int], ranks: int
) -> None:
    app = open_app(ranks=ranks, seconds=12)
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: shown(app))
        await pilot.pause()

        assert {"ranks", "logs"} <= panes(app)
        for widget in app.screen.query("*"):
            assert widget.region.right <= size[0]
            assert widget.region.bottom <= size[1]
        assert app.screen.query_one(LogView).size.height >= 4
        assert app.screen.query_one(RankGrid).size.height >= 2


async def test_the_top_says_what_ran_and_how_it_ended(open_app: Open, until: Until) -> None:
    app = open_app(seconds=30)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: shown(app))

        assert text(app.screen.query_one(RunHeader)) == (
            " ✓ succeeded  llama-ft  8 ranks · 2 hosts · 8×H100  00:00:29"
        )
        assert text(app.screen.query_one(PhaseStrip)) == (
            " submit ✓ 0.3s › slots ✓ 2.3s › start ✓ 2.6s › train ✓ 24s › end ✓"
        )
        assert text(app.screen.query_one(Headline)).startswith(" ✓ all 8 ranks succeeded  step 84  loss")


async def test_a_rank_has_a_row_with_its_figures(open_app: Open, until: Until) -> None:
    app = open_app(seconds=30)
    async with app.run_test(size=(120, 24)) as pilot:
        await until(pilot, lambda: shown(app))
        rows = text(app.screen.query_one(RankGrid)).splitlines()

        assert rows[0].split() == ["rank", "state", "device", "host", "step", "GPU", "mem", "temp"]
        cells = rows[4].split()
        assert cells[:3] == ["✓", "3", "done"]
        assert cells[-5:] == ["gpu-01", "84", cells[-3], "70.5G", cells[-1]]
        assert cells[-3].endswith("%")


async def test_without_a_gpu_the_panes_say_so(open_app: Open, until: Until) -> None:
    app = open_app(seconds=20, gpus=False)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: shown(app))

        assert app.screen.query_one(RankGrid).border_title == "1 Ranks · no GPU, showing CPU"
        assert "no GPU: CPU only" in text(app.screen.query_one(RankDetail))
        assert "CPU" in text(app.screen.query_one(RunHeader))
        assert "GPU" not in text(app.screen.query_one(RankGrid))


async def test_the_state_of_ranks_can_be_read_without_colour(open_app: Open, until: Until) -> None:
    app = open_app(fail=True)
    async with app.run_test(size=(80, 40)) as pilot:
        await until(pilot, lambda: shown(app))
        rows = text(app.screen.query_one(RankGrid)).splitlines()[1:]

        assert [row.split()[0] for row in rows] == ["■"] * 5 + ["✗"] + ["■"] * 2
        assert [row.split()[2] for row in rows] == ["stopped"] * 5 + ["failed"] + ["stopped"] * 2


async def test_a_failure_takes_the_headline_and_the_cursor(open_app: Open, until: Until) -> None:
    app = open_app(fail=True)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: shown(app))
        lines = text(app.screen.query_one(Headline)).splitlines()

        assert lines[0] == " ✗ rank 5 on gpu-02 raised torch.OutOfMemoryError"
        assert lines[1].startswith("   CUDA out of memory.")
        assert lines[2] == "   model.py:212 in forward ← train.py:61 in step ← train.py:88 in main"
        assert lines[3] == "   exit 1 after 49s at step 180 · collateral: 7 SIGTERM"
        assert app.screen.query_one(RankGrid).cursor == 5
        assert "Traceback (most recent call last):" in text(app.screen.query_one(ResultPane))


async def test_texts_of_users_cannot_break_the_screen(open_app: Open, until: Until, root: Path) -> None:
    run = record_demo(root, fail=True)
    events = run / "events.jsonl"
    events.write_text(events.read_text().replace("CUDA out of memory", r"bad\n\u001b[2Jbatch [red]x[/red]"))
    app = open_app(run=run)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: shown(app))

        assert "   bad  [2Jbatch [red]x[/red]" in text(app.screen.query_one(Headline))


async def test_keys_choose_panes_where_not_all_fit(open_app: Open, until: Until) -> None:
    app = open_app(seconds=20)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: shown(app))
        await pilot.press("2")
        detail = panes(app)
        await pilot.press("4")
        result = panes(app)
        await pilot.press("0")

        assert detail == {"detail", "logs"}
        assert result == {"detail", "result"}
        assert panes(app) == {"ranks", "logs"}


async def test_zoom_shows_one_pane_and_then_all_again(open_app: Open, until: Until) -> None:
    app = open_app(seconds=20)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: shown(app))
        await pilot.press("3", "z")
        alone = panes(app)
        await pilot.press("1")
        other = panes(app)
        await pilot.press("escape")

        assert (alone, other) == ({"logs"}, {"ranks"})
        assert panes(app) == set(PANES)


async def test_enter_on_a_rank_shows_its_log_and_r_all_again(open_app: Open, until: Until) -> None:
    app = open_app(seconds=20)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: shown(app))
        await pilot.press("1", "j", "j", "enter")
        await pilot.pause()
        one = app.screen.query_one(LogView).rank
        await pilot.press("right_square_bracket")
        following = app.screen.query_one(LogView).rank
        await pilot.press("r")

        assert (one, following) == (2, 3)
        assert app.screen.query_one(LogView).rank is None
        assert app.screen.query_one(RankDetail).rank == 3


async def test_many_ranks_are_cells_with_a_cursor(open_app: Open, until: Until) -> None:
    app = open_app(ranks=1024, seconds=9)
    async with app.run_test(size=(80, 40)) as pilot:
        await until(pilot, lambda: shown(app))
        grid = app.screen.query_one(RankGrid)
        await pilot.press("1", "j", "l", "l")

        assert grid.cursor == 66
        assert text(grid).splitlines()[0] == f"     0  {'✓' * 64}"


async def test_a_search_finds_across_ranks(open_app: Open, until: Until) -> None:
    app = open_app(fail=True)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: shown(app))
        await pilot.press("slash", *"outofmemory", "enter")
        await until(pilot, lambda: app.screen.query_one(LogView).current is not None)

        assert "/outofmemory 1/1" in (app.screen.query_one(LogPane).border_title or "")


async def test_stopping_asks_first_and_says_what_it_is_about(
    open_app: Open, until: Until, commands: FakeCommands, root: Path, tmp_path: Path
) -> None:
    live = replay(record_demo(tmp_path / "recorded"), root, ahead_s=30)
    app = open_app(run=live.run)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: shown(app))
        await pilot.press("x")
        await pilot.pause()
        question = " ".join(str(s.render()) for s in app.screen.query("#dialog Static"))
        await pilot.press("n")
        unanswered = list(commands.stopped)
        await pilot.press("x", "y")
        await until(pilot, lambda: commands.stopped)
        await pilot.press("X", "y")
        await until(pilot, lambda: len(commands.stopped) == 2)

    live.stop()
    assert live.join(10)
    assert "llama-ft" in question
    assert "8 ranks" in question
    assert unanswered == []
    assert commands.stopped == [(live.run, False), (live.run, True)]


async def test_a_stop_that_fails_is_said(
    open_app: Open, until: Until, commands: FakeCommands, root: Path, tmp_path: Path
) -> None:
    live = replay(record_demo(tmp_path / "recorded"), root, ahead_s=30)
    commands.error = InternalError("nobody [there]")
    app = open_app(run=live.run)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await until(pilot, lambda: shown(app))
        await pilot.press("x", "y")
        await until(pilot, lambda: app._notifications)

        assert [n.message for n in app._notifications] == ["nobody [there]"]
    live.stop()
    assert live.join(10)


async def test_an_ended_run_is_not_stopped(open_app: Open, until: Until) -> None:
    app = open_app(seconds=20)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: shown(app))
        await pilot.press("x")
        await pilot.pause()

        assert isinstance(app.screen, RunScreen)


async def test_a_live_run_is_followed_to_its_result(
    open_app: Open, until: Until, root: Path, tmp_path: Path
) -> None:
    live = replay(record_demo(tmp_path / "recorded", seconds=30), root, speed=15)
    app = open_app(run=live.run)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: shown(app))
        await until(pilot, lambda: "step" in text(app.screen.query_one(Headline)))
        await until(pilot, lambda: ended(app))
        await until(pilot, lambda: "result" in panes(app))
        await until(pilot, lambda: '{"loss": 2.0' in text(app.screen.query_one(ResultPane)))
    assert live.join(10)


async def test_leaving_a_live_run_stops_nothing_and_says_which_it_was(
    open_app: Open, until: Until, commands: FakeCommands, root: Path, tmp_path: Path
) -> None:
    live = replay(record_demo(tmp_path / "recorded"), root, ahead_s=30)
    app = open_app(run=live.run)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: shown(app))
        await pilot.press("q")

    live.stop()
    assert live.join(10)
    assert app.left_running == live.run.name
    assert (app.return_value, commands.stopped) == (0, [])


async def test_copying_gives_the_failure_block(open_app: Open, until: Until) -> None:
    app = open_app(fail=True)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: shown(app))
        await pilot.press("y")

        assert "rank 5 on gpu-02 raised torch.OutOfMemoryError" in app.clipboard
        assert "Traceback (most recent call last):" in app.clipboard


async def test_copying_gives_the_command_of_a_run_that_went_well(open_app: Open, until: Until) -> None:
    app = open_app(seconds=20)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: shown(app))
        await pilot.press("y")

        assert app.clipboard.startswith(
            "rankdeck run train.py:main -n 8 --mode cluster --gpu --param lr=3e-4"
        )


async def test_a_folder_that_cannot_be_read_is_said_in_the_pane(
    open_app: Open, until: Until, root: Path
) -> None:
    run = record_demo(root)
    (run / "events.jsonl").unlink()
    (run / "events.jsonl").mkdir()
    app = open_app(run=run)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(
            pilot,
            lambda: (
                isinstance(app.screen, RunScreen)
                and "cannot be read" in (app.screen.query_one(LogPane).border_subtitle or "")
            ),
        )


def test_a_small_terminal_shows_one_pane_above_and_one_below() -> None:
    from textual.geometry import Size

    plan = arrange(Size(80, 24), 20, ranks=8, upper="ranks", lower="logs", zoomed=None)

    assert plan.panes == ("ranks", "logs")
    assert plan.upper_height == 11
