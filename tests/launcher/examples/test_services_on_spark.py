"""Horovod's server and Ray's nodes on two hosts of Spark: how they end, and how two clusters share hosts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from launcher.errors import RankFailed
from launcher.job import Job
from launcher.state.run_state import Phase, RunState
from tests.services import part_of, pid_of
from tests.spark_runs import Bench, kill, working
from tests.trainings import check, examples, results

pytestmark = [pytest.mark.frameworks, pytest.mark.spark, pytest.mark.timeout(300, func_only=True)]

HOSTS = {"127.0.0.2", "127.0.0.3"}
EPOCHS = 2
START_LIMIT_S = 150.0  # of a Ray cluster, on a busy machine
LOSSES: dict[str, tuple[str, Callable[[RunState], int], str]] = {
    "server": (
        "horovod",
        lambda state: pid_of(state, 0),
        "Horovod's rendezvous server beside rank 0 on {hosts[0]} was lost: it was killed by SIGKILL",
    ),
    "raylet": (
        "ray",
        lambda state: part_of(state, 1, "raylet"),
        "Ray's node beside rank 1 on {hosts[1]} was lost: its raylet was killed by SIGKILL",
    ),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_a_service_that_is_lost_on_two_hosts_ends_the_run_with_its_name(
    bench: Bench, targets: Path, loss: str
) -> None:
    framework, victim, why = LOSSES[loss]
    job = endless(bench, targets, framework)
    working(job, 2, within=START_LIMIT_S)
    kill(victim(job.state))
    state = job.wait(60)

    hosts = [rank.host for rank in state.ranks]
    assert HOSTS == {*hosts}
    assert (Phase.LOST, 75, why.format(hosts=hosts)) == (state.phase, state.exit_code, state.why)


def test_a_driver_of_ray_that_fails_on_two_hosts_ends_its_nodes(bench: Bench, targets: Path) -> None:
    job = endless(bench, targets, "ray", "worker")

    with pytest.raises(RankFailed, match="RuntimeError") as failure:
        results(job)
    assert (0, 1) == (failure.value.rank, failure.value.exit_code)
    assert ["failed", "stopped"] == [rank.phase.value for rank in job.state.ranks]
    assert HOSTS == {service.host for service in job.state.services}


def test_two_clusters_of_ray_on_the_same_hosts_know_nothing_of_each_other(
    bench: Bench, targets: Path
) -> None:
    first = endless(bench, targets, "ray")
    working(first, 2, within=START_LIMIT_S)
    (example,) = examples("ray")
    second = bench.distributor(2, **example.launch()).start(str(example.script), *example.argv(EPOCHS))

    check(example, results(second), EPOCHS)
    assert Phase.RUNNING is first.state.phase
    first.stop()
    ended = first.wait(60)
    assert (Phase.STOPPED, 143) == (ended.phase, ended.exit_code)
    for state in (ended, second.state):
        assert HOSTS == {service.host for service in state.services}
        assert [""] * 2 == [service.lost for service in state.services]
    printed = b"".join(path.read_bytes() for path in second.folder.glob("logs/0/*.err"))
    assert b"multiple active Ray instances" not in printed


def endless(bench: Bench, targets: Path, framework: str, ending: str = "never") -> Job:
    """Work on two ranks that ends by itself only if it fails."""
    (example,) = examples(framework)
    name, *words = ["endless_ray.py"] if example.is_driver else ["endless_training.py", example.module]
    words += [ending] if example.is_driver else [ending, ""]
    distributor = bench.distributor(2, grace_s=1, framework=framework, **example.launch())
    return distributor.start(str(targets / name), *words)
