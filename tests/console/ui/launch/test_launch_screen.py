from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from textual.widgets import Input

from console.app import RankdeckApp
from console.demo import record_demo
from console.ui.launch.form import LaunchForm
from console.ui.launch.panes import CommandLine, RecentRuns, wrapped
from console.ui.launch.parameters import ParamForm
from console.ui.launch.picker import Candidates, PickerScreen
from console.ui.launch.screen import LaunchScreen
from console.ui.run.screen import RunScreen
from console.ui.widgets.fields import Choice
from launcher.errors import InternalError
from launcher.runs.catalog import create_folder
from launcher.runs.writer import RunWriter
from launcher.spec.job import JobSpec, SparkSpec, Target, TargetKind
from launcher.spec.modes import Mode
from launcher.state import events as ev

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from tests.console.conftest import FakeCommands, Until

Open = Callable[..., RankdeckApp]


def command(app: RankdeckApp) -> str:
    return app.screen.query_one(CommandLine).command


def problem(app: RankdeckApp) -> str | None:
    return app.screen.query_one(CommandLine).problem


def parameters(app: RankdeckApp) -> list[str | None]:
    return [w.name for w in app.screen.query_one(ParamForm).query("Input, Choice")]


async def ready(app: RankdeckApp, pilot: Pilot[int], until: Until) -> None:
    await until(pilot, lambda: isinstance(app.screen, LaunchScreen))
    await pilot.pause()


async def typed(pilot: Pilot[int], text: str) -> None:
    await pilot.press(*("full_stop" if c == "." else "colon" if c == ":" else c for c in text))


@pytest.mark.parametrize("size", [(60, 15), (80, 24), (120, 40), (200, 60)])
async def test_form_runs_and_command_are_in_sight_at_every_size(
    open_app: Open, until: Until, size: tuple[int, int], root: Path
) -> None:
    record_demo(root, seconds=20)
    app = open_app()
    async with app.run_test(size=size) as pilot:
        await ready(app, pilot, until)
        await until(pilot, lambda: app.screen.query_one(RecentRuns).length)
        await typed(pilot, "train.py:main")
        await until(pilot, lambda: len(parameters(app)) == 3)

        for kind in (LaunchForm, RecentRuns, CommandLine):
            region = app.screen.query_one(kind).region
            assert region.height >= 3
            assert region.right <= size[0]
            assert region.bottom <= size[1]
        middle = app.screen.query_one("#launch").region
        assert middle.contains_region(app.screen.query_one(RecentRuns).region)


async def test_a_pane_shows_that_the_focus_is_in_it(open_app: Open, until: Until) -> None:
    app = open_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(app, pilot, until)
        form, runs = app.screen.query_one(LaunchForm), app.screen.query_one(RecentRuns)
        await until(pilot, lambda: app.screen.focused is not None)
        colours = form.styles.border_top, runs.styles.border_top
        runs.focus()
        await until(pilot, lambda: runs.has_focus)

        assert colours[0] != colours[1]
        assert (runs.styles.border_top, form.styles.border_top) == colours
        app.screen.set_focus(None)
        await until(pilot, lambda: not runs.has_focus)
        assert form.styles.border_top == runs.styles.border_top == colours[1]


async def test_an_empty_form_is_no_fault_yet(open_app: Open, until: Until) -> None:
    app = open_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(app, pilot, until)
        await until(pilot, lambda: bool(problem(app)))
        line = app.screen.query_one(CommandLine)
        assert "✗" not in str(line._verdict())
        await pilot.press("ctrl+r")
        await until(pilot, lambda: "✗" in str(line._verdict()))


async def test_parameters_appear_from_the_source_and_go_into_the_command(
    open_app: Open, until: Until
) -> None:
    app = open_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(app, pilot, until)
        await typed(pilot, "train.py:main")
        await until(pilot, lambda: parameters(app) == ["lr", "steps", "opt"])
        await until(pilot, lambda: "lr" in (problem(app) or ""))
        app.screen.query_one(ParamForm).query(Input).first().focus()
        await typed(pilot, "0.5")
        await pilot.press("down", "down", "right")
        await until(pilot, lambda: problem(app) is None)

        assert command(app) == "rankdeck run train.py:main -n 1 --param lr=0.5 --param opt=sgd"


