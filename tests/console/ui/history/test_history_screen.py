"""Every run there has been, in a list: found, opened, compared, started again, edited, stopped, deleted."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from console.app import RankdeckApp
from console.data.history.columns import ORDERS
from console.settings import ConsoleSettings
from console.ui.cluster.screen import ClusterScreen
from console.ui.dialogs import ConfirmScreen, StartScreen
from console.ui.history.compare import ComparisonScreen, ComparisonSheet
from console.ui.history.panes import RunCard, RunsList
from console.ui.history.screen import HistoryScreen
from console.ui.launch.panes import CommandLine
from console.ui.launch.screen import LaunchScreen
from console.ui.run.screen import RunScreen
from launcher.runs.catalog import create_folder
from launcher.runs.curves import CurveWriter
from launcher.runs.status import Owner, Status
from launcher.runs.writer import RunWriter
from launcher.serialization import to_plain
from launcher.spec.job import JobSpec, Target, TargetKind
from launcher.state import events as ev
from launcher.state.run_state import Phase
from tests.console.test_app import CountingDriver

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from tests.console.conftest import FakeCommands, Until

Open = Callable[..., RankdeckApp]
START = 1_767_261_600.0


def put(root: Path, number: int, state: Phase = Phase.SUCCEEDED, **known: Any) -> str:
    run = f"20260101-{number:06d}-000abc"
    (root / run).mkdir()
    known = {"name": f"n{number}", "started": START + number, "ended": START + number + 1, **known}
    status = Status(id=run, state=state, owner=Owner.this(), num_processes=2, **known)
    (root / run / "status.json").write_text(json.dumps(to_plain(status)))
    return run


def recorded(root: Path, project: Path, number: int, **known: Any) -> str:
    """A whole run of a script of the project."""
    folder = create_folder(root, START + number)
    target = Target(TargetKind.SCRIPT, str(project / "score.py"))
    spec = JobSpec(target, num_processes=2, workdir=str(project), name=f"r{number}", **known)
    writer = RunWriter(folder, spec)
    writer.append(ev.RunSubmitted(time=START, name=spec.name, target="x", mode="local", num_processes=2))
    writer.append(ev.RunEnded(time=START + number, state="failed", exit_code=number, why="it did"))
    writer.close()
    return folder.name


async def opened(app: RankdeckApp, pilot: Pilot[int], until: Until, runs: int) -> RunsList:
    await until(pilot, lambda: isinstance(app.screen, LaunchScreen))
    await pilot.press("f2")
    await until(pilot, lambda: isinstance(app.screen, HistoryScreen))
    await until(pilot, lambda: len(app.screen.query_one(RunsList).items) == runs)
    return app.screen.query_one(RunsList)


def lines(widget: RunsList | RunCard | ComparisonSheet) -> str:
    return "\n".join(widget.render_line(y).text for y in range(widget.size.height))


def told(app: RankdeckApp, text: str) -> bool:
    return any(text in n.message for n in app._notifications)


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_runs_are_listed_with_what_is_known_of_them(
    open_app: Open, until: Until, root: Path, size: tuple[int, int]
) -> None:
    put(root, 1, Phase.FAILED, exit_code=7, why="rank 3 exited with code 7", user="ada", target="/p/train.py")
    put(root, 2, Phase.RUNNING, ended=None)
    app = open_app()
    async with app.run_test(size=size) as pilot:
        runs = await opened(app, pilot, until, 2)
        await pilot.press("j")
        await until(pilot, lambda: "ada" in lines(app.screen.query_one(RunCard)))
        shown = lines(runs)
        card = lines(app.screen.query_one(RunCard))

    for part in ("● running", "✗ failed", "n1", "n2", "1.0s", "rank 3 ex"):
        assert part in shown
    assert ("train.py" in shown) is (size[0] == 200)
    assert "rank 3 exited with code 7" in card


async def test_ten_thousand_runs_are_listed_and_walked_through_without_making_every_row(
    open_app: Open, until: Until, root: Path
) -> None:
    for number in range(10_000):
        put(root, number)
    app = open_app()
    async with app.run_test(size=(120, 40)) as pilot:
        runs = await opened(app, pilot, until, 10_000)
        for _ in range(20):
            runs.action_move(1)
        made = len(runs._rows.made)
        await pilot.press("G")
        await until(pilot, lambda: "n0 " in lines(runs))
        await pilot.press("slash", *"n77")
        await until(pilot, lambda: {run.name[:3] for run in runs.items} == {"n77"})

    assert made < 50


async def test_the_list_is_narrowed_while_one_types_and_whole_again_after_esc(
    open_app: Open, until: Until, root: Path
) -> None:
    put(root, 1)
    put(root, 2, Phase.FAILED)
    app = open_app()
    async with app.run_test(size=(120, 40)) as pilot:
        runs = await opened(app, pilot, until, 2)
        await pilot.press("slash", *"state:fail")
        await until(pilot, lambda: ["n2"] == [run.name for run in runs.items])
        await pilot.press(*"x")
        await until(pilot, lambda: "state: takes" in str(runs.border_subtitle))
        await pilot.press("backspace", "enter")
        assert runs.has_focus
        await pilot.press("escape")
        await until(pilot, lambda: 2 == len(runs.items))
        await pilot.press("slash", *"nowhere")
        await until(pilot, lambda: "no run matches" in lines(runs))
        await pilot.press("escape", "escape")

        assert isinstance(app.screen, LaunchScreen)


async def test_the_order_changes_and_turns_round(open_app: Open, until: Until, root: Path) -> None:
    for number, size in ((1, 5), (2, 9), (3, 1)):
        put(root, number, ended=START + number + size)
    app = open_app()
    async with app.run_test(size=(120, 40)) as pilot:
        runs = await opened(app, pilot, until, 3)

        def shown() -> str:
            return "".join(run.name[1:] for run in runs.items)

        await pilot.press("s")
        await until(pilot, lambda: shown() == "213")
        await pilot.press("S")
        await until(pilot, lambda: shown() == "312")
        await pilot.press("s")
        await until(pilot, lambda: shown() == "321" and "sorted by ranks" in str(runs.border_title))


async def test_what_changes_is_shown_and_the_cursor_stays_on_its_run(
    open_app: Open, until: Until, root: Path
) -> None:
    put(root, 1)
    app = open_app()
    async with app.run_test(size=(120, 40)) as pilot:
        runs = await opened(app, pilot, until, 1)
        put(root, 2, Phase.RUNNING)
        await until(pilot, lambda: 2 == len(runs.items))

        assert ("n2", "n1") == (runs.items[0].name, runs.chosen and runs.chosen.name)


async def test_two_runs_are_compared(open_app: Open, until: Until, root: Path, project: Path) -> None:
    one, two = recorded(root, project, 1), recorded(root, project, 2, max_restarts=3)
    app = open_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(app, pilot, until, 2)
        await pilot.press("c", "j", "c")
        await until(pilot, lambda: isinstance(app.screen, ComparisonScreen))
        sheet = app.screen.query_one(ComparisonSheet)
        await until(pilot, lambda: "max_restarts" in lines(sheet))
        shown = lines(sheet)
        await pilot.press("y", "escape")
        assert isinstance(app.screen, HistoryScreen)
        assert "max_restarts" in app.clipboard

    assert f"A {two}" in shown
    assert f"B {one}" in shown


async def test_a_narrow_comparison_gives_its_room_to_the_values(
    open_app: Open, until: Until, root: Path, project: Path
) -> None:
    recorded(root, project, 1)
    recorded(root, project, 2, max_restarts=3)
    app = open_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(app, pilot, until, 2)
        await pilot.press("c", "j", "c")
        await until(pilot, lambda: isinstance(app.screen, ComparisonScreen))
        sheet = app.screen.query_one(ComparisonSheet)
        await until(pilot, lambda: "max_restarts" in lines(sheet))
        head, *_ = rows = lines(sheet).splitlines()
        at = next(row for row in rows if "max_restarts" in row)

    _, left, right, _ = re.split(r" {2,}", head.strip().rjust(len(head)))[-4:]
    assert left != right
    assert head.index("B …") - head.index("A …") > 20
    assert {"3", "0"} <= set(at.split())


async def test_a_run_that_cannot_be_compared_says_why(open_app: Open, until: Until, root: Path) -> None:
    put(root, 1)
    put(root, 2)
    app = open_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(app, pilot, until, 2)
        await pilot.press("space", "space", "c")
        await until(pilot, lambda: isinstance(app.screen, ComparisonScreen))
        sheet = app.screen.query_one(ComparisonSheet)
        await until(pilot, lambda: "not a run folder" in " ".join(lines(sheet).split()))


async def test_marked_runs_are_deleted_after_a_question_and_live_ones_are_not(
    open_app: Open, until: Until, root: Path
) -> None:
    gone = [put(root, number) for number in (1, 2)]
    kept, live = put(root, 3), put(root, 4, Phase.RUNNING)
    app = open_app()
    async with app.run_test(size=(120, 40), notifications=True) as pilot:
        runs = await opened(app, pilot, until, 4)
        await pilot.press("d")
        await until(pilot, lambda: told(app, "still running"))
        await pilot.press("space", "j", "space", "space", "d")
        await until(pilot, lambda: isinstance(app.screen, ConfirmScreen))
        await pilot.press("n")
        assert 3 == len(runs.marked)
        await pilot.press("d")
        await until(pilot, lambda: isinstance(app.screen, ConfirmScreen))
        await pilot.press("y")
        await until(pilot, lambda: [live, kept] == [run.id for run in runs.items])
        await until(pilot, lambda: told(app, "deleted 2 runs"))

    assert {kept, live} == {folder.name for folder in root.iterdir() if not folder.name.startswith(".")}
    assert not any((root / run).exists() for run in gone)


async def test_a_live_run_is_stopped_after_a_question(
    open_app: Open, until: Until, root: Path, commands: FakeCommands
) -> None:
    put(root, 1)
    live = put(root, 2, Phase.RUNNING)
    app = open_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(app, pilot, until, 2)
        await pilot.press("x")
        await until(pilot, lambda: isinstance(app.screen, ConfirmScreen))
        await pilot.press("y")
        await until(pilot, lambda: commands.stopped)
        await pilot.press("j", "x")
        await until(pilot, lambda: told(app, "has ended"))

    assert [(root / live, False)] == commands.stopped


async def test_a_run_is_started_again_or_edited_first(
    open_app: Open, until: Until, root: Path, project: Path, commands: FakeCommands
) -> None:
    commands.run = recorded(root, project, 1, max_restarts=2)
    app = open_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(app, pilot, until, 1)
        await pilot.press("r")
        await until(pilot, lambda: isinstance(app.screen, StartScreen))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        await pilot.press("f2", "Y")
        assert isinstance(app.screen, HistoryScreen)
        await until(pilot, lambda: "--max-restarts 2" in app.clipboard)
        await pilot.press("e")
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen))
        await until(pilot, lambda: "--max-restarts 2" in app.screen.query_one(CommandLine).command)

    assert [2] == [request.spec.max_restarts for request in commands.started]


async def test_what_cannot_be_started_again_says_why(
    open_app: Open, until: Until, root: Path, project: Path, commands: FakeCommands
) -> None:
    recorded(root, project, 1, env={"API_TOKEN": "s3cret"})
    app = open_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(app, pilot, until, 1)
        await pilot.press("r")
        await until(pilot, lambda: told(app, "API_TOKEN"))

    assert [] == commands.started


async def test_a_run_is_written_to_one_file_that_is_never_replaced(
    open_app: Open, until: Until, root: Path, project: Path
) -> None:
    run = recorded(root, project, 1)
    app = open_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(app, pilot, until, 1)
        await pilot.press("w")
        await until(pilot, lambda: told(app, "written"))
        before = (project / f"{run}.zip").read_bytes()
        await pilot.press("w")
        await until(pilot, lambda: told(app, "is there already"))

    assert before == (project / f"{run}.zip").read_bytes()
    assert f"{run}/spec.json" in zipfile.ZipFile(project / f"{run}.zip").namelist()


async def test_places_are_reached_from_everywhere_and_never_pile_up(
    open_app: Open, until: Until, root: Path, project: Path
) -> None:
    recorded(root, project, 1)
    app = open_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(app, pilot, until, 1)
        history = app.screen
        for _ in range(3):
            await pilot.press("enter")
            await until(pilot, lambda: isinstance(app.screen, RunScreen))
            await pilot.press("f3")
            await until(pilot, lambda: isinstance(app.screen, ClusterScreen))
            await pilot.press("H")
            await until(pilot, lambda: app.screen is history)
        assert 3 == len(app.screen_stack)
        await pilot.press("C", "f4")

        assert isinstance(app.screen, LaunchScreen)
        assert 2 == len(app.screen_stack)


async def test_without_runs_one_is_told_how_to_start_one(open_app: Open, until: Until) -> None:
    app = open_app()
    async with app.run_test(size=(80, 24)) as pilot:
        runs = await opened(app, pilot, until, 0)
        await until(pilot, lambda: "no run yet: f4" in lines(runs))
        await pilot.press("enter", "e", "r", "d", "x", "c", "w", "y", "Y", "space")

        assert isinstance(app.screen, HistoryScreen)


async def test_hostile_and_huge_texts_stay_texts(open_app: Open, until: Until, root: Path) -> None:
    evil = "\x1b]0;x\x07[red]\u202e\n" * 500
    put(root, 1, Phase.FAILED, name=evil, user=evil, why=evil, target=evil, args=evil, mode=evil, exit_code=1)
    app = open_app()
    async with app.run_test(size=(80, 24)) as pilot:
        runs = await opened(app, pilot, until, 1)
        shown = lines(runs) + lines(app.screen.query_one(RunCard))

    assert all(character.isprintable() or character == "\n" for character in shown)


async def test_runs_of_one_script_are_told_apart_and_sorted_by_any_column(
    open_app: Open, until: Until, root: Path
) -> None:
    for number in range(6):
        args = f"--data /d --lr {10.0**-number:g} --depth {number}"
        run = put(root, number, target="/p/train_lm.py", args=args, name="train_lm.py", user="ada")
        writer = CurveWriter(root / run)
        for step in range(20):
            writer.take(ev.RankReported(time=step, rank=0, step=step, metrics={"loss": 9.0 - step}))
        writer.flush()
        writer.close()
    app = open_app()
    async with app.run_test(size=(120, 40)) as pilot:
        runs = await opened(app, pilot, until, 6)
        await until(pilot, lambda: "▆" in lines(runs).splitlines()[1])
        head, *rows = lines(runs).splitlines()
        assert "↓started" in head
        assert "lr=1e-05 depth=5" in rows[0]
        assert "/d" not in "".join(rows[:6])
        curve = re.search(r"[▁▂▃▄▅▆]{10}", rows[5])
        assert curve is not None
        assert sorted(curve[0], reverse=True) == list(curve[0]), "it falls"
        await pilot.click(RunsList, offset=(head.index("args") + 2, 1))
        await until(pilot, lambda: "↑args" in lines(runs))
        await until(pilot, lambda: "lr=1e-05" in lines(runs).splitlines()[1])
        await pilot.click(RunsList, offset=(head.index("args") + 2, 1))
        await until(pilot, lambda: "lr=1 depth=0" in lines(runs).splitlines()[1])
        assert "sorted by args ↓" in str(runs.border_title)
        for column in ORDERS:
            await pilot.press("o")
            assert isinstance(app.screen, HistoryScreen), column
        await pilot.press("slash", *"lr:0.01")
        await until(pilot, lambda: len(runs.items) == 1)


@pytest.mark.parametrize("size", [(50, 14), (80, 24), (120, 40), (200, 60)])
async def test_the_state_is_not_told_twice(
    open_app: Open, until: Until, root: Path, size: tuple[int, int]
) -> None:
    put(root, 1, metrics={"loss": 2.0, "lo\x1b[31mss": float("nan")}, target="t.py:fit", name="fit")
    app = open_app()
    async with app.run_test(size=size) as pilot:
        runs = await opened(app, pilot, until, 1)
        row = lines(runs).splitlines()[1]
        assert 1 == row.count("succeeded")
        assert "t.py:fit" in row
        assert "loss 2" in row or size[0] == 50


async def test_columns_of_runs_are_those_of_the_settings(
    root: Path, project: Path, commands: FakeCommands, until: Until
) -> None:
    put(root, 1, metrics={"loss": 2.125}, target="t.py", exit_code=3, state=Phase.FAILED, why="it did")
    settings = ConsoleSettings(columns={"history": ("loss", "exit", "name")})
    app = RankdeckApp(root=root, workdir=project, commands=commands, settings=settings)
    async with app.run_test(size=(100, 30)) as pilot:
        runs = await opened(app, pilot, until, 1)
        head, row, *_ = lines(runs).splitlines()
        assert ["state", "loss", "exit", "name", "why,"] == head.split()[:5]
        assert ["✗", "failed", "2.125", "3", "n1", "it", "did"] == row.split()


async def test_a_history_of_ended_runs_sends_nothing_to_the_terminal(
    open_app: Open, until: Until, root: Path
) -> None:
    for number in range(200):
        put(root, number)
    app = open_app()
    app.driver_class = CountingDriver
    async with app.run_test(headless=False, size=(120, 40)) as pilot:
        await opened(app, pilot, until, 200)
        await pilot.pause(1.0)
        before = CountingDriver.sent
        await pilot.pause(4.5)
        assert before > 5000
        assert CountingDriver.sent == before
        await pilot.press("j")
        await pilot.pause(0.5)

        assert 0 < CountingDriver.sent - before < 4000
