"""How soon the console answers, and how much it says. Run with ``pytest -m bench``."""

from __future__ import annotations

import asyncio
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from textual import events
from textual.drivers.headless_driver import HeadlessDriver

from console.app import RankdeckApp
from console.demo import record_demo
from console.ui.run.rank_grid import RankGrid
from console.ui.run.screen import RunScreen
from launcher.runs.paths import runs_root
from tests.bench.ledger import Comparison, interleave, record
from tests.bench.typist import Answer, Typist

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

RANKDECK = str(Path(sys.executable).with_name("rankdeck"))
PROJECT = Path(__file__).parents[2]
KEYS, DOWN, UP, PAGE_DOWN, PAGE_UP = 500, "\x1b[B", "\x1b[A", "\x1b[6~", "\x1b[5~"
BARE = """
from textual.app import App
from textual.widgets import Label
class Bare(App):
    def compose(self):
        yield Label("rankdeck")
Bare().run()
"""


class Counting(HeadlessDriver):
    """Makes the bytes that a terminal would get, and counts them."""

    written = 0

    @property
    def is_headless(self) -> bool:
        return False

    def write(self, data: str) -> None:
        type(self).written += len(data.encode())


class Measured(RankdeckApp):
    """The console, with the times of its frames."""

    CSS_PATH = str(PROJECT / "console" / "console.tcss")
    frames = 0

    def post_display_hook(self) -> None:
        self.frames += 1


Busy = Callable[[int, int], Path]


@pytest.fixture
def busy(home: Path) -> Iterator[Busy]:
    """A run of so many ranks and lines a second, written by another process."""
    running: list[subprocess.Popen[str]] = []

    def begin(ranks: int, lines_per_s: int) -> Path:
        words = ["tests.bench.busy_run", str(runs_root()), str(ranks), str(lines_per_s), "300"]
        command = [sys.executable, "-m", *words]
        running.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=PROJECT))
        assert running[0].stdout is not None
        return Path(running[0].stdout.readline().strip())

    yield begin
    for process in running:
        process.kill()
        process.communicate()


def percentile(values: Sequence[float], share: float) -> float:
    return sorted(values)[min(int(len(values) * share), len(values) - 1)]


def within(what: str, seconds: float, limit: float) -> None:
    """Keep a time beside its limit."""
    record(what, "its limit", Comparison(seconds, limit, seconds / limit), bound=1)


async def watched(app: Measured) -> RankGrid:
    while not isinstance(app.screen, RunScreen) or app.screen.view is None or not app.screen.view.ranks:
        await asyncio.sleep(0.05)
    app.screen.action_pane("ranks")
    await asyncio.sleep(2)
    return app.screen.query_one(RankGrid)


async def until_painted(app: Measured, grid: RankGrid, key: str) -> float:
    """Seconds from a key to the first frame after the cursor has moved."""
    at, begun = grid.cursor, time.perf_counter()
    assert app._driver is not None
    app._driver.process_message(events.Key(key, None))
    while grid.cursor == at:
        await asyncio.sleep(0)
    frames = app.frames
    while app.frames == frames:
        await asyncio.sleep(0)
    return time.perf_counter() - begun


async def test_a_thousand_ranks_and_a_flood_of_lines_leave_keys_quick(busy: Busy) -> None:
    run = busy(1024, 100_000)
    app = Measured(root=run.parent, workdir=run.parent, open_run=run)
    app.driver_class = Counting
    async with app.run_test(size=(160, 50), headless=False):
        grid = await watched(app)
        waits = []
        for number in range(KEYS):
            await asyncio.sleep(random.uniform(0.02, 0.06))
            waits.append(await until_painted(app, grid, "up" if number % 2 else "down"))
        cpu, begun = time.process_time(), time.perf_counter()
        await asyncio.sleep(10)
        share = (time.process_time() - cpu) / (time.perf_counter() - begun)
    p50, p99 = percentile(waits, 0.5), percentile(waits, 0.99)
    sys.__stdout__.write(f"p50 {p50 * 1e3:.1f} ms, p99 {p99 * 1e3:.1f} ms, {share:.0%} of a core\n")  # type: ignore[union-attr]
    within("1,024 ranks at 1 Hz, 100,000 lines/s: key to frame, median", p50, 0.020)
    within("1,024 ranks at 1 Hz, 100,000 lines/s: key to frame, p99", p99, 0.060)
    assert p50 <= 0.020
    assert p99 <= 0.060
    assert share <= 0.6


