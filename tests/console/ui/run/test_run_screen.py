from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from console.app import RankdeckApp
from console.data.replay import replay
from console.data.run.health import Condition
from console.data.run.model import RankView
from console.demo import record_demo
from console.ui.dialogs import StartScreen
from console.ui.logs.pane import LogPane
from console.ui.logs.view import LogView
from console.ui.run.charts import Charts
from console.ui.run.deck import PANES, arrange
from console.ui.run.header import Headline, PhaseStrip, RunHeader
from console.ui.run.rank_detail import RankDetail
from console.ui.run.rank_grid import RankGrid
from console.ui.run.rank_table import HostLine, table_lines
from console.ui.run.result import ResultPane
from console.ui.run.screen import RunScreen
from console.ui.run.stacks import StackSheet
from console.ui.run.view_sheet import ViewSheet
from console.ui.widgets.key_line import KeyLine
from launcher.errors import InternalError
from launcher.runs.catalog import create_folder
from launcher.runs.writer import RunWriter
from launcher.spec.job import JobSpec, Target, TargetKind
from launcher.spec.places import host_labels
from launcher.state import events as ev
from launcher.state.ranks import Rank
from tests.console.looking import shown, text
from tests.console.scripted import HOSTS, SPARK, Scripted

if TYPE_CHECKING:
    from tests.console.conftest import FakeCommands, Until

SIZES = [(80, 24), (120, 40), (200, 60)]
Open = Callable[..., RankdeckApp]


def run_screen(app: RankdeckApp) -> RunScreen:
    screen = app.screen
    assert isinstance(screen, RunScreen)
    return screen


def ended(app: RankdeckApp) -> bool:
    view = run_screen(app).view
    return view is not None and not view.live


def keys(app: RankdeckApp) -> str:
    return app.screen.query_one(KeyLine).render_line(0).text


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
        # its second line has room once it is laid out again
        await until(pilot, lambda: "head:7077" in text(app.screen.query_one(RunHeader)))

        assert text(app.screen.query_one(RunHeader)) == (
            " ✓ succeeded  llama-ft  8 ranks · 2 hosts · 8×H100 80GB HBM3  00:00:29\n"
            " cluster · app-20260101100000-0042 · http://head:4040 · spark://head:7077"
        )
        assert text(app.screen.query_one(PhaseStrip)) == (
            " submit ✓ 0.3s › slots ✓ 1.9s › start ✓ 3.0s › train ✓ 24s › end ✓"
        )
        assert text(app.screen.query_one(Headline)).startswith(" ✓ all 8 ranks succeeded  step 84  loss")


async def test_a_rank_has_a_row_with_its_figures(open_app: Open, until: Until) -> None:
    app = open_app(seconds=30)
    async with app.run_test(size=(120, 24)) as pilot:
        await until(pilot, lambda: shown(app))
        rows = text(app.screen.query_one(RankGrid)).splitlines()

        assert rows[0].split() == ["rank", "state", "GPU", "step", "GPU", "mem", "power", "temp", "pid"]
        assert rows[1].startswith(" gpu-01  4 ranks  4 GPUs ")
        cells = rows[5].split()
        assert cells[:3] == ["✓", "3", "done"]
        assert cells[-6:] == ["84", cells[-5], "70.4G", cells[-3], cells[-2], "21039"]
        assert cells[-5].endswith("%")


async def test_ranks_stand_below_their_hosts_until_the_worst_come_first(open_app: Open, until: Until) -> None:
    app = open_app(seconds=30)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: shown(app))
        grid = app.screen.query_one(RankGrid)

        def leads() -> list[str]:
            return [row.split()[0] for row in text(grid).splitlines()[1:]]

        assert ["gpu-01", *"✓✓✓✓", "gpu-02", *"✓✓"] == leads(), "as far as there is room"
        assert str(grid.border_title).endswith("on gpu-01")
        await pilot.press("1", "j", "j", "j", "j")
        assert (4, "on gpu-02") == (grid.cursor, str(grid.border_title)[-9:]), "a host's line is no stop"
        await pilot.press("G")
        assert 7 == grid.cursor
        await pilot.press("g")
        assert (0, 0) == (grid.cursor, grid.scroll_offset.y), "the first host is seen again"
        await pilot.press("s")
        assert ["✓"] * 8 == leads()
        assert "gpu-02" in text(grid), "now a column tells the host"


