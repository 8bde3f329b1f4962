"""How long ten thousand runs take to be listed, by the index and without it. Run with ``pytest -m bench``."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from launcher.runs.catalog import new_id
from launcher.runs.index import index_file
from launcher.runs.paths import runs_root
from launcher.runs.status import Status, write_status
from launcher.state.run_state import Phase
from tests.bench.ledger import interleave, record, wall

pytestmark = [pytest.mark.bench, pytest.mark.timeout(1200)]

RUNS, LIMIT_S = 10_000, 0.5
COMMAND = [str(Path(sys.executable).parent / "rankdeck"), "ps", "--json"]


@pytest.fixture
def many(home: Path) -> Path:
    """As many runs that have ended, a third of them badly."""
    for number in range(RUNS):
        begun, failed = 1_767_261_600.0 + 60 * number, number % 3 == 0
        folder = runs_root() / new_id(begun, f"{number % 4096:03x}")
        folder.mkdir(parents=True)
        ended = Status(
            id=folder.name,
            name=f"train {number % 10}",
            target="/home/ada/project/train.py:main",
            args="lr=0.1 steps=1000",
            state=Phase.FAILED if failed else Phase.SUCCEEDED,
            exit_code=int(failed),
            why="rank 3 on node-12 raised ValueError: bad learning rate -1.0"
            if failed
            else "every rank ended",
            mode="cluster",
            num_processes=8,
            started=begun,
            ended=begun + 50,
            user="ada",
            host="login-1",
            step=1000,
            metrics={"loss": 0.25, "accuracy": 0.9},
            revision="a" * 40,
        )
        write_status(folder, ended)
    return runs_root()


def without_index(root: Path) -> float:
    """The same after the index was deleted: it is made anew on the way."""
    shutil.rmtree(index_file(root).parent, ignore_errors=True)
    seconds = wall(COMMAND)
    assert index_file(root).exists()
    return seconds


def test_ten_thousand_runs_are_listed_in_half_a_second(many: Path) -> None:
    first = without_index(many)
    result = interleave(lambda: wall(COMMAND), lambda: without_index(many), rounds=7)
    text = wall([*COMMAND[:2]])
    print(f"text, newest 50: {text * 1000:.0f} ms; json, first time, index made: {first * 1000:.0f} ms")
    record(f"`rankdeck ps --json`, {RUNS:,} runs", "with no index yet", result, bound=0.5)

    assert result.ours <= LIMIT_S
    assert result.ratio <= 0.5
