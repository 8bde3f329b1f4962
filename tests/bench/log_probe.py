"""What the console takes to show a log: one JSON object, measured in a process of its own."""

from __future__ import annotations

import asyncio
import json
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

from console.app import RankdeckApp
from console.ui.logs.pane import LogPane
from console.ui.logs.view import LogView

EVERYWHERE, NOWHERE = "gnorm 0\\.\\d", "never \\d said"
JUMPS, LIMIT_S = 60, 90.0


async def until(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not true():
        assert time.monotonic() < deadline, "it never came to that"
        await asyncio.sleep(0.002)


def drawn(view: LogView) -> list[str]:
    return [view.render_line(y).text for y in range(view.size.height)]


def shown(view: LogView, move: Callable[[], None]) -> list[str]:
    move()
    return drawn(view)


def timed(act: Callable[[], object]) -> float:
    begin = time.perf_counter()
    act()
    return time.perf_counter() - begin


def most_memory() -> float:
    """The most memory that this process held, in bytes; `ru_maxrss` includes what its parent held."""
    status = Path("/proc/self/status").read_text()
    return float(status.partition("VmHWM:")[2].split()[0]) * 1024


async def measure(run: Path, lines: int) -> dict[str, float]:
    app = RankdeckApp(root=run.parent, workdir=run.parent)
    figures: dict[str, float] = {}
    async with app.run_test(size=(120, 40)) as pilot:
        await pilot.pause()
        begin = time.perf_counter()
        app.open_run(run)
        await until(lambda: app.screen.query(LogView))
        view, pane = app.screen.query_one(LogView), app.screen.query_one(LogPane)
        await until(lambda: view.size.height and any("step" in text for text in drawn(view)))
        figures["first"] = time.perf_counter() - begin
        await until(lambda: view.lines is not None and view.lines.count() == lines)
        figures["counted"] = time.perf_counter() - begin
        chance = random.Random(7)
        ends = []
        for _ in range(5):
            view.action_top()
            ends.append(timed(lambda: shown(view, view.action_follow)))
        figures["end"] = statistics.median(ends)
        jumps = []
        for _ in range(JUMPS):
            line = chance.randrange(lines)
            jumps.append(timed(lambda: shown(view, lambda: view.go_to(line))))  # noqa: B023  called at once
            await pilot.pause()
        figures["jump"], figures["jump_worst"] = statistics.median(jumps), max(jumps)
        begin = time.perf_counter()
        pane.filter_by(EVERYWHERE)
        await until(lambda: any("gnorm" in text for text in drawn(view)))
        figures["hits"] = time.perf_counter() - begin
        assert "filtered)" in (pane.border_title or ""), pane.border_title
        begin = time.perf_counter()
        pane.filter_by(NOWHERE)
        await until(lambda: pane.state.filtered == 1.0)
        figures["whole"] = time.perf_counter() - begin
        figures["memory"] = most_memory()
    return figures


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure(Path(sys.argv[1]), int(sys.argv[2])))))
