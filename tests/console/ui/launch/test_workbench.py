"""The launch screen beside the form: trainings found, preview, plan, demo."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from textual.geometry import Region, Size
from textual.widgets import Input

from console.app import RankdeckApp
from console.data.launch import trainings
from console.data.launch.detect import Detected, Gpu
from console.data.launch.places import HostPlaces, PlacementMap, Seat
from console.data.launch.targets import Candidate
from console.ui.launch.panes import RecentRuns
from console.ui.launch.parameters import ParamForm
from console.ui.launch.picker import Candidates, PickerScreen
from console.ui.launch.screen import LaunchScreen
from console.ui.launch.workbench.found import TrainingList
from console.ui.launch.workbench.layout import FORM, FOUND, PLAN, PREVIEW, RECENT, places, shown
from console.ui.launch.workbench.placement import map_rows
from console.ui.launch.workbench.plan import LaunchPlan
from console.ui.launch.workbench.preview import SourcePreview
from console.ui.launch.workbench.reader import FolderReader
from console.ui.rendering.containment import failure_log
from console.ui.run.screen import RunScreen
from console.ui.widgets.key_line import KeyLine
from console.ui.widgets.rows import width_of
from launcher.runs.catalog import create_folder
from launcher.spec.job import JobSpec, Target, TargetKind
from tests.console import looking

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from tests.console.conftest import Until

Open = Callable[..., RankdeckApp]
SIZES = [(50, 14), (60, 15), (80, 24), (120, 40), (200, 60)]
DDP = (
    '"""Train with DDP. At length."""\nimport torch.distributed\nimport argparse\n\n'
    "def main(lr: float): ...\n"
)
GPUS = tuple(Gpu("NVIDIA H100", 0, 80 << 30) for _ in range(8))


@pytest.fixture(autouse=True)
def programs(project: Path) -> None:
    (project / "ddp.py").write_text(DDP + 'if __name__ == "__main__":\n    main(1)\n')
    (project / "fit.py").write_text("import lightning\n\ndef fit(lr: float, epochs: int = 3):\n    'Fit.'\n")


async def listed(app: RankdeckApp, pilot: Pilot[int], until: Until) -> TrainingList:
    await until(pilot, lambda: isinstance(app.screen, LaunchScreen))
    found = app.screen.query_one(TrainingList)
    await until(pilot, lambda: found.items and not found.border_subtitle)
    await until(pilot, lambda: found.led)
    return found


def target(app: RankdeckApp) -> str:
    return app.screen.query_one("#target", Input).value


@pytest.mark.parametrize("size", SIZES)
async def test_trainings_are_on_the_screen_before_anything_is_typed(
    open_app: Open, until: Until, size: tuple[int, int]
) -> None:
    app = open_app()
    async with app.run_test(size=size) as pilot:
        found = await listed(app, pilot, until)
        await pilot.pause()

        assert ["ddp.py", "fit.py:fit"] == [item.target for item in found.items[:2]]
        assert "▸ ddp.py" in looking.text(found)
        assert "Train with DDP." in looking.text(found)
        assert "f2 History" in app.screen.query_one(KeyLine).render_line(0).text
        assert (size[0] < 80) or "f3 Cluster" in app.screen.query_one(KeyLine).render_line(0).text


async def test_enter_takes_one_and_goes_to_its_first_parameter(open_app: Open, until: Until) -> None:
    app = open_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await listed(app, pilot, until)
        await pilot.press("down", "enter")
        await until(pilot, lambda: target(app) == "fit.py:fit")
        await until(pilot, lambda: app.screen.focused is not None and app.screen.focused.name == "lr")
        plan = app.screen.query_one(LaunchPlan)
        await until(pilot, lambda: plan.display and plan.complete)

        assert not app.screen.query_one(TrainingList).display
        assert app.screen.query_one(ParamForm).signature is not None


async def test_a_click_takes_one(open_app: Open, until: Until) -> None:
    app = open_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await listed(app, pilot, until)
        await pilot.click(TrainingList, offset=(6, 2))
        await until(pilot, lambda: target(app) == "fit.py:fit")


async def test_the_keys_of_the_list_lead_out_of_it(open_app: Open, until: Until) -> None:
    app = open_app()
    async with app.run_test(size=(80, 24)) as pilot:
        found = await listed(app, pilot, until)
        await pilot.press(*["down"] * (found.length - 1))
        assert found.cursor == found.length - 1
        await pilot.press("down")
        await until(pilot, lambda: app.screen.focused is not None and app.screen.focused.id != "target")
        assert not found.led
        await pilot.press("escape", "3")
        await until(pilot, lambda: found.has_focus)
        await pilot.press("g", "enter")
        await until(pilot, lambda: target(app) == "ddp.py")


async def test_letters_that_name_nothing_narrow_the_list(open_app: Open, until: Until) -> None:
    app = open_app()
    async with app.run_test(size=(80, 24)) as pilot:
        found = await listed(app, pilot, until)
        await pilot.press("f", "t")
        await until(pilot, lambda: ["fit.py:fit"] == [item.target for item in found.items])
        assert found.display
        await pilot.press("enter")
        await until(pilot, lambda: target(app) == "fit.py:fit")
        await until(pilot, lambda: not found.display)
        app.screen.query_one("#target", Input).value = ""
        await until(pilot, lambda: found.display and len(found.items) > 1)


async def test_the_chosen_one_is_previewed(open_app: Open, until: Until) -> None:
    app = open_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await listed(app, pilot, until)
        preview = app.screen.query_one(SourcePreview)
        await until(pilot, lambda: "import torch.distributed" in looking.text(preview))
        assert "uses torch.distributed" in looking.text(preview)
        await pilot.press("down")
        await until(pilot, lambda: "def fit(lr: float, epochs: int = 3)" in looking.text(preview))


async def test_hostile_source_is_harmless_text(open_app: Open, until: Until, project: Path) -> None:
    evil = "\x1b]0;evil\x07\x1b[2J\u202e\x9b31m"
    (project / "ddp.py").write_text(
        f'"""Train {evil} it."""\nimport torch.distributed\nx = "{evil}"\nmain({"1" * 16384})\n'
    )
    app = open_app()
    async with app.run_test(size=(120, 40)) as pilot:
        found = await listed(app, pilot, until)
        preview = app.screen.query_one(SourcePreview)
        await until(pilot, lambda: preview.preview is not None and preview.preview.target == "ddp.py")
        await pilot.pause()

        assert looking.text(preview).replace("\n", "").isprintable()
        assert looking.text(found).replace("\n", "").isprintable()


async def test_newcomers_see_what_this_is(open_app: Open, until: Until) -> None:
    app = open_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await listed(app, pilot, until)
        app.screen.post_message(LaunchScreen.MachineFound(Detected(96, GPUS)))
        recent = app.screen.query_one(RecentRuns)
        await until(pilot, lambda: "8 of 8 GPUs free" in looking.text(recent))
        told = looking.text(recent)

        assert "every rank." in told
        assert "f7 demo" in told
        assert "f2 History f3 Cluster f1 Help" in told


@pytest.mark.parametrize("how", ["key", "click"])
async def test_the_demo_opens_and_leaves_nothing(open_app: Open, until: Until, how: str) -> None:
    app = open_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await listed(app, pilot, until)
        await until(pilot, lambda: app.screen.query_one(RecentRuns).listed)
        if how == "key":
            await pilot.press("f7", "f7")
        else:
            text = looking.text(app.screen.query_one(RecentRuns)).split("\n")
            line = next(n for n, row in enumerate(text) if "demo:" in row)
            await pilot.click(RecentRuns, offset=(6, line + 1))
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and app.screen.view is not None)
        screen = app.screen
        assert isinstance(screen, RunScreen)
        assert screen.run.exists()
        assert [type(s) for s in app.screen_stack].count(RunScreen) == 1
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen))
        await until(pilot, lambda: not screen.run.parent.parent.exists())


async def test_leaving_from_the_demo_names_no_run(open_app: Open, until: Until) -> None:
    app = open_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await listed(app, pilot, until)
        await pilot.press("f7")
        await until(pilot, lambda: isinstance(app.screen, RunScreen) and app.screen.view is not None)
        screen = app.screen
        assert isinstance(screen, RunScreen)
        await pilot.press("q")
        await until(pilot, lambda: app._exit)

    assert app.left_running is None
    assert not screen.run.exists()


async def test_the_plan_follows_processes_and_gpus(open_app: Open, until: Until, root: Path) -> None:
    app = open_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await listed(app, pilot, until)
        app.screen.post_message(LaunchScreen.MachineFound(Detected(96, GPUS)))
        await pilot.press("enter")
        plan = app.screen.query_one(LaunchPlan)
        await until(pilot, lambda: "rank 0" in looking.text(plan) and "GPU 7" in looking.text(plan))
        assert "no earlier run" in looking.text(plan)
        assert "rank 5" not in looking.text(plan)
        app.screen.query_one("#processes", Input).value = "6"
        await until(pilot, lambda: "rank 5" in looking.text(plan))
        app.screen.query_one("#processes", Input).value = "0"
        await until(pilot, lambda: "at least 1" in looking.text(plan))


async def test_the_last_run_of_the_target_is_compared(
    open_app: Open, until: Until, root: Path, project: Path
) -> None:
    script = str(project / "ddp.py")
    create_folder(
        root, 1e9, JobSpec(Target(TargetKind.SCRIPT, script, args=("--lr", "1")), 2, workdir=str(project))
    )
    app = open_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await listed(app, pilot, until)
        await pilot.press("enter")
        plan = app.screen.query_one(LaunchPlan)
        await until(pilot, lambda: "--lr" in looking.text(plan))
        assert "processes            2 → 1" in looking.text(plan)
        app.screen.query_one("#args", Input).value = "--lr 1"
        app.screen.query_one("#processes", Input).value = "2"
        await until(pilot, lambda: "same as 2001" in looking.text(plan))


@pytest.mark.parametrize("size", SIZES)
async def test_the_finder_previews_what_it_finds(
    open_app: Open, until: Until, size: tuple[int, int], project: Path
) -> None:
    app = open_app()
    async with app.run_test(size=size) as pilot:
        await listed(app, pilot, until)
        await pilot.press("ctrl+f")
        await until(pilot, lambda: isinstance(app.screen, PickerScreen))
        preview, found = app.screen.query_one(SourcePreview), app.screen.query_one(Candidates)
        await until(pilot, lambda: found.items and found.items[0].target == "ddp.py")
        await pilot.press("f", "i", "t")
        await until(pilot, lambda: found.items[0].target == "fit.py:fit")
        assert preview.display is (size[0] >= 100 or size[1] >= 22)
        if preview.display:
            await until(pilot, lambda: preview.preview and preview.preview.target == "fit.py:fit")


async def test_reading_stops_when_the_console_is_left(
    open_app: Open, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, stopped = threading.Event(), threading.Event()

    def endless(_: Path, stop: Callable[[], bool]) -> list[tuple[Candidate, ...]]:
        begun.set()
        while not stop():
            threading.Event().wait(0.01)
        stopped.set()
        return []

    monkeypatch.setattr(trainings, "find_trainings", endless)
    app = open_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await until(pilot, begun.is_set)
        await pilot.press("a")
        assert not stopped.is_set()

    assert stopped.wait(10)


async def test_a_pane_that_fails_leaves_the_rest(
    open_app: Open, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: LaunchPlan, width: int) -> None:
        raise RuntimeError("no map")

    app = open_app()
    app.survives = True
    async with app.run_test(size=(120, 40)) as pilot:
        await listed(app, pilot, until)
        monkeypatch.setattr(LaunchPlan, "rows", fail)
        plan = app.screen.query_one(LaunchPlan)
        await pilot.press("enter")
        await until(pilot, lambda: plan.covered)

        assert target(app) == "ddp.py"
    failure_log().unlink()


def test_a_folder_is_read_again_only_after_a_while(tmp_path: Path) -> None:
    now = [0.0]
    published: list[bool] = []
    done = threading.Event()

    def publish(_: object, whole: bool) -> None:
        published.append(whole)
        if whole:
            done.set()

    reader = FolderReader(tmp_path, publish, lambda: now[0])
    for at, count in ((0.0, 1), (10.0, 1), (100.0, 2)):
        now[0] = at
        before = published.count(True)
        done.clear()
        reader.start()
        if count > before:
            assert done.wait(10)
        thread = reader._thread
        assert thread is not None
        thread.join(10)
        assert published.count(True) == count


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("seeking", [True, False])
@pytest.mark.parametrize("form", [3, 10, 40])
def test_panes_cover_the_screen_and_do_not_overlap(size: tuple[int, int], seeking: bool, form: int) -> None:
    terminal = Size(*size)
    room = Size(size[0], size[1] - 6)
    panes = shown(terminal, seeking=seeking, recent_first=False)
    found = places(room, terminal, form, panes)

    assert found.keys() == panes
    assert {FORM} < panes <= {FORM, RECENT, FOUND, PREVIEW, PLAN}
    assert sum(region.area for region in found.values()) == room.area
    regions: list[Region] = list(found.values())
    assert not any(a.overlaps(b) for n, a in enumerate(regions) for b in regions[:n])
    assert all(region.height >= 3 for region in regions)


def gpus(count: int, per: int = 1) -> PlacementMap:
    seats = tuple(Seat(f"GPU {n}", tuple(range(n * per, n * per + per)), "80G") for n in range(count))
    return PlacementMap((HostPlaces("gpu-01", seats, "96 cores"),))


def drawn(places_: PlacementMap, width: int, height: int) -> list[str]:
    rows = map_rows(places_, width, height)
    assert all(width_of(row) <= width for row in rows)
    return ["".join(text for text, _ in row).rstrip() for row in rows]


def test_the_map_takes_the_form_that_fits() -> None:
    assert any("╭ GPU 0" in line for line in drawn(gpus(8), 70, 20))
    assert ["gpu-01  8 ranks  96 cores", "GPU 0 rank 0"] == [
        line.strip()[:25].rstrip() if n == 0 else line.strip()[:12]
        for n, line in enumerate(drawn(gpus(8), 70, 4)[:2])
    ]
    assert [" gpu-01  ranks 0-7 GPU 0-7  96 cores"] == drawn(gpus(8), 70, 1)
    assert [" gpu-01  ranks 0-4095 GPU 0-1023, 4 each  96 cores"] == drawn(gpus(1024, 4), 70, 20)


@pytest.mark.parametrize("width", [10, 28, 48, 78, 118, 198])
@pytest.mark.parametrize("height", [1, 2, 5, 20, 50])
def test_the_map_fits_into_any_width(width: int, height: int) -> None:
    for places_ in (gpus(1), gpus(8), gpus(8, 3), gpus(64), PlacementMap(problem="x" * 300), PlacementMap()):
        drawn(replace(places_, notes=("n" * 300,)), width, height)
