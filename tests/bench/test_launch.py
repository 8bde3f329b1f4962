"""How long launching takes, beside what people use today. Run with ``pytest -m bench``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.bench.ledger import interleave, record, wall
from tests.engines import end_all

pytestmark = [pytest.mark.bench, pytest.mark.timeout(1200)]

BIN = Path(sys.executable).parent


def test_version_against_an_empty_interpreter() -> None:
    result = interleave(
        lambda: wall([str(BIN / "rankdeck"), "--version"]),
        lambda: wall([sys.executable, "-c", "pass"]),
        rounds=25,
    )
    record("`rankdeck --version`", "`python -c pass`", result, bound=8)

    assert result.ratio <= 8


def test_two_trivial_ranks_against_torchrun(targets: Path) -> None:
    script = str(targets / "hello.py")
    result = interleave(
        lambda: wall([str(BIN / "rankdeck"), "run", script, "-n", "2"]),
        lambda: wall([str(BIN / "torchrun"), "--standalone", "--nproc-per-node", "2", script]),
        rounds=7,
    )
    record("two ranks that print a line, command start to exit", "torchrun", result, bound=0.8)

    assert result.ratio <= 0.8


def test_two_trivial_ranks_and_the_engine_against_torchrun(targets: Path) -> None:
    """The first run of a day: its engine has to be started too."""
    script = str(targets / "hello.py")

    def ours() -> float:
        end_all()
        return wall([str(BIN / "rankdeck"), "run", script, "-n", "2"])

    result = interleave(
        ours,
        lambda: wall([str(BIN / "torchrun"), "--standalone", "--nproc-per-node", "2", script]),
        rounds=7,
    )
    record("the same, without an engine yet", "torchrun", result, bound=0.8)

    assert result.ratio <= 0.8


def test_first_all_reduce_cold_against_torchrun(targets: Path) -> None:
    script = str(targets / "all_reduce.py")
    result = interleave(
        lambda: wall([str(BIN / "rankdeck"), "run", script, "-n", "2"]),
        lambda: wall([str(BIN / "torchrun"), "--standalone", "--nproc-per-node", "2", script]),
        rounds=7,
    )
    record("two ranks, one all-reduce, cold, command start to exit", "torchrun", result, bound=0.8)

    assert result.ratio <= 0.8


def test_lines_to_disk_against_torchrun(targets: Path, tmp_path: Path) -> None:
    script, what = str(targets / "writing.py"), "write_lines"
    torchrun = [str(BIN / "torchrun"), "--standalone", "--nproc-per-node", "2", "--redirects", "3"]
    result = interleave(
        lambda: wall([str(BIN / "rankdeck"), "run", script, "-n", "2", "--ranks", "none", "--", what]),
        lambda: wall([*torchrun, "--log-dir", str(tmp_path / "logs"), script, what], env=dict(os.environ)),
        rounds=5,
    )
    record("2 × 500,000 lines of 100 bytes to disk", "torchrun --redirects 3", result, bound=1.3)

    assert result.ratio <= 1.3
