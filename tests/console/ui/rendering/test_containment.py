"""What fails takes its pane and nothing else: the rest goes on, the traceback is kept, and one can leave."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from console.app import RankdeckApp
from console.data.cluster.monitor import MachinePoller
from console.data.history.run_list import RunListPoller
from console.data.run.feed import RunFeed
from console.demo import record_demo
from console.ui.cluster.screen import ClusterScreen
from console.ui.history.panes import RunCard
from console.ui.history.screen import HistoryScreen
from console.ui.launch import screen
from console.ui.launch.panes import RecentRuns
from console.ui.launch.screen import LaunchScreen
from console.ui.logs.pane import LogPane
from console.ui.logs.view import LogView
from console.ui.rendering.containment import FailureLog, failure_log
from console.ui.run.charts import Charts
from console.ui.run.header import Headline
from console.ui.run.messages import RunChanged
from console.ui.run.rank_detail import RankDetail
from console.ui.run.rank_grid import RankGrid
from console.ui.run.screen import RunScreen
from console.ui.widgets.rows import Titled
from tests.console.conftest import FakeCommands, Until
from tests.console.ui.rendering.test_terminal import Terminal

WHY = "cannot convert float infinity to integer"
KEYS = {LaunchScreen: "f4", HistoryScreen: "f2", ClusterScreen: "f3", RunScreen: ""}


@pytest.fixture
def log(home: Path) -> Iterator[Path]:
    """The file of tracebacks. A test that expects none of them to be written does without this fixture."""
    path = failure_log()
    yield path
    path.unlink(missing_ok=True)


@pytest.fixture
def app(root: Path, project: Path, commands: FakeCommands) -> RankdeckApp:
    """A console as people have it, over an ended run."""
    run = record_demo(root, seconds=20)
    return RankdeckApp(root=root, workdir=project, open_run=run, commands=commands, survives=True)


class Broken:
    """A method that raises until it is mended, and counts how often it was asked."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, error: type[Exception] = OverflowError
    ) -> None:
        self._patch, self._owner, self._name, self._error = monkeypatch, owner, name, error
        self._own = vars(owner).get(name)
        self.asked = 0
        monkeypatch.setattr(owner, name, self._fail())

    def _fail(self) -> Callable[..., None]:
        broken = self

        def fail(self: object = None, *_: object, **__: object) -> None:
            broken.asked += 1
            raise broken._error(WHY)

        return fail

    def mend(self) -> None:
        if self._own is None:  # it is inherited
            self._patch.delattr(self._owner, self._name)
        else:
            self._patch.setattr(self._owner, self._name, self._own)


def said(pane: Titled) -> str:
    """What stands in place of a pane."""
    return "" if pane._cover_widget is None else pane._cover_widget.render().plain  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("kind", "owner", "name"),
    [
        (RankGrid, RankGrid, "show"),
        (RankGrid, RankGrid, "rows"),
        (RankGrid, RankGrid, "render_line"),
        (RankDetail, RankDetail, "show"),
        (Headline, Headline, "rows"),
        (Charts, Charts, "show"),
        (LogPane, LogPane, "show"),
        (LogPane, LogView, "render_line"),
        (LogPane, LogPane, "compose"),
    ],
)
async def test_a_pane_that_fails_says_so_and_the_others_go_on(
    app: RankdeckApp,
    until: Until,
    monkeypatch: pytest.MonkeyPatch,
    log: Path,
    kind: Any,
    owner: Any,
    name: str,
) -> None:
    broken = Broken(monkeypatch, owner, name)
    async with app.run_test(size=(200, 60)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and app.screen.view)
        panes = {type(pane): pane for pane in app.screen.query(Titled)}
        await until(pilot, lambda: panes[kind].covered)
        # a pane whose inside was never made fails at the next thing that it is to show, too
        whys = {f"OverflowError: {WHY}"} | ({"NoMatches"} if name == "compose" else set())
        assert any(f"this pane failed: {why}" in said(panes[kind]) for why in whys)
        assert [kind] == [type(pane) for pane in app.screen.query(Titled) if pane.covered]
        await pilot.pause()
        asked = broken.asked
        for _ in range(10):
            await pilot.pause(0.02)
        assert broken.asked <= asked + 1, "it is tried again and again"
        await pilot.press("q")

    assert 0 == app.return_code
    assert WHY in log.read_text()
    assert 0o600 == log.stat().st_mode & 0o777


@pytest.mark.parametrize("name", ["show", "rows", "render_line"])
async def test_a_pane_is_seen_again_when_its_data_are_well(
    app: RankdeckApp, until: Until, monkeypatch: pytest.MonkeyPatch, log: Path, name: str
) -> None:
    broken = Broken(monkeypatch, RankGrid, name)
    async with app.run_test(size=(200, 60)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and app.screen.view)
        grid = app.screen.query_one(RankGrid)
        await until(pilot, lambda: grid.covered)
        broken.mend()
        view = cast("RunScreen", app.screen).view
        assert view is not None
        app.screen.post_message(RunChanged(replace(view, now=view.now + 1)))
        await until(pilot, lambda: not grid.covered)
        await until(pilot, lambda: "gpu-01" in "".join(grid.render_line(y).text for y in range(8)))


