"""`ray.util.spark` on rankdeck: what it refuses before anything starts, and real clusters."""

from __future__ import annotations

import json
import os
import site
import subprocess
import sys
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from launcher.agent import process
from launcher.backends.spark import session
from launcher.compat import ray_on_spark
from launcher.compat.ray_on_spark import setup_ray_cluster, shutdown_ray_cluster
from launcher.runs.catalog import run_ids
from launcher.runs.paths import runs_root
from launcher.runs.reader import read_state
from tests import framework_envs, survivors
from tests.commands import until
from tests.framework_envs import Environment
from tests.spark_cluster import Cluster


def test_it_needs_a_session() -> None:
    with pytest.raises(RuntimeError, match="there is no active Spark session"):
        setup_ray_cluster(max_worker_nodes=2)


def test_there_is_nothing_to_shut_down() -> None:
    with pytest.raises(RuntimeError, match="No active ray cluster to shut down"):
        shutdown_ray_cluster()


def test_a_process_that_is_connected_to_a_cluster_gets_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    connected = types.ModuleType("ray")
    connected.is_initialized = lambda: True  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ray", connected)

    with pytest.raises(RuntimeError, match=r"call ray.shutdown\(\) first"):
        setup_ray_cluster(max_worker_nodes=2)


def test_an_argument_that_ray_has_not_is_no_argument() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'nodes'"):
        setup_ray_cluster(max_worker_nodes=2, nodes=3)


def test_an_argument_without_meaning_is_told() -> None:
    with (
        pytest.warns(UserWarning, match="collect_log_to_path has no meaning under rankdeck: what nodes"),
        pytest.raises(RuntimeError, match="no active Spark session"),
    ):
        setup_ray_cluster(max_worker_nodes=2, collect_log_to_path="/logs")


class Adopted:
    """A session of two executors with three cores each."""

    remote = False
    driver_host = "10.0.0.1"

    def conf(self, key: str, default: str = "") -> str:
        return "2" if key == "spark.task.cpus" else default


@pytest.fixture
def adopted(monkeypatch: pytest.MonkeyPatch) -> Adopted:
    made = Adopted()
    monkeypatch.setattr(session, "find_active", lambda: made)
    monkeypatch.setattr(session, "open_session", lambda *_, **__: made)
    return made


