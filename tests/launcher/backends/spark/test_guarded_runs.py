"""Runs in a session that refuses everything but pyspark's public interface, as on managed Spark."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from launcher.backends.spark import executors, internals
from launcher.backends.spark import session as spark_session
from launcher.backends.spark.session import Session, find_active, open_session
from launcher.backends.spark.slots import SlotNeed, has_gpus
from launcher.distributor import Distributor
from launcher.errors import CannotPlace, RankFailed, SpecError
from launcher.job import Job
from launcher.runs import paths
from launcher.spec.job import SparkSpec
from launcher.state import events as ev
from launcher.state.run_state import Phase
from tests import survivors
from tests.commands import until
from tests.guarded_gateway import GuardedGateway
from tests.spark_cluster import Cluster, ConnectServer
from tests.spark_runs import Bench, facts, working

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

TARGETS = Path(__file__).parents[3] / "targets" / "cluster.py"
PUBLIC = ("getConf", "applicationId", "version", "uiWebUrl", "statusTracker", "defaultParallelism", "conf")


@pytest.fixture
def gateway(session: Any, monkeypatch: pytest.MonkeyPatch) -> GuardedGateway:
    made = GuardedGateway()
    made.install(monkeypatch)
    monkeypatch.setattr(spark_session, "_adopted", [])  # what it told before it was guarded
    return made


@pytest.fixture
def bench(cluster: Cluster, session: Any, gateway: GuardedGateway, home: Path) -> Iterator[Bench]:
    made = Bench(cluster, session)
    yield made
    made.nothing_left()
    assert gateway.refused, "nothing was refused: this was no guarded session"
    if not gateway.closed:
        assert {"internals.py"} == askers(gateway)


@contextmanager
def opened(server: ConnectServer) -> Iterator[Any]:
    """A Connect session of the caller's own, which is this process's default."""
    from pyspark.sql.connect.session import SparkSession

    session = SparkSession(connection=server.url)
    SparkSession._set_default_and_active_session(session)
    try:
        yield session
    finally:
        session.stop()


def askers(gateway: GuardedGateway) -> set[str]:
    """The modules whose questions were refused."""
    return {place.partition(":")[0] for place in gateway.refused}


def target(name: str) -> str:
    return f"{TARGETS}:{name}"


def adopt(spark: Any, tmp_path: Path, **spec: Any) -> Session:
    return open_session(
        SparkSpec(**spec),
        session=spark,
        environ={},
        log=tmp_path / "spark.log",
        app_name="guarded",
        slots=2,
        server=False,
    )


def notes(job: Job) -> str:
    return "\n".join(note.text for note in facts(job, ev.NoteMade))


def test_a_session_of_our_own_runs_and_is_gone_after(
    spark_here: None, home: Path, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its JVM is ours, and yet nobody needs more of it than pyspark's public interface."""
    gateway = GuardedGateway()
    gateway.install(monkeypatch)
    conf = {"spark.executor.memory": "512m", "spark.ui.port": "0"}
    spark = SparkSpec(master="local-cluster[2,1,512]", conf=conf)
    job = Distributor(2, "cluster", spark=spark, gpu=False).start(target("tick"), 5, 0.0)

    assert [5, 5] == job.results(timeout=120)
    assert Phase.SUCCEEDED is job.wait(60).phase
    assert None is find_active()
    until(lambda: not [line for line in survivors.alive(mark).values() if "java" in line], within=30)
    assert {"internals.py"} == askers(gateway)


def test_the_gateway_refuses_what_pyspark_itself_does_not_ask(session: Any, gateway: GuardedGateway) -> None:
    context = session.sparkContext

    assert context.applicationId
    assert 10 == session.range(10).count()
    assert [] == gateway.refused
    assert None is internals.executors(context)
    assert None is internals.running_tasks(context)
    assert None is internals.job_group(context, 0)
    assert None is internals.master_page_port(context, "127.0.0.1", 7077)
    assert 4 == len(gateway.refused)


def test_a_run_streams_and_ends_with_its_results(bench: Bench) -> None:
    job = bench.distributor(spark=bench.session, gpu=True).start(target("tick"), 20, 0.0)
    values = job.results(timeout=120)
    (ready,) = facts(job, ev.SparkReady)

    assert [20] * 4 == values
    assert Phase.SUCCEEDED is job.state.phase
    assert bench.session.sparkContext.applicationId == ready.application
    written = "".join(f"{number}\n" for number in range(20)).encode()
    for rank in range(4):
        assert written == paths.log_file(job.folder, 0, rank, paths.STDOUT).read_bytes()


def test_the_active_session_is_found_and_its_gpus_are_assigned(bench: Bench) -> None:
    job = bench.distributor(2, gpus_per_rank=2).start(target("places"))
    seen = job.results(timeout=120)

    assert [{"0", "1"}] * 2 == [set(value["CUDA_VISIBLE_DEVICES"].split(",")) for value in seen]


def test_slots_are_known_from_the_pages_of_the_session(bench: Bench, tmp_path: Path) -> None:
    made = adopt(bench.session, tmp_path)
    until(lambda: executors.look(made, SlotNeed(1)).free == 4, within=60)
    capacity = executors.look(made, SlotNeed(2, cpus=1, gpus=2))

    assert (2, 2, None) == (capacity.total, capacity.free, capacity.possible)