async def test_ranks_can_be_sorted_before_there_are_any(open_app: Open, until: Until, root: Path) -> None:
    run = Scripted(root)
    run.writer.close()
    app = open_app(run=run.folder)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: shown(app))
        await pilot.press("1", "s", "w", "j", "G")

        assert app.screen.query_one(RankGrid).worst_first
        assert "no rank has a place yet" in text(app.screen.query_one(RankGrid))


def placed(*hosts: int) -> list[RankView]:
    """A rank on each of some hosts."""
    return [
        RankView(Rank(rank=rank, agent=host, host=f"gpu-{host}"), Condition.OK)
        for rank, host in enumerate(hosts)
    ]


def test_a_host_has_a_line_where_that_tells_ranks_apart() -> None:
    def leads(*hosts: int) -> list[int]:
        return [x.agent for x in table_lines(placed(*hosts), by_host=True) if isinstance(x, HostLine)]

    assert [] == leads(1, 1, 1), "one host"
    assert [] == leads(1, 2, 3), "a rank each"
    assert [1, 2] == leads(1, 1, 2, 2)
    assert [1, 2] == leads(1, 1, 1, 2)
    assert [] == [x for x in table_lines(placed(1, 1, 2, 2), by_host=False) if isinstance(x, HostLine)]


async def test_without_a_gpu_the_panes_say_so(open_app: Open, until: Until) -> None:
    app = open_app(seconds=20, gpus=False)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: shown(app))

        assert app.screen.query_one(RankGrid).border_title == "1 Ranks · no GPU, showing CPU · on gpu-01"
        await pilot.press("2")
        await pilot.pause()
        assert "no GPU: CPU only" in text(app.screen.query_one(RankDetail))
        assert "CPU" in text(app.screen.query_one(RunHeader))
        assert "GPU" not in text(app.screen.query_one(RankGrid))


async def test_the_state_of_ranks_can_be_read_without_colour(open_app: Open, until: Until) -> None:
    app = open_app(fail=True)
    async with app.run_test(size=(80, 40)) as pilot:
        await until(pilot, lambda: shown(app))
        rows = text(app.screen.query_one(RankGrid)).splitlines()[1:]

        ranks = [row.split() for row in rows if not row.startswith(" gpu-")]
        assert [row[0] for row in ranks] == ["■"] * 5 + ["✗"] + ["■"] * 2
        assert [row[2] for row in ranks] == ["stopped"] * 5 + ["failed"] + ["stopped"] * 2


async def test_a_failure_takes_the_headline_and_the_cursor(open_app: Open, until: Until) -> None:
    app = open_app(fail=True)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: shown(app))
        lines = text(app.screen.query_one(Headline)).splitlines()

        assert lines[0] == " ✗ rank 5 on gpu-02 raised torch.OutOfMemoryError"
        assert lines[1].startswith("   CUDA out of memory.")
        assert lines[4] == "   model.py:212 in forward ← train.py:61 in step ← train.py:88 in main"
        assert lines[5] == "   cause: rank 5 ran out of GPU memory on gpu-02"
        assert lines[6].startswith("   remedy: ")
        assert lines[7].startswith("   exit 1 after 49s at step 180 · collateral: 7 SIGTERM  █")
        assert app.screen.query_one(RankGrid).cursor == 5
        assert "   cause    rank 5 ran out of GPU memory" in text(app.screen.query_one(ResultPane))


def without_a_cause(run: Path, message: str) -> Path:
    """The run as it would be recorded if its exception had this message, which tells no cause."""
    events = run / "events.jsonl"
    kept = []
    for line in events.read_text().splitlines():
        fact = json.loads(line)
        if fact["event"] == "rank_raised":
            fact["message"] = message
        if fact["event"] != "cause_found":
            kept.append(json.dumps(fact))
    events.write_text("\n".join(kept) + "\n")
    return run


async def test_a_long_message_is_read_whole_where_it_takes_two_lines(
    open_app: Open, until: Until, root: Path
) -> None:
    message = "the batch that was read has 8,191 tokens in its third row, and all of the others have 8,192"
    app = open_app(run=without_a_cause(record_demo(root, fail=True), message))
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: shown(app))
        await until(pilot, lambda: app.screen.query_one(Headline).size.height == 5)
        lines = text(app.screen.query_one(Headline)).splitlines()

        assert " ".join(line.strip() for line in lines[1:3]) == message


