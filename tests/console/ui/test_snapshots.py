"""Every screen at three sizes, as pictures that were looked at and kept (tests/console/snapshots)."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from console.app import RankdeckApp
from console.data.cluster.monitor import MachinePoller
from console.data.finding import sources
from console.data.finding.own import OwnCommand
from console.data.launch import preflight as preflight_source
from console.data.launch.detect import Detected, Gpu
from console.data.launch.draft import Draft
from console.data.run.feed import RunFeed
from console.demo import RECORDED_AT, record_demo
from console.manual import Topic
from console.settings import ConsoleSettings
from console.ui import manual
from console.ui.cluster.screen import ClusterScreen
from console.ui.curves.screen import CurvesScreen
from console.ui.curves.sheet import CurveSheet
from console.ui.finding.bar import BarScreen
from console.ui.finding.jump import JumpScreen
from console.ui.history.compare import ComparisonScreen, ComparisonSheet
from console.ui.history.panes import RunCard, RunsList
from console.ui.history.screen import HistoryScreen
from console.ui.launch.options import OptionForm
from console.ui.launch.panes import RecentRuns
from console.ui.launch.parameters import ParamForm
from console.ui.launch.picker import Candidates, PickerScreen
from console.ui.launch.preflight import Checks, PreflightScreen
from console.ui.launch.screen import LaunchScreen
from console.ui.launch.workbench.bench import Workbench
from console.ui.launch.workbench.found import TrainingList
from console.ui.launch.workbench.plan import LaunchPlan
from console.ui.launch.workbench.preview import SourcePreview
from console.ui.manual import ManualScreen
from console.ui.rendering import insides
from console.ui.rendering.driver import frugal
from console.ui.run.screen import RunScreen
from console.ui.run.stacks import StackSheet, StacksScreen
from console.ui.travel.timeline import Timeline
from launcher.runs.catalog import new_id
from launcher.runs.status import Owner, Status, write_status
from launcher.spec.files.bundle import Bundle, Manifest, SentFile
from launcher.spec.modes import Mode
from launcher.state import events as ev
from launcher.state.run_state import Phase
from tests.console.conftest import FakeCommands, Until
from tests.console.data.cluster.test_spark_json import PAGE
from tests.console.data.cluster.test_spark_pollers import Web
from tests.console.pictures import Emulated
from tests.console.scripted import SPARK, Scripted
from tests.console.snapshot_fixture import FOLDER, Album
from tests.console.ui.cluster.test_cluster_screen import Fake, engines

if TYPE_CHECKING:
    from textual.pilot import Pilot

SIZES = [(80, 24), (120, 40), (200, 60)]
SMALL = (50, 14)
GIB = 1 << 30
NOW_S = 61
"""How many seconds after the recorded run's start every clock stands still."""

