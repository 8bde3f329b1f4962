"""The pictures of README and the manual, in .github/pictures: of the console as it is, with the recorded run.

`pytest -n0 --update-snapshots tests/console/ui/test_gallery.py` makes them all. Look at them.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest

from console.data.launch.draft import Draft
from console.demo import RECORDED_AT, record_demo
from console.ui.curves.screen import CurvesScreen
from launcher.runs.catalog import new_id
from tests.console.drawings import Frame, Look, drawn_in, svg
from tests.console.pictures import Emulated
from tests.console.snapshot_fixture import LIMIT_S, PATIENCE_S, settled
from tests.console.ui import test_snapshots as screens
from tests.console.ui.test_snapshots import Go, Scene, Stage, keys, shown
from tests.documents import MANUAL, ROOT

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from console.app import RankdeckApp
    from tests.console.pictures import Cells

FOLDER = ROOT / ".github" / "pictures"
STILL_S = 1.5
"""How long a screen must stand still before it is kept."""
MAX_BYTES = 400_000
stage = screens.stage

PRETRAIN = '''"""Pretrain a language model from shards of tokens."""
import argparse

import torch.distributed as dist


def main() -> None:
    """Read the options, join the other ranks, train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True, help="folder of shards")
    parser.add_argument("--lr", type=float, default=3e-4, help="peak learning rate")
    parser.add_argument("--steps", type=int, default=50_000)
    parser.add_argument("--precision", choices=["bf16", "fp32"], default="bf16")
    options = parser.parse_args()
    dist.init_process_group()
    train(options)


if __name__ == "__main__":
    main()
'''
FINETUNE = '''"""Fine-tune a checkpoint with LoRA."""
import lightning as L

def main(checkpoint: str, rank: int = 16, lr: float = 1e-4):
    """Fine-tune a checkpoint with LoRA."""
    L.Trainer(devices="auto", strategy="ddp").fit(model(checkpoint, rank, lr))
