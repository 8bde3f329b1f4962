"""Slots: what is said of them, what Spark says of them, and tasks that ask for their own GPUs."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from launcher.backends.spark import executors, slots
from launcher.backends.spark.executors import look
from launcher.backends.spark.records import SessionRecord
from launcher.backends.spark.session import Session, open_session
from launcher.backends.spark.slots import (
    Capacity,
    ExecutorShape,
    HeldSlots,
    Outlook,
    SlotNeed,
    WorkerNode,
    beside,
    capacity_of,
    profile_for,
)
from launcher.errors import CannotPlace
from launcher.runs.paths import CHECK_PREFIX
from launcher.spec.job import JobSpec, SparkSpec, Target, TargetKind
from launcher.spec.modes import Mode
from tests.commands import until
from tests.spark_cluster import Cluster, ConnectServer

READY_S = 60.0


# ---- rules


@pytest.mark.parametrize(
    ("need", "cores", "gpus", "slots"),
    [
        (SlotNeed(1), 4, 0, 4),
        (SlotNeed(1, cpus=3), 8, 0, 2),
        (SlotNeed(1, gpus=1), 8, 2, 2),
        (SlotNeed(1, gpus=2), 8, 3, 1),
        (SlotNeed(1, gpus=1), 8, 0, 0),
        (SlotNeed(1, cpus=4, gpus=1), 4, 8, 1),
    ],
)
def test_how_many_tasks_so_much_room_holds(need: SlotNeed, cores: int, gpus: int, slots: int) -> None:
    assert need.fits(cores, gpus) == slots


def executor(cores: int = 2, free: int = 2, gpus: int = 0, gpus_free: int | None = None) -> HeldSlots:
    return HeldSlots("0", "host", cores, free, gpus, gpus if gpus_free is None else gpus_free)


@pytest.mark.parametrize(
    ("jobs", "said"),
    [
        ((), "2 of them up and 2 starting"),
        (("job 3 (sum)",), "2 busy with job 3 (sum)"),
    ],
)
def test_an_executor_that_has_just_registered_is_starting_and_not_in_use(
    monkeypatch: pytest.MonkeyPatch, jobs: tuple[str, ...], said: str
) -> None:
    """It has no free cores at first, as one has whose tasks take them all."""
    session = cast(
        "Session", SimpleNamespace(remote="", local=False, limit=None, conf=lambda _, default="": default)
    )
    worker = WorkerNode(cores=2, cores_free=0, memory=4096, memory_free=3072)
    monkeypatch.setattr(executors, "executors", lambda _: (executor(), executor(free=0)))
    monkeypatch.setattr(executors, "own_jobs", lambda _: jobs)
    monkeypatch.setattr(executors, "_master", lambda _: ("http://m", {"workers": ()}))
    monkeypatch.setattr(executors, "worker_nodes", lambda _: (worker, worker))
    capacity = look(session, SlotNeed(4))

    assert said in capacity.sentence(4)
    assert 4 == capacity.possible


def test_who_is_busy_is_said_with_what_is_needed() -> None:
    held = [executor(2, 2, 2), executor(2, 2, 2), executor(2, 0, 2, 0)]
    capacity = capacity_of(SlotNeed(8, gpus=1), held, [], ExecutorShape(2, 0, 2), [("application X", 2)])
    assert capacity.sentence(8) == ("needs 8 GPU slots at once; the cluster has 6, 2 busy with application X")
    assert capacity.outlook(8) is Outlook.NEVER
    assert capacity.outlook(6) is Outlook.WAITS
    assert capacity.outlook(4) is Outlook.FITS


def test_executors_that_still_register_are_waited_for() -> None:
    rooms = [WorkerNode(4, 4, 8192, 8192), WorkerNode(4, 4, 8192, 8192)]
    capacity = capacity_of(SlotNeed(8), [], rooms, ExecutorShape(cores=2, memory=1024))
    assert (capacity.total, capacity.free, capacity.possible) == (0, 0, 8)
    assert capacity.outlook(8) is Outlook.WAITS
    assert "0 of them up and 8 starting" in capacity.sentence(8)
    assert capacity.outlook(9) is Outlook.NEVER


def test_an_executor_that_registered_and_is_not_up_yet_has_nothing_free() -> None:
    capacity = capacity_of(SlotNeed(2), [executor(2, 0)], [WorkerNode(2, 0)], ExecutorShape(2))
    assert capacity.outlook(2) is Outlook.WAITS


def test_memory_and_gpus_bound_the_executors_of_a_worker() -> None:
    room = WorkerNode(8, 8, 4096, 4096, 4, 4)
    assert capacity_of(SlotNeed(1), [], [room], ExecutorShape(2, 2048)).possible == 4
    assert capacity_of(SlotNeed(1, gpus=1), [], [room], ExecutorShape(2, 512, 1)).possible == 4
    assert capacity_of(SlotNeed(1, gpus=2), [], [room], ExecutorShape(2, 512, 2)).possible == 2
    assert capacity_of(SlotNeed(1), [], [WorkerNode(8, 8, 4096, 4096)], ExecutorShape()).possible == 8


def test_a_cap_on_cores_is_named() -> None:
    capacity = capacity_of(SlotNeed(8), [], [WorkerNode(16, 16)], ExecutorShape(cores=2, most=4))
    assert capacity.possible == 4
    assert capacity.outlook(8) is Outlook.NEVER
    assert "spark.cores.max=4" in capacity.sentence(8)


def test_a_limit_of_ours_says_nothing_about_the_cluster() -> None:
    shape = ExecutorShape(most=2, ours=True)
    rooms = [WorkerNode(4, 3), WorkerNode(4, 3)]
    capacity = capacity_of(SlotNeed(2), [executor(1, 1)], rooms, shape)
    assert (capacity.possible, capacity.coming, capacity.explanation, capacity.outgrown) == (8, 1, "", False)
    assert capacity_of(SlotNeed(9), [], rooms, ExecutorShape(most=9, ours=True)).outlook(9) is Outlook.NEVER


@pytest.mark.parametrize(
    ("need", "shape", "outgrown"),
    [
        (SlotNeed(2, cpus=2), ExecutorShape(most=2, ours=True), True),  # one core here, one there
        (SlotNeed(2), ExecutorShape(most=2, ours=True), False),
        (SlotNeed(2, cpus=2), ExecutorShape(most=3, ours=True), False),  # more are to come
        (SlotNeed(2, cpus=2), ExecutorShape(most=2), False),  # the user's own limit
    ],
)
def test_an_application_that_has_all_it_may_and_too_few_slots_is_outgrown(
    need: SlotNeed, shape: ExecutorShape, outgrown: bool
) -> None:
    held = [executor(1, 1), executor(1, 1)]
    assert capacity_of(need, held, [WorkerNode(4, 3), WorkerNode(4, 3)], shape).outgrown == outgrown


APP = {"id": "app-1", "name": "etl", "cores": 2, "user": "ann"}


def test_whoever_holds_slots_is_named_with_what_frees_them(monkeypatch: pytest.MonkeyPatch) -> None:
    def name(*runs: str, me: str = "ben") -> str:
        monkeypatch.setattr(executors, "_me", lambda: me)
        ours = {"app-1": SessionRecord("app-1", 1, runs)} if runs else {}
        return executors.holder_name(APP, ours, "http://m:8080")

    assert "application etl (app-1) of ann (ask ann, or http://m:8080 ends it)" == name()
    assert "application etl (app-1) of ann (http://m:8080 ends it)" == name(me="ann")
    assert "your own run r (`rankdeck stop r` ends it)" == name("r")
    assert "your own run r and 2 more (`rankdeck stop r` ends it)" == name("r", "s", "t")


def test_a_check_is_not_named_as_a_run_that_could_be_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    check = f"{CHECK_PREFIX}x7"

    def name(*runs: str) -> str:
        return executors.holder_name(APP, {"app-1": SessionRecord("app-1", 1, runs)}, "http://m:8080")

    assert "your own run r (`rankdeck stop r` ends it)" == name(check, "r")
    assert "your own run r and 1 more (`rankdeck stop r` ends it)" == name("r", check, "s")
    assert "a check by `rankdeck doctor` (it ends by itself)" == name(check)

    sentence = beside(Capacity(4, 4, 4), {check: 1, "r": 2}).sentence(4)
    assert "1 busy with a check by `rankdeck doctor` (it ends by itself)" in sentence
    assert "2 busy with run r (`rankdeck stop r` ends it)" in sentence
    assert check not in sentence


def test_executors_without_enough_gpus_are_named() -> None:
    capacity = capacity_of(SlotNeed(2, gpus=2), [], [WorkerNode(8, 8, 0, 0, 8, 8)], ExecutorShape(4, gpus=1))
    assert capacity.outlook(2) is Outlook.NEVER
    assert "spark.executor.resource.gpu.amount is 1" in capacity.sentence(2)


@pytest.mark.parametrize(
    ("shape", "said", "cure"),
    [
        (ExecutorShape(gpus=9), "resource.gpu.amount=9, and no worker has more than 2", "amount=2 would"),
        (ExecutorShape(cores=7), "cores=7, and no worker has more than 4", "cores=4 would"),
        (ExecutorShape(memory=9000), "memory=9000m, and no worker has more than 2048m", "2048m would"),
    ],
)
def test_executors_that_no_worker_can_hold_are_named(shape: ExecutorShape, said: str, cure: str) -> None:
    rooms = [WorkerNode(4, 4, 2048, 2048, 2, 2), WorkerNode(2, 2, 1024, 1024, 1, 1)]
    capacity = capacity_of(SlotNeed(2), [], rooms, shape)
    assert capacity.outlook(1) is Outlook.NEVER
    assert capacity.sentence(2).startswith("needs 2 slots at once; the cluster has none: spark.executor.")
    assert capacity.sentence(2).endswith(said)
    assert cure in capacity.cure


def test_workers_without_gpus_and_no_workers_are_told() -> None:
    bare = capacity_of(SlotNeed(1), [], [WorkerNode(4, 4)], ExecutorShape(gpus=1))
    assert "spark.executor.resource.gpu.amount=1, and no worker has any" in bare.sentence(1)
    assert "spark.worker.resource.gpu.amount" in bare.cure
    empty = capacity_of(SlotNeed(1), [], [], ExecutorShape())
    assert "no worker has registered" in empty.sentence(1)


def test_ones_own_idle_session_is_named_with_how_to_end_it() -> None:
    rooms = [WorkerNode(4, 0), WorkerNode(2, 0)]
    capacity = capacity_of(SlotNeed(4), [], rooms, ExecutorShape(), [("application X (a)", 2)], [(4711, 4)])
    idle = "4 held by your own idle session, which lets go within 2 s (`rankdeck engine stop --pid 4711` ends"
    idle += " it)"
    held = f"2 busy with application X (a), {idle}"
    assert capacity.sentence(4).endswith(held)
    assert "engine stop" not in capacity.sentence(9)  # it would be of no use
    assert capacity.sentence(9, least=4).endswith(held)
    two = capacity_of(SlotNeed(2, cpus=2), [], rooms, ExecutorShape(), (), [(4711, 4), (4712, 0)])
    assert two.idle == ((4711, 2),)


def test_what_is_not_known_is_said_to_be_unknown() -> None:
    capacity = Capacity(explanation="nobody answers")
    assert capacity.outlook(2) is Outlook.UNKNOWN
    assert (
        capacity.sentence(2) == "needs 2 slots at once; how many there are is not known here: nobody answers"
    )
    lone = capacity_of(SlotNeed(8), [executor()], None, ExecutorShape())
    assert lone.outlook(8) is Outlook.WAITS
    assert lone.outlook(1) is Outlook.FITS


@pytest.mark.parametrize(
    ("text", "size"), [("512m", 512), ("2g", 2048), ("2GB", 2048), ("1024k", 1), ("300", 300), ("?", 0)]
)
def test_sizes_in_sparks_words(text: str, size: int) -> None:
    assert executors.mebibytes(text) == size


# ---- real sessions


@contextmanager
def session_on(tmp_path: Path, spec: SparkSpec, slots: int = 4) -> Iterator[Session]:
    made = open_session(
        spec,
        session=None,
        environ=dict(os.environ),
        log=tmp_path / "spark.log",
        app_name="slots",
        slots=slots,
        server=bool(spec.remote),
    )
    try:
        yield made
    finally:
        made.close()


def job(processes: int, **more: Any) -> JobSpec:
    return JobSpec(Target(TargetKind.SCRIPT, "train.py"), num_processes=processes, mode=Mode.CLUSTER, **more)


def granted(session: Session, need: SlotNeed) -> list[list[str]]:
    """The GPUs of each task of a barrier stage that runs with the profile of a need."""

    def ask(_: Any) -> list[list[str]]:
        from pyspark import BarrierTaskContext

        resources = BarrierTaskContext.get().resources()
        return [sorted(resources["gpu"].addresses) if "gpu" in resources else []]

    def ask_by_arrow(batches: Any) -> Any:
        import pyarrow as pa

        for _ in batches:
            pass
        yield pa.RecordBatch.from_pydict({"gpus": [",".join(ask(None)[0])]})

    profile = profile_for(session, need)
    if session.remote:
        rows = session.spark.range(0, need.tasks, 1, need.tasks)
        more = {} if profile is None else {"profile": profile}
        answers = rows.mapInArrow(ask_by_arrow, "gpus string", barrier=True, **more).collect()
        return [row.gpus.split(",") if row.gpus else [] for row in answers]
    rdd = session.context.parallelize(range(need.tasks), need.tasks)
    if profile is not None:
        rdd = rdd.withResources(profile)
    found: list[list[str]] = rdd.barrier().mapPartitions(ask).collect()
    return found


@pytest.mark.spark
@pytest.mark.parametrize(
    ("executor_gpus", "task_gpus"),
    [(2, "1"), (2, "0.25"), (2, ""), (1, "1")],
    ids=["whole", "fraction", "none", "few"],
)
def test_tasks_get_the_gpus_that_a_run_wants_whatever_the_session_grants(
    tmp_path: Path, cluster: Cluster, executor_gpus: int, task_gpus: str
) -> None:
    conf = cluster.conf(gpus=executor_gpus, task_gpus=task_gpus)
    with session_on(tmp_path, SparkSpec(master=cluster.url, conf=conf)) as session:
        assert slots.has_gpus(session) == (True, "")
        until(lambda: look(session, SlotNeed(1)).free == 4, within=READY_S)
        need = slots.need_of(session, job(4), gpu=False)
        assert granted(session, need) == [[], [], [], []]
        need = slots.need_of(session, job(2), gpu=True)
        assert [len(gpus) for gpus in granted(session, need)] == [1, 1]
        if executor_gpus == 2:
            need = slots.need_of(session, job(4), gpu=True)
            assert sorted(granted(session, need)) == [["0"], ["0"], ["1"], ["1"]]
            need = slots.need_of(session, job(2, gpus_per_rank=2), gpu=True)
            assert granted(session, need) == [["0", "1"], ["0", "1"]]
            need = slots.need_of(session, job(4, gpus_per_task=2), gpu=True)
            assert (need.tasks, granted(session, need)) == (2, [["0", "1"], ["0", "1"]])


@pytest.mark.spark
def test_a_capacity_grows_while_executors_register_and_shrinks_with_their_work(
    tmp_path: Path, cluster: Cluster
) -> None:
    conf = cluster.conf()
    with session_on(tmp_path, SparkSpec(master=cluster.url, conf=conf)) as session:
        early = look(session, SlotNeed(4))
        assert early.possible == 4
        assert early.outlook(4) is not Outlook.NEVER
        assert look(session, SlotNeed(5)).outlook(5) is Outlook.NEVER
        until(lambda: look(session, SlotNeed(4)).outlook(4) is Outlook.FITS, within=READY_S)

        def seconds(_: Any) -> list[int]:
            import time

            time.sleep(3)
            return []

        thread = threading.Thread(
            target=lambda: session.context.parallelize(range(3), 3).mapPartitions(seconds).collect()
        )
        thread.start()
        try:
            until(lambda: look(session, SlotNeed(4)).free == 1, within=READY_S)
            sentence = look(session, SlotNeed(4)).sentence(4)
        finally:
            thread.join()
        assert sentence.startswith("needs 4 slots at once; the cluster has 4, 3 busy with job 0")
        assert look(session, SlotNeed(2, gpus=2)).free == 2


@pytest.mark.spark
def test_another_application_is_named(tmp_path: Path, cluster: Cluster) -> None:
    with ConnectServer(cluster, cores=2) as server:
        until(lambda: len(cluster.executors()) == 1, within=READY_S)
        with session_on(tmp_path, SparkSpec(master=cluster.url, conf=cluster.conf())) as session:
            until(lambda: look(session, SlotNeed(1)).free == 2, within=READY_S)
            capacity = look(session, SlotNeed(4))
            assert capacity.outlook(4) is Outlook.WAITS
            assert "2 busy with application connect-server" in capacity.sentence(4)
            server.daemon.kill()
            until(lambda: look(session, SlotNeed(4)).outlook(4) is Outlook.FITS, within=READY_S)


@pytest.mark.spark
def test_an_embedded_spark_has_the_slots_it_was_made_with(tmp_path: Path, spark_here: None) -> None:
    with session_on(tmp_path, SparkSpec(), slots=3) as session:
        assert look(session, SlotNeed(3)).outlook(3) is Outlook.FITS
        assert look(session, SlotNeed(4)).outlook(4) is Outlook.NEVER
        assert look(session, SlotNeed(1, gpus=1)).outlook(1) is Outlook.NEVER
        has, why = slots.has_gpus(session)
        assert not has
        assert "--mode local" in why
        assert profile_for(session, SlotNeed(3)) is None


@pytest.mark.spark
def test_dynamic_allocation_is_refused_before_anything_is_submitted(tmp_path: Path, cluster: Cluster) -> None:
    dynamic = {slots.DYNAMIC: "true", "spark.dynamicAllocation.shuffleTracking.enabled": "true"}
    conf = cluster.conf(gpus=0) | dynamic
    with session_on(tmp_path, SparkSpec(master=cluster.url, conf=conf)) as session:
        with pytest.raises(CannotPlace, match=f"--conf {slots.DYNAMIC}=false"):
            slots.refuse_dynamic(session)
        has, why = slots.has_gpus(session)
        assert not has
        assert slots.EXECUTOR_GPUS in why


@pytest.mark.spark
def test_profiles_work_through_connect(tmp_path: Path, connect_server: ConnectServer) -> None:
    with session_on(tmp_path, SparkSpec(remote=connect_server.url)) as session:
        assert slots.has_gpus(session) == (True, "")
        assert sorted(granted(session, SlotNeed(4, gpus=1))) == [["0"], ["0"], ["1"], ["1"]]
        assert granted(session, SlotNeed(2, gpus=2)) == [["0", "1"], ["0", "1"]]
        assert granted(session, SlotNeed(4)) == [[], [], [], []]
        unknown = look(session, SlotNeed(2))
        assert unknown.outlook(2) is Outlook.UNKNOWN
        assert "not known" in unknown.sentence(2)


@pytest.mark.spark
def test_a_connect_servers_pages_are_asked_where_they_are_open(tmp_path: Path, cluster: Cluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
    with (
        ConnectServer(cluster, cores=2, conf={"spark.ui.port": str(port)}) as server,
        session_on(tmp_path, SparkSpec(remote=server.url)) as session,
    ):
        until(lambda: look(session, SlotNeed(2)).outlook(2) is Outlook.FITS, within=READY_S)
        assert look(session, SlotNeed(2, gpus=1)).total == 2
