"""What the console's tests share: recorded runs, commands that only remember, and a way to wait."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from console.app import RankdeckApp
from console.demo import record_demo
from launcher.diagnosis.checks.check import CheckReport
from launcher.errors import LauncherError
from launcher.spec.request import Request

if TYPE_CHECKING:
    from textual.pilot import Pilot

Until = Callable[["Pilot[int]", Callable[[], object]], Awaitable[None]]


class FakeCommands:
    """Remembers what it was asked; a start yields `run`, or the error it was told to raise."""

    def __init__(self, run: str = "") -> None:
        self.run = run
        self.error: LauncherError | None = None
        self.started: list[Request] = []
        self.stopped: list[tuple[Path, bool]] = []
        self.asked: list[Path] = []
        self.report = CheckReport()
        self.checked: list[Request] = []

    def check(self, request: Request) -> CheckReport:
        if self.error is not None:
            raise self.error
        self.checked.append(request)
        return self.report

    def start(self, request: Request) -> str:
        if self.error is not None:
            raise self.error
        self.started.append(request)
        return self.run

    def stop(self, run: Path, *, force: bool) -> None:
        if self.error is not None:
            raise self.error
        self.stopped.append((run, force))

    def take_stacks(self, run: Path) -> None:
        if self.error is not None:
            raise self.error
        self.asked.append(run)


@pytest.fixture(autouse=True)
def colours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every app of this process writes for the same terminal: a style remembers how it was first written."""
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLORTERM", "truecolor")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An empty folder of runs."""
    folder = tmp_path / "runs"
    folder.mkdir()
    return folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder of programs."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "train.py").write_text(
        "from typing import Literal\n"
        "raise SystemExit('imported')\n"
        "def main(lr: float, steps: int = 20, opt: Literal['adam', 'sgd'] = 'adam'):\n"
        "    'Train.'\n"
        "def evaluate(path: str): ...\n"
    )
    (folder / "score.py").write_text("import sys\nprint(sys.argv)\n")
    return folder


@pytest.fixture
def commands() -> FakeCommands:
    """Commands that start nothing."""
    return FakeCommands()


@pytest.fixture
def open_app(root: Path, project: Path, commands: FakeCommands) -> Callable[..., RankdeckApp]:
    """Make an app; with a recording's arguments, one that shows that run."""

    def make(*, theme: str | None = None, run: Path | None = None, **recording: object) -> RankdeckApp:
        opened = record_demo(root, **recording) if recording else run  # type: ignore[arg-type]
        return RankdeckApp(root=root, workdir=project, open_run=opened, commands=commands, theme=theme)

    return make


@pytest.fixture
def until() -> Until:
    """Let the app work until something is so."""

    async def wait(pilot: Pilot[int], condition: Callable[[], object], limit_s: float = 60.0) -> None:
        deadline = time.monotonic() + limit_s
        while not condition():
            assert time.monotonic() < deadline, "it never came to that"
            await pilot.pause(0.02)

    return wait