'''


def best_before(stage: Stage) -> None:
    """A past run of the same training that reached its loss sooner."""
    past = record_demo(stage.root, seconds=60)
    past.rename(past.with_name(new_id(RECORDED_AT - 90_000, "be5")))


def training(stage: Stage) -> Path:
    """The recorded run at the moment of the clock, and a past one."""
    best_before(stage)
    return record_demo(stage.root, until=screens.NOW_S)


def busy_days(stage: Stage) -> None:
    """More runs of the same training."""
    for number, seconds in enumerate((90, 75, 60, 30)):
        run = record_demo(stage.root / "more", seconds=seconds, fail=seconds == 75)
        run.rename(stage.root / new_id(RECORDED_AT - 15_000 * (number + 1), f"d{number}0"))
    (stage.root / "more").rmdir()


async def compared(stage: Stage, app: RankdeckApp, pilot: Pilot[int]) -> None:
    """The best of the past is behind the curve."""
    await screens.curved(stage, app, pilot)
    await pilot.press("B")
    assert isinstance(app.screen, CurvesScreen)
    await stage.until(pilot, lambda: isinstance(app.screen, CurvesScreen) and app.screen._past)


def project(stage: Stage) -> None:
    """A folder with trainings of several kinds."""
    for name, text in (("pretrain.py", PRETRAIN), ("finetune.py", FINETUNE)):
        (stage.project / name).write_text(text)
        os.utime(stage.project / name, (RECORDED_AT - 3600,) * 2)


WIDE = (120, 34)
GALLERY: dict[str, tuple[Scene, tuple[str, ...]]] = {
    "run": (Scene(keys("3", first=shown), training), ("1 Ranks", "3 Logs", "5 Curves", "llama-ft")),
    "curves": (Scene(compared, training), ("behind it: the best of this target", "loss", "tokens_per_s")),
    "devices": (Scene(keys("6", "z", first=shown), training), ("6 Devices", "H100", "idle of")),
    "travel": (
        Scene(screens.travelled, screens.failed),
        ("PAST", "paused", "5 Curves", "at 56", "step 56/206"),
    ),
    "light": (
        Scene(keys("1", first=shown), training, settings={"theme": "rankdeck-light"}),
        ("1 Ranks", "3 Logs", "5 Curves", "llama-ft"),
    ),
    "launch": (Scene(screens.first_start, project, draft=Draft()), ("pretrain.py", "3 Trainings here · 3")),
    "bar": (Scene(screens.offered, training), ("Go to, open, do", "screen", "train.py:main", "gpu-02")),
    "history": (Scene(screens.listed, busy_days, past=True), ("1 Runs", "failed", "OutOfMemoryError")),
    "cluster": (Scene(screens.surveyed, screens.working), ("1 Machines", "H100", "waits")),
    "compare": (Scene(screens.three_compared), ("Compare", "loss", "succeeded", "failed", "000c20")),
    "help": (Scene(keys("question_mark", first=shown), training), ("Keys here", "Curves", "the manual")),
}
"""What is pictured for the manual: the way there, and words that must be in it."""


@dataclass(frozen=True)
class Moment:
    """A moment of the recorded run: its second, the way to the screen, for how long it is shown."""

    second: float
    go: Go
    shown_s: float
    said: str = ""


RANKS = keys("1", first=shown)
DEVICES = keys("6", "z", first=shown)
RESULT = keys("4", first=shown)
DEMO = (
    Moment(1.5, RANKS, 0.8, "rankdeck demo"),
    Moment(4, RANKS, 0.5),
    *(Moment(second, RANKS, 0.45) for second in (7, 12, 18, 24, 30, 36, 43, 50)),
    Moment(56, DEVICES, 1.2, "6  devices"),
    Moment(62, DEVICES, 0.8, "6  devices"),
    Moment(68, compared, 1.2, "c  curves"),
    Moment(76, compared, 0.8, "c  curves"),
    Moment(math.inf, RESULT, 2.2),
)
STILL = 9
"""The moment that stands for all."""


def look_of(app: RankdeckApp) -> Look:
    colors = app.theme_variables
    return Look(*(colors[name] for name in ("background", "rule", "muted", "foreground")))


@dataclass
class Camera:
    """Opens a scene at a moment, and has the cells that its terminal shows."""

    stage: Stage
    update: bool
    look: Look | None = None

    async def take(self, scene: Scene, size: tuple[int, int], right: Callable[[Cells, Look], bool]) -> Cells:
        """What is shown once it is right, or else once it stands still."""
        stage = self.stage
        if scene.past:
            stage.past()
        app = stage.app(scene.run(stage) if scene.run else None, draft=scene.draft, **scene.settings)
        async with app.run_test(headless=False, size=size) as pilot:
            await scene.go(stage, app, pilot)
            driver, self.look = app._driver, look_of(app)
            assert isinstance(driver, Emulated)
            look = self.look
            patience = STILL_S if self.update else PATIENCE_S
            await settled(lambda _: not self.update and right(driver.cells, look), app, pilot, patience)
            return driver.cells


@pytest.fixture
def camera(stage: Stage, request: pytest.FixtureRequest) -> Camera:
    return Camera(stage, request.config.getoption("--update-snapshots"))


def kept(name: str) -> str:
    """The picture that there is; none is empty."""
    path = FOLDER / f"{name}.svg"
    return path.read_text(encoding="utf-8") if path.exists() else ""


def keep(name: str, drawn: str, *, update: bool) -> None:
    """Keep a picture when asked, else fail with the words that differ if it is another one."""
    if update:
        (FOLDER / f"{name}.svg").write_text(drawn, encoding="utf-8")
    if drawn != (before := kept(name)):
        old, new = (set(re.findall(r">([^<>\n]+)</text>", each)) for each in (before, drawn))
        gone, come = (sorted(each)[:20] for each in (old - new, new - old))
        said = f"{name}.svg is not what the console looks like now: not {gone}, but {come}"
        pytest.fail(f"{said}; --update-snapshots makes it again", pytrace=False)


@pytest.mark.parametrize("name", GALLERY)
async def test_a_screen_is_pictured_as_it_is(camera: Camera, name: str) -> None:
    scene, _ = GALLERY[name]
    title = f"rankdeck: {name}"
    before = kept(name)
    cells = await camera.take(scene, WIDE, lambda cells, look: svg([Frame(cells)], title, look) == before)
    assert camera.look is not None
    keep(name, svg([Frame(cells)], title, camera.look), update=camera.update)


@pytest.mark.timeout(15 * LIMIT_S)
async def test_the_demo_is_pictured_as_it_goes(
    camera: Camera, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, frames = kept("demo"), []
    for number, moment in enumerate(DEMO):
        camera.stage.root = tmp_path / "ada" / f"runs-{number}"
        camera.stage.root.mkdir()
        monkeypatch.setattr(screens, "NOW_S", min(moment.second, 95))

        def right(cells: Cells, look: Look, moment: Moment = moment) -> bool:
            return all(each in before for each in drawn_in(Frame(cells, said=moment.said), look))

        cells = await camera.take(Scene(moment.go, training), WIDE, right)
        frames.append(Frame(cells, moment.shown_s, moment.said))
    assert camera.look is not None
    keep("demo", svg(frames, "rankdeck", camera.look, still=STILL), update=camera.update)


def texts(name: str) -> str:
    root = ET.parse(FOLDER / f"{name}.svg").getroot()
    return "\n".join(each.text or "" for each in root.iter("{http://www.w3.org/2000/svg}text"))


@pytest.mark.parametrize("name", [*GALLERY, "demo"])
def test_a_picture_shows_what_its_name_says_and_needs_nothing_else(name: str) -> None:
    text = kept(name)
    words = GALLERY[name][1] if name in GALLERY else ("rankdeck demo", "6  devices", "c  curves", "succeeded")

    assert [] == [word for word in words if word not in texts(name)]
    assert len(text.encode()) <= MAX_BYTES
    assert [] == re.findall(r"<script|@import|url\(|href|<image|<foreignObject|\bon\w+=", text)
    assert [] == [word for word in ("/tmp", "/root", str(Path.home())) if word in text]
    assert {"http://www.w3.org/2000/svg"} >= set(re.findall(r'"(https?://[^"]+)"', text))


def test_each_picture_is_shown_in_readme_or_the_manual() -> None:
    pages = [ROOT / "README.md", *MANUAL.glob("*.md")]
    shown = [name for page in pages for name in re.findall(r"pictures/(\w+)\.svg\)", page.read_text())]

    assert sorted([*GALLERY, "demo"]) == sorted(path.stem for path in FOLDER.iterdir())
    assert {*GALLERY, "demo"} == set(shown)


def test_the_demo_moves_in_a_loop_and_stands_still_where_it_is_asked_to() -> None:
    text = kept("demo")
    seconds = re.findall(r"animation:([\d.]+)s step-end infinite", text)
    hidden = set(re.findall(r'<g class="(k\d+)" visibility="hidden">', text))
    moving = set(re.findall(r'<g class="(k\d+)"', text))

    assert 1 == len(seconds)
    assert 8 <= float(seconds[0]) <= 12
    assert text.index("@media (prefers-reduced-motion:no-preference)") < text.index("animation")
    assert (
        moving
        == set(re.findall(r"@keyframes (k\d+)", text))
        == set(re.findall(r"animation-name:(k\d+)", text))
    )
    assert set() < hidden < moving
