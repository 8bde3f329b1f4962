"""How long `doctor` takes on a cluster of two workers with a warm session. ``pytest -m bench``."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import pytest

import launcher

pytestmark = [pytest.mark.bench, pytest.mark.spark, pytest.mark.timeout(600)]

EXAMPLE = Path(launcher.__file__).with_name("examples") / "digits_ddp.py"
LIMIT_S = 5.0
ROUNDS = 7


def test_a_good_cluster_of_two_workers(session: Any, home: Path) -> None:
    def seconds() -> float:
        report = launcher.doctor(str(EXAMPLE), num_processes=4, mode="cluster", gpu=False)
        assert report.ok, report
        return report.seconds

    seconds()
    taken = sorted(seconds() for _ in range(ROUNDS))
    median = statistics.median(taken)
    print(f"doctor, warm session, 4 agents on 2 workers: {median:.2f} s, at most {taken[-1]:.2f}")

    assert median <= LIMIT_S