@pytest.mark.usefixtures("adopted")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_worker_nodes": 0}, "max_worker_nodes must be 1 or more"),
        ({"max_worker_nodes": 2, "min_worker_nodes": 3}, "min_worker_nodes must be 1 to 2, not 3"),
        ({"max_worker_nodes": 2, "num_gpus_worker_node": -1}, "num-gpus must be 0 or more"),
        ({"max_worker_nodes": 2, "memory_head_node": -1}, "memory must be 0 or more"),
        ({"max_worker_nodes": 2, "head_node_options": {"port": 1}}, "for rankdeck to choose"),
        ({"max_worker_nodes": 2, "worker_node_options": {"block": None}}, "for rankdeck to choose"),
    ],
)
def test_what_no_cluster_can_have_is_refused_before_anything_starts(
    home: Path, arguments: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        setup_ray_cluster(**arguments)
    assert [] == run_ids(runs_root())


def test_a_session_of_connect_is_refused(adopted: Adopted) -> None:
    adopted.remote = True
    with pytest.raises(RuntimeError, match="needs a classic Spark session"):
        setup_ray_cluster(max_worker_nodes=2)


class LateJob:
    """A run that may not end in time."""

    def __init__(self, ended: list[str], name: str, *, in_time: bool) -> None:
        self.ended, self.name, self.in_time = ended, name, in_time

    def stop(self, *, reason: str) -> None:
        self.ended.append(f"{self.name}: {reason}")

    def wait(self, timeout: float) -> None:
        if not self.in_time:
            raise TimeoutError(f"{self.name} has not ended after {timeout:g} s")


def test_nodes_that_do_not_end_in_time_keep_neither_head_nor_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    ended: list[str] = []
    head: Any = LateJob(ended, "head", in_time=True)
    nodes: Any = LateJob(ended, "nodes", in_time=False)
    monkeypatch.setattr(ray_on_spark, "_active", ray_on_spark._Cluster(head, {"RAY_ADDRESS": None}, nodes))

    with pytest.raises(TimeoutError, match="nodes has not ended after 60 s"):
        shutdown_ray_cluster()
    assert ["nodes: the Ray cluster was shut down", "head: the Ray cluster was shut down"] == ended
    assert "RAY_ADDRESS" not in os.environ
    with pytest.raises(RuntimeError, match="No active ray cluster"):
        shutdown_ray_cluster()


def test_options_are_those_of_ray_start() -> None:
    more = {"include_dashboard": False, "disable_usage_stats": None, "verbose": None}
    made = ray_on_spark._options({"num-cpus": 2, "num-gpus": None}, None, 10**9, more)

    assert {
        "num-cpus": "2",
        "object-store-memory": "1000000000",
        "include-dashboard": "False",
        "verbose": "",
    } == made


@pytest.fixture(scope="module")
def env() -> Environment:
    return framework_envs.made("ray")


@pytest.fixture
def program(env: Environment, cpu_cluster: Cluster, targets: Path) -> list[str]:
    """The command of a user's program in the environment that has Ray."""
    settings = {
        **cpu_cluster.conf(cores=2),
        "spark.master": cpu_cluster.url,
        "spark.executor.cores": "1",
        "spark.ui.showConsoleProgress": "false",
    }
    words = [env.python, targets / "ray_on_spark.py", json.dumps(settings), site.getsitepackages()[0]]
    return [str(word) for word in words]


@pytest.fixture
def around(env: Environment) -> Mapping[str, str]:
    root = Path(__file__).parents[3]
    return {**os.environ, **env.variables, "PYSPARK_PYTHON": str(env.python), "PYTHONPATH": str(root)}


@pytest.mark.frameworks
@pytest.mark.spark
@pytest.mark.timeout(300, func_only=True)
def test_a_program_for_ray_on_spark_has_its_nodes_on_the_executors(
    program: list[str], around: Mapping[str, str], mark: str
) -> None:
    done = subprocess.run(program, env=around, capture_output=True, text=True, timeout=280, check=False)

    assert 0 == done.returncode, done.stdout + done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert ([0, 1, 1], [1, 1], []) == (told["cpus"], told["worked"], told["left"])
    assert told["client"].startswith("ray://")
    ended = {(state := read_state(runs_root() / each)).name: state for each in run_ids(runs_root())}
    assert {"ray-head": "stopped", "ray-nodes": "stopped"} == {n: s.phase.value for n, s in ended.items()}
    assert ["Ray's node"] * 2 == [each.name for each in ended["ray-nodes"].services]
    assert survivors.gone(mark, within=20) == {}


@pytest.mark.frameworks
@pytest.mark.spark
@pytest.mark.timeout(300, func_only=True)
def test_a_program_that_is_killed_takes_its_cluster_along(
    program: list[str], around: Mapping[str, str], mark: str
) -> None:
    with subprocess.Popen([*program, "stay"], env=around, stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout is not None
            assert "ready\n" in running.stdout
            # what is below the executors has no mark
            states = [read_state(runs_root() / each) for each in run_ids(runs_root())]
            agents = [host.pid for state in states for host in state.hosts.values()]
            below = [pid for agent in agents for pid in (agent, *process.descendants(agent))]
            folders = {folder for pid in below for folder in temporary_folder(pid)}
            assert (3, 3) == (len(agents), len(folders))
        finally:
            running.kill()
    until(lambda: survivors.alive(mark) == {}, within=60)
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in below), within=60)
    until(lambda: not any(os.path.exists(folder) for folder in folders))


def temporary_folder(pid: int) -> list[str]:
    """Where Ray's node has its files, if the process is its command."""
    option = "--temp-dir="
    words = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    return [word.removeprefix(option) for word in words if "--block" in words and word.startswith(option)]
