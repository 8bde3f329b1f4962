"""Runs whose executors cannot reach the engine: everything but Spark itself is real."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from launcher import events as ev
from launcher.backends import muster, spark, standing, warm
from launcher.backends.field import _door
from launcher.backends.standing import PROGRAM
from launcher.backends.waiting import Slots
from launcher.channel.link import Link
from launcher.distributor import Distributor
from launcher.errors import CannotPlace, RankFailed, RunStopped, SpecError
from launcher.job import Job
from launcher.runs import paths
from launcher.runs.lines import LineIndex
from launcher.runs.reader import FactTail
from launcher.spec import SparkSpec
from tests import fake_stage, survivors
from tests.commands import Gate, until
from tests.fake_stage import FakeStage

pytestmark = pytest.mark.process

Launch = Callable[..., Job]


def session() -> Any:
    """As little of a session as the back end looks at."""
    return SimpleNamespace(
        remote=True, application="app", master="sc://nowhere", name="fake", version="4", ui="", notes=(),
        driver_host="127.0.0.1", bind_address="127.0.0.1", conf=lambda key, default="": default,
        close=lambda: None,
    )  # fmt: skip


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> FakeStage:
    """A stage in place of Spark's, whose tasks' scratch space is ``tmp_path/scratch``."""
    made = FakeStage()
    (tmp_path / "scratch").mkdir()
    (tmp_path / "spool").mkdir()
    monkeypatch.setenv("SPARK_EXECUTOR_DIRS", str(tmp_path / "scratch"))
    monkeypatch.setattr(spark, "run_stage", made.run)
    monkeypatch.setattr(spark, "cancel_stage", made.cancel)
    monkeypatch.setattr(warm, "open_session", lambda *_, **__: session())
    monkeypatch.setattr(spark, "find_active", lambda _: None)
    monkeypatch.setattr(
        spark, "await_slots", lambda s, spec, **_: Slots(spec.num_processes, None, find_gpus=False)
    )
    return made


@pytest.fixture
def launch(stage: FakeStage, tmp_path: Path, targets: Path, mark: str) -> Launch:
    """Starts a target of two ranks whose executors reach nobody at home."""
    stage.blind = (0, 1)

    def begin(target: Any, *, spool: bool = False, lost_after_s: float = 20.0, **options: Any) -> Job:
        spec = SparkSpec(spool=str(tmp_path / "spool") if spool else "", lost_after_s=lost_after_s)
        distributor = Distributor(2, "connect", workdir=targets, gpu=False, spark=spec, **options)
        return distributor.start(target)

    return begin


def told(job: Job, kind: type[ev.Event]) -> list[Any]:
    return [e for e in FactTail(job.folder).poll() if isinstance(e, kind)]


def ways(job: Job) -> list[str]:
    return [e.way for e in told(job, ev.DeliveryChosen)]


def raw(job: Job, rank: int, stream: int = paths.STDOUT, attempt: int = 0) -> bytes:
    return paths.log_file(job.folder, attempt, rank, stream).read_bytes()


def leftovers(tmp_path: Path, job: Job) -> list[str]:
    hidden = [p.name for p in job.folder.iterdir() if p.name.startswith(".")]
    return [*os.listdir(tmp_path / "scratch"), *os.listdir(tmp_path / "spool"), *hidden]


def writes(size: int) -> Any:
    def target() -> int:
        import os
        import random

        rank = int(os.environ["RANK"])
        noise = random.Random(rank)
        for _ in range(size // 1000):
            os.write(1, noise.randbytes(1000))
        os.write(2, b"\xff\x00 no newline")
        return rank * 10

    return target


def noise(rank: int, size: int) -> bytes:
    import random

    source = random.Random(rank)
    return b"".join(source.randbytes(1000) for _ in range(size // 1000))


def waits(gate: Path) -> Any:
    def target() -> None:
        import os

        os.write(1, b"ready\n")
        rank = os.environ["RANK"]
        with open(f"{gate}.{rank}", "rb"):
            os.write(1, b"done\n")

    return target


# --- the three ways ------------------------------------------------------------------------------------


def test_all_agents_that_come_are_served_live(launch: Launch, stage: FakeStage, tmp_path: Path) -> None:
    stage.blind = ()
    job = launch(writes(3000), spool=True)

    assert [0, 10] == job.results(timeout=60)
    assert ["live"] == ways(job)
    assert [] == leftovers(tmp_path, job)


@pytest.mark.parametrize(("spool", "way"), [(True, "spool"), (False, "carried")])
def test_what_ranks_wrote_and_returned_comes_home_to_the_byte(
    launch: Launch, tmp_path: Path, spool: bool, way: str
) -> None:
    job = launch(writes(3_000_000), spool=spool)

    assert [0, 10] == job.results(timeout=60)
    assert way == ways(job)[-1]
    assert [noise(0, 3_000_000), noise(1, 3_000_000)] == [raw(job, 0), raw(job, 1)]
    assert b"\xff\x00 no newline" == raw(job, 1, paths.STDERR)
    assert [] == leftovers(tmp_path, job)


@pytest.mark.parametrize("spool", [True, False])
def test_a_record_kept_elsewhere_reads_like_one_that_was_made_here(launch: Launch, spool: bool) -> None:
    job = launch(writes(1000), spool=spool)
    state = job.wait(60)

    assert ("succeeded", 0, 2) == (state.phase, state.exit_code, state.num_processes)
    assert 1 == len(told(job, ev.RunSubmitted))
    assert 1 == len(told(job, ev.RunEnded))
    assert all(told(job, kind) for kind in (ev.GangPlaced, ev.RankEntered, ev.CleanupProven))
    index = LineIndex(job.folder)
    while index.poll():
        pass
    assert b"\xff\x00 no newline" in {line.data for line in index.open_lines()}


def test_the_reason_names_who_could_not_reach_what(launch: Launch) -> None:
    job = launch(writes(1000))
    job.wait(60)

    reason = told(job, ev.DeliveryChosen)[-1].reason
    assert "2 of 2 agents" in reason
    assert "127.0.0.1:9 (Connection refused)" in reason
    assert "there is no spool folder" in reason


def test_a_spool_is_read_while_ranks_write(launch: Launch, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate", ranks=2)
    job = launch(waits(gate.path), spool=True)

    until(lambda: paths.log_file(job.folder, 0, 1, paths.STDOUT).exists() and raw(job, 1) == b"ready\n", 60)
    until(lambda: job.state.phase == "running")  # the record of it comes by another file
    gate.open()
    assert [None, None] == job.results(timeout=60)
    assert b"ready\ndone\n" == raw(job, 0)


def test_one_agent_without_a_way_home_takes_the_others_afield(
    launch: Launch, stage: FakeStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(muster, "REGROUP_S", 0.5)
    stage.blind = (1,)
    job = launch(writes(1000), spool=True)

    assert [0, 10] == job.results(timeout=60)
    assert ["spool"] == ways(job)
    assert "1 of 2 agents" in told(job, ev.DeliveryChosen)[0].reason


def test_agents_that_wait_for_others_are_not_taken_for_dead(
    launch: Launch, stage: FakeStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(muster, "REGROUP_S", 2.5)
    stage.blind = (1,)
    job = launch(writes(1000), spool=True, lost_after_s=0.8)

    assert [0, 10] == job.results(timeout=60)
    assert ["spool"] == ways(job)


def test_a_folder_of_the_same_name_elsewhere_is_not_taken_for_shared(
    launch: Launch, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made: Any = standing.stand

    def mistaken(*words: Any) -> Any:
        *others, (folder, _), conf = words
        return made(*others, (folder, "another"), conf)

    monkeypatch.setattr(spark, "stand", mistaken)
    job = launch(writes(1000), spool=True)

    assert [0, 10] == job.results(timeout=60)
    assert "carried" == ways(job)[-1]
    assert "is another folder there" in told(job, ev.DeliveryChosen)[-1].reason
    assert [] == leftovers(tmp_path, job)


@pytest.mark.parametrize("spool", ["/nowhere/at/all", "relative", __file__])
def test_a_spool_folder_that_cannot_be_one_is_refused_at_once(
    launch: Launch, stage: FakeStage, spool: str, tmp_path: Path, home: Path
) -> None:
    distributor = Distributor(2, "connect", spark=SparkSpec(spool=spool))
    with pytest.raises(SpecError, match="spool folder"):
        distributor.start(writes(1000))
    assert not (home / "runs").exists()


# --- what goes wrong -----------------------------------------------------------------------------------


@pytest.mark.parametrize("spool", [True, False])
def test_a_failing_ranks_traceback_comes_home(launch: Launch, tmp_path: Path, spool: bool) -> None:
    def fails() -> None:
        raise ValueError("this is wrong")

    job = launch(fails, spool=spool)
    with pytest.raises(RankFailed, match="this is wrong") as failure:
        job.result(timeout=60)

    assert 1 == failure.value.exit_code
    assert 'raise ValueError("this is wrong")' in str(failure.value)
    assert [] == leftovers(tmp_path, job)


def test_the_time_limit_holds_afield(launch: Launch, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate", ranks=2)
    state = launch(waits(gate.path), timeout_s=4.0).wait(60)
    assert (124, "failed") == (state.exit_code, state.phase)


@pytest.mark.parametrize("spool", [True, False])
def test_a_gang_that_hangs_afield_is_found_there(launch: Launch, tmp_path: Path, spool: bool) -> None:
    gate = Gate(tmp_path / "gate", ranks=2)
    job = launch(waits(gate.path), spool=spool, no_progress_timeout_s=3.0)
    state = job.wait(60)

    assert (125, "failed") == (state.exit_code, state.phase)
    assert [0, 1] == [taken.rank for taken in state.stacks]
    assert all("in target" in taken.text for taken in state.stacks), state.stacks
    assert [] == leftovers(tmp_path, job)


@pytest.mark.parametrize("spool", [True, False])
def test_a_gang_is_started_again_in_place(launch: Launch, tmp_path: Path, spool: bool) -> None:
    once = tmp_path / "once"

    def fails_once() -> str:
        import os

        os.write(1, f"attempt {os.environ['TORCHELASTIC_RESTART_COUNT']}\n".encode())
        if os.environ["RANK"] == "0" and not once.exists():
            once.touch()
            raise ValueError("the first time")
        return os.environ["TORCHELASTIC_RESTART_COUNT"]

    job = launch(fails_once, spool=spool, max_restarts=2)

    assert ["1", "1"] == job.results(timeout=60)
    assert [b"attempt 0\n", b"attempt 1\n"] == [raw(job, 0, attempt=a) for a in (0, 1)]
    assert [(1, True)] == [(e.attempt, e.in_place) for e in told(job, ev.GangRestarted)]


def test_a_lost_executor_is_the_home_engines_affair(launch: Launch, stage: FakeStage, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate", ranks=2)
    job = launch(waits(gate.path), spool=True)
    until(lambda: job.state.phase == "running", 60)
    stage.kill(1)
    state = job.wait(60)

    assert (75, "lost") == (state.exit_code, state.phase)
    assert "executor 1" in state.why
    until(lambda: leftovers(tmp_path, job) == [])


def test_a_lost_executor_of_a_carried_run_is_a_loss_too(
    launch: Launch, stage: FakeStage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mark: str
) -> None:
    monkeypatch.setattr("launcher.backends.delivery.MARGIN_S", -9.0)
    gate = Gate(tmp_path / "gate", ranks=2)
    job = launch(waits(gate.path))
    until(lambda: job.state.delivery is not None and len(stage.tasks) == 2, 60)
    stage.kill(0)
    state = job.wait(60)

    assert (75, "lost") == (state.exit_code, state.phase)
    assert "executor 0" in state.why
    until(lambda: leftovers(tmp_path, job) == [])


def test_a_job_that_is_cancelled_in_spark_is_told_so(
    launch: Launch, stage: FakeStage, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("launcher.backends.delivery.MARGIN_S", -9.0)
    gate = Gate(tmp_path / "gate", ranks=2)
    job = launch(waits(gate.path))
    until(lambda: job.state.delivery is not None and len(stage.tasks) == 2, 60)
    stage.cancel(None, "")
    state = job.wait(60)

    assert (143, "stopped") == (state.exit_code, state.phase), state.why


def test_after_a_loss_a_new_stage_goes_on(launch: Launch, stage: FakeStage, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate", ranks=2)
    job = launch(waits(gate.path), spool=True, max_restarts=1)
    until(lambda: job.state.phase == "running", 60)
    stage.kill(0)
    until(lambda: job.state.attempt == 1 and job.state.phase == "running", 60)
    gate.open()
    state = job.wait(60)

    assert ("succeeded", 1, 2) == (state.phase, state.attempt, stage.stages)
    assert b"ready\ndone\n" == raw(job, 1, attempt=1)
    assert [(1, False)] == [(e.attempt, e.in_place) for e in told(job, ev.GangRestarted)]
    until(lambda: leftovers(tmp_path, job) == [])


def test_agents_that_have_nowhere_to_go_say_so(
    launch: Launch, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(spark, "stand", lambda *_: b"")  # too large to be sent along
    job = launch(writes(1000))
    with pytest.raises(CannotPlace, match=r"cannot reach the engine at 127\.0\.0\.1:9"):
        job.result(timeout=60)


# --- stopping ------------------------------------------------------------------------------------------


def test_a_stop_reaches_a_run_by_its_spool(launch: Launch, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate", ranks=2)
    job = launch(waits(gate.path), spool=True, grace_s=5.0)
    until(lambda: job.state.phase == "running", 60)
    job.stop(reason="enough", exit_code=130)
    with pytest.raises(RunStopped, match="enough") as stopped:
        job.result(timeout=60)

    assert 130 == stopped.value.exit_code
    assert ["SIGTERM", "SIGTERM"] == [r.signal for r in job.state.ranks]
    assert [] == leftovers(tmp_path, job)


def test_a_stop_of_what_cannot_be_reached_cancels_the_stage(
    launch: Launch, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mark: str
) -> None:
    monkeypatch.setattr("launcher.backends.delivery.MARGIN_S", -9.0)
    gate = Gate(tmp_path / "gate", ranks=2)
    job = launch(waits(gate.path))
    until(lambda: ways(job) == ["carried"], 60)
    until(lambda: len([p for p in survivors.alive(mark).values() if "launcher.worker" in p]) >= 2, 60)
    job.stop()
    state = job.wait(60)

    assert (143, "stopped") == (state.exit_code, state.phase)
    assert any("kept on an executor" in note.text for note in state.notes)
    until(lambda: leftovers(tmp_path, job) == [])


def test_a_stop_while_some_wait_for_others_does_not_cancel(
    launch: Launch, stage: FakeStage, monkeypatch: pytest.MonkeyPatch
) -> None:
    cancelled: list[str] = []
    monkeypatch.setattr(spark, "cancel_stage", lambda _, tag: cancelled.append(tag))
    stage.blind = (1,)
    came: list[int] = []
    admit = muster.Muster.admit

    def admitted(self: muster.Muster, link: Link) -> None:
        came.append(link.agent)
        admit(self, link)

    monkeypatch.setattr(muster.Muster, "admit", admitted)
    job = launch(writes(1000))
    until(lambda: came == [0], 60)
    job.stop()
    state = job.wait(60)

    assert (143, "stopped") == (state.exit_code, state.phase)
    assert [] == cancelled


def test_agents_that_are_still_dialling_end_with_their_tasks(
    launch: Launch, stage: FakeStage, monkeypatch: pytest.MonkeyPatch, mark: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # it accepts, and says nothing
        monkeypatch.setitem(fake_stage.NOBODY, "port", silent.getsockname()[1])
        job = launch(writes(1000))
        until(lambda: len([p for p in survivors.alive(mark).values() if PROGRAM in p]) >= 4, 60)
        began = time.monotonic()
        job.stop()
        state = job.wait(60)
        assert survivors.gone(mark, within=20) == {}
        assert time.monotonic() - began < 5  # a dial takes 10 s

    assert (143, "stopped") == (state.exit_code, state.phase)


@pytest.mark.parametrize(
    ("found", "bind", "told"),
    [
        ([], "127.0.0.1", ("127.0.0.1",)),
        (["10.0.0.5"], "10.0.0.5", ("10.0.0.5",)),
        (["10.0.0.5", "172.17.0.1"], "0.0.0.0", ("10.0.0.5", "172.17.0.1")),
        (["10.0.0.5", "fd00::5"], "0.0.0.0", ("10.0.0.5",)),
        (["fd00::5", "fd00::6"], "::", ("fd00::5", "fd00::6")),
    ],
)
def test_a_field_engine_opens_no_more_doors_than_it_must(
    monkeypatch: pytest.MonkeyPatch, found: list[str], bind: str, told: tuple[str, ...]
) -> None:
    there = [("eth", a) for a in found] + [("lo", "127.0.0.1")]
    monkeypatch.setattr("launcher.worker.network.addresses", lambda: there)
    assert (bind, told) == _door()


CLIENT = """
import sys
from pathlib import Path
import pytest
from tests.launcher import test_field as t
from tests.fake_stage import FakeStage
from launcher.backends import spark, warm
from launcher.backends.waiting import Slots
stage = FakeStage(blind=(0, 1))
spark.run_stage, spark.cancel_stage, spark.find_active = stage.run, stage.cancel, lambda _: None
warm.open_session = lambda *_, **__: t.session()
spark.await_slots = lambda s, spec, **_: Slots(2, None, find_gpus=False)
spec = t.SparkSpec(spool=sys.argv[1], lost_after_s=1.0)
job = t.Distributor(2, "connect", gpu=False, spark=spec).start("waiting.py", "idle")
t.until(lambda: job.state.phase == "running", 60)
print([p.pid for p in stage.tasks], flush=True)
job.wait()
"""


def test_ranks_do_not_outlive_a_home_that_was_killed(
    stage: FakeStage, tmp_path: Path, targets: Path, mark: str
) -> None:
    """Its Spark tasks live on, as those of a dead Connect client do."""
    program = subprocess.Popen(
        [sys.executable, "-c", CLIENT, str(tmp_path / "spool")],
        stdout=subprocess.PIPE,
        cwd=targets,
        env={**os.environ, "PYTHONPATH": str(targets.parent.parent)},
        start_new_session=True,
    )
    assert program.stdout is not None
    with program.stdout:
        assert program.stdout.readline().startswith(b"[")
        program.send_signal(signal.SIGKILL)
    program.wait()

    assert {} == survivors.gone(mark, within=30)
    assert 1 == len(os.listdir(tmp_path / "spool"))
