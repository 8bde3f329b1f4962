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
from textual.widgets import DataTable

from console.app import RankdeckApp
from console.demo import record_demo
from console.ui.run.rank_grid import RankGrid
from console.ui.run.screen import RunScreen
from launcher.runs.paths import runs_root
from tests.bench import bare_input, bare_table
from tests.bench.bare_table import BareTable
from tests.bench.ledger import Comparison, compared, interleave, record
from tests.bench.typist import Answer, Typist

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

RANKDECK = str(Path(sys.executable).with_name("rankdeck"))
PROJECT = Path(__file__).parents[2]
KEYS, DOWN, UP, PAGE_DOWN, PAGE_UP = 500, "\x1b[B", "\x1b[A", "\x1b[6~", "\x1b[5~"
LAUNCH, GREETING = "\x12", "good morning"
BARE = """
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


async def watched(app: Measured) -> RankGrid:
    while not isinstance(app.screen, RunScreen) or app.screen.view is None or not app.screen.view.ranks:
        await asyncio.sleep(0.05)
    app.screen.action_pane("ranks")
    await asyncio.sleep(2)
    return app.screen.query_one(RankGrid)


async def until_painted(app: Measured | BareTable, key: str, at: Callable[[], object]) -> float:
    """Seconds from a key to the first frame after the cursor has moved."""
    before, begun = at(), time.perf_counter()
    assert app._driver is not None
    app._driver.process_message(events.Key(key, None))
    while at() == before:
        await asyncio.sleep(0)
    frames = app.frames
    while app.frames == frames:
        await asyncio.sleep(0)
    return time.perf_counter() - begun


async def key_times(app: Measured | BareTable, at: Callable[[], object]) -> list[float]:
    waits = []
    for number in range(KEYS):
        await asyncio.sleep(random.uniform(0.02, 0.06))
        waits.append(await until_painted(app, "up" if number % 2 else "down", at))
    return waits


async def bare_key_times() -> list[float]:
    """The same of a table that shows nothing new."""
    app = BareTable(50, driver_class=Counting)
    async with app.run_test(size=(160, 50), headless=False) as pilot:
        await pilot.pause()
        table = app.query_one(DataTable)
        return await key_times(app, lambda: table.cursor_row)


@pytest.mark.parametrize(("ranks", "most_share"), [(1024, 0.6), (8192, 0.4)])
async def test_many_ranks_and_a_flood_of_lines_leave_keys_quick(
    busy: Busy, ranks: int, most_share: float
) -> None:
    bare = await bare_key_times()
    run = busy(ranks, 100_000)
    app = Measured(root=run.parent, workdir=run.parent, open_run=run)
    app.driver_class = Counting
    async with app.run_test(size=(160, 50), headless=False):
        grid = await watched(app)
        waits = await key_times(app, lambda: grid.cursor)
        cpu, begun = time.process_time(), time.perf_counter()
        await asyncio.sleep(10)
        share = (time.process_time() - cpu) / (time.perf_counter() - begun)
    for name, part, seen in (("median", 0.5, 0.02), ("p99", 0.99, 0.06)):
        ours, theirs = percentile(waits, part), percentile(bare, part)
        what = f"{ranks:,} ranks at 1 Hz, 100,000 lines/s: key to frame, {name}"
        bound = round(max(4, seen / theirs), 1)  # what nobody sees is fast enough
        record(what, "a Textual table of 50 rows", Comparison(ours, theirs, ours / theirs), bound=bound)
        assert ours <= bound * theirs
    p99 = percentile(waits, 0.99)
    sys.__stdout__.write(f"p99 {p99 * 1e3:.1f} ms, {share:.0%} of a core\n")  # type: ignore[union-attr]
    assert share <= most_share


@pytest.mark.parametrize("ranks", [64, 8192])
async def test_ranks_that_are_sorted_and_filtered_leave_keys_quick(busy: Busy, ranks: int) -> None:
    bare = await bare_key_times()
    run = busy(ranks, 1_000)
    app = Measured(root=run.parent, workdir=run.parent, open_run=run)
    app.driver_class = Counting
    async with app.run_test(size=(160, 50), headless=False):
        grid = await watched(app)
        plain = await key_times(app, lambda: grid.cursor)
        grid.sort_by("gpu")
        grid.narrow("gpu<98 step>0")
        sorted_ = await key_times(app, lambda: grid.cursor)
    for name, part, seen in (("median", 0.5, 0.02), ("p99", 0.99, 0.06)):
        ours, before, theirs = (percentile(waits, part) for waits in (sorted_, plain, bare))
        what = f"{ranks:,} ranks sorted by GPU and filtered: key to frame, {name}"
        bound = round(max(4, seen / theirs), 1)
        record(what, "a Textual table of 50 rows", Comparison(ours, theirs, ours / theirs), bound=bound)
        sys.__stdout__.write(f"{what}: {before * 1e3:.1f} ms before, {ours * 1e3:.1f} ms\n")  # type: ignore[union-attr]
        assert ours <= bound * theirs


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


def answers(ours: Typist, theirs: Typist, keys: Sequence[str]) -> list[tuple[Answer, Answer]]:
    """What each key of 200 brings in two terminals, one after the other."""
    return [(ours.press(keys[i % len(keys)]), theirs.press(keys[i % len(keys)])) for i in range(200)]


@pytest.mark.parametrize(
    ("what", "before", "keys", "size"),
    [
        ("selection", ("1",), (DOWN, UP), 2_000),
        ("selection in the map of devices", ("6", "z"), (DOWN, UP), 2_000),
        ("a line of log", ("3", "g"), (DOWN, UP), 2_000),
        ("a page of log", ("3", "g"), (PAGE_DOWN, PAGE_UP), 12_000),
    ],
)
def test_a_key_over_a_real_terminal_settles_at_once(
    home: Path, what: str, before: Sequence[str], keys: Sequence[str], size: int
) -> None:
    record_demo(runs_root(), ranks=64, seconds=60)
    table = [sys.executable, str(Path(bare_table.__file__)), "1000"]
    with Typist([RANKDECK, "attach", "last"]) as typist, Typist(table) as bare:
        typist.until("Ranks")
        bare.until("2.1134")
        bare.settle()
        typist.settle()
        for key in before:
            typist.press(key)
        idle = typist.settle(quiet=3.0, within=3.0)
        told = answers(typist, bare, keys)
    for name, part, bound in (("median", 0.5, 3), ("p99", 0.99, 4)):
        ours, theirs = (percentile([each[side].settled for each in told], part) for side in (0, 1))
        row = f"64 ranks, real terminal 160x50: {what}, key to quiet, {name}"
        record(row, "a Textual table", Comparison(ours, theirs, ours / theirs), bound=bound)
        assert ours <= bound * theirs
    assert idle == 0
    assert statistics.median(answer.size for answer, _ in told) <= size


def write_script(folder: Path) -> None:
    """A script of 20 options."""
    options = "".join(
        f"p.add_argument('--option-{n}', type=int, default={n}, help='{n}')\n" for n in range(20)
    )
    (folder / "train.py").write_text(f"import argparse\np = argparse.ArgumentParser()\n{options}")


@pytest.mark.parametrize(
    ("what", "target", "before"),
    [("Target", "", ""), ("Target, 20 options", "train.py", ""), ("an option's field", "train.py", "\t\t")],
)
def test_a_typed_character_shows_as_soon_as_in_an_empty_app(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str, target: str, before: str
) -> None:
    write_script(tmp_path)
    monkeypatch.chdir(tmp_path)
    with Typist([RANKDECK]) as ours, Typist([sys.executable, str(Path(bare_input.__file__))]) as bare:
        ours.until("New run")
        bare.settle()
        ours.send(target)
        ours.settle(quiet=1.0)
        for key in before:
            ours.press(key)
        keys = [("1", "\x7f")[n % 2] for n in range(100)]
        told = [(ours.press(key), bare.press(key)) for key in keys]
    shown = compared([(mine.first, its.first) for mine, its in told])
    record(f"a character typed into {what}, key to echo", "an empty Textual app's input", shown, bound=1.6)
    quiet = statistics.median(mine.settled for mine, _ in told)
    size = statistics.median(mine.size for mine, _ in told)
    print(f"all that it changes: {quiet * 1e3:.0f} ms, {size:.0f} bytes")
    assert shown.ratio <= 1.6


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


def test_from_the_key_to_the_first_line_of_a_rank(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the console with a warm engine, and of torchrun in a terminal."""
    (tmp_path / "greet.py").write_text(f"print({GREETING!r}, flush=True)\n")
    monkeypatch.chdir(tmp_path)
    subprocess.run([RANKDECK, "run", "greet.py", "-n", "2"], check=True, stdout=subprocess.DEVNULL)
    torchrun = [str(Path(sys.executable).with_name("torchrun")), "--standalone", "--nproc-per-node", "1"]

    def ours() -> float:
        with Typist([RANKDECK]) as typist:
            typist.until("New run")
            typist.send("greet.py")
            typist.until("the whole script")
            typist.settle()
            pressed = time.perf_counter()
            typist.send(LAUNCH)
            typist.until(GREETING)
            return time.perf_counter() - pressed

    def theirs() -> float:
        with Typist([*torchrun, "greet.py"]) as typist:
            return typist.until(GREETING)

    result = interleave(ours, theirs, rounds=7)
    record("launch key in the console to a rank's first line, warm", "torchrun", result, bound=0.20)

    assert result.ratio <= 0.20
