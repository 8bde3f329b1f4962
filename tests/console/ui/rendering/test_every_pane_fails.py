"""Whichever pane of whichever screen fails, however: it says so, all others go on, and it comes back.

The panes are found by looking at the classes, so that a new one that no screen of this table shows fails.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import console.ui
from console.app import RankdeckApp
from console.demo import record_demo
from console.ui.curves.sheet import CurveSheet
from console.ui.finding.help import HelpScreen
from console.ui.launch.screen import LaunchScreen
from console.ui.logs.pane import LogPane
from console.ui.logs.view import LogView
from console.ui.manual import ManualScreen
from console.ui.rendering.containment import failure_log
from console.ui.run.screen import RunScreen
from console.ui.widgets.failed_pane import FailedPane
from console.ui.widgets.rows import Sheet, Titled
from tests.console.ui.rendering.test_containment import WHY, Broken, said

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from tests.console.conftest import FakeCommands, Until


@dataclass(frozen=True, slots=True)
class Place:
    """A screen: the keys that open it from a run's screen, and its panes by the keys that show them there."""

    keys: tuple[str, ...]
    panes: Mapping[tuple[str, ...], str]
    live: bool = False


PLACES = {
    "run": Place((), {
        (): "RunHeader PhaseStrip Headline RankGrid Charts LogPane ResultPane KeyLine",
        ("2",): "RankDetail",
        ("6",): "DevicesPane",
        ("t",): "Timeline",
    }),
    "live run": Place((), {(): "AlertLine"}, live=True),
    "stacks": Place(("T",), {(): "StackSheet"}),
    "curves": Place(("c",), {(): "MetricList CurveSheet"}),
    "launch": Place(("f4",), {(): "Fold RecentRuns TrainingList SourcePreview CommandLine"}),
    "plan": Place(("f4", *"score.py"), {(): "LaunchPlan"}),
    "picker": Place(("f4", "ctrl+f"), {(): "Candidates SourcePreview"}),
    "preflight": Place(("f4", *"score.py", "f5"), {(): "Checks"}),
    "presets": Place(("f4", "escape", "o"), {(): "Presets"}),
    "history": Place(("f2",), {(): "RunsList RunCard"}),
    "compare": Place(("f2", "c", "down", "c"), {(): "CurveSheet ComparisonSheet"}),
    "cluster": Place(("f3",), {(): "ClusterHead MachineMap WorkList", ("3",): "MachineDetail"}),
    "bar": Place(("ctrl+p",), {(): "Kinds BarList"}),
    "help": Place(("f1",), {(): "Keys"}),
    "manual": Place(("f1", "m"), {(): "TopicSheet"}),
}  # fmt: skip
"""Every screen with panes. A pane that is on several screens is broken on those that name it."""


def panes() -> set[str]:
    """Every class of panes that a screen composes."""
    for module in pkgutil.walk_packages(console.ui.__path__, "console.ui."):
        importlib.import_module(module.name)
    kinds, queue = {CurveSheet.__name__}, [Titled]
    for kind in queue:
        queue += kind.__subclasses__()
        if kind.__module__.startswith("console.ui.") and not kind.__subclasses__():
            kinds.add(kind.__name__)
    return kinds


def test_every_pane_is_on_a_screen_of_the_table() -> None:
    named = {name for place in PLACES.values() for some in place.panes.values() for name in some.split()}
    assert panes() == named


def on_screen(app: RankdeckApp) -> list[Titled]:
    """The panes that the screen shows now, or what stands in their place."""
    return [pane for pane in app.screen.query(Titled) if pane.display and pane._render_widget.size.area]


def named(app: RankdeckApp, name: str) -> Titled | None:
    """The pane of a class that is on the screen."""
    return next((pane for pane in on_screen(app) if type(pane).__name__ == name), None)


class Visit:
    """A console at one screen, in which panes are broken and mended."""

    def __init__(
        self, place: Place, app: RankdeckApp, pilot: Pilot[int], until: Until, patch: pytest.MonkeyPatch
    ) -> None:
        self._place, self.app, self.pilot, self._until, self._patch = place, app, pilot, until, patch
        self.failed = 0

    async def until(self, condition: Callable[[], object]) -> None:
        await self._until(self.pilot, condition)

    async def enter(self, keys: tuple[str, ...]) -> None:
        """Press keys, each on the screen that the one before has opened."""
        for key in keys:
            await self.pilot.press(key)

    async def enter_again(self) -> None:
        """Leave the screen, and open it again."""
        while not isinstance(self.app.screen, (RunScreen, LaunchScreen)):
            await self.pilot.press("escape")
        await self.enter(self._place.keys)

    def _error(self, name: str) -> type[Exception]:
        """Another error each time, because each is written once."""
        self.failed += 1
        return type(f"{name}Broken{self.failed}", (OverflowError,), {})

    async def find(self, name: str) -> Titled:
        """The pane of a class, as soon as it is on the screen."""
        await self.until(lambda: named(self.app, name))
        pane = named(self.app, name)
        assert pane is not None
        return pane

    async def fail(self, name: str, method: str) -> None:
        """Break a pane, look at what becomes of it and of the others, and mend it."""
        pane = await self.find(name)
        error = self._error(name)
        owner: Any = LogView if isinstance(pane, LogPane) else type(pane)
        broken = Broken(self._patch, owner, method, error)
        shown = pane.query_one(LogView) if isinstance(pane, LogPane) else pane
        if method == "rows":
            assert isinstance(pane, Sheet)
            pane.call_later(pane.refresh_rows)
        else:
            shown.refresh()
        await self.until(lambda: pane.covered)
        assert f"this pane failed: {error.__name__}: {WHY}" in said(pane)
        await self._others_go_on(pane)
        pane = await self.find(name)
        await self.until(lambda: pane.covered)
        assert broken.asked <= 6, "it is tried again and again"
        broken.mend()
        await self._try_again(pane)

    async def _others_go_on(self, pane: Titled) -> None:
        """All others are painted when a key asks for it, and a key of the app works."""
        painted = set[Titled]()
        others = {each for each in on_screen(self.app) if each is not pane}
        assert not [each for each in others if each.covered]
        with pytest.MonkeyPatch.context() as patch:
            for each in others:
                patch.setattr(each, "render_lines", noting(each, painted))
            await self.pilot.press("ctrl+l")
            await self.until(lambda: painted == others)
        screen = self.app.screen
        await self.pilot.press("f1")
        await self.until(lambda: self.app.screen is not screen)
        if not isinstance(screen, (HelpScreen, ManualScreen)):
            await self.pilot.press("f1")
            await self.until(lambda: self.app.screen is screen)
        else:  # which f1 has closed
            await self.enter_again()

    async def _try_again(self, pane: Titled) -> None:
        if pane.reachable:
            within = pane.query_one(LogView) if isinstance(pane, LogPane) else pane
            within.focus()
            await self.until(lambda: within.has_focus)
            await self.pilot.press("r")
        else:
            await self.pilot.click(pane._cover_widget)
        await self.until(lambda: not pane.covered)


