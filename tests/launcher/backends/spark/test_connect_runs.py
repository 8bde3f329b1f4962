"""Connect mode on a real server that has a cluster of its own: live, through the server, by a spool."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from launcher.backends.spark import backend, relay
from launcher.distributor import Distributor
from launcher.errors import RankFailed
from launcher.job import Job
from launcher.runs import paths
from launcher.runs.artifacts import place_of, read_artifacts
from launcher.runs.reader import read_state
from launcher.spec.job import SparkSpec
from launcher.state import events as ev
from tests import survivors
from tests.commands import COMMAND, LIMIT_S, last, rankdeck, until
from tests.spark_cluster import Cluster, ConnectServer, press
from tests.spark_runs import agents_of, entered, facts, struck

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[4]
TARGETS = ROOT / "tests" / "targets" / "cluster.py"
EXAMPLES = ROOT / "launcher" / "examples"
WAYS = ["live", "relay", "spool"]
SOAK = int(os.environ.get("RANKDECK_SOAK", "1"))
NOISE = bytes(range(256)) * 64


@dataclass
class Desk:
    """A Connect server, and what is run through it."""

    server: ConnectServer
    spool: Path
    mark: str = field(default_factory=survivors.new_mark)

    def distributor(self, ranks: int = 4, *, way: str = "live", **options: Any) -> Distributor:
        spool = str(self.spool) if way == "spool" else ""
        env = {survivors.MARK: self.mark}
        spec = SparkSpec(remote=self.server.url, spool=spool)
        return Distributor(ranks, "connect", env=env, spark=spec, **options)

    def nothing_left(self) -> None:
        """No rank, no agent and no file."""
        assert survivors.gone(self.mark, within=20) == {}
        until(lambda: not self.agents())
        assert [] == list(self.spool.iterdir())

    def agents(self) -> list[int]:
        """Agents and wardens on this machine that are alive."""
        assert self.server.cluster is not None
        return agents_of(self.server.cluster)


@pytest.fixture
def desk(connect_server: ConnectServer, tmp_path: Path, home: Path) -> Iterator[Desk]:
    (tmp_path / "spool").mkdir()
    made = Desk(connect_server, tmp_path / "spool")
    yield made
    try:
        made.nothing_left()
    finally:
        for pid in made.agents():  # else every later test would fail for what this one has left
            os.kill(pid, signal.SIGTERM)


@pytest.fixture
def far(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine is told by an address at which nobody listens."""
    monkeypatch.setattr(backend, "listen_addresses", lambda *_, **__: ("127.0.0.1", ("127.9.9.9",)))


def target(name: str) -> str:
    return f"{TARGETS}:{name}"


def ways(job: Job) -> list[str]:
    return [fact.way for fact in facts(job, ev.DeliveryChosen)]


def log(job: Job, rank: int, stream: int = paths.STDOUT) -> bytes:
    return paths.log_file(job.folder, 0, rank, stream).read_bytes()


