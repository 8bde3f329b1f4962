"""No training starts that a person has not seen: what would be started is shown, and enter starts it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from textual.widgets import Static

from console.app import RankdeckApp
from console.data.launch.draft import Draft
from console.data.launch.rerun import spec_lines
from console.ui.dialogs import ConfirmScreen, StartScreen
from console.ui.launch.panes import RecentRuns
from console.ui.launch.screen import LaunchScreen
from console.ui.run.screen import RunScreen
from console.ui.widgets.key_line import KeyLine
from launcher.runs.catalog import create_folder
from launcher.runs.writer import RunWriter
from launcher.spec.job import JobSpec, SparkSpec
from launcher.spec.modes import Mode
from launcher.state import events as ev
from tests.console.conftest import FakeCommands, Until
from tests.console.looking import shown

Open = Callable[..., RankdeckApp]


def spec_of(project: Path, **options: object) -> JobSpec:
    draft = Draft("train.py:main", {"lr": "0.1", "steps": "5"}, processes="2", workdir=project)
    return replace(draft.resolved(), **options)  # type: ignore[arg-type]


def ended(root: Path, spec: JobSpec) -> Path:
    run = create_folder(root, 1_767_261_600.0)
    writer = RunWriter(run, spec)
    writer.append(ev.RunSubmitted(time=1.0, name="", target="x", mode="local", num_processes=2))
    writer.append(ev.RunEnded(time=2.0, state="failed", exit_code=1, why="it did"))
    writer.close()
    return run


def test_what_would_be_started_is_told_line_by_line(project: Path) -> None:
    lines = dict(spec_lines(spec_of(project, gpu=True, timeout_s=60.0, env={"A": "b c"})))

    assert {
        "target": "train.py:main",
        "parameters": "lr=0.1 steps=5",
        "ranks": "2",
        "GPUs": "1 for each rank",
        "mode": "local",
        "folder": str(project),
        "options": "--timeout 60 --env 'A=b c'",
    } == lines


@pytest.mark.parametrize(
    ("options", "about", "said"),
    [
        ({"gpu": False}, "GPUs", "none"),
        ({}, "GPUs", "1 for each rank, if there are enough"),
        ({"ranks_per_gpu": 2, "gpu": True}, "GPUs", "1 for 2 ranks"),
        ({"min_processes": 1}, "ranks", "1 to 2"),
        (
            {"mode": Mode.CLUSTER, "spark": SparkSpec(master="spark://h:7077")},
            "mode",
            "cluster: spark://h:7077",
        ),
        ({"mode": Mode.CONNECT}, "mode", "connect: as the environment says"),
    ],
)
def test_what_would_be_started_is_told_in_words(
    project: Path, options: dict[str, object], about: str, said: str
) -> None:
    assert said == dict(spec_lines(spec_of(project, **options)))[about]


async def test_a_letter_on_the_form_starts_nothing(
    open_app: Open, until: Until, root: Path, project: Path, commands: FakeCommands
) -> None:
    commands.run = ended(root, spec_of(project)).name
    app = open_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen))
        await until(pilot, lambda: app.screen.query_one(RecentRuns).length)
        await pilot.press("escape", "r", "e")
        await pilot.press("tab", "tab", "tab", "r", "e")  # a choice, which takes no letters
        await pilot.pause()

        assert isinstance(app.screen, LaunchScreen)
        assert "" == app.screen.draft.target
        assert not app.screen._starting

    assert [] == commands.started


async def test_a_click_on_run_again_asks_and_escape_starts_nothing(
    open_app: Open, until: Until, root: Path, project: Path, commands: FakeCommands
) -> None:
    app = open_app(run=ended(root, spec_of(project)))
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: shown(app))
        line = app.screen.query_one(KeyLine)
        await until(pilot, lambda: "Run again" in line.render_line(0).text)
        await pilot.click(KeyLine, offset=(line.render_line(0).text.index("Run again"), 0))
        await until(pilot, lambda: isinstance(app.screen, StartScreen))
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        await pilot.press("R")
        await until(pilot, lambda: isinstance(app.screen, StartScreen))

    assert [] == commands.started


async def test_a_run_from_elsewhere_says_what_it_would_run_and_only_y_runs_it(
    open_app: Open, until: Until, tmp_path: Path, project: Path, commands: FakeCommands
) -> None:
    inbox = tmp_path / "inbox"
    app = open_app(run=ended(inbox, spec_of(project, env={"THEIRS": "1"})))
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: shown(app))
        await pilot.press("R")
        await until(pilot, lambda: isinstance(app.screen, ConfirmScreen))
        told = "\n".join(str(line.render()) for line in app.screen.query(Static))
        assert "not launched here" in told
        assert "THEIRS" in told
        await pilot.press("enter", "n")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        assert [] == commands.started
        await pilot.press("R")
        await until(pilot, lambda: isinstance(app.screen, ConfirmScreen))
        await pilot.press("y")
        await until(pilot, lambda: commands.started)