async def test_the_functions_of_a_file_are_offered(open_app: Open, until: Until) -> None:
    app = open_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(app, pilot, until)
        await typed(pilot, "train.py")
        entry = app.screen.query_one("#entry", Choice)
        await until(pilot, lambda: len(entry._values) == 3)
        entry.focus()
        await pilot.press("right", "right")
        await until(pilot, lambda: parameters(app) == ["path"])

        assert app.screen.query_one("#target", Input).value == "train.py:evaluate"


async def test_a_script_takes_arguments(open_app: Open, until: Until) -> None:
    app = open_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(app, pilot, until)
        await typed(pilot, "score.py")
        app.screen.query_one("#args", Input).focus()
        await pilot.press("minus", "minus", "a", "space", "1")
        await until(pilot, lambda: problem(app) is None)

        assert command(app) == "rankdeck run score.py -n 1 -- --a 1"


async def find_main(app: RankdeckApp, pilot: Pilot[int], until: Until) -> None:
    """Open the finder and type until one function is left."""
    await pilot.press("ctrl+f")
    await until(pilot, lambda: isinstance(app.screen, PickerScreen))
    await until(pilot, lambda: app.screen.query_one(Candidates).length == 4)
    await pilot.press(*"trmain")
    await until(pilot, lambda: app.screen.query_one(Candidates).length == 1)


async def test_the_picker_finds_a_function_by_a_few_letters(open_app: Open, until: Until) -> None:
    app = open_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(app, pilot, until)
        await find_main(app, pilot, until)
        await pilot.press("enter")
        await until(pilot, lambda: parameters(app) == ["lr", "steps", "opt"])

        assert app.screen.query_one("#target", Input).value == "train.py:main"
        await until(pilot, lambda: app.focused is not None and app.focused.name == "lr")
        await pilot.press("4", "ctrl+f")
        await until(pilot, lambda: isinstance(app.screen, PickerScreen))
        await until(pilot, lambda: app.screen.query_one(Candidates).length == 4)
        await pilot.press("s", "c", "o")
        await until(pilot, lambda: app.screen.query_one(Candidates).length == 1)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen))
        await until(pilot, lambda: app.screen.query_one("#processes", Input).has_focus)
        await pilot.press("2")
        await until(pilot, lambda: app.screen.query_one("#processes", Input).value == "2")