async def test_a_known_cause_goes_before_the_message_where_there_is_little_room(
    open_app: Open, until: Until
) -> None:
    app = open_app(fail=True)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: shown(app))
        await until(pilot, lambda: app.screen.query_one(Headline).size.height == 5)
        lines = text(app.screen.query_one(Headline)).splitlines()

        assert [line.split()[0] for line in lines] == ["✗", "model.py:212", "cause:", "remedy:", "exit"]


async def test_the_error_is_the_last_line_though_another_rank_left_a_bar(
    open_app: Open, until: Until
) -> None:
    app = open_app(fail=True)
    async with app.run_test(size=(120, 50)) as pilot:
        await until(pilot, lambda: shown(app))
        log = app.screen.query_one(LogView)

        def last() -> str:
            lines = [log.render_line(y).text.strip() for y in range(log.size.height)]
            return next(line for line in reversed(lines) if line)

        await until(pilot, lambda: last().startswith("5 ▎torch.OutOfMemoryError: CUDA out of memory."))
        lines = [log.render_line(y).text for y in range(log.size.height)]
        bar = next(n for n, line in enumerate(lines) if "▎train:" in line)
        assert "Traceback" in lines[bar + 1]


async def test_the_rank_that_failed_is_in_view_where_not_all_are(open_app: Open, until: Until) -> None:
    app = open_app(fail=True)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: shown(app))
        await until(pilot, lambda: "failed" in text(app.screen.query_one(RankGrid)))


async def test_texts_of_users_cannot_break_the_screen(open_app: Open, until: Until, root: Path) -> None:
    run = record_demo(root, fail=True)
    events = run / "events.jsonl"
    recorded = events.read_text().replace("CUDA out of memory", r"bad\n\u001b[2Jbatch [red]x[/red]")
    events.write_text(recorded.replace("rank 5 ran out", r"rank 5\r\n\u001b[2Jran [red]out[/red]"))
    app = open_app(run=run)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: shown(app))

        said = "   bad  [2Jbatch [red]x[/red]"
        await until(pilot, lambda: said in text(app.screen.query_one(Headline)))
        cause = "cause: rank 5   [2Jran [red]out[/red] of GPU memory"
        await until(pilot, lambda: cause in text(app.screen.query_one(Headline)))


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
        assert panes(app) == set(PANES) - {"detail", "devices"}


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
        await until(pilot, lambda: grid.cursor == 66)

        first = f"     0  {'✓' * 64}"
        await until(pilot, lambda: text(grid).splitlines()[:1] == [first])


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


async def test_an_ended_run_is_begun_again_and_not_stopped(
    open_app: Open, until: Until, commands: FakeCommands, root: Path, project: Path, tmp_path: Path
) -> None:
    live = replay(record_demo(tmp_path / "recorded"), root, ahead_s=30)
    commands.run = live.run.name
    first = create_folder(root, 1_767_261_600.0)
    target = Target(TargetKind.SCRIPT, str(project / "score.py"))
    writer = RunWriter(first, JobSpec(target, 2, workdir=str(project)))
    writer.append(ev.RunSubmitted(time=1.0, name="", target="x", mode="local", num_processes=2))
    writer.append(ev.RunEnded(time=2.0, state="failed", exit_code=1, why="it did"))
    writer.close()
    app = open_app(run=first)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: shown(app))
        await until(pilot, lambda: "Run again" in keys(app))
        ended_keys = keys(app)
        await pilot.press("x")
        await pilot.pause()
        unstopped = run_screen(app).run
        await pilot.press("R")
        await until(pilot, lambda: isinstance(app.screen, StartScreen))
        await pilot.press("enter")
        await until(pilot, lambda: shown(app) and run_screen(app).run != first)
        await until(pilot, lambda: "x Stop" in keys(app))

        assert "Stop" not in ended_keys
        assert "esc Back" in ended_keys
        assert "Run again" not in keys(app)
    live.stop()
    assert live.join(10)
    assert unstopped == first
    assert len(commands.started) == 1


async def test_no_act_is_told_of_by_two_keys(open_app: Open, until: Until) -> None:
    app = open_app(seconds=20)
    async with app.run_test(size=(200, 60)) as pilot:
        await until(pilot, lambda: shown(app))
        await pilot.press("1")
        await until(pilot, lambda: "m Metric" in keys(app))

        assert keys(app).count("Rank's log") == 1