async def test_r_tries_again_and_is_what_it_was_else(
    app: RankdeckApp, until: Until, monkeypatch: pytest.MonkeyPatch, log: Path
) -> None:
    broken = Broken(monkeypatch, RankGrid, "render_line")
    async with app.run_test(size=(200, 60)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and app.screen.view)
        grid = app.screen.query_one(RankGrid)
        await until(pilot, lambda: grid.covered)
        await pilot.press("1", "r")
        await until(pilot, lambda: broken.asked >= 2 and grid.covered)
        assert app.screen.query_one(LogView).rank is None
        broken.mend()
        await pilot.press("r")
        await until(pilot, lambda: not grid.covered)
        await pilot.press("r")
        await until(pilot, lambda: app.screen.query_one(LogView).rank is not None)


@pytest.mark.parametrize(
    ("place", "owner", "name"),
    [
        (LaunchScreen, screen, "recent_runs"),
        (LaunchScreen, screen, "look"),
        (LaunchScreen, RecentRuns, "show"),
        (HistoryScreen, RunListPoller, "read"),
        (HistoryScreen, RunCard, "show"),
        (ClusterScreen, MachinePoller, "read"),
        (RunScreen, RunFeed, "read"),
        (RunScreen, RunScreen, "action_zoom"),
        (RunScreen, RankDetail, "on_mount"),
    ],
)
async def test_what_fails_beside_the_panes_is_said_once_and_all_places_can_be_gone_to(
    app: RankdeckApp,
    until: Until,
    monkeypatch: pytest.MonkeyPatch,
    log: Path,
    place: Any,
    owner: Any,
    name: str,
) -> None:
    Broken(monkeypatch, owner, name)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        if KEYS[place]:
            await pilot.press(KEYS[place])
        if name == "action_zoom":
            await pilot.press("z")
        await until(pilot, lambda: log.exists())
        for kind in (HistoryScreen, ClusterScreen, LaunchScreen):
            await pilot.press(KEYS[kind])
            await until(pilot, lambda kind=kind: isinstance(app.screen, kind))  # type: ignore[misc]
        await pilot.press("escape", "q")

    assert 0 == app.return_code
    assert 1 == log.read_text().count("Traceback")


async def test_without_leave_to_go_on_the_first_failure_ends_it(
    root: Path, project: Path, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    Broken(monkeypatch, RankGrid, "show")
    app = RankdeckApp(root=root, workdir=project, open_run=record_demo(root, seconds=20))
    with pytest.raises(OverflowError, match=WHY):
        async with app.run_test(size=(120, 40)) as pilot:
            await until(pilot, lambda: app._exception)


def test_a_failure_is_written_once_a_place_and_the_file_stays_small(tmp_path: Path) -> None:
    log = FailureLog(tmp_path / "new" / "console.log")

    def failed(text: str) -> Exception:
        try:
            raise ValueError(text)
        except ValueError as error:
            return error

    assert (True, True) == log.note(failed("a\x1b[2Jb"))
    assert (False, True) == log.note(failed("c"))
    assert "\x1b" not in log.path.read_text()
    assert "a?[2Jb" in log.path.read_text()
    log.path.write_bytes(b"x" * (2 << 20))
    assert (True, True) == log.note(KeyError("k"))
    assert log.path.stat().st_size < 1000


def test_a_file_that_cannot_be_written_is_no_second_failure(tmp_path: Path) -> None:
    (tmp_path / "console.log").mkdir()

    assert (True, False) == FailureLog(tmp_path / "console.log").note(ValueError("x"))


@pytest.mark.terminal
@pytest.mark.process
def test_in_a_terminal_a_run_that_a_pane_fails_at_stays_open(tmp_path: Path, root: Path, log: Path) -> None:
    run = record_demo(root, seconds=20)
    code = "import sys\nfrom console.ui.run.rank_grid import RankGrid\n"
    code += f"def rows(self, width): raise OverflowError({WHY!r})\nRankGrid.rows = rows\n"
    code += "from console.cli.main import main\nmain()\n"
    terminal = Terminal(
        sys.executable, "-c", code, "attach", str(run), size=(120, 40), cwd=tmp_path, env=_environ()
    )
    screen = terminal.until("this pane failed: OverflowError", "r tries again", "3 Logs")
    assert "succeeded" in screen
    terminal.press("1rrr")
    terminal.press("3")
    terminal.press("q")

    assert 0 == terminal.exit_code()
    assert 1 == log.read_text().count("Traceback")


def _environ() -> dict[str, str]:
    return {**os.environ, "TERM": "xterm-256color", "LANG": "C.UTF-8"}
