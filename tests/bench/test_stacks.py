"""What it costs to ask ranks for their stacks. Run with ``pytest -m bench``."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median

import psutil
import pytest

from console.cli.manage import taken_now
from launcher.distributor import Distributor
from launcher.job import Job
from tests.bench.ledger import compared, record
from tests.commands import Gate, until

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

RANKS, ROUNDS, SECONDS = 8, 15, 20


@pytest.fixture
def job(targets: Path, tmp_path: Path) -> Iterator[Job]:
    """Eight ranks that wait, as those of a gang that hangs do."""
    gate = Gate(tmp_path / "gate", ranks=RANKS)
    run = Distributor(RANKS, gpu=False).start(str(targets / "waiting.py"), "gate", str(gate.path))
    until(lambda: len(run.state.ranks) == RANKS and all(rank.entered for rank in run.state.ranks))
    yield run
    gate.open()
    assert "succeeded" == run.wait(60).phase


def ask(job: Job) -> float:
    """Seconds from the request to the last rank's stacks."""
    begun = time.perf_counter()
    state, missing = taken_now(job.folder)
    took = time.perf_counter() - begun
    assert not missing
    assert all(taken.text for taken in state.stacks)
    return took


def test_eight_ranks_answer_within_a_second(job: Job) -> None:
    took = [ask(job) for _ in range(ROUNDS)]
    result = compared([(each, 1.0) for each in took])
    record("stacks of eight ranks, request to the last answer", "a second", result, bound=1.0)
    assert max(took) <= 1.0


def cpu_of(processes: list[psutil.Process]) -> float:
    return sum(sum(process.cpu_times()[:2]) for process in processes)


def spent(processes: list[psutil.Process], each_second: Callable[[], object]) -> float:
    """The share of a core that processes take for some seconds, in each of which something is done."""
    before, begun = cpu_of(processes), time.perf_counter()
    for second in range(1, SECONDS + 1):
        each_second()
        time.sleep(max(0.0, begun + second - time.perf_counter()))
    return (cpu_of(processes) - before) / (time.perf_counter() - begun)


def test_asking_once_a_second_takes_little_of_a_core(job: Job) -> None:
    processes = psutil.Process().children(recursive=True)
    assert len(processes) > RANKS
    pairs = [
        (spent(processes, lambda: ask(job)) - spent(processes, lambda: None), 1.0) for _ in range(3)
    ]  # in turn: what else the machine does changes
    result = compared(pairs)
    record("stacks of eight ranks, once a second: more CPU of agents and ranks", "a core", result, bound=0.02)
    assert median(ours for ours, _ in pairs) < 0.02