async def test_a_folder_that_tells_nothing_yet_is_shown(open_app: Open, until: Until, root: Path) -> None:
    """A run's folder is there, with what was asked, before its first fact."""
    asked = JobSpec(Target(TargetKind.SCRIPT, "/w/train.py"), 2, workdir="/w")
    app = open_app(run=create_folder(root, 1_767_261_600.0, asked))
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "submit" in text(app.screen.query_one(PhaseStrip)))
        assert isinstance(app.screen, RunScreen)


async def test_a_live_run_is_followed_to_its_result(
    open_app: Open, until: Until, root: Path, tmp_path: Path
) -> None:
    live = replay(record_demo(tmp_path / "recorded", seconds=30), root, speed=15)
    app = open_app(run=live.run)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: shown(app))
        await until(pilot, lambda: "step" in text(app.screen.query_one(Headline)) or ended(app))
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
        await until(pilot, lambda: app.clipboard)

        assert app.clipboard.startswith(
            "rankdeck run train.py:main -n 8 --mode cluster --gpu --param lr=3e-4"
        )


async def test_facts_that_cannot_be_read_are_said_at_the_top(
    open_app: Open, until: Until, root: Path
) -> None:
    run = record_demo(root)
    (run / "events.jsonl").unlink()
    (run / "events.jsonl").mkdir()
    app = open_app(run=run)
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: shown(app))
        said = "unreadable: events.jsonl (is a folder)"
        await until(pilot, lambda: any(said in text(sheet) for sheet in app.screen.query(ViewSheet)))


def test_a_small_terminal_shows_one_pane_above_and_one_below() -> None:
    from textual.geometry import Size

    plan = arrange(Size(80, 24), 20, lines=9, upper="ranks", lower="logs", zoomed=None)

    assert plan.panes == ("ranks", "logs")
    assert plan.upper_height == 11


@pytest.mark.parametrize(
    ("size", "above"),
    [((200, 60), ("ranks", "detail", "charts")), ((160, 34), ("ranks", "detail", "charts")),
     ((159, 60), ("ranks", "charts")), ((160, 33), ("ranks", "charts"))],
)  # fmt: skip
def test_charts_stand_beside_the_rest_where_there_is_room(
    size: tuple[int, int], above: tuple[str, ...]
) -> None:
    from textual.geometry import Size

    plan = arrange(Size(*size), size[1] - 7, lines=9, upper="ranks", lower="logs", zoomed=None)

    assert plan.panes[: len(above)] == above
    assert plan.upper_height is not None
    assert plan.upper_height <= (size[1] - 7) * 3 // 5


# --- Spark: several hosts, waiting, attempts


@pytest.mark.parametrize("size", SIZES)
async def test_ranks_show_on_which_of_several_hosts_they_are(
    open_app: Open, until: Until, root: Path, size: tuple[int, int]
) -> None:
    run = Scripted(root, ranks=6)
    run.add(SPARK)
    run.place(2.0)
    app = open_app(run=run.folder)
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: shown(app))
        rows = text(app.screen.query_one(RankGrid))

        assert "6 ranks · 3 hosts · CPU" in text(app.screen.query_one(RunHeader))
        for host in HOSTS:
            assert 1 == rows.count(f" {host}  2 ranks"), "above its ranks"
        await pilot.press("1", "s")
        rows = text(app.screen.query_one(RankGrid))
        for host in ("…-10-0-12-31", "…-10-0-12-32", "ip-10-0-47-5"):
            assert 2 == rows.count(host), "beside its ranks"
    run.writer.close()


def test_hosts_are_named_so_that_they_differ() -> None:
    def named(*hosts: str) -> list[str]:
        labels = host_labels(hosts, 12)
        return [labels[h] for h in hosts if h]

    assert ["a", "b"] == named("a.example.org", "b.example.org")
    assert ["a.one.org", "b.two.org"] == named("a.one.org", "b.two.org")
    assert ["10.0.0.1", "10.0.0.2"] == named("10.0.0.1", "10.0.0.2")
    assert ["…e-pool-0001", "…e-pool-0002"] == named("gke-large-pool-0001", "gke-large-pool-0002")
    assert ["node1"] == named("node1", "")


