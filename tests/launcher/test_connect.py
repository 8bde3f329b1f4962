"""Connect mode on a real server that has a cluster of its own: live, by a spool folder, and carried home."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from launcher import Distributor, Job, RankFailed
from launcher import events as ev
from launcher.backends import delivery, spark
from launcher.runs import paths
from launcher.spec import SparkSpec
from tests import survivors
from tests.commands import rankdeck, until
from tests.spark_cluster import Cluster, ConnectServer, press
from tests.spark_runs import PROGRAM, entered, facts, struck

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

ROOT = Path(__file__).parents[2]
TARGETS = ROOT / "tests" / "targets" / "cluster.py"
EXAMPLES = ROOT / "launcher" / "examples"
WAYS = ["live", "spool", "carried"]
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

    def agents(self) -> dict[int, str]:
        """Agents and wardens on this machine that are alive."""
        found = subprocess.run(["pgrep", "-af", PROGRAM], capture_output=True, text=True, check=False).stdout
        return {int(pid): line for pid, _, line in (row.partition(" ") for row in found.splitlines())}


@pytest.fixture
def desk(connect_server: ConnectServer, tmp_path: Path, home: Path) -> Iterator[Desk]:
    (tmp_path / "spool").mkdir()
    made = Desk(connect_server, tmp_path / "spool")
    yield made
    made.nothing_left()


@pytest.fixture
def far(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine is told by an address at which nobody listens."""
    monkeypatch.setattr(spark, "addresses", lambda *_, **__: ("127.0.0.1", ("127.9.9.9",)))


def target(name: str) -> str:
    return f"{TARGETS}:{name}"


def ways(job: Job) -> list[str]:
    return [fact.way for fact in facts(job, ev.DeliveryChosen)]


def log(job: Job, rank: int, stream: int = paths.STDOUT) -> bytes:
    return paths.log_file(job.folder, 0, rank, stream).read_bytes()


def prepare(way: str, request: pytest.FixtureRequest) -> None:
    if way != "live":
        request.getfixturevalue("far")


@pytest.mark.frameworks
@pytest.mark.parametrize("way", WAYS)
def test_a_real_training_runs(desk: Desk, way: str, request: pytest.FixtureRequest) -> None:
    prepare(way, request)
    job = desk.distributor(way=way).start(str(EXAMPLES / "digits_ddp.py"), "--epochs", "2")
    state = job.wait(180)

    assert ("succeeded", way) == (state.phase, ways(job)[-1]), state.why
    assert b"accuracy" in log(job, 0)


@pytest.mark.parametrize("way", WAYS)
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


@pytest.mark.parametrize("way", WAYS)
def test_a_failing_rank_is_told_as_anywhere(desk: Desk, way: str, request: pytest.FixtureRequest) -> None:
    prepare(way, request)
    job = desk.distributor(way=way).start(target("fail"))
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


def test_a_stop_of_a_carried_run_cancels_it(desk: Desk, far: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "MARGIN_S", -9.0)
    job = desk.distributor(2, way="carried").start(target("tick"), 100_000)
    until(lambda: job.state.delivery is not None and len(survivors.alive(desk.mark)) >= 2, within=60)
    assert job.state.delivery is not None
    assert "carried" == job.state.delivery.way
    job.stop()
    state = job.wait(60)

    assert ("stopped", 143) == (state.phase, state.exit_code)
    assert any("kept on an executor" in note.text for note in state.notes)


def test_a_job_that_is_cancelled_in_spark_ends_as_stopped(desk: Desk) -> None:
    job = desk.distributor(2).start(target("tick"), 100_000)
    entered(job, 2)
    press(desk.server.ui, "/jobs/", "/jobs/job/kill/", id=running_job(desk.server))
    state = job.wait(60)
    assert ("stopped", 143) == (state.phase, state.exit_code), state.why


def running_job(server: ConnectServer) -> int:
    """The number of the one job that runs, by Spark's own pages."""
    with urllib.request.urlopen(f"{server.ui}/api/v1/applications", timeout=10) as answer:
        (application,) = json.load(answer)
    jobs = f"{server.ui}/api/v1/applications/{application['id']}/jobs?status=running"
    with urllib.request.urlopen(jobs, timeout=10) as answer:
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
from launcher.backends import spark
from launcher.spec import SparkSpec
remote, spool, target, way, mark = sys.argv[1:]
if way != "live":
    spark.addresses = lambda *_, **__: ("127.0.0.1", ("127.9.9.9",))
spec = SparkSpec(remote=remote, spool=spool if way == "spool" else "", lost_after_s=2.0)
job = Distributor(2, "connect", spark=spec, env={"RANKDECK_TEST_MARK": mark}).start(target, 100_000)
for event in job.events():
    print(event.tag, flush=True)
"""


@pytest.mark.parametrize("way", ["live", "spool"])
def test_ranks_do_not_outlive_a_client_that_is_killed(desk: Desk, way: str) -> None:
    words = [desk.server.url, str(desk.spool), target("tick"), way, desk.mark]
    client = subprocess.Popen(
        [sys.executable, "-c", KILLED, *words], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert client.stdout is not None
    with client.stdout:
        assert any("rank_entered" in line for line in client.stdout)
    os.kill(client.pid, signal.SIGKILL)
    client.wait()

    assert survivors.gone(desk.mark, within=30) == {}
    until(lambda: not desk.agents())  # they write to the spool to the last
    for left in desk.spool.iterdir():  # there is nobody who could have removed it
        subprocess.run(["rm", "-r", left], check=True)


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


@pytest.mark.netns
@pytest.mark.parametrize("spool", [True, False])
def test_executors_that_cannot_reach_a_laptop(
    walled: tuple[Cluster, ConnectServer], tmp_path: Path, home: Path, spool: bool
) -> None:
    run, chosen = run_inside(*walled, "127.0.0.1", tmp_path if spool else None)

    assert NOISE == paths.log_file(home / "runs" / run, 0, 3, paths.STDOUT).read_bytes()
    assert ("spool" if spool else "carried") in chosen
    assert "10.77.0.1" in chosen
    assert [] == [p for p in tmp_path.iterdir() if p.name.startswith("rankdeck")]


@pytest.mark.netns
def test_a_firewall_in_the_way_of_one_executor(
    walled: tuple[Cluster, ConnectServer], tmp_path: Path, home: Path
) -> None:
    """Its packets vanish; the other executor's agents have joined by then, and have to leave again."""
    cluster, server = walled
    for words in ("addr add 10.77.0.99/24 dev eth0", "rule add from 10.77.0.99 to 10.77.0.12 blackhole"):
        assert 0 == cluster.run_in(-1, ["ip", *words.split()]).returncode
    run, chosen = run_inside(cluster, server, "10.77.0.99", tmp_path)

    assert NOISE == paths.log_file(home / "runs" / run, 0, 3, paths.STDOUT).read_bytes()
    assert "spool" in chosen
    assert "2 of 4 agents, such as that on 10.77.0.12" in chosen
    assert "no answer within" in chosen
