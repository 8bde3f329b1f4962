"""How soon curves of a million reports are drawn, and what a frame costs. Run with ``pytest -m bench``."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import pytest
from textual import events

from console.data.curves.making import curves_of
from console.ui.curves.screen import CurvesScreen
from console.ui.curves.sheet import CurveSheet
from launcher.runs.catalog import new_id
from launcher.runs.curves import CurveWriter
from launcher.runs.status import Status, write_status
from launcher.state.events import RankReported
from launcher.state.run_state import Phase
from tests.bench.ledger import Comparison, record
from tests.bench.test_console import Counting, Measured

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

RANKS, STEPS, RUNS, KEYS = 8, 125_000, 8, 60
FIRST_S, FRAME_S, OVERLAY_S, FRAME_BYTES = 0.150, 0.020, 0.300, 8_000


def write_curve(root: Path, number: int, steps: int = STEPS) -> Path:
    """An ended run whose ranks reported a loss at each step."""
    run = root / new_id(1_767_261_600.0 + number, f"{number:03x}")
    run.mkdir(parents=True)
    noise = random.Random(number)
    writer = CurveWriter(run)
    for step in range(steps):
        loss = 4 * math.exp(-step / (steps / 3)) + 0.3
        for rank in range(RANKS):
            writer.take(
                RankReported(
                    time=1000.0 + step / 50,
                    rank=rank,
                    step=step,
                    metrics={"loss": loss + noise.gauss(0, 0.1)},
                )
            )
        if step % 60 == 0:
            writer.flush()
    writer.flush()
    writer.close()
    write_status(
        run, Status(run.name, "train", "train.py", Phase.SUCCEEDED, 0, metrics={"loss": 0.3 + number})
    )
    return run


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    root = tmp_path_factory.mktemp("runs")
    return [write_curve(root, number) for number in range(RUNS)]


async def until_drawn(
    app: Measured, act: Callable[[], object], done: Callable[[], object]
) -> tuple[float, int]:
    """Seconds and bytes from an action to the first frame after it is done."""
    begun, size = time.perf_counter(), Counting.written
    act()
    while not done():
        await asyncio.sleep(0)
    frames = app.frames
    while app.frames == frames:
        await asyncio.sleep(0)
    return time.perf_counter() - begun, Counting.written - size


def record_bound(what: str, seconds: float, bound: float) -> None:
    result = Comparison(seconds, bound, seconds / bound)
    record(what, f"{bound * 1e3:.0f} ms", result, bound=1.0)


async def test_a_million_reports_are_drawn_at_once(runs: list[Path]) -> None:
    run = runs[-1]
    app = Measured(root=run.parent, workdir=run.parent)
    app.driver_class = Counting
    async with app.run_test(size=(120, 40), headless=False):
        first = [await first_drawn(app, run) for _ in range(7)]
        app.push_screen(CurvesScreen(run, "train", curves_of(run)))
        await until_drawn(app, lambda: None, lambda: app.screen.query(CurveSheet))
        keys = await times_of_keys(app)
        overlay = await overlaid(app)
    seconds, sizes = [s for s, _ in keys], [size for _, size in keys]
    record_bound("1,000,000 reports of 8 ranks: from the folder to the first frame", median(first), FIRST_S)
    record_bound("1,000,000 reports of 8 ranks: pan or zoom, key to frame", median(seconds), FRAME_S)
    record_bound("8 runs of 1,000,000 reports over each other: key to frame", overlay, OVERLAY_S)
    most = f"most {max(sizes)}, slowest {max(seconds) * 1e3:.1f} ms"
    print(f"pan or zoom: {median(sizes):.0f} bytes a frame, {most}")
    assert median(first) <= FIRST_S
    assert median(seconds) <= FRAME_S
    assert median(sizes) <= FRAME_BYTES
    assert overlay <= OVERLAY_S


async def first_drawn(app: Measured, run: Path) -> float:
    """Seconds to read a run's curves, open their screen and draw it."""
    begun = time.perf_counter()
    screen = CurvesScreen(run, "train", curves_of(run))
    app.push_screen(screen)
    await until_drawn(app, lambda: None, lambda: screen.is_mounted and screen.query_one(CurveSheet).size)
    took = time.perf_counter() - begun
    app.pop_screen()
    await asyncio.sleep(0.1)
    return took


async def times_of_keys(app: Measured) -> list[tuple[float, int]]:
    keys = ["plus"] * 6 + ["less_than_sign", "greater_than_sign", "plus", "minus"] * (KEYS // 4)
    return [await time_of_key(app, key) for key in keys]


async def time_of_key(app: Measured, key: str) -> tuple[float, int]:
    await asyncio.sleep(0.02)
    sheet = app.screen.query_one(CurveSheet)
    before = sheet.look
    assert app._driver is not None
    press = app._driver.process_message
    return await until_drawn(app, lambda: press(events.Key(key, None)), lambda: sheet.look != before)


async def overlaid(app: Measured) -> float:
    """Seconds from the key that shows seven more runs to the frame with all of them."""
    sheet, screen = app.screen.query_one(CurveSheet), app.screen
    assert isinstance(screen, CurvesScreen)
    for _ in range(2):
        screen.action_behind()
        await asyncio.sleep(1)
    took, _ = await until_drawn(app, screen.action_behind, lambda: len(sheet.traced) == RUNS)
    return took