async def test_spark_and_its_page_stand_below_the_name_and_can_be_copied(
    open_app: Open, until: Until, root: Path
) -> None:
    run = Scripted(root)
    app = open_app(run=run.folder)
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await until(pilot, lambda: shown(app))
        await pilot.press("u")
        before = app.clipboard
        assert " cluster · no Spark session yet" == text(app.screen.query_one(RunHeader)).splitlines()[1]
        run.add(SPARK, ev.DeliveryChosen(time=1.5, way="spool", reason="no way back"))
        expected = " cluster · app-20260101100000-0042 · http://head:4040 · output spool"
        await until(pilot, lambda: expected in text(app.screen.query_one(RunHeader)))
        await pilot.press("u")

        assert ("", "http://head:4040") == (before, app.clipboard)
    run.writer.close()


async def test_trackers_stand_below_the_name_and_their_pages_can_be_copied_one_after_the_other(
    open_app: Open, until: Until, root: Path
) -> None:
    run = Scripted(root)
    page = "https://tracking.example/#/experiments/1/runs/abc"
    run.add(
        SPARK,
        ev.TrackerLinked(time=2.0, tracker="mlflow", id="abc", store="https://tracking.example", url=page),
        ev.TrackerLinked(time=3.0, tracker="tensorboard", rank=0, store="/w/runs/\x1b]0;title\x07a"),
        ev.TrackerLinked(time=3.0, tracker="tensorboard", rank=1, store="/w/runs/b"),
    )
    app = open_app(run=run.folder)
    async with app.run_test(size=(160, 40), notifications=True) as pilot:
        await until(pilot, lambda: shown(app))
        await until(pilot, lambda: "MLflow" in text(app.screen.query_one(RunHeader)))
        line = text(app.screen.query_one(RunHeader)).splitlines()[2]
        copied = []
        for _ in range(5):
            await pilot.press("u")
            copied.append(app.clipboard)

        assert line.startswith(f" MLflow {page} · TensorBoard /w/runs/")
        assert line.isprintable()
        assert line.endswith(" +1")
        assert [SPARK.ui, page, "/w/runs/b", SPARK.ui] == [*copied[:2], *copied[3:]]
    run.writer.close()


async def test_waiting_says_for_how_many_slots_and_how_long(open_app: Open, until: Until, root: Path) -> None:
    run = Scripted(root, ranks=8)
    waits = ev.SlotsAwaited(time=2.0, have=5, need=8, limit_s=600.0, reason="another application holds 3")
    run.add(SPARK, waits)
    app = open_app(run=run.folder)
    async with app.run_test(size=(120, 24)) as pilot:
        await until(pilot, lambda: shown(app))
        said = text(app.screen.query_one(Headline))

        assert re.fullmatch(
            r" slots 5/8, waiting \d+ s of 600 s · another application holds 3", said.rstrip("…")
        )
        assert "slots ○" in text(app.screen.query_one(PhaseStrip))
    run.writer.close()


async def test_another_attempt_begins_on_a_clean_screen(open_app: Open, until: Until, root: Path) -> None:
    run = Scripted(root, ranks=4)
    run.add(SPARK)
    run.place(2.0)
    run.add(ev.RankReported(time=3.5, rank=0, step=84, metrics={"loss": 2.0}), (3.6, 0, "step 84\n"))
    app = open_app(run=run.folder)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: shown(app))
        assert "  attempt 0/3" in text(app.screen.query_one(RunHeader))
        run.fail(5.0, 2)
        await until(pilot, lambda: "rank 2 on ip-10" in text(app.screen.query_one(Headline)))
        assert 2 == app.screen.query_one(RankGrid).cursor

        run.restart(7.0, 1, "rank 2 on ip-10-0-12-32 exited with code 7")
        await until(pilot, lambda: "  attempt 1/3" in text(app.screen.query_one(RunHeader)))
        assert " starting again: rank 2 on ip-10-0-12-32 exited with code 7" == (
            text(app.screen.query_one(Headline)).rstrip()
        )
        run.place(7.0, 1)
        run.add((9.0, 0, "from the checkpoint\n"))
        await until(pilot, lambda: "no step reported yet" in text(app.screen.query_one(Headline)))
        assert re.match(
            r" attempt 1 › slots – › start ✓ 1\.0s › train ● .* › end", text(app.screen.query_one(PhaseStrip))
        )
        assert "84" not in text(app.screen.query_one(RankGrid))
        log = app.screen.query_one(LogView)
        await until(pilot, lambda: "from the" in log.render_line(2).text)
        assert [
            "0  step 84", "── attempt 1 (rank 2 on ip-10-0-12-32 exited with code 7) ──",
            "0  from the checkpoint",
        ] == [log.render_line(y).text.strip() for y in range(3)]  # fmt: skip
        assert "2 lines" in (app.screen.query_one(LogPane).border_title or "")

        run.fail(11.0, 3, 1, code=9)
        await until(pilot, lambda: "exited with 9" in text(app.screen.query_one(Headline)))
        assert 3 == app.screen.query_one(RankGrid).cursor
        end = "rank 3 on ip-10-0-47-5.ec2.internal exited with code 9, after 1 restart"
        run.add(ev.RunEnded(time=13.0, attempt=1, state="failed", exit_code=9, why=end, rank=3))
        await until(pilot, lambda: ended(app))
    run.writer.close()


