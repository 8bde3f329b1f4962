"""How long `doctor` takes on a cluster of two workers with a warm session. ``pytest -m bench``."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import pytest

import launcher
from tests.bench.ledger import compared, record

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
    taken = [seconds() for _ in range(ROUNDS)]
    result = compared([(each, LIMIT_S) for each in taken])
    record("`doctor`, warm session, 4 agents on 2 workers", "five seconds", result, bound=1.0)
    assert statistics.median(taken) <= LIMIT_S