async def test_following_says_little(busy: Busy) -> None:
    run = busy(8, 2_000)
    app = Measured(root=run.parent, workdir=run.parent, open_run=run)
    app.driver_class = Counting
    async with app.run_test(size=(160, 50), headless=False):
        await watched(app)
        frames, size = app.frames, Counting.written
        await asyncio.sleep(10)
        frames, size = app.frames - frames, Counting.written - size
    sys.__stdout__.write(f"{frames / 10:.1f} frames/s, {size / max(frames, 1):.0f} bytes a frame\n")  # type: ignore[union-attr]
    assert frames <= 150
    assert size <= 10_000 * frames


def answers(typist: Typist, keys: Sequence[str], number: int = 200) -> list[Answer]:
    return [typist.press(keys[i % len(keys)]) for i in range(number)]


@pytest.mark.parametrize(
    ("what", "before", "keys", "p50", "p99", "size"),
    [
        ("selection", ("1",), (DOWN, UP), 0.006, 0.025, 2_000),
        ("a line of log", ("3", "g"), (DOWN, UP), 0.006, 0.025, 2_000),
        ("a page of log", ("3", "g"), (PAGE_DOWN, PAGE_UP), 0.025, 0.025, 12_000),
    ],
)
def test_a_key_over_a_real_terminal_settles_at_once(
    home: Path, what: str, before: Sequence[str], keys: Sequence[str], p50: float, p99: float, size: int
) -> None:
    record_demo(runs_root(), ranks=64, seconds=60)
    with Typist([RANKDECK, "attach", "last"]) as typist:
        typist.until("Ranks")
        typist.settle()
        for key in before:
            typist.press(key)
        idle = typist.settle(quiet=3.0, within=3.0)
        told = answers(typist, keys)
    times = [answer.settled for answer in told]
    median, late = percentile(times, 0.5), percentile(times, 0.99)
    bytes_a_key = statistics.median(answer.size for answer in told)
    print(f"{what}: p50 {median * 1e3:.1f} p99 {late * 1e3:.1f} ms, {bytes_a_key:.0f} B, idle {idle} B")
    within(f"64 ranks, real terminal 160x50: {what}, key to quiet, median", median, p50)
    assert idle == 0
    assert bytes_a_key <= size
    assert median <= p50
    assert late <= p99


def painted(command: Sequence[str], *texts: str) -> list[float]:
    """Seconds from the start of a command until its terminal got each of the texts."""
    with Typist(command) as typist:
        return [typist.until(text) for text in texts]


def typed_ahead(command: Sequence[str]) -> float:
    """Seconds from the start until the form shows what was typed before it was there."""
    with Typist(command) as typist:
        typist.until("New run")
        typist.send("z")
        return typist.until("there is no file z")


def test_the_first_paint_comes_as_soon_as_that_of_an_empty_app(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = tmp_path / "bare.py"
    bare.write_text(BARE)
    monkeypatch.setenv("PYTHONSAFEPATH", "1")
    theirs = [sys.executable, str(bare)]
    result = interleave(
        lambda: painted([sys.executable, "-m", "console"], "New run")[0],
        lambda: painted(theirs, "rankdeck")[0],
        rounds=15,
    )
    form = interleave(
        lambda: typed_ahead([sys.executable, "-m", "console"]),
        lambda: painted(theirs, "rankdeck")[0],
        rounds=9,
    )
    record("`rankdeck`, start to first paint", "a Textual app of one label", result, bound=1.3)
    print(f"until the form shows what was typed: {form.ours * 1e3:.0f} ms, {form.ratio:.2f} of the empty app")
    assert result.ratio <= 1.3