@pytest.fixture
def strict(far: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server starts no relays either."""

    def refuse(*_: object) -> dict[str, object]:
        raise RuntimeError("data sources are not allowed here")

    monkeypatch.setattr(relay.ServerCalls, "start", refuse)


def prepare(way: str, request: pytest.FixtureRequest) -> None:
    if way != "live":
        request.getfixturevalue("far" if way == "relay" else "strict")


@pytest.mark.frameworks
def test_a_real_training_runs(desk: Desk, far: None) -> None:
    job = desk.distributor().start(str(EXAMPLES / "digits_ddp.py"), "--epochs", "2")
    state = job.wait(180)

    assert ("succeeded", "relay") == (state.phase, ways(job)[-1]), state.why
    assert b"accuracy" in log(job, 0)


@pytest.mark.parametrize("way", ["live", "spool"])
def test_what_ranks_wrote_and_returned_is_here_to_the_byte(
    desk: Desk, way: str, request: pytest.FixtureRequest
) -> None:
    prepare(way, request)
    job = desk.distributor(way=way).start(target("noise"), 100)

    assert [100 * len(NOISE)] * 4 == job.results(timeout=120)
    assert way == ways(job)[-1]
    for rank in range(4):
        assert NOISE * 100 == log(job, rank)
        assert NOISE[::-1] * 100 == log(job, rank, paths.STDERR)


@pytest.mark.parametrize("way", ["relay", "spool"])
def test_files_travel_and_come_home_to_the_byte(
    desk: Desk, tmp_path: Path, way: str, request: pytest.FixtureRequest
) -> None:
    """A file from elsewhere makes the ranks' working folder one of their own, which ends with the run."""
    prepare(way, request)
    data = os.urandom(3 << 20)
    (tmp_path / "else").mkdir()
    (tmp_path / "else/tokens.bin").write_bytes(data)
    job = desk.distributor(2, way=way, files=[tmp_path / "else/tokens.bin"]).start(target("copy"), 5)
    state = job.wait(120)

    assert ("succeeded", way) == (state.phase, ways(job)[-1]), state.why
    kept = {each.path: place_of(job.folder, each).read_bytes() for each in read_artifacts(job.folder)}
    assert {f"out/{rank}.{n}.bin": data for rank in range(2) for n in range(5)} == kept
    assert not Path("out").exists()


def test_a_failing_rank_is_told_as_anywhere(desk: Desk, strict: None) -> None:
    job = desk.distributor(way="spool").start(target("fail"))
    with pytest.raises(RankFailed, match="bad luck in attempt 0") as failure:
        job.result(timeout=120)

    assert (1, 1) == (failure.value.rank, failure.value.exit_code)
    assert 'raise ValueError(f"bad luck' in str(failure.value)


@pytest.mark.parametrize("way", ["live", "spool"])
def test_a_stop_gives_ranks_their_grace(
    desk: Desk, way: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    prepare(way, request)
    saved = tmp_path / "saved"
    job = desk.distributor(2, way=way).start(target("write_then_wait"), str(saved))

    state = struck(job, lambda: job.stop(reason="enough", exit_code=130), ranks=2)

    assert ("stopped", 130) == (state.phase, state.exit_code)
    assert ["saved", "saved"] == [Path(f"{saved}.{rank}").read_text() for rank in (0, 1)]


def test_where_there_is_no_way_nothing_runs_and_the_ways_out_are_named(desk: Desk, strict: None) -> None:
    job = desk.distributor(2).start(target("tick"), 100_000)
    state = job.wait(120)

    assert ("failed", 69) == (state.phase, state.exit_code), state.why
    for words in (
        "127.9.9.9",
        "Connection refused",
        "data sources are not allowed here",
        "--listen",
        "--spool",
    ):
        assert words in (state.why or "")
    assert not state.ranks


def test_a_job_that_is_cancelled_in_spark_ends_as_stopped(desk: Desk) -> None:
    job = desk.distributor(2).start(target("tick"), 100_000)
    entered(job, 2)
    press(desk.server.ui, "/jobs/", "/jobs/job/kill/", id=running_job(desk.server))
    state = job.wait(60)
    assert ("stopped", 143) == (state.phase, state.exit_code), state.why


def running_job(server: ConnectServer) -> int:
    """The number of the one job that runs, by Spark's own pages."""
    with urllib.request.urlopen(f"{server.ui}/api/v1/applications", timeout=LIMIT_S) as answer:
        (application,) = json.load(answer)
    jobs = f"{server.ui}/api/v1/applications/{application['id']}/jobs?status=running"
    with urllib.request.urlopen(jobs, timeout=LIMIT_S) as answer:
        (found,) = json.load(answer)
    return int(found["jobId"])


def test_gpus_are_those_that_spark_grants(desk: Desk) -> None:
    job = desk.distributor(4, gpu=True, gpus_per_task=1).start(target("places"))
    seen = job.results(timeout=120)
    assert {"0,1"} == {value["CUDA_VISIBLE_DEVICES"] for value in seen}
    assert [["0"], ["1"], ["0"], ["1"]] == [[d.uuid for d in rank.devices] for rank in job.state.ranks]


def test_an_active_session_is_used_and_left(desk: Desk) -> None:
    from pyspark.sql.connect.session import SparkSession

    session = SparkSession(connection=desk.server.url)
    SparkSession._set_default_and_active_session(session)
    try:
        env = {survivors.MARK: desk.mark}
        assert 6 == Distributor(2, "connect", env=env).run(lambda x: x * 2, 3)
        assert 3 == session.range(3).count()
        assert set() == set(session.getTags())
    finally:
        session.stop()


def test_the_command_runs_and_says_how_output_comes(desk: Desk) -> None:
    done = rankdeck(
        *("run", target("noise"), "-n", "2", "--mode", "connect", "--remote", desk.server.url, "--no-gpu"),
        *("--param", "count=1", "--env", f"{survivors.MARK}={desk.mark}", "--output", "jsonl"),
    )
    assert 0 == done.returncode, done.stderr
    assert '"event":"delivery_chosen"' in done.stdout.replace(": ", ":")


KILLED = """
import sys
from pathlib import Path
from launcher import Distributor
from launcher.backends.spark import backend, relay
from launcher.spec.job import SparkSpec
remote, spool, target, way, mark = sys.argv[1:]
if way != "live":
    backend.listen_addresses = lambda *_, **__: ("127.0.0.1", ("127.9.9.9",))
if way == "spool":
    relay.ServerCalls.start = lambda *_: 1 / 0
spec = SparkSpec(remote=remote, spool=spool if way == "spool" else "")
job = Distributor(2, "connect", spark=spec, env={"MALLOC_RANKDECK_TEST_MARK": mark}).start(target, 100_000)
for event in job.events():
    print(event.tag, flush=True)
"""


@pytest.mark.parametrize("turn", range(SOAK))
@pytest.mark.parametrize("way", WAYS)
def test_ranks_do_not_outlive_a_client_that_is_killed(desk: Desk, way: str, turn: int) -> None:
    words = [desk.server.url, str(desk.spool), target("tick"), way, desk.mark]
    client = subprocess.Popen(
        [sys.executable, "-c", KILLED, *words], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert client.stdout is not None
    with client.stdout:
        assert any("rank_entered" in line for line in client.stdout)
    assert survivors.alive(desk.mark)
    os.kill(client.pid, signal.SIGKILL)
    client.wait()

    assert survivors.gone(desk.mark, within=15) == {}


# --- executors behind a wall ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def walled(islands: Cluster) -> Iterator[tuple[Cluster, ConnectServer]]:
    """A server whose executors are on hosts of their own."""
    with ConnectServer(islands, cores=4) as server:
        yield islands, server


def run_inside(cluster: Cluster, server: ConnectServer, listen: str, spool: Path | None) -> tuple[str, str]:
    """The command on the driver's host, to its good end: its run id, and how output came home at last."""
    done = cluster.run_in(
        -1,
        [
            *(sys.executable, "-m", "console", "run", target("noise"), "-n", "4", "--mode", "connect"),
            *("--remote", server.url, "--listen", listen, "--no-gpu", "--param", "count=1"),
            *(("--spool", str(spool)) if spool else ()),
            *("--output", "jsonl"),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=200,
    )
    assert 0 == done.returncode, done.stderr
    run = json.loads(done.stdout.splitlines()[0])["run"]
    return run, [line for line in done.stdout.splitlines() if "delivery_chosen" in line][-1]


PORT = 47_113
STRANGER = f"""
import socket
with socket.create_server(("127.0.0.1", {PORT})) as door:
    print("listens", flush=True)
    door.accept()
    print("was disturbed", flush=True)
"""


@pytest.mark.netns
@pytest.mark.parametrize("spool", [True, False])
def test_executors_that_cannot_reach_a_laptop(
    walled: tuple[Cluster, ConnectServer], tmp_path: Path, home: Path, spool: bool
) -> None:
    cluster, server = walled
    with subprocess.Popen(
        [*cluster.prefix(0), sys.executable, "-c", STRANGER], stdout=subprocess.PIPE
    ) as beside:
        assert beside.stdout is not None
        assert b"listens\n" == beside.stdout.readline()
        try:
            run, chosen = run_inside(cluster, server, f"127.0.0.1:{PORT}", tmp_path if spool else None)
        finally:
            beside.terminate()
        assert b"" == beside.stdout.read(), "an agent took its own host for the engine's"

    assert NOISE == paths.log_file(home / "runs" / run, 0, 3, paths.STDOUT).read_bytes()
    assert '"way":"relay"' in chosen.replace(": ", ":")
    assert "10.77.0.1" in chosen
    assert [] == [p for p in tmp_path.iterdir() if p.name.startswith("rankdeck")]


@pytest.mark.netns
def test_a_firewall_in_the_way_of_one_executor(
    walled: tuple[Cluster, ConnectServer], tmp_path: Path, home: Path
) -> None:
    """Its packets vanish; its agents come through the server, the others directly."""
    cluster, server = walled
    for words in ("addr add 10.77.0.99/24 dev eth0", "rule add from 10.77.0.99 to 10.77.0.12 blackhole"):
        assert 0 == cluster.run_in(-1, ["ip", *words.split()]).returncode
    run, chosen = run_inside(cluster, server, "10.77.0.99", tmp_path)

    assert NOISE == paths.log_file(home / "runs" / run, 0, 3, paths.STDOUT).read_bytes()
    assert "2 of 4 agents, such as that on 10.77.0.12" in chosen


# --- a server that dies --------------------------------------------------------------------------------


@pytest.fixture(params=["live", pytest.param("relay", marks=pytest.mark.netns)])
def mortal(request: pytest.FixtureRequest) -> Iterator[tuple[ConnectServer, list[str]]]:
    """A server that may be killed, and a command of two ranks on it, whose output comes so.

    All runs are one engine's: its session is what must not outlive the server.
    """
    place = request.getfixturevalue("cluster" if request.param == "live" else "walled")
    if request.param == "live":
        with ConnectServer(place, cores=2) as server:
            yield server, [COMMAND, *words(server)]
        return
    cluster, server = place
    yield server, [*cluster.prefix(), COMMAND, *words(server), "--listen", "127.0.0.1"]
    if server.daemon.process.poll() is not None:
        server.restart()  # others use it too


def words(server: ConnectServer) -> list[str]:
    return ["run", "-n", "2", "--mode", "connect", "--remote", server.url, "--no-gpu"]


@pytest.mark.parametrize("turn", range(SOAK))
def test_a_server_that_dies_is_named_and_its_session_used_no_more(
    mortal: tuple[ConnectServer, list[str]], request: pytest.FixtureRequest, turn: int
) -> None:
    server, command = mortal
    mark = survivors.new_mark()
    busy = [*command, target("tick"), "--param", "count=100000", "--env", f"{survivors.MARK}={mark}"]
    with subprocess.Popen(busy, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as first:
        assert first.stdout is not None
        heard: set[str] = set()
        for line in first.stdout:
            heard.add(line[:2])
            if heard >= {"r0", "r1"}:
                break
        ranks = survivors.alive(mark)
        killed = time.time()
        server.daemon.kill()
        first.communicate(timeout=LIMIT_S)
    lost = read_state(last())

    assert len(ranks) >= 2
    assert survivors.gone(mark, within=15) == {}
    assert (75, 75) == (first.returncode, lost.exit_code), lost.why
    assert f"the Connect server {server.url}" in lost.why
    assert lost.ended is not None
    assert 0 <= lost.ended - killed < 5
    assert request.node.callspec.params["mortal"] == (lost.delivery.way if lost.delivery else "")

    down = run(*command, target("tick"), "--param", "count=1")
    refused = read_state(last())
    assert (69, 69) == (down.returncode, refused.exit_code), down.stderr
    assert server.url.removeprefix("sc://") in refused.why
    assert refused.ended is not None
    assert refused.submitted is not None
    assert refused.ended - refused.submitted.time < 5

    server.restart()
    again = run(*command, target("tick"), "--param", "count=1")
    assert 0 == again.returncode, again.stderr


def run(*argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv, capture_output=True, text=True, timeout=2 * LIMIT_S, stdin=subprocess.DEVNULL, check=False
    )