def test_a_run_waits_for_the_callers_own_job_and_names_it(bench: Bench, tmp_path: Path) -> None:
    """Spark's pages show a task up to 10 s late."""
    made = adopt(bench.session, tmp_path)
    until(lambda: executors.look(made, SlotNeed(1)).free == 4, within=60)
    gate, context = tmp_path / "gate", bench.session.sparkContext

    def held(_: object) -> int:
        while not gate.exists():
            time.sleep(0.05)
        return 1

    def work() -> int:
        return int(context.parallelize(range(4), 4).map(held).sum())

    with ThreadPoolExecutor(1) as pool, ExitStack() as stack:
        stack.callback(gate.touch)
        busy = pool.submit(work)
        until(lambda: executors.own_jobs(made) != ())
        job = bench.distributor(2, spark=bench.session).start(target("places"))
        until(lambda: job.state.waiting is not None)
        reason = job.state.waiting.reason if job.state.waiting else ""
    assert 4 == busy.result()
    assert 2 == len(job.results(timeout=120))

    assert "4 busy with job " in reason
    assert facts(job, ev.StageSubmitted)[0].time > facts(job, ev.SlotsAwaited)[0].time


def test_the_active_session_is_found_where_pyspark_hides_the_context(
    session: Any, gateway: GuardedGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(internals, "active_context", lambda: None)

    assert session.sparkContext is find_active().sparkContext
    assert [] == gateway.refused


def test_a_rank_that_raises(bench: Bench) -> None:
    job = bench.distributor(spark=bench.session).start(target("fail"))
    with pytest.raises(RankFailed, match="bad luck in attempt 0") as caught:
        job.result(timeout=120)

    assert (1, 1) == (caught.value.rank, caught.value.exit_code)
    assert f'File "{TARGETS}", line' in (caught.value.traceback or "")
    assert Phase.FAILED is job.state.phase


def test_a_rank_that_exits_with_7(bench: Bench) -> None:
    state = bench.distributor(spark=bench.session).start(target("fail"), how="exit").wait(120)

    assert (Phase.FAILED, 7, 1) == (state.phase, state.exit_code, state.blamed)


@pytest.mark.parametrize("force", [False, True])
def test_a_stop_leaves_nothing_and_frees_the_slots(bench: Bench, force: bool) -> None:
    job = bench.distributor(spark=bench.session).start(target("tick"), 100_000)
    working(job, 4)
    job.stop(force=force)
    state = job.wait(120)
    following = bench.distributor(spark=bench.session).start(target("places"))

    assert (Phase.STOPPED, 143) == (state.phase, state.exit_code)
    assert 4 == len(following.results(timeout=120))


def test_a_stop_while_it_waits_for_slots(bench: Bench) -> None:
    """More tasks than the session's executors hold: whether more could come is unknown here."""
    job = bench.distributor(8, spark=bench.session).start(target("places"))
    until(lambda: job.state.waiting is not None, within=60)
    job.stop()

    assert (Phase.STOPPED, 143) == (job.wait(60).phase, job.state.exit_code)
    assert not facts(job, ev.StageSubmitted)


def test_a_session_that_tells_nothing_of_itself_runs_and_says_what_is_unknown(
    bench: Bench, gateway: GuardedGateway, tmp_path: Path
) -> None:
    gateway.closed = PUBLIC
    job = bench.distributor(2, spark=bench.session, gpu=False).start(target("tick"), 3, 0.0)
    values = job.results(timeout=120)
    (ready,) = facts(job, ev.SparkReady)
    made = adopt(bench.session, tmp_path)

    assert [3, 3] == values
    assert ("", "") == (ready.application, ready.ui)
    assert "how many there are is not known here" in notes(job)
    assert "keeps its settings to itself" in notes(job)
    assert "unknown" in has_gpus(made)[1]
    assert {"internals.py", "guarded.py", "session.py", "executors.py"} >= askers(gateway)
    with pytest.raises(SpecError, match=r"does not tell its spark\.task\.cpus"):
        adopt(bench.session, tmp_path, conf={"spark.task.cpus": "2"})


def test_a_session_that_refuses_its_context_names_the_way_that_works(
    session: Any, gateway: GuardedGateway, tmp_path: Path
) -> None:
    gateway.closed = ("sparkContext",)
    with pytest.raises(SpecError, match="keeps its SparkContext to itself") as caught:
        adopt(session, tmp_path)

    assert "--mode connect" in (caught.value.hint or "")


@pytest.mark.parametrize("given", [True, False])
def test_a_connect_session_that_hides_its_client(
    connect_server: ConnectServer, home: Path, given: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a managed notebook has one: the address of its server is unknown, too."""
    gateway = GuardedGateway()
    with opened(connect_server) as spark:
        gateway.install_remote(monkeypatch)
        distributor = Distributor(4, "connect", spark=spark if given else None, gpu=True)
        job = distributor.start(target("places"))
        seen = job.results(timeout=120)
        stopped = distributor.start(target("tick"), 100_000)
        working(stopped, 4)
        stopped.stop()
        other = Distributor(2, "connect", spark=spark, gpu=True, gpus_per_rank=2).start(target("places"))
        with pytest.raises(CannotPlace, match=r"its own spark\.task\.cpus=1 and .*, and the run's need"):
            other.results(timeout=120)

        assert {"0,1"} == {value["CUDA_VISIBLE_DEVICES"] for value in seen}
        assert (Phase.STOPPED, 143) == (stopped.wait(60).phase, stopped.state.exit_code)
        assert {"internals.py"} == askers(gateway)


def test_a_session_that_has_ended_is_still_known_to_have(tmp_path: Path) -> None:
    """Its context has no JVM any more, which is no refusal."""

    class Context:
        applicationId = "app"  # noqa: N815  # pyspark's name

        @property
        def defaultParallelism(self) -> int:  # noqa: N802  # and this
            raise AttributeError("'NoneType' object has no attribute 'sc'")

    with pytest.raises(SpecError, match="has ended"):
        adopt(Context(), tmp_path)