async def test_a_loss_is_told_where_no_rank_failed(open_app: Open, until: Until, root: Path) -> None:
    run = Scripted(root, max_restarts=0)
    run.place(2.0)
    why = "executor 3 on node2 was lost: Command exited with code 137"
    run.add(ev.RunEnded(time=5.0, state="lost", exit_code=75, why=why))
    run.writer.close()
    app = open_app(run=run.folder)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: shown(app))
        assert f" ✗ {why}" == text(app.screen.query_one(Headline))
        assert "attempt" not in text(app.screen.query_one(RunHeader))


async def test_the_grid_charts_another_figure_and_puts_the_worst_first(open_app: Open, until: Until) -> None:
    app = open_app(fail=True)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: shown(app))
        grid = app.screen.query_one(RankGrid)
        await pilot.press("1", "m", "s")
        worst = text(grid).splitlines()
        await pilot.press("g")

        assert grid.border_title == "1 Ranks · memory, means and peaks · worst first"
        assert worst[0].split()[2] == "memory"
        assert worst[1].split()[:3] == ["✗", "5", "failed"]
        assert grid.cursor == app.screen.query_one(RankDetail).rank == 5


async def test_charts_and_alerts_take_the_place_of_the_detail(open_app: Open, until: Until) -> None:
    app = open_app(seconds=90)
    async with app.run_test(size=(120, 60)) as pilot:
        await until(pilot, lambda: shown(app))
        await pilot.press("2", "5")
        await pilot.pause()
        charts = app.screen.query_one(Charts)

        assert panes(app) == set(PANES) - {"detail", "devices"}
        assert "loss 2.022 (1.988 … 2.058)" in text(charts)
        await pilot.press("z", "G")
        assert "step   p50 0.25 s  p99 0.25  max 0.25 (r0)" in text(charts)


async def test_stacks_are_asked_for_and_shown_as_they_come(
    open_app: Open, until: Until, commands: FakeCommands, root: Path
) -> None:
    run = Scripted(root)
    run.place(2)
    app = open_app(run=run.folder)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: shown(app))
        await pilot.press("T")
        await until(pilot, lambda: commands.asked)
        run.add(*(ev.StacksTaken(time=5, rank=r, text='  File "t.py", line 5 in fit') for r in range(3)))
        await until(pilot, lambda: "ranks 0-2:" in text(app.screen.query_one(StackSheet)))
        await pilot.press("escape")

        assert commands.asked == [run.folder]
        assert isinstance(app.screen, RunScreen)


async def test_what_a_host_does_is_told_in_two_lines_where_one_is_too_short(
    open_app: Open, until: Until
) -> None:
    app = open_app(ranks=64, seconds=20)
    async with app.run_test(size=(160, 40)) as pilot:
        await until(pilot, lambda: shown(app))
        await until(pilot, lambda: "there" in text(app.screen.query_one(RankDetail)))
        lines = text(app.screen.query_one(RankDetail)).splitlines()
        at = next(n for n, line in enumerate(lines) if line.startswith(" there"))

        assert lines[at].split() == ["there", "32", "ranks"]
        assert lines[at + 1].split()[:2] == ["32", "GPUs"]
        assert lines[at + 1].endswith("°")
