"""Curves on the screen: every key, live growth, past runs, export, and what is wrong with a run."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest
from textual.events import MouseScrollDown, MouseScrollUp

from console.app import RankdeckApp
from console.data.curves.look import SMOOTHINGS, Interval, Look
from console.data.curves.making import curves_of
from console.data.curves.run_curves import Axis
from console.data.history.behind import Behind
from console.ui.curves import sheet as curve_sheet
from console.ui.curves.screen import CurvesScreen, MetricList
from console.ui.curves.sheet import CurveSheet
from console.ui.history.compare import ComparisonScreen, ComparisonSheet
from console.ui.launch.screen import LaunchScreen
from console.ui.rendering.containment import failure_log
from console.ui.run.charts import Charts
from console.ui.run.rank_grid import RankGrid
from console.ui.run.screen import RunScreen
from console.ui.widgets.failed_pane import FailedPane
from console.ui.widgets.fields import FilterField
from console.ui.widgets.rows import Titled
from launcher.runs.catalog import new_id
from launcher.runs.curves import CurveWriter
from launcher.runs.status import Status, write_status
from launcher.runs.writer import RunWriter
from launcher.spec.job import JobSpec, Target, TargetKind
from launcher.state import events as ev
from launcher.state.run_state import Phase
from tests.console.conftest import FakeCommands
from tests.console.looking import shown, text
from tests.console.scripted import SPARK, START, Scripted

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from tests.console.conftest import Until

Open = Callable[..., RankdeckApp]
STEPS = 200


def reports(first: int, last: int, **other: float) -> list[ev.RankReported]:
    return [
        ev.RankReported(
            time=START + 10 + step / 10, rank=rank, step=step,
            metrics={"loss": 2.0 - step / 200 + rank / 100, "acc": step / 300} | other,
        )
        for step in range(first, last)
        for rank in range(4)
    ]  # fmt: skip


@pytest.fixture
def live(root: Path) -> Scripted:
    """A run that goes on, with two metrics."""
    run = Scripted(root)
    run.add(SPARK)
    run.place(2.0)
    for first in range(0, STEPS, 40):
        run.add(*reports(first, first + 40))
        run.writer._curves.flush()
    return run


def past_run(root: Path, number: int, target: str = "train.py:main", **metrics: float) -> Path:
    """An ended run before that of `live`, with a curve of each metric that begins at its last value."""
    folder = root / new_id(START - 1000 * (number + 1), f"{number:03x}")
    folder.mkdir(mode=0o700)
    if metrics:
        writer = CurveWriter(folder)
        for step in range(100):
            known = {name: value + 1 / (step + 1) for name, value in metrics.items()}
            writer.take(ev.RankReported(time=START + step, rank=0, step=step, metrics=known))
        writer.flush()
        writer.close()
    status = Status(folder.name, f"past{number}", target, Phase.SUCCEEDED, 0, metrics=metrics)
    write_status(folder, status)
    return folder


def parts(app: RankdeckApp) -> tuple[CurvesScreen, CurveSheet, MetricList]:
    screen = app.screen
    assert isinstance(screen, CurvesScreen)
    return screen, screen.query_one(CurveSheet), screen.query_one(MetricList)


async def opened(
    app: RankdeckApp, pilot: Pilot[int], until: Until
) -> tuple[CurvesScreen, CurveSheet, MetricList]:
    await until(pilot, lambda: shown(app))
    await pilot.press("c")
    await until(pilot, lambda: isinstance(app.screen, CurvesScreen) and app.screen.query(CurveSheet))
    await until(pilot, lambda: parts(app)[1].metrics)
    return parts(app)


async def test_every_key_of_the_screen(open_app: Open, live: Scripted, until: Until) -> None:
    app = open_app(run=live.folder)
    async with app.run_test(size=(120, 40)) as pilot:
        screen, sheet, metrics = await opened(app, pilot, until)
        assert ["loss", "acc", "s/step"] == sheet.metrics == metrics.items
        assert "loss" == sheet.metric
        assert "loss 1.02 (1.005 … 1.035)" in text(sheet)
        whole = sheet.whole()
        assert Interval(0.0, 199.0) == whole

        await pilot.press("plus")
        assert Interval(99.5, 199.0) == sheet.look.part
        await pilot.press("less_than_sign")
        assert Interval(74.625, 174.125) == sheet.look.part
        await pilot.press("shift+right")
        assert Interval(99.5, 199.0) == sheet.look.part
        await pilot.press("shift+left", "greater_than_sign", "minus")
        assert sheet.look.part is None
        await pilot.press("left", "left")
        assert sheet.look.cursor is not None
        assert 190 < sheet.look.cursor < 199
        assert f"  at {round(sheet.look.cursor)}" in text(sheet)
        await pilot.press("right", "right", "right")
        assert sheet.look.cursor is None
        await pilot.press("plus", "left", "w")
        assert (None, None) == (sheet.look.part, sheet.look.cursor)

        await pilot.press("a")
        assert Axis.TIME is sheet.look.axis
        assert text(sheet).rstrip().endswith("time")
        await pilot.press("a", "l")
        assert (Axis.STEP, True) == (sheet.look.axis, sheet.look.log)
        assert "log" in text(sheet).splitlines()[0]
        await pilot.press("l", "s", "s")
        assert 2 == sheet.look.smoothing
        assert f"smoothed {SMOOTHINGS[2]}%" in text(sheet)
        await pilot.press("S", "S", "S")
        assert 0 == sheet.look.smoothing

        await pilot.press("down")
        assert "acc" == sheet.metric == metrics.chosen
        await pilot.press("j", "j", "up")
        assert "acc" == sheet.metric
        await pilot.press("k", "k")
        assert "loss" == sheet.metric
        await pilot.press("v")
        assert None is sheet.metric
        assert all(f" {name} " in text(sheet) for name in ("loss", "acc", "s/step"))
        await pilot.press("down", "v")
        assert "loss" == sheet.metric
        await pilot.press("enter")
        assert app.screen is screen

        await pilot.press("escape")
        assert isinstance(app.screen, RunScreen)


async def test_points_arrive_while_a_part_is_looked_at(open_app: Open, live: Scripted, until: Until) -> None:
    app = open_app(run=live.folder)
    async with app.run_test(size=(120, 40)) as pilot:
        _, sheet, metrics = await opened(app, pilot, until)
        await pilot.press("plus", "left", "left")
        look, before = sheet.look, text(sheet)
        for first in (STEPS, STEPS + 40):
            live.add(*reports(first, first + 40, aaa=1.0))
            live.writer._curves.flush()
        await until(pilot, lambda: sheet.whole() == Interval(0.0, 279.0))
        await until(pilot, lambda: "aaa" in text(metrics))

        assert look == sheet.look
        assert before.splitlines()[1:-2] == text(sheet).splitlines()[1:-2]
        assert ["loss", "aaa", "acc", "s/step"] == sheet.metrics
        await pilot.press("w")
        assert "loss 0.62" in text(sheet)


async def test_a_metric_that_arrives_does_not_change_what_is_shown(
    open_app: Open, live: Scripted, until: Until
) -> None:
    app = open_app(run=live.folder)
    async with app.run_test(size=(120, 40)) as pilot:
        _, sheet, metrics = await opened(app, pilot, until)
        await pilot.press("down")
        live.add(*reports(STEPS, STEPS + 10, aaa=1.0))
        live.writer._curves.flush()
        await until(pilot, lambda: "aaa" in sheet.metrics)

        assert "acc" == sheet.metric == metrics.chosen
        await pilot.press("down")
        assert "s/step" == sheet.metric


async def test_metrics_are_filtered_by_their_names(open_app: Open, live: Scripted, until: Until) -> None:
    live.add(*reports(STEPS, STEPS + 2, val_acc=0.5, jk_acc=0.7))
    live.writer._curves.flush()
    app = open_app(run=live.folder)
    async with app.run_test(size=(120, 40)) as pilot:
        screen, sheet, metrics = await opened(app, pilot, until)
        await pilot.press("slash", *"ACC")
        assert ["acc", "jk_acc", "val_acc"] == metrics.items == sheet.metrics
        assert "acc" == sheet.metric == metrics.chosen
        assert "Metrics · 3 of 5" in str(metrics.border_title)
        await pilot.press("home", *"jk_", "enter")
        assert ["jk_acc"] == metrics.items
        assert "jk_acc 0.7" in text(sheet)
        assert sheet.has_focus
        await pilot.press("v")
        assert ["jk_acc"] == sheet.metrics
        assert "val_acc" not in text(sheet)

        live.add(*reports(STEPS + 2, STEPS + 4, jk_acc_2=1.0, aaa=1.0))
        live.writer._curves.flush()
        await until(pilot, lambda: "jk_acc_2" in sheet.metrics)
        assert ["jk_acc", "jk_acc_2"] == metrics.items
        await pilot.press("v", "slash", *"none")
        assert "no metric has 'none' in its name" in text(sheet)
        assert [] == metrics.items

        await pilot.press("escape")
        assert app.screen is screen, "escape only removes the filter"
        assert {"loss", "aaa", "val_acc"} < {*metrics.items}
        assert sheet.metric == metrics.chosen
        await pilot.press("down")
        assert sheet.metric == metrics.chosen, "the keys choose again"
        await pilot.press("escape")
        assert app.screen is not screen


async def test_a_pasted_filter_of_control_characters_harms_nothing(
    open_app: Open, live: Scripted, until: Until
) -> None:
    app = open_app(run=live.folder)
    async with app.run_test(size=(50, 14)) as pilot:
        _, sheet, _ = await opened(app, pilot, until)
        await pilot.press("slash")
        app.screen.query_one(FilterField).value = "\x1b]0;gone\x07[bold]" + "x" * 16384
        await pilot.pause()

        assert text(sheet).strip().startswith("no metric has '")
        assert "\x1b" not in text(sheet)
        assert "\x07" not in text(sheet)


async def test_the_first_metric_arrives_while_the_screen_is_open(
    open_app: Open, root: Path, until: Until
) -> None:
    run = Scripted(root)
    run.add(SPARK)
    run.place(2.0)
    app = open_app(run=run.folder)
    async with app.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: shown(app))
        await pilot.press("c")
        await until(pilot, lambda: isinstance(app.screen, CurvesScreen) and app.screen.query(MetricList))
        screen, sheet, metrics = parts(app)
        for key in (
            "left",
            "right",
            "plus",
            "minus",
            "less_than_sign",
            "w",
            "a",
            "a",
            "l",
            "l",
            "s",
            "S",
            "v",
            "v",
        ):
            await pilot.press(key)
        await pilot.press("up", "down", "enter")
        assert "no metrics yet" in text(metrics)

        run.add(*reports(0, 20))
        run.writer._curves.flush()
        await until(pilot, lambda: "loss 1.92" in text(sheet))
        assert "loss" == sheet.metric == metrics.chosen
        assert screen is app.screen


async def test_past_runs_are_shown_behind_it(
    open_app: Open, live: Scripted, root: Path, until: Until
) -> None:
    for number, loss in enumerate([0.5, 0.2, 0.9, 0.4, 0.3, 0.6, 0.7, 0.8, 0.75]):
        past_run(root, number, loss=loss)
    past_run(root, 20, target="other.py", loss=0.0)
    app = open_app(run=live.folder)
    async with app.run_test(size=(120, 40)) as pilot:
        _, sheet, _ = await opened(app, pilot, until)

        def names() -> list[str]:
            return [each.name for each in sheet.traced[1:]]

        seen = {}
        for which in (Behind.BEST, Behind.BEFORE, Behind.LAST):
            await pilot.press("B")
            assert which.value in str(sheet.border_subtitle)
            count = 7 if which is Behind.LAST else 1
            await until(pilot, lambda count=count: len(names()) == count)  # type: ignore[misc]
            seen[which] = names()
        assert all(f"━ past{n} " in text(sheet) for n in range(3))
        await pilot.press("B")
        assert [] == names()
        assert not sheet.border_subtitle

    assert ["past1 001"] == seen[Behind.BEST]
    assert ["past0 000"] == seen[Behind.BEFORE]
    assert [f"past{n} 00{n}" for n in range(7)] == seen[Behind.LAST]


async def test_without_past_runs_it_says_so(open_app: Open, live: Scripted, until: Until) -> None:
    app = open_app(run=live.folder)
    async with app.run_test(size=(120, 40)) as pilot:
        _, sheet, _ = await opened(app, pilot, until)
        await pilot.press("B")
        await until(pilot, lambda: "(none found)" in str(sheet.border_subtitle))


async def test_export_writes_a_table_and_a_drawing(
    open_app: Open, live: Scripted, project: Path, root: Path, until: Until
) -> None:
    past_run(root, 0, loss=0.5)
    app = open_app(run=live.folder)
    async with app.run_test(size=(120, 40)) as pilot:
        _, sheet, _ = await opened(app, pilot, until)
        await pilot.press("B")
        await until(pilot, lambda: len(sheet.traced) == 2)
        await pilot.press("e")
        stem = f"curves-{live.folder.name}"
        await until(pilot, lambda: (project / f"{stem}.svg").exists())
        await pilot.press("v", "e")
        await until(pilot, lambda: (project / f"{stem}-2.svg").exists())

    with open(project / f"{stem}.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {("llama", "loss"), ("llama", "acc"), ("llama", "s/step"), ("past0 000", "loss")} <= {
        (row["run"], row["metric"]) for row in rows
    }
    last = [row for row in rows if row["metric"] == "loss" and row["run"] == "llama"][-1]
    assert ("199", "1.005", "1.02", "1.035") == (
        last["step"],
        *(f"{float(last[k]):.4g}" for k in ("low", "median", "high")),
    )
    one, all_of_them = (ET.parse(project / f"{stem}{n}.svg").getroot() for n in ("", "-2"))
    texts = {element.text for element in one.iter("{http://www.w3.org/2000/svg}text")}
    assert {"loss", "llama", "past0 000", "step"} <= texts
    assert "acc" not in texts
    assert {"loss", "acc"} <= {
        element.text for element in all_of_them.iter("{http://www.w3.org/2000/svg}text")
    }
    assert one.findall(".//{http://www.w3.org/2000/svg}polyline")


async def test_an_export_that_cannot_be_written_is_told(
    open_app: Open, live: Scripted, project: Path, until: Until
) -> None:
    app = open_app(run=live.folder)
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(app, pilot, until)
        for path in sorted(project.iterdir()):
            path.unlink()
        project.rmdir()
        await pilot.press("e")
        await until(pilot, lambda: any("cannot write" in n.message for n in app._notifications))


@pytest.mark.parametrize("size", [(50, 14), (80, 24), (120, 40), (200, 60)], ids=str)
async def test_it_is_drawn_at_every_size(
    open_app: Open, live: Scripted, until: Until, size: tuple[int, int]
) -> None:
    app = open_app(run=live.folder)
    async with app.run_test(size=size) as pilot:
        _, sheet, metrics = await opened(app, pilot, until)
        for key in ("v", "v", "plus", "left", "l", "a"):
            await pilot.press(key)
        lines = text(sheet).splitlines()
        assert all(len(line) <= size[0] for line in lines)
        assert (size[0] >= 80) == metrics.display
        await pilot.resize_terminal(40, 10)
        await pilot.press("v", "right", "v")
        assert "loss" in text(sheet)


async def test_the_mouse_puts_the_cursor_and_chooses_a_metric(
    open_app: Open, live: Scripted, until: Until
) -> None:
    app = open_app(run=live.folder)
    async with app.run_test(size=(120, 40)) as pilot:
        _, sheet, metrics = await opened(app, pilot, until)
        await pilot.click(sheet, offset=(50, 10))
        assert sheet.look.cursor is not None
        assert sheet.has_focus
        await pilot.click(metrics, offset=(5, 2))
        await pilot.pause()
        assert "acc" == metrics.chosen == sheet.metric


async def test_the_wheel_zooms_a_metric_in_full_and_scrolls_all_of_them(
    open_app: Open, live: Scripted, until: Until
) -> None:
    app = open_app(run=live.folder)
    async with app.run_test(size=(80, 14)) as pilot:
        _, sheet, _ = await opened(app, pilot, until)
        await pilot._post_mouse_events([MouseScrollUp], sheet, offset=(30, 5))
        zoomed = sheet.look
        assert zoomed.part is not None
        await pilot._post_mouse_events([MouseScrollDown], sheet, offset=(30, 5))
        assert zoomed != sheet.look
        await pilot.press("w", "v")
        whole = sheet.look
        await pilot._post_mouse_events([MouseScrollDown], sheet, offset=(30, 5))
        await until(pilot, lambda: sheet.scroll_y > 0)
        assert whole == sheet.look


async def test_metrics_of_control_characters_harm_nothing(open_app: Open, root: Path, until: Until) -> None:
    run = Scripted(root)
    run.add(SPARK)
    run.place(2.0)
    names = ["a", "a\x1b[2J", "a\x07", "[red]x[/red]", "損失" * 30, "x" * 200, "\ud800", "=1+1"]
    for step in range(10):
        known = dict.fromkeys(names, float(step)) | {"nan": math.nan, "inf": math.inf, "huge": 1e308}
        run.add(ev.RankReported(time=START + 10 + step, rank=0, step=step, metrics=known))
    run.writer._curves.flush()
    app = open_app(run=run.folder)
    async with app.run_test(size=(100, 30)) as pilot:
        _, sheet, metrics = await opened(app, pilot, until)
        assert 12 == len(sheet.metrics)
        for _ in range(12):
            await pilot.press("down", "l", "a", "plus", "left")
            assert not sheet.covered
            assert not any(ord(c) < 32 and c != "\n" for c in text(sheet) + text(metrics))
        await pilot.press("v")
        assert "[red]x[/red]" in text(metrics)
        await pilot.press("e")
        await until(pilot, lambda: [*Path(app.workdir).glob("*.svg")] if hasattr(app, "workdir") else True)


# --- the pane of the run screen --------------------------------------------------------------------------


async def test_every_key_of_the_pane(open_app: Open, live: Scripted, until: Until) -> None:
    app = open_app(run=live.folder)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: shown(app))
        await pilot.press("5")
        pane = app.screen.query_one(Charts)
        await until(pilot, lambda: pane.has_focus and pane.metrics)
        await pilot.press("plus")
        assert Interval(99.5, 199.0) == pane.look.part
        await pilot.press("less_than_sign", "left")
        assert pane.look.cursor is not None
        await pilot.press("w", "l", "a", "s")
        assert Look(Axis.TIME, log=True, smoothing=1) == pane.look
        assert "smoothed 2%" in text(pane)
        await pilot.press("S", "l", "a", "down", "up")
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, CurvesScreen) and app.screen.query(CurveSheet))
        await until(pilot, lambda: parts(app)[1].metric == "loss")
        await pilot.press("escape")
        assert isinstance(app.screen, RunScreen)
        assert pane.has_focus


async def test_a_run_without_metrics_says_what_makes_them(open_app: Open, root: Path, until: Until) -> None:
    run = Scripted(root)
    run.add(SPARK)
    run.place(2.0)
    app = open_app(run=run.folder)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: shown(app))
        await pilot.press("5")
        pane = app.screen.query_one(Charts)
        await until(pilot, lambda: "launcher.report(" in text(pane))
        for key in ("plus", "minus", "left", "right", "a", "l", "s", "S", "w", "less_than_sign"):
            await pilot.press(key)
        assert not pane.covered


async def test_a_plot_that_fails_covers_its_pane_alone(
    root: Path, project: Path, home: Path, live: Scripted, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> object:
        raise ZeroDivisionError("no plot")

    app = RankdeckApp(
        root=root, workdir=project, open_run=live.folder, commands=FakeCommands(), survives=True
    )
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: shown(app))
        await pilot.press("5")
        pane = app.screen.query_one(Charts)
        await until(pilot, lambda: pane.metrics)
        with monkeypatch.context() as patched:
            patched.setattr(curve_sheet, "plot_rows", broken)
            await pilot.press("plus")
            await until(pilot, lambda: pane.covered)
            await pilot.press("1")
            await until(pilot, lambda: app.screen.query_one(RankGrid).has_focus)
            assert [Charts] == [type(each) for each in app.screen.query(Titled) if each.covered]
        await pilot.press("5", "r")
        await until(pilot, lambda: not pane.covered and "loss" in text(pane))
    failure_log().unlink()


@pytest.mark.parametrize("name", ["points", "names"])
@pytest.mark.parametrize("spoil", ["folder", "random", "huge", "link"])
async def test_spoiled_files_spoil_no_other_pane(
    open_app: Open, live: Scripted, until: Until, name: str, spoil: str
) -> None:
    path = live.folder / "curves" / name
    path.unlink()
    if spoil == "folder":
        path.mkdir()
    elif spoil == "random":
        path.write_bytes(bytes(range(256)) * 4096)
    elif spoil == "huge":
        with open(path, "wb") as file:
            file.truncate(100 << 20)
    else:
        path.symlink_to("/etc/passwd")
    app = open_app(run=live.folder)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: shown(app))
        await pilot.press("5")
        pane = app.screen.query_one(Charts)
        await until(pilot, lambda: "nothing to chart yet" in text(pane))
        assert not app.screen.query(FailedPane)
        await pilot.press("c", "plus", "v", "escape")
        assert isinstance(app.screen, RunScreen)


# --- several runs together -------------------------------------------------------------------------------


def recorded(root: Path, number: int, *, curves: bool = True) -> Path:
    """An ended run, with the curve of a loss or without any."""
    folder = root / new_id(START - 1000 * (number + 1), f"{number:03x}")
    folder.mkdir(mode=0o700)
    target = Target(TargetKind.SCRIPT, "train.py", args=("--lr", str(number)))
    writer = RunWriter(folder, JobSpec(target, num_processes=1))
    writer.append(ev.RunSubmitted(time=START, name="n", target="train.py", mode="local", num_processes=1))
    for step in range(60 if curves else 0):
        known = {"loss": number + 1 / (step + 1)}
        writer.append(ev.RankReported(time=START + step, rank=0, step=step, metrics=known))
    writer.append(ev.RunEnded(time=START + 90, state="succeeded", exit_code=0, why="all ranks succeeded"))
    writer.close()
    return folder


@pytest.mark.parametrize("count", [2, 3, 8])
@pytest.mark.parametrize("size", [(80, 24), (120, 40)], ids=str)
async def test_runs_are_compared_one_of_them_without_curves(
    open_app: Open, root: Path, until: Until, count: int, size: tuple[int, int]
) -> None:
    runs = [recorded(root, number) for number in range(count - 1)]
    runs.insert(1, recorded(root, 50, curves=False))
    app = open_app()
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen))
        app.push_screen(ComparisonScreen(runs))
        await until(pilot, lambda: app.screen.query(ComparisonSheet))
        values, curves = app.screen.query_one(ComparisonSheet), app.screen.query_one(CurveSheet)
        await until(pilot, lambda: values.found is not None or values.problem)
        assert not values.problem
        await until(pilot, lambda: curves.display)
        assert count == len(curves.traced)
        await pilot.press("tab") if not curves.has_focus else None
        shown_curves = text(curves)
        assert "━ A " in shown_curves
        assert "━ B " not in shown_curves
        letters = "ABCDEFGH"[:count]
        assert all(f"{each} " in text(values).splitlines()[0] for each in letters)
        curves.focus()
        for key in ("plus", "left", "a", "l", "s", "w", "enter", "z", "z"):
            await pilot.press(key)
        assert not curves.covered
        assert not values.covered


async def test_runs_without_curves_are_compared_by_values_alone(
    open_app: Open, root: Path, until: Until
) -> None:
    runs = [recorded(root, number, curves=False) for number in range(3)]
    app = open_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen))
        app.push_screen(ComparisonScreen(runs))
        await until(pilot, lambda: app.screen.query(ComparisonSheet))
        await until(pilot, lambda: app.screen.query_one(ComparisonSheet).found)
        assert not app.screen.query_one(CurveSheet).display
        await pilot.press("z", "z")
        assert not app.screen.query_one(CurveSheet).display
    assert not curves_of(runs[0]).names