def noting(pane: Titled, painted: set[Titled]) -> Callable[..., Any]:
    """The pane's way to be painted, which notes that it was."""
    paint = pane.render_lines

    def noted(*args: Any) -> Any:
        painted.add(pane)
        return paint(*args)

    return noted


@pytest.fixture
def log(home: Path) -> Iterator[Path]:
    """The file of tracebacks."""
    yield failure_log()
    failure_log().unlink(missing_ok=True)


@pytest.mark.parametrize("name", PLACES)
async def test_whichever_pane_fails_the_others_go_on(
    name: str,
    root: Path,
    project: Path,
    commands: FakeCommands,
    until: Until,
    monkeypatch: pytest.MonkeyPatch,
    log: Path,
) -> None:
    place = PLACES[name]
    past = record_demo(root, seconds=45, fail=True)
    past.rename(past.with_name(past.name[:-3] + "fa1"))
    run = record_demo(root, seconds=60, until=40 if place.live else float("inf"))
    app = RankdeckApp(root=root, workdir=project, open_run=run, commands=commands, survives=True)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: getattr(app.screen, "view", None))
        visit = Visit(place, app, pilot, until, monkeypatch)
        await visit.enter(place.keys)
        for keys, kinds in place.panes.items():
            await visit.enter(keys)
            for kind in kinds.split():
                if kind != "LogPane":
                    await visit.fail(kind, "rows")
                await visit.fail(kind, "render_line")
        await pilot.press("ctrl+c", "ctrl+c")

    assert 0 == app.return_code
    written = log.read_text()
    assert visit.failed == written.count("Traceback")


GIVEN = {
    "history": {"RunsList.show": "RunCard", "RunCard.show": ""},
    "compare": {"ComparisonSheet.show": "", "CurveSheet.trace": ""},
    "cluster": {"ClusterHead.show": "", "MachineMap.show": "MachineDetail", "WorkList.show": ""},
    "bar": {"Kinds.show": "", "BarList.show": ""},
    "picker": {"Candidates.show": "SourcePreview"},
}
"""What gives panes their content when a screen is opened, and the panes that depend on that one."""


def rows_on(app: RankdeckApp) -> dict[str, int]:
    """How many rows each pane of the screen has."""
    return {type(sheet).__name__: len(sheet._rows) for sheet in app.screen.query(Sheet)}


@pytest.mark.parametrize("name", GIVEN)
async def test_content_that_a_pane_cannot_take_is_held_back_from_no_other(
    name: str,
    root: Path,
    project: Path,
    commands: FakeCommands,
    until: Until,
    monkeypatch: pytest.MonkeyPatch,
    log: Path,
) -> None:
    covers = set[str]()
    cover = Titled.cover

    def noted(pane: Titled, with_what: FailedPane) -> None:
        covers.add(type(pane).__name__)
        cover(pane, with_what)

    monkeypatch.setattr(Titled, "cover", noted)
    record_demo(root, seconds=45).rename(root / "20260101-100000-000fa1")
    run = record_demo(root, seconds=20)
    app = RankdeckApp(root=root, workdir=project, open_run=run, commands=commands, survives=True)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: getattr(app.screen, "view", None))
        visit = Visit(PLACES[name], app, pilot, until, monkeypatch)
        await visit.enter(PLACES[name].keys)
        first = GIVEN[name]
        await until(pilot, lambda: all(named(app, each.partition(".")[0]) for each in first))
        await until(pilot, lambda: not any(worker.is_running for worker in app.workers))
        await until(pilot, lambda: getattr(app.screen, "complete", True))
        usual = rows_on(app)
        for broken_way, needing in first.items():
            kind, _, method = broken_way.partition(".")
            pane = await visit.find(kind)
            broken = Broken(monkeypatch, type(pane), method, visit._error(kind))
            covers.clear()
            await visit.enter_again()
            await until(pilot, lambda kind=kind: covers == {kind})  # type: ignore[misc]
            others = {k: n for k, n in usual.items() if k not in (kind, needing)}
            await until(pilot, lambda others=others: rows_on(app).items() >= others.items())  # type: ignore[misc]
            assert covers == {kind}
            broken.mend()
            await visit.enter_again()
            await until(pilot, lambda: rows_on(app) == usual)
            assert not [each for each in on_screen(app) if each.covered]
        await pilot.press("ctrl+c", "ctrl+c")

    assert 0 == app.return_code
    assert len(GIVEN[name]) == log.read_text().count("Traceback")