async def test_after_a_pick_the_focus_goes_to_a_field_that_another_check_is_making(
    open_app: Open, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The change of the target has it checked too, which may be first and still be at work."""
    making, asked_again = asyncio.Event(), asyncio.Event()
    learn, offer, recompose = LaunchScreen.learn, LaunchForm.offer, ParamForm.recompose

    async def learn_second(screen: LaunchScreen) -> None:
        await making.wait()
        await learn(screen)

    async def offer_twice(form: LaunchForm, *what: Any) -> None:
        if making.is_set():
            asked_again.set()
        await offer(form, *what)

    async def make(form: ParamForm) -> None:
        making.set()
        await asked_again.wait()
        await recompose(form)

    app = open_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(app, pilot, until)
        await find_main(app, pilot, until)
        monkeypatch.setattr(LaunchScreen, "learn", learn_second)
        monkeypatch.setattr(LaunchForm, "offer", offer_twice)
        monkeypatch.setattr(ParamForm, "recompose", make)
        await pilot.press("enter")
        await until(pilot, lambda: asked_again.is_set() and parameters(app) == ["lr", "steps", "opt"])
        await until(pilot, lambda: app.focused is not None and app.focused.id != "target")

        assert app.focused is not None
        assert app.focused.name == "lr"


async def test_launching_sends_the_request_and_shows_the_run(
    open_app: Open, until: Until, commands: FakeCommands, root: Path
) -> None:
    commands.run = record_demo(root, seconds=20).name
    app = open_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(app, pilot, until)
        await typed(pilot, "score.py")
        app.screen.query_one("#processes", Input).focus()
        await pilot.press("4", "ctrl+r")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen))

    spec = commands.started[0].spec
    assert (spec.target.source.rpartition("/")[2], spec.num_processes) == ("score.py", 4)
    assert spec.gpu is None


async def test_a_launch_that_fails_is_said_and_can_be_tried_again(
    open_app: Open, until: Until, commands: FakeCommands
) -> None:
    commands.error = InternalError("no [room]")
    app = open_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(app, pilot, until)
        await typed(pilot, "score.py")
        await pilot.press("ctrl+r")
        await until(pilot, lambda: problem(app) == "no [room]")

        assert isinstance(app.screen, LaunchScreen)
        assert not app.screen._launching


async def test_nothing_is_launched_from_a_wrong_form(
    open_app: Open, until: Until, commands: FakeCommands
) -> None:
    app = open_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(app, pilot, until)
        await typed(pilot, "train.py:main")
        await pilot.press("ctrl+r")
        await until(pilot, lambda: "lr" in (problem(app) or ""))

    assert commands.started == []


async def test_a_past_run_opens_with_enter_and_fills_the_form_with_e(
    open_app: Open, until: Until, root: Path
) -> None:
    record_demo(root, seconds=20)
    app = open_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await ready(app, pilot, until)
        await until(pilot, lambda: app.screen.query_one(RecentRuns).length)
        await pilot.press("f6", "e")
        await until(pilot, lambda: "-n 8" in command(app))
        await pilot.press("f6", "enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))


async def test_letters_are_text_in_a_field_and_keys_elsewhere(open_app: Open, until: Until) -> None:
    app = open_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(app, pilot, until)
        await pilot.press("q")
        field = app.screen.query_one("#target", Input).value
        await pilot.press("escape", "y")
        copied = app.clipboard
        await pilot.press("q")

    assert field == "q"
    assert copied == "rankdeck run q -n 1"
    assert app.return_value == 0


def test_a_wrapped_command_can_be_pasted() -> None:
    lines = wrapped("rankdeck run train.py -n 8 -- --lr 0.1 --steps 100", 20)

    assert all(len(line) <= 20 for line in lines)
    assert "\n".join(lines).replace(" \\\n", " ") == "rankdeck run train.py -n 8 -- --lr 0.1 --steps 100"


def shown(app: RankdeckApp) -> bool:
    return bool(app.screen.query_one("#spark-row").display)


async def test_the_field_for_a_spark_is_there_where_there_is_one(open_app: Open, until: Until) -> None:
    app = open_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(app, pilot, until)
        assert not shown(app)
        await typed(pilot, "score.py")
        mode = app.screen.query_one("#mode", Choice)
        mode.focus()
        await pilot.press("right")
        await until(pilot, lambda: shown(app))
        spark = app.screen.query_one("#spark", Input)
        assert spark.placeholder.startswith("spark://")
        spark.value = "spark://head:7077"
        await until(pilot, lambda: command(app).endswith("-n 1 --mode cluster --master spark://head:7077"))
        await pilot.press("right")
        await until(pilot, lambda: spark.placeholder.startswith("sc://"))
        spark.value = "sc://head"
        await until(pilot, lambda: command(app).endswith("--mode connect --remote sc://head"))
        await pilot.press("right")
        await until(pilot, lambda: not shown(app))
        await until(pilot, lambda: command(app) == "rankdeck run score.py -n 1")


async def test_a_run_on_a_cluster_is_filled_in_and_started_with_all_that_it_had(
    open_app: Open, until: Until, root: Path, project: Path, commands: FakeCommands
) -> None:
    modules = project / "more.zip"
    modules.touch()
    spark = SparkSpec(master="spark://head:7077", conf={"spark.executor.memory": "2g"})
    spec = JobSpec(
        Target(TargetKind.SCRIPT, str(project / "score.py")),
        4,
        min_processes=2,
        mode=Mode.CLUSTER,
        workdir=str(project),
        spark=spark,
        py_files=(str(modules),),
        max_restarts=2,
    )
    folder = create_folder(root, 0.0)
    writer = RunWriter(folder, spec)
    writer.append(ev.RunSubmitted(time=1.0, name="x", target="x", mode="cluster", num_processes=4))
    writer.append(ev.RunEnded(time=2.0, state="failed", exit_code=1, why="it did"))
    writer.close()
    commands.run = folder.name
    app = open_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await ready(app, pilot, until)
        await until(pilot, lambda: app.screen.query_one(RecentRuns).length)
        await pilot.press("f6", "e")
        await until(pilot, lambda: problem(app) is None and "--max-restarts 2" in command(app))
        assert shown(app)
        assert "-n 2:4 --mode cluster --master spark://head:7077" in command(app)
        await pilot.press("ctrl+r")
        await until(pilot, lambda: bool(commands.started))

    assert commands.started[0].spec == spec
