"""Measuring two commands side by side, and keeping what was measured in the table of the manual."""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

TABLE = Path(__file__).parents[2] / "console" / "manual" / "measured.md"
BEGIN, END = "<!-- benchmarks -->", "<!-- /benchmarks -->"


@dataclass(frozen=True, slots=True)
class Comparison:
    """Medians of two things measured in turn, and the median of their ratios pair by pair."""

    ours: float
    theirs: float
    ratio: float


def interleave(ours: Callable[[], float], theirs: Callable[[], float], *, rounds: int) -> Comparison:
    """Measure in turn after one warm-up of each, so that a machine that drifts drifts for both."""
    ours()
    theirs()
    return compared([(ours(), theirs()) for _ in range(rounds)])


def compared(pairs: Sequence[tuple[float, float]]) -> Comparison:
    """What was measured in turn, ours and the peer's."""
    return Comparison(
        statistics.median(a for a, _ in pairs),
        statistics.median(b for _, b in pairs),
        statistics.median(a / b for a, b in pairs),
    )


def wall(command: Sequence[str], **options: object) -> float:
    """Seconds that a command takes, start to exit, its output thrown away."""
    begin = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **options)  # type: ignore[call-overload]  # options are passed through
    return time.perf_counter() - begin


def record(what: str, peer: str, result: Comparison, *, bound: float, gpu: str = "") -> None:
    """Print a row, and put it into the manual in place of the last one of the same name."""
    today = datetime.now(UTC).date().isoformat()
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    machine = f"{gpu}, {machine}" if gpu else machine
    times = (_seconds(result.ours), _seconds(result.theirs))
    digits = 2 if bound == round(bound, 2) else 4
    cells = (what, peer, *times, f"{result.ratio:.{digits}f}", f"{bound:g}", today, machine)
    row = f"| {' | '.join(cells)} |"
    print(row)
    text = TABLE.read_text()
    head, _, rest = text.partition(BEGIN)
    table, _, tail = rest.partition(END)
    if not tail and END not in text:
        return
    kept = [line for line in table.strip().splitlines() if not line.startswith(f"| {what} |")]
    TABLE.write_text(head + BEGIN + "\n" + "\n".join([*kept, row]) + "\n" + END + tail)


def _seconds(value: float) -> str:
    if value < 0.01:
        return f"{value * 1e6:.0f} µs"
    if value < 0.1:
        return f"{value * 1e3:.1f} ms"
    return f"{value * 1000:.0f} ms" if value < 10 else f"{value:.1f} s"
