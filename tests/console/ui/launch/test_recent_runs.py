"""Past runs beside the form: who, how long, why; opened, run again, or edited first."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from console.app import RankdeckApp
from console.data.launch.draft import command_text, draft_of
from console.formatting import NOT_FINITE
from console.ui.dialogs import StartScreen
from console.ui.launch.panes import CommandLine, RecentRuns, outcome
from console.ui.launch.screen import LaunchScreen
from console.ui.run.screen import RunScreen
from launcher.runs.catalog import create_folder
from launcher.runs.status import Status
from launcher.runs.writer import RunWriter
from launcher.spec.job import JobSpec, Target, TargetKind
from launcher.spec.modes import Mode
from launcher.state import events as ev
from launcher.state.run_state import Phase

if TYPE_CHECKING:
    from tests.console.conftest import FakeCommands, Until

Open = Callable[..., RankdeckApp]
FAILED = Status(
    id="20260101-100000-000abc", name="llama", state=Phase.FAILED, exit_code=7, started=0.0, ended=90.0,
    why="rank 3\nexited with code 7", user="ada", num_processes=8,
)  # fmt: skip


def recorded(root: Path, spec: JobSpec, **known: object) -> Path:
    folder = create_folder(root, 1_767_261_600.0)
    writer = RunWriter(folder, spec)
    submitted = ev.RunSubmitted(time=1.0, name=spec.label, target="x", mode="local", num_processes=1)
    writer.append(replace(submitted, **known))  # type: ignore[arg-type]
    writer.append(ev.RunEnded(time=2.0, state="failed", exit_code=1, why="it did"))
    writer.close()
    return folder


def script(project: Path, **known: object) -> JobSpec:
    target = Target(TargetKind.SCRIPT, str(project / "score.py"), args=("--lr", "1"))
    return JobSpec(target, num_processes=4, workdir=str(project), **known)  # type: ignore[arg-type]


def row(run: Status, width: int) -> str:
    sheet = RecentRuns(clock=lambda: 3700.0)
    sheet.items, sheet._users = (run,), True
    return "".join(text for text, _ in sheet.item_row(0, width, ""))


def test_a_row_says_who_how_long_and_why_as_far_as_it_fits() -> None:
    wide = row(FAILED, 120).split()

    assert ["✗", "llama", "8", "ranks", "1h", "ago", "1m30s", "ada", "rank", "3", "exited"] == wide[:11]
    for width in (30, 60, 84):
        assert len(row(FAILED, width)) <= width
    assert "ada" not in row(FAILED, 80)


def test_a_row_takes_no_harm_from_huge_and_hostile_texts() -> None:
    run = replace(FAILED, name="n" * 10_000, user="u" * 1000, why="w \x1b[2J" * 100_000, ended=-5.0)

    assert 120 >= len(row(run, 120))
    assert "0ms" in row(run, 120)


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ({}, "rank 3 exited with code 7"),
        ({"state": Phase.SUCCEEDED, "exit_code": 0, "metrics": {"loss": 0.25}}, "succeeded · loss 0.25"),
        ({"state": Phase.RUNNING, "exit_code": None, "metrics": {"x": float("nan")}}, "running · x nan"),
        ({"why": ""}, "failed"),
    ],
)
def test_the_outcome_is_why_or_what_was_reached(known: dict[str, object], said: str) -> None:
    assert said == "".join(text for text, _ in outcome(replace(FAILED, **known)))  # type: ignore[arg-type]


def test_a_figure_that_is_no_number_stands_out() -> None:
    told = outcome(replace(FAILED, exit_code=0, metrics={"loss": float("nan"), "lr": 0.1}))

    assert [(" · loss nan", NOT_FINITE), (" · lr 0.1", "muted")] == [*told[1:]]


async def test_a_run_is_started_again_when_it_was_shown_and_said_yes_to(
    open_app: Open, until: Until, root: Path, project: Path, commands: FakeCommands
) -> None:
    spec = script(project, max_restarts=1)
    commands.run = recorded(root, spec, user="ada").name
    app = open_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen))
        await until(pilot, lambda: app.screen.query_one(RecentRuns).length)
        await pilot.press("f6", "r")
        await until(pilot, lambda: isinstance(app.screen, StartScreen))
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))

    assert [spec] == [request.spec for request in commands.started]


async def test_a_run_that_cannot_be_started_again_says_why(
    open_app: Open, until: Until, root: Path, project: Path, commands: FakeCommands
) -> None:
    recorded(root, script(project, env={"API_TOKEN": "s3cret"}))
    app = open_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen))
        await until(pilot, lambda: app.screen.query_one(RecentRuns).length)
        await pilot.press("f6", "r")
        await until(pilot, lambda: any("API_TOKEN" in n.message for n in app._notifications))
        assert not app.screen._starting  # type: ignore[attr-defined]

    assert [] == commands.started


async def test_a_run_from_elsewhere_keeps_its_folder_when_it_is_edited(
    open_app: Open, until: Until, root: Path, project: Path, tmp_path: Path, commands: FakeCommands
) -> None:
    away = tmp_path / "away"
    away.mkdir()
    (away / "score.py").write_text("import sys\n")
    spec = script(away)
    commands.run = recorded(root, spec).name
    app = open_app()
    async with app.run_test(size=(200, 40)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen))
        await until(pilot, lambda: app.screen.query_one(RecentRuns).length)
        await pilot.press("f6", "e")
        line = app.screen.query_one(CommandLine)
        await until(pilot, lambda: line.problem is None and f"--workdir {away}" in line.command)
        assert f"run {away}/score.py " in line.command
        await pilot.press("ctrl+r")
        await until(pilot, lambda: bool(commands.started))

    assert spec == commands.started[0].spec


async def test_what_no_form_can_say_is_not_filled_in(
    open_app: Open, until: Until, root: Path, project: Path
) -> None:
    target = Target(TargetKind.CALLABLE, str(project / "train.py"), "main", pickled=True)
    recorded(root, JobSpec(target, workdir=str(project)))
    app = open_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen))
        await until(pilot, lambda: app.screen.query_one(RecentRuns).length)
        before = app.screen.query_one(CommandLine).command
        await pilot.press("f6", "e")
        await until(pilot, lambda: any("pickle" in n.message for n in app._notifications))

        assert before == app.screen.query_one(CommandLine).command


async def test_the_console_opens_with_a_form_filled_in(
    root: Path, project: Path, commands: FakeCommands, until: Until
) -> None:
    draft = draft_of(script(project, name="again"), project)
    app = RankdeckApp(root=root, workdir=project, draft=draft, commands=commands)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen))
        line = app.screen.query_one(CommandLine)
        await until(pilot, lambda: line.problem is None and line.command == command_text(draft))

    assert "rankdeck run score.py -n 4 --name again -- --lr 1" == command_text(draft)


def test_a_draft_from_elsewhere_says_the_same_command_and_spec(project: Path, tmp_path: Path) -> None:
    spec = script(project, mode=Mode.LOCAL)
    there, here = draft_of(spec), draft_of(spec, tmp_path)
    words = shlex.split(command_text(here))

    assert "score.py" == there.target
    assert "project/score.py" == here.target
    assert ["--workdir", str(project)] == words[words.index("--workdir") :][:2]
    assert "--workdir" not in command_text(there)
    assert spec == there.resolved() == here.resolved()
