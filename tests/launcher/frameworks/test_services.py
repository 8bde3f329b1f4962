"""Frameworks' own processes beside real ranks: the order of their lives, and every way in which they end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from launcher.channel.frames import STDERR, STDOUT
from launcher.distributor import Distributor
from launcher.job import Job
from launcher.runs.paths import log_file
from launcher.state.ranks import RankPhase
from launcher.state.run_state import RunState, Service
from tests.commands import until
from tests.services import part_of, pid_of
from tests.survivors import gone
from tests.targets import lookalikes

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("ray")]

DRIVER = """
import os, launcher, ray
ray.init()
print("driver runs", flush=True)
launcher.publish([len(ray.nodes()), os.environ["RANKDECK_RANK"], "OMP_NUM_THREADS" in os.environ])
"""
WAITS = "import ray, time\nray.init()\nprint('waits', flush=True)\ntime.sleep(600)\n"
HVD = """
import os, horovod.torch as hvd
hvd.init()
print(os.environ["HOROVOD_GLOO_RENDEZVOUS_PORT"], flush=True)
"""


@pytest.fixture
def ray(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lookalikes.write(tmp_path / "site")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))
    monkeypatch.setenv("RAY_NODES", str(tmp_path / "nodes"))


@pytest.fixture
def scratch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where agents make their folders, with a path that is short enough for sockets."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="") as folder:
        monkeypatch.setenv("TMPDIR", folder)
        yield Path(folder)


def start(tmp_path: Path, source: str, n: int = 2, **options: Any) -> Job:
    script = tmp_path / "train.py"
    script.write_text(source)
    return Distributor(n, root=tmp_path / "runs", **options).start(str(script))


def output(job: Job, rank: int, stream: int = STDOUT, attempt: int = 0) -> str:
    path = log_file(job.folder, attempt, rank, stream)
    return path.read_text() if path.exists() else ""


def test_ranks_are_nodes_and_the_target_runs_once_when_all_are_ready(tmp_path: Path, mark: str) -> None:
    job = start(tmp_path, DRIVER, n=3)
    state = job.wait(60)

    assert ("succeeded", "every rank exited with 0") == (state.phase, state.why)
    assert ["head", "node", "node"] == [rank.role for rank in state.ranks]
    assert [RankPhase.SUCCEEDED] * 3 == [rank.phase for rank in state.ranks]
    assert [3, "0", False] == job.result()
    assert ["Ray's head node", "Ray's node", "Ray's node"] == [each.name for each in state.services]
    assert state.services[0].url.startswith("http://127.0.0.2:")
    assert state.ranks[0].world_size == 3
    assert "driver runs" in output(job, 0)
    assert all("(greet pid=77) hello\n" in output(job, rank) for rank in range(3))
    assert not gone(mark, 5)


KILLS: dict[str, tuple[int, Callable[[Job], int], str]] = {
    "raylet": (1, lambda job: part_of(job.state, 1, "raylet"), "its raylet"),
    "head's raylet": (0, lambda job: part_of(job.state, 0, "raylet"), "its raylet"),
    "GCS": (0, lambda job: part_of(job.state, 0, "gcs_server"), "its gcs_server"),
    "node": (1, lambda job: pid_of(job.state, 1), "it"),
}


@pytest.mark.parametrize("which", KILLS)
def test_a_node_that_is_lost_ends_the_run_with_its_name(
    tmp_path: Path, scratch: Path, mark: str, which: str
) -> None:
    job = start(tmp_path, WAITS)
    until(lambda: "waits" in output(job, 0))
    rank, victim, what = KILLS[which]
    os.kill(victim(job), signal.SIGKILL)
    state = job.wait(60)

    assert ("lost", 75) == (state.phase, state.exit_code)
    who = f"{state.services[rank].name} beside rank {rank} on {state.ranks[rank].host}"
    assert f"{who} was lost: {what} was killed by SIGKILL" == state.why
    assert not gone(mark, 5)
    assert [] == os.listdir(scratch)


def test_a_lost_node_is_replaced_if_the_run_may_start_again(tmp_path: Path, mark: str) -> None:
    source = (
        "import ray, time, launcher, os\nray.init()\nprint('waits', flush=True)\n"
        "if os.environ['RANKDECK_RESTART_COUNT'] == '0': time.sleep(600)\nlauncher.publish('again')\n"
    )
    job = start(tmp_path, source, max_restarts=1)
    until(lambda: "waits" in output(job, 0))
    os.kill(part_of(job.state, 1, "raylet"), signal.SIGKILL)
    state = job.wait(60)

    assert ("succeeded", True) == (state.phase, state.restarts[0].in_place)
    assert "Ray's node beside rank 1" in state.restarts[0].reason
    assert "again" == job.result()
    assert not gone(mark, 5)


def test_every_attempt_of_a_cluster_has_a_token_that_no_file_holds(tmp_path: Path, mark: str) -> None:
    source = (
        "import ray, os\nray.init()\nprint('its end is', os.environ['RAY_AUTH_TOKEN'][-16:], flush=True)\n"
        "if os.environ['RANKDECK_RESTART_COUNT'] == '0': raise SystemExit(3)\n"
    )
    job = start(tmp_path, source, max_restarts=1)
    state = job.wait(60)
    tokens = [output(job, 0, attempt=attempt).split()[-1] for attempt in (0, 1)]

    assert ("succeeded", 1) == (state.phase, state.attempt)
    assert (2, 16) == (len(set(tokens)), len(tokens[0]))
    written = [
        path.read_bytes() for path in job.folder.rglob("*") if path.is_file() and path.suffix != ".out"
    ]
    assert not [data for data in written for token in tokens if token.encode() in data]
    assert not gone(mark, 5)


def test_a_driver_that_fails_is_the_failure(tmp_path: Path, mark: str) -> None:
    state = start(tmp_path, "import ray, sys\nray.init()\nsys.exit(7)\n").wait(60)

    assert ("failed", 7, f"rank 0 on {state.ranks[0].host} exited with code 7") == (
        state.phase,
        state.exit_code,
        state.why,
    )
    assert RankPhase.STOPPED is state.ranks[1].phase
    assert not gone(mark, 5)


@pytest.mark.parametrize("force", [False, True])
def test_a_stop_ends_the_driver_before_the_nodes(tmp_path: Path, mark: str, force: bool) -> None:
    source = (
        "import ray, signal, sys, time, pathlib\nray.init()\n"
        "def end(*_):\n    print(len(ray.nodes()), 'nodes', flush=True)\n    sys.exit(0)\n"
        "signal.signal(signal.SIGTERM, end)\n"
        "print('waits', flush=True)\ntime.sleep(600)\n"
    )
    job = start(tmp_path, source)
    until(lambda: "waits" in output(job, 0))
    job.stop(force=force)
    state = job.wait(60)

    assert ("stopped", 143) == (state.phase, state.exit_code)
    assert force or "2 nodes" in output(job, 0)
    assert not gone(mark, 5)


def test_a_node_that_cannot_be_started_ends_the_run_and_no_driver_begins(
    tmp_path: Path, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_REFUSES", "127.0.0.3")
    job = start(tmp_path, DRIVER, max_restarts=2)
    state = job.wait(60)

    who, said = f"Ray's node beside rank 1 on {state.ranks[0].host}", "Error: no node can be started here"
    assert ("failed", 1, ()) == (state.phase, state.exit_code, state.restarts)
    assert f"{who} could not be started: ray start ended with code 3: {said}" == state.why
    assert "driver runs" not in output(job, 0)
    assert "no node can be started here" in output(job, 1, STDERR)
    assert not gone(mark, 5)


def test_a_driver_that_never_connects_is_told(tmp_path: Path) -> None:
    state = start(tmp_path, "import ray\n").wait(60)

    assert "succeeded" == state.phase
    assert "call ray.init() in the script" in state.why


def test_a_process_that_is_killed_takes_the_nodes_of_its_run_along(
    tmp_path: Path, scratch: Path, mark: str
) -> None:
    code = (
        "from launcher.distributor import Distributor\n"
        f"Distributor(2, root={str(tmp_path / 'runs')!r}).start({str(tmp_path / 'train.py')!r}).wait()\n"
    )
    (tmp_path / "train.py").write_text(WAITS)
    owner = subprocess.Popen([sys.executable, "-c", code], cwd=Path(__file__).parents[3])
    until(lambda: any("waits" in path.read_text() for path in tmp_path.glob("runs/*/logs/*/*.out")))
    owner.kill()
    owner.wait()

    assert not gone(mark, 10)
    assert [] == os.listdir(scratch)


def horovod_store(job: Job) -> Service:
    until(lambda: bool(job.state.services and job.state.services[0].ready))
    return job.state.services[0]


def test_horovods_store_lives_as_long_as_the_ranks(tmp_path: Path, mark: str) -> None:
    job = start(tmp_path, HVD)
    state = job.wait(60)

    assert ("succeeded", [2, 2]) == (state.phase, [rank.world_size for rank in state.ranks])
    assert output(job, 0) == output(job, 1) != ""
    assert ["Horovod's rendezvous server"] == [each.name for each in state.services]
    assert not gone(mark, 5)


def test_every_attempt_has_a_fresh_store(tmp_path: Path) -> None:
    source = HVD + (
        "import http.client\n"
        "store = http.client.HTTPConnection('127.0.0.1', int(os.environ['HOROVOD_GLOO_RENDEZVOUS_PORT']))\n"
        "store.request('GET', '/global/key')\nprint(store.getresponse().status, flush=True)\n"
        "store.request('PUT', '/global/key', b'x')\nstore.getresponse()\n"
        "if os.environ['TORCHELASTIC_RESTART_COUNT'] == '0': raise SystemExit(3)\n"
    )
    job = start(tmp_path, source, n=1, max_restarts=1)
    state = job.wait(60)

    assert ("succeeded", 1) == (state.phase, state.attempt)
    assert ["404", "404"] == [output(job, 0, attempt=attempt).split()[-1] for attempt in range(2)]


def test_a_lost_store_ends_the_run_with_its_name(tmp_path: Path, mark: str) -> None:
    job = start(tmp_path, HVD + "import time\ntime.sleep(600)\n")
    until(lambda: output(job, 0) != "" != output(job, 1))
    os.kill(horovod_store(job).pid, signal.SIGKILL)
    state = job.wait(60)

    who = f"Horovod's rendezvous server beside rank 0 on {state.ranks[0].host}"
    assert ("lost", 75, f"{who} was lost: it was killed by SIGKILL") == (
        state.phase,
        state.exit_code,
        state.why,
    )
    assert not gone(mark, 5)


def phases(state: RunState) -> list[str]:
    return [rank.phase.value for rank in state.ranks]


def test_tensorflows_ports_are_held_while_its_workers_run(tmp_path: Path, mark: str) -> None:
    source = (
        "import json, os, socket, tensorflow, launcher\n"
        "from tensorflow.python.distribute import collective_all_reduce_strategy as strategies\n"
        "strategies.CollectiveAllReduceStrategy()\n"
        "config = json.loads(os.environ['TF_CONFIG'])\n"
        "host, port = config['cluster']['worker'][config['task']['index']].split(':')\n"
        "with socket.socket() as sock:\n"
        "    try: sock.bind((host, int(port))); held = False\n"
        "    except OSError: held = True\n"
        "with socket.socket() as sock:\n"
        "    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n"
        "    sock.bind((host, int(port))); sock.listen()\n"
        "launcher.publish([held, config])\n"
    )
    job = start(tmp_path, source)
    values = job.results()
    state = job.wait(60)

    assert [True, True] == [held for held, _ in values]
    workers = values[0][1]["cluster"]["worker"]
    assert (2, workers) == (len(set(workers)), values[1][1]["cluster"]["worker"])
    assert ["succeeded", "succeeded"] == phases(state)
    assert [2, 2] == [rank.world_size for rank in state.ranks]
    assert not gone(mark, 5)