FOUND = Detected(
    cores=96,
    gpus=tuple(Gpu("NVIDIA H100 80GB HBM3", (1 + 69 * (n == 3)) * GIB // 2, 80 * GIB) for n in range(8)),
    spark="4.0.1",
    environ={},
    defaults={},
)
WEB = Web({"http://m:1/json/": PAGE})
PROGRAM = '''"""Train a language model."""
from pathlib import Path
from typing import Literal

def main(lr: float, model: Literal["7b", "70b"] = "7b", steps: int = 50_000, conf: Path = Path("7b.yaml"),
         bf16: bool = True):
    """Train."""

def evaluate(checkpoint: Path): ...
'''
SCRIPT = '''"""Pretrain a language model from shards of tokens."""
import argparse

import torch.distributed as dist

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--data", required=True, help="folder of shards")
parser.add_argument("--lr", type=float, default=3e-4, help="peak learning rate")
parser.add_argument("--steps", type=int, default=50_000)
parser.add_argument("--precision", choices=["bf16", "fp32"], default="bf16")
parser.add_argument("--compile", action="store_true", help="compile the model")
options = parser.parse_args()
dist.init_process_group()
'''
TOPIC = """# Runs

A run outlives its terminal.

A run belongs to an **engine**: a process without a terminal. The engine starts with the first run and ends
15 minutes after the last one. `rankdeck engine status` shows it.

## What detaches, and what stops

- These detach, and the run continues: `q` in the console, a hangup (SIGHUP), the end of tmux or of the
  connection.
- These stop the run: `x` in the console, Ctrl-C.

```sh
rankdeck run train.py -n 4 --detach    # print the id and return
rankdeck stop last                     # SIGTERM, a grace period, SIGKILL
```

| code | meaning |
|---|---|
| 0 | every rank exited with 0; a function may also end by `sys.exit(0)`, and then has no value |
| 124 | time limit |
"""
"""A topic that stays as it is when the manual changes."""

DRAFT = Draft(
    target="train.py:main",
    params={"lr": "3e-4"},
    processes="8",
    mode=Mode.CLUSTER,
    spark="spark://head:7077",
)

HERE = replace(DRAFT, mode=Mode.LOCAL, spark="", params={"lr": "1e-3"})
"""On the machine of the console, with its GPUs."""


@dataclass
class Stage:
    """Where the screens are shown: Ada's home, with her project and her runs, at one moment."""

    root: Path
    project: Path
    commands: FakeCommands
    until: Until

    def app(self, run: Path | None = None, *, draft: Draft = DRAFT, **settings: Any) -> RankdeckApp:
        app = RankdeckApp(
            root=self.root,
            workdir=self.project,
            open_run=run,
            draft=replace(draft, workdir=self.project),
            commands=self.commands,
            settings=ConsoleSettings(**settings),
        )
        app.driver_class = frugal(Emulated)
        return app

    def past(self) -> None:
        """Runs of some days, each ended in its own way."""
        for number, (state, known) in enumerate(PAST):
            began = RECORDED_AT - 40_000.0 * (number + 1)
            run = Status(
                new_id(began, f"00{number}"), state=state, started=began, owner=Owner.this(), user="ada",
                host="driver", mode="cluster", target="train.py:main", **known,
            )  # fmt: skip
            (self.root / run.id).mkdir()
            write_status(self.root / run.id, run)
        failed = record_demo(self.root, seconds=45, fail=True)
        failed.rename(failed.with_name(new_id(RECORDED_AT, "fa1")))
        record_demo(self.root, seconds=50)

    def script(self) -> None:
        """A script with options of its own."""
        (self.project / "pretrain.py").write_text(SCRIPT)
        os.utime(self.project / "pretrain.py", (RECORDED_AT - 3600,) * 2)


PAST: tuple[tuple[Phase, dict[str, Any]], ...] = (
    (
        Phase.SUCCEEDED,
        {
            "name": "llama-ft",
            "args": "lr=0.001 depth=24 data=c4",
            "num_processes": 64,
            "ended": RECORDED_AT - 33_000,
            "exit_code": 0,
            "step": 11_020,
        }
        | {"step": 11_020, "metrics": {"loss": 2.301}, "revision": "a91f2c04d1e2", "dirty": True},
    ),
    (
        Phase.LOST,
        {"name": "llama-ft", "num_processes": 64, "ended": RECORDED_AT - 77_000, "exit_code": 75}
        | {"why": "the executor on gpu-07 was lost, and no restart was left", "args": "lr=0.01 data=c4"},
    ),
    (
        Phase.STOPPED,
        {"name": "resnet-with-a-very-long-name-of-its-own", "num_processes": 2, "exit_code": 143}
        | {"ended": RECORDED_AT - 119_400, "why": "stopped on request"},
    ),
)


@pytest.fixture
def stage(
    tmp_path: Path, commands: FakeCommands, until: Until, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Stage]:
    """Ada's home; clocks that stand still, in UTC."""
    home = tmp_path / "ada"
    project = home / "llm"
    (project / "conf").mkdir(parents=True)
    (project / "train.py").write_text(PROGRAM)
    (project / "score.py").write_text("import sys\nprint(sys.argv)\n")
    root = home / "runs"
    root.mkdir()
    for name, value in (("HOME", str(home)), ("TZ", "UTC")):
        monkeypatch.setenv(name, value)
    time.tzset()
    for kind in (RunFeed, MachinePoller, RecentRuns, LaunchPlan):
        monkeypatch.setitem(kind.__init__.__kwdefaults__ or {}, "clock", now)
    monkeypatch.setattr(time, "time", now)
    monkeypatch.setattr("socket.gethostname", lambda: "gpu-01")
    for source in project.glob("*.py"):
        os.utime(source, (RECORDED_AT - 7200,) * 2)
    monkeypatch.setattr(preflight_source, "look", lambda _: FOUND)
    for module in (manual, sources):
        monkeypatch.setattr(module, "topics", lambda: {"runs": Topic("runs", TOPIC)})
    monkeypatch.setattr(sources, "this_host", lambda: "driver")
    monkeypatch.setattr(preflight_source, "make_bundle", lambda _: SENT)
    monkeypatch.setattr(preflight_source, "carried_by", lambda _: {})
    yield Stage(root, project, commands, until)
    monkeypatch.undo()
    time.tzset()


def now() -> float:
    return RECORDED_AT + NOW_S


SENT = Bundle(Manifest("/w/project", files=(SentFile("src/w/project/train.py", "0", 2400),)))
Go = Callable[[Stage, RankdeckApp, "Pilot[int]"], Awaitable[None]]


async def filled(stage: Stage, app: RankdeckApp, pilot: Pilot[int]) -> None:
    """The launch screen knows the target, what this machine has, and the runs there were."""
    await stage.until(pilot, lambda: isinstance(app.screen, LaunchScreen))
    await stage.until(
        pilot, lambda: app.screen.query(ParamForm) and app.screen.query_one(ParamForm).signature
    )
    await stage.until(pilot, lambda: all(worker.is_finished for worker in app.workers))
    app.screen.post_message(LaunchScreen.MachineFound(FOUND))
    bench, plan = app.screen.query_one(Workbench), app.screen.query_one(LaunchPlan)
    await stage.until(pilot, lambda: not plan.display or (bench._planned or (0, 0))[1] is FOUND)
    await stage.until(pilot, lambda: all(worker.is_finished for worker in app.workers))
    await stage.until(pilot, lambda: not plan.display or plan.known)
    await pilot.pause()


async def shown(stage: Stage, app: RankdeckApp, pilot: Pilot[int]) -> None:
    """The run screen has its first view."""
    await stage.until(pilot, lambda: isinstance(app.screen, RunScreen) and app.screen.view is not None)


async def optioned(stage: Stage, app: RankdeckApp, pilot: Pilot[int]) -> None:
    """The launch screen with a script, whose options have fields; a value is wrong."""
    stage.script()
    await stage.until(pilot, lambda: isinstance(app.screen, LaunchScreen))
    app.screen.post_message(LaunchScreen.MachineFound(FOUND))
    await pilot.press(*"pretrain.py")
    form = app.screen.query_one(OptionForm)
    await stage.until(pilot, lambda: form.query("Input"))
    await pilot.press(*["tab"] * 3, *"fast")
    await stage.until(pilot, lambda: all(worker.is_finished for worker in app.workers))
    plan = app.screen.query_one(LaunchPlan)
    await stage.until(pilot, lambda: not plan.display or plan.known)
    await pilot.pause()


async def stacked(stage: Stage, app: RankdeckApp, pilot: Pilot[int]) -> None:
    """The stacks of all ranks, with the code of those that are at hand."""
    await shown(stage, app, pilot)
    await pilot.press("T")
    await stage.until(
        pilot, lambda: isinstance(app.screen, StacksScreen) and app.screen.query_one(StackSheet).code
    )


async def first_start(stage: Stage, app: RankdeckApp, pilot: Pilot[int]) -> None:
    """Nothing was launched yet, and no target is filled in."""
    await stage.until(pilot, lambda: isinstance(app.screen, LaunchScreen))
    app.screen.post_message(LaunchScreen.MachineFound(FOUND))
    found = app.screen.query_one(TrainingList)
    await stage.until(pilot, lambda: found.items and found.border_subtitle in (None, ""))
    preview = app.screen.query_one(SourcePreview)
    await stage.until(pilot, lambda: not preview.display or preview.preview)


def keys(*pressed: str, first: Go) -> Go:
    """First that, then these keys."""

    async def go(stage: Stage, app: RankdeckApp, pilot: Pilot[int]) -> None:
        await first(stage, app, pilot)
        await pilot.press(*pressed)

    return go


async def picking(stage: Stage, app: RankdeckApp, pilot: Pilot[int]) -> None:
    await filled(stage, app, pilot)
    await pilot.press("ctrl+f")
    await stage.until(pilot, lambda: isinstance(app.screen, PickerScreen))
    await pilot.press("t", "r")
    await stage.until(pilot, lambda: app.screen.query_one(Candidates).length == 3)


async def checking(stage: Stage, app: RankdeckApp, pilot: Pilot[int]) -> None:
    await filled(stage, app, pilot)
    await pilot.press("escape", "p")
    await stage.until(pilot, lambda: isinstance(app.screen, PreflightScreen))
    await stage.until(pilot, lambda: app.screen.query_one(Checks).lines)


async def listed(stage: Stage, app: RankdeckApp, pilot: Pilot[int]) -> None:
    await filled(stage, app, pilot)
    await pilot.press("f2")
    await stage.until(pilot, lambda: isinstance(app.screen, HistoryScreen))
    runs = app.screen.query_one(RunsList)
    await stage.until(pilot, lambda: runs.items)
    await stage.until(pilot, lambda: app.screen.query_one(RunCard).run)
    await stage.until(pilot, lambda: len(runs.series) == len(runs.items) or app.size.width < 100)


async def compared(stage: Stage, app: RankdeckApp, pilot: Pilot[int]) -> None:
    left, right = sorted(stage.root.glob("*0de")), sorted(stage.root.glob("*fa1"))
    await stage.until(pilot, lambda: isinstance(app.screen, LaunchScreen))
    app.push_screen(ComparisonScreen([left[0], right[0]]))
    await stage.until(pilot, lambda: app.screen.query(ComparisonSheet))
    await stage.until(pilot, lambda: app.screen.query_one(ComparisonSheet).found)


async def offered(stage: Stage, app: RankdeckApp, pilot: Pilot[int]) -> None:
    """The command bar has read everything."""
    await shown(stage, app, pilot)
    await pilot.press("3", "ctrl+p")
    await stage.until(pilot, lambda: isinstance(app.screen, BarScreen) and app.screen.complete)


async def lettered(stage: Stage, app: RankdeckApp, pilot: Pilot[int]) -> None:
    """Jump mode on the launch screen."""
    await filled(stage, app, pilot)
    await pilot.press("ctrl+o")
    await stage.until(pilot, lambda: isinstance(app.screen, JumpScreen))


async def three_compared(stage: Stage, app: RankdeckApp, pilot: Pilot[int]) -> None:
    """Three invented runs of the same target, over each other."""
    runs = []
    for number, (seconds, fail) in enumerate([(60, False), (45, True), (30, False)]):
        run = record_demo(stage.root, seconds=seconds, fail=fail)
        runs.append(run.rename(run.with_name(new_id(RECORDED_AT + number, f"c{number}0"))))
    await stage.until(pilot, lambda: isinstance(app.screen, LaunchScreen))
    app.push_screen(ComparisonScreen(runs))
    await stage.until(pilot, lambda: app.screen.query(CurveSheet) and app.screen.query_one(CurveSheet).traced)


async def curved(stage: Stage, app: RankdeckApp, pilot: Pilot[int]) -> None:
    """The screen of curves, with the first metric in full."""
    await shown(stage, app, pilot)
    await pilot.press("c")
    await stage.until(pilot, lambda: isinstance(app.screen, CurvesScreen))
    await stage.until(
        pilot, lambda: app.screen.query(CurveSheet) and app.screen.query_one(CurveSheet).metrics
    )


async def surveyed(stage: Stage, app: RankdeckApp, pilot: Pilot[int]) -> None:
    await stage.until(pilot, lambda: isinstance(app.screen, LaunchScreen))
    assert isinstance(app.screen, LaunchScreen)
    screen = ClusterScreen(app.screen.site, inspector=Fake(), engines=engines, ask=WEB.ask)
    app.push_screen(screen)
    await stage.until(pilot, lambda: screen.view is not None and len(screen.view.work) == 2)


async def travelled(stage: Stage, app: RankdeckApp, pilot: Pilot[int]) -> None:
    """The run as it was 20 seconds after its start."""
    await shown(stage, app, pilot)
    await pilot.press("1", "g", "t")  # from the top: how far the ranks scroll depends on the sizes before
    timeline = app.screen.query_one(Timeline)
    await stage.until(pilot, lambda: timeline.moment is not None)
    await pilot.press("home", *["right"] * 20)
    await stage.until(pilot, lambda: timeline.moment is not None and timeline.moment.at == RECORDED_AT + 20)


async def reading(stage: Stage, app: RankdeckApp, pilot: Pilot[int]) -> None:
    await shown(stage, app, pilot)
    await pilot.press("1", "f1", "m")
    await stage.until(pilot, lambda: isinstance(app.screen, ManualScreen))


@dataclass(frozen=True)
class Scene:
    """What there is when the console starts, and the way to what is pictured."""

    go: Go
    run: Callable[[Stage], Path | None] | None = None
    past: bool = False
    settings: dict[str, Any] = field(default_factory=dict)
    environ: dict[str, str] = field(default_factory=dict)
    draft: Draft = DRAFT


def succeeded(stage: Stage) -> Path:
    return record_demo(stage.root, seconds=60)


def failed(stage: Stage) -> Path:
    return record_demo(stage.root, seconds=60, fail=True)


def training(stage: Stage) -> Path:
    return record_demo(stage.root, until=NOW_S)


def working(stage: Stage) -> None:
    """A run on three hosts, the first of which the console is on, and one that waits for slots."""
    waiting = Scripted(stage.root, ranks=64)
    awaited = ev.SlotsAwaited(time=2.0, have=56, need=64, limit_s=600.0, reason="gpu-16 lost its executor")
    waiting.add(replace(SPARK, pages=("http://m:1",)), awaited)
    waiting.folder.rename(waiting.folder.with_name(new_id(RECORDED_AT, "abd")))
    running = Scripted(stage.root)
    running.add(SPARK)
    running.place(2.0)


def large(stage: Stage) -> Path:
    return record_demo(stage.root, ranks=64, until=NOW_S)


def without_gpus(stage: Stage) -> Path:
    return record_demo(stage.root, ranks=4, gpus=False, until=NOW_S)


TORCH = "/opt/venv/lib/python3.11/site-packages/torch/{}.py"


def stuck(stage: Stage) -> Path:
    """A run that was stopped because it hung; one rank stands elsewhere than the others."""
    run = Scripted(stage.root)
    run.place(2.0)
    others = "".join(
        f'  File "{TORCH.format(name)}", line {line} in {function}\n'
        for name, line, function in (
            ("distributed/distributed_c10d", 2810, "all_reduce"),
            ("distributed/c10d_logger", 83, "wrapper"),
            ("nn/parallel/distributed", 1635, "_pre_forward"),
            ("nn/modules/module", 1739, "_call_impl"),
        )
    )
    code = '  File "~/llm/train.py", line 8 in main\n'
    texts = [f"Thread 0x1:\n{others}{code}"] * 3 + [f"Thread 0x1:\n{code}"]
    run.add(*(ev.StacksTaken(time=50.0, rank=rank, text=each) for rank, each in enumerate(texts)))
    run.add(ev.RunEnded(time=55.0, state="stopped", exit_code=143, why="stopped on request"))
    run.writer.close()
    return run.folder


def raised(stage: Stage) -> Path:
    """A run that failed in code that is at hand."""
    run = Scripted(stage.root)
    run.place(2.0)
    file, library = "~/llm/train.py", TORCH.format("nn/functional")
    frames = ((file, 8, "main"), (library, 3104, "cross_entropy"))
    lines = "".join(f'  File "{each}", line {line}, in {name}\n' for each, line, name in frames)
    run.add(
        ev.RankRaised(
            time=40.0, rank=1, kind="ValueError", message="expected 8 classes, got 10", frames=frames,
            traceback=f"Traceback (most recent call last):\n{lines}ValueError: expected 8 classes, got 10\n",
        )
    )  # fmt: skip
    run.fail(40.1, 1, code=1)
    run.add(ev.RunEnded(time=42.0, state="failed", exit_code=1, why="rank 1 failed", rank=1))
    run.writer.close()
    return run.folder


OWN = {
    "code": OwnCommand("code", ("code", "-g", "{file}:{line}"), "ctrl+g", "the failing line in the editor"),
    "top": OwnCommand("top", ("ssh", "-t", "{host}", "nvtop"), terminal=True),
}
SCENES = {
    "launch": Scene(filled, past=True),
    "launch-first": Scene(first_start, draft=Draft()),
    "launch-here": Scene(filled, past=True, draft=HERE),
    "launch-options": Scene(optioned, past=True, draft=Draft()),
    "launch-more": Scene(keys("ctrl+t", first=filled), past=True),
    "picker": Scene(picking, past=True),
    "preflight": Scene(checking, past=True),
    "run-training": Scene(keys("1", first=shown), training),
    "run-64-ranks": Scene(keys("1", first=shown), large),
    "run-64-filtered": Scene(keys("1", "f", *"gpu>90 foo<3", first=shown), large),
    "run-64-sorted": Scene(keys("1", "o", "o", "O", "f", *"gpu>90 host:2", "enter", first=shown), large),
    "run-logs": Scene(keys("3", "z", first=shown), training),
    "run-result": Scene(keys("4", first=shown), succeeded),
    "run-failed": Scene(shown, failed),
    "run-code": Scene(keys("4", "n", first=shown), raised),
    "stacks": Scene(stacked, stuck),
    "run-past": Scene(travelled, failed),
    "run-charts": Scene(keys("5", "z", first=shown), training),
    "curves": Scene(curved, training),
    "run-devices": Scene(keys("6", "z", first=shown), training),
    "run-devices-cpu": Scene(keys("6", "z", first=shown), without_gpus),
    "run-devices-64-ranks": Scene(keys("6", "z", first=shown), large),
    "run-devices-ended": Scene(keys("6", first=shown), succeeded),
    "stop": Scene(keys("x", first=shown), training),
    "help": Scene(keys("question_mark", first=shown), training),
    "manual": Scene(reading, training),
    "bar": Scene(offered, training, settings={"commands": OWN}),
    "bar-typed": Scene(keys(*"ra", first=offered), training),
    "jump": Scene(lettered, past=True),
    "history": Scene(listed, past=True),
    "compare": Scene(compared, past=True),
    "compare-three": Scene(three_compared),
    "cluster": Scene(surveyed, working),
}
"""Pictured at every size."""

ASCII: dict[str, Any] = {"settings": {"ascii": True}}
COLOURLESS: dict[str, Any] = {"environ": {"NO_COLOR": "1"}}
NEW = (
    *(
        "launch-first",
        "launch-here",
        "launch-options",
        "bar-typed",
        "jump",
        "help",
        "history",
        "compare-three",
    ),
    *("run-64-filtered", "run-64-sorted", "run-past", "run-code", "stacks", "run-charts", "curves"),
    *("run-devices", "run-devices-64-ranks"),
)
"""Pictured at the smallest size too, and with ASCII and without colours."""
LOOKS = {
    **{f"{name}-ascii": replace(SCENES[name], **ASCII) for name in (*NEW, "run-failed", "manual")},
    **{f"{name}-no-color": replace(SCENES[name], **COLOURLESS) for name in (*NEW, "run-failed", "manual")},
    "run-training-light": Scene(keys("1", first=shown), training, settings={"theme": "okabe-ito-light"}),
    "cluster-high-contrast": Scene(surveyed, working, settings={"theme": "high-contrast"}),
    "curves-filtered": Scene(keys("slash", *"tok", "enter", first=curved), training),
    "curves-read": Scene(keys("plus", "left", "l", "s", first=curved), training),
}
"""Pictured once: other themes, ASCII, no colours, and curves that are zoomed, read and smoothed."""

ENDS = ("run-64-filtered", "run-past")
CASES = [(name, size) for name in SCENES for size in SIZES]
CASES += [(name, SIZES[0]) for name in LOOKS]
CASES += [("curves-filtered", SMALL), ("curves-filtered", SIZES[2])]
CASES += [(name, SMALL) for name in (*NEW, "run-devices-cpu", "bar", "run-training", "run-failed", "compare")]
CASES += [
    (f"{name}-{look}", size) for name in ENDS for look in ("ascii", "no-color") for size in (SMALL, SIZES[2])
]


def file_of(name: str, size: tuple[int, int]) -> str:
    return "{}-{}x{}".format(name, *size)


@pytest.mark.parametrize(("name", "size"), CASES, ids=[file_of(*case) for case in CASES])
async def test_a_screen_looks_as_it_did(
    stage: Stage, album: Album, name: str, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = (SCENES | LOOKS)[name]
    for variable, value in scene.environ.items():
        monkeypatch.setenv(variable, value)
    if scene.past:
        stage.past()
    app = stage.app(scene.run(stage) if scene.run else None, draft=scene.draft, **scene.settings)
    async with app.run_test(headless=False, size=size) as pilot:
        await scene.go(stage, app, pilot)
        await album.check(file_of(name, size), app, pilot)


@pytest.fixture
def plain(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Textual's own path."""
    monkeypatch.setenv(insides.PLAIN, "1")
    insides.may_use.cache_clear()
    yield
    insides.may_use.cache_clear()


@pytest.mark.usefixtures("plain")
@pytest.mark.parametrize("name", SCENES)
async def test_a_screen_looks_the_same_without_textuals_insides(
    stage: Stage, album: Album, name: str
) -> None:
    scene = SCENES[name]
    if scene.past:
        stage.past()
    app = stage.app(scene.run(stage) if scene.run else None, draft=scene.draft, **scene.settings)
    async with app.run_test(headless=False, size=SIZES[0]) as pilot:
        await scene.go(stage, app, pilot)
        assert "textual._compositor" == type(app.screen._compositor).__module__
        await album.check(file_of(name, SIZES[0]), app, pilot)


def test_every_picture_is_of_a_screen_and_of_no_machine() -> None:
    kept = {path.stem: path.read_text(encoding="utf-8") for path in FOLDER.iterdir()}

    assert {file_of(*case) for case in CASES} == kept.keys()
    assert {} == {name: text for name, text in kept.items() if "/tmp" in text or str(Path.home()) in text}
