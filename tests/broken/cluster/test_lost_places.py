"""The place of a rank goes away: its executor, its worker, its memory."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from launcher.state.run_state import Phase
from tests import survivors
from tests.broken.cluster.conftest import Ended, Hosts, at_work, ended
from tests.commands import until

pytestmark = [pytest.mark.spark, pytest.mark.netns, pytest.mark.timeout(240)]

LEAVES = "Will exit when finished decommissioning"
TRAINS = """
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
for step in range(3000):
    dist.all_reduce(torch.ones(4))
    if step == 3:
        print("go", flush=True)
    time.sleep(0.02)
"""


def lose_executor(
    hosts: Hosts, tmp_path: Path, train: str, strike: Callable[[int], object], *words: str
) -> Ended:
    """Let something happen to the second host's executor while its rank works."""
    command = hosts.start(tmp_path, train, *words)
    at_work(command)
    strike(hosts.cluster.executors(1)[0])
    return ended(command)


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (signal.SIGKILL, ("was killed by SIGKILL", "dmesg", "memoryOverhead")),
        (signal.SIGTERM, ("was terminated by SIGTERM", "the manager's log")),
    ],
)
def test_an_executor_that_is_killed(
    hosts: Hosts, tmp_path: Path, script: Callable[[str], str], number: int, told: tuple[str, ...]
) -> None:
    run = lose_executor(hosts, tmp_path, script(TRAINS), lambda pid: os.kill(pid, number))

    assert (75, Phase.LOST) == (run.code, run.state.phase)
    run.has("executor-lost", "certain", *told, f"on {hosts.cluster.host(1)} was", "--max-restarts")


def test_a_host_that_the_cluster_takes_back(
    hosts: Hosts, tmp_path: Path, script: Callable[[str], str]
) -> None:
    """As a spot instance: first its executor is told to leave, and then it is gone."""

    def take_back(pid: int) -> None:
        os.kill(pid, signal.SIGPWR)
        logs = hosts.cluster.folder / "work1"
        until(lambda: any(LEAVES in log.read_text(errors="replace") for log in logs.glob("*/*/stderr")))
        os.kill(pid, signal.SIGKILL)

    conf = ("--conf", "spark.decommission.enabled=true")
    run = lose_executor(hosts, tmp_path, script(TRAINS), take_back, *conf)

    assert (75, Phase.LOST) == (run.code, run.state.phase)
    run.has(
        "preempted", "certain", f"on {hosts.cluster.host(1)} was decommissioned", "no spot", "--max-restarts"
    )


def test_a_worker_ends_with_its_executors(
    hosts: Hosts, tmp_path: Path, script: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    command = hosts.start(tmp_path, script(TRAINS))
    at_work(command)
    hosts.cluster.workers[1].kill()
    try:
        run = ended(command)
    finally:
        monkeypatch.delenv(survivors.MARK)  # the next worker outlives this test
        hosts.cluster.restart_worker(1)

    assert (75, Phase.LOST) == (run.code, run.state.phase)
    run.has("executor-lost", "certain", "went away with the Spark worker", "look whether the host is up")


GREEDY = """
import os
import signal

held = []
while os.environ["RANKDECK_TEST_HOST"] == "1":
    held.append(os.urandom(1 << 20) * 32)
signal.pause()
"""
LIMIT = 2 << 30


@pytest.fixture
def confined(hosts: Hosts) -> Iterator[Path]:
    """The second host's worker, and all that it starts, in a cgroup with a limit of memory."""
    worker = hosts.cluster.workers[1].pid
    before = Path("/sys/fs/cgroup/memory", _group_of(worker).lstrip("/"), "cgroup.procs")
    group = Path("/sys/fs/cgroup/memory", f"rankdeck-{os.getpid()}")
    if not before.exists():
        pytest.skip("needs cgroups of version 1")
    try:
        group.mkdir()
    except OSError as error:
        pytest.skip(f"may make no cgroup here: {error.strerror}")
    try:
        (group / "memory.limit_in_bytes").write_text(str(LIMIT))
        (group / "cgroup.procs").write_text(str(worker))
        yield group
    finally:
        until(lambda: _dissolved(group, before))


def _dissolved(group: Path, into: Path) -> bool:
    """Move the processes of a cgroup to another one, and remove it; whether that is done."""
    for pid in (group / "cgroup.procs").read_text().split():
        with contextlib.suppress(ProcessLookupError):  # it has just ended
            into.write_text(pid)
    try:
        group.rmdir()
    except OSError:  # what is forked meanwhile is in it too
        return False
    return True


def _group_of(pid: int) -> str:
    lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    return next((line.split(":", 2)[2] for line in lines if ":memory:" in line), "")


def test_the_oom_killer_of_a_host_s_container(
    hosts: Hosts, confined: Path, tmp_path: Path, script: Callable[[str], str]
) -> None:
    run = hosts.run(tmp_path, script(GREEDY))

    assert 137 == run.code
    assert "oom_kill 1" in (confined / "memory.oom_control").read_text()
    run.has("oom-killer", "likely", "more memory for the container or the executor")
    greedy = next(rank for rank in run.state.ranks if rank.host == hosts.cluster.host(1))
    assert run.cause is not None
    assert (1, run.cause.rank) == (greedy.oom_kills, greedy.rank)
