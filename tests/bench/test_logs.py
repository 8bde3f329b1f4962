"""How long ten million lines take to open, to move in and to filter. Run with ``pytest -m bench``."""

from __future__ import annotations

import json
import shutil
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.demo import record_demo
from launcher.runs import paths
from launcher.runs.logs import writer as chunks
from launcher.runs.logs.writer import LogWriter
from tests.bench.ledger import Comparison, record, wall

pytestmark = [pytest.mark.bench, pytest.mark.timeout(1200)]

LINES, RANKS, AT_ONCE, ROUNDS = 10_000_000, 8, 20, 3
BEGIN = 1_767_261_600
ROOT = Path(__file__).parents[2]
PATTERN = "gnorm 0\\.[0-9]"
ALL = ("first", "counted", "hits", "whole")
"""What `grep` over everything is the peer of; of the rest it is `tail`."""
LIMITS = {
    "first": ("first screen", 1.0),
    "counted": ("every line counted and merged", 3.0),
    "end": ("to the end", 4.0),
    "jump": ("to any line", 4.0),
    "hits": ("filter, first hits of a regular expression on the screen", 1.0),
    "whole": ("filter, the whole of it looked through", 5.0),
}
MEMORY = 250e6


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Path]:
    """A run of eight ranks that wrote 10 million lines of 100 bytes, twenty at a time."""
    folder = record_demo(tmp_path, ranks=RANKS)
    shutil.rmtree(paths.log_folder(folder, 0))
    writer = LogWriter(folder, 0)
    step = 0
    while step < LINES // RANKS:
        pieces = [(rank, text_of(step, rank)) for rank in range(RANKS)]
        now = BEGIN * 10**9 + step * 10**6
        writer.append(
            [(chunks.Chunk(now + r, r, len(data), paths.STDOUT), memoryview(data)) for r, data in pieces]
        )
        step += AT_ONCE
    writer.close()
    yield folder
    shutil.rmtree(folder)


def text_of(step: int, rank: int) -> bytes:
    lines = (
        f"step {n:08d} rank {rank} loss {2 + n % 97 / 100:.4f} lr 1.98e-04 gnorm 0.{n % 89:02d} tok/s 489k"
        for n in range(step, step + AT_ONCE)
    )
    return "".join(f"{line:.<99}\n" for line in lines).encode()


def probe(run: Path) -> dict[str, float]:
    command = [sys.executable, "-m", "tests.bench.log_probe", str(run), str(LINES)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
    assert 0 == done.returncode, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]


def peers(run: Path) -> dict[str, float]:
    """The same of the files themselves: one pass over all of them, or the end or the middle of each."""
    files = sorted(map(str, paths.log_folder(run, 0).glob("*.out")))
    # into a pipe: it reads no further than to the first hit if its output is thrown away
    everything = wall(["sh", "-c", f"grep -cE '{PATTERN}' {' '.join(files)} | cat"])
    end = wall(["tail", "-qn", "5", *files])
    middle = wall(["sh", "-c", f"tail -n +{LINES // RANKS // 2} {files[0]} | head -n 40"])
    return {**dict.fromkeys(ALL, everything), "end": end, "jump": middle}


def test_ten_million_lines_open_at_once(run: Path) -> None:
    size = sum(file.stat().st_size for file in paths.log_folder(run, 0).glob("*.out"))
    assert LINES * 100 == size
    rounds = [(probe(run), peers(run)) for _ in range(ROUNDS)]
    late = []
    for name, (what, bound) in LIMITS.items():
        pairs = [(ours[name], theirs[name]) for ours, theirs in rounds]
        ours, theirs = (statistics.median(each) for each in zip(*pairs, strict=True))
        result = Comparison(ours, theirs, statistics.median(a / b for a, b in pairs))
        row = f"log of 10,000,000 lines (1 GB) of 8 ranks: {what}"
        record(row, "`grep` through all files" if name in ALL else "`tail`", result, bound=bound)
        late += [name] * (result.ratio > bound)
    memory = statistics.median(ours["memory"] for ours, _ in rounds)
    print(f"memory {memory / 1e6:.0f} MB")

    assert [] == late
    assert memory <= MEMORY
