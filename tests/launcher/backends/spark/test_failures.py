"""What Spark says of a job's end, read: texts that Spark 4.3 wrote, and some that it writes now."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from launcher.backends.spark import executors
from launcher.backends.spark.failures import Failure, first_line, kubernetes_refusal, read_failure
from launcher.backends.spark.session import Session, open_session
from launcher.backends.spark.slots import SlotNeed
from launcher.errors import AgentLost, CannotPlace, InternalError
from launcher.placement.refusals import EngineCutOff
from launcher.spec.job import SparkSpec
from launcher.state.events import ExecutorLost, JobCancelled, ServerLost, TaskLost
from tests.commands import until
from tests.spark_cluster import Cluster, ConnectServer, press

TEXTS = Path(__file__).parents[3] / "spark_texts"
NOW = 1000.0


def read(name: str, tasks: int = 0) -> Failure:
    return read_failure((TEXTS / f"{name}.txt").read_text(), time=NOW, tasks=tasks, attempt=3)


# ---- recorded texts


@pytest.mark.parametrize(
    ("name", "executor", "host", "task", "words"),
    [
        ("worker_killed", "1", "127.0.0.2", 0, "got disassociated"),
        ("connect_executor_killed", "0", "", 0, "Command exited with code 137"),
    ],
)
def test_a_lost_executor(name: str, executor: str, host: str, task: int, words: str) -> None:
    failure = read(name)
    fact = failure.event
    assert isinstance(fact, ExecutorLost)
    assert (fact.executor, fact.host, fact.task) == (executor, host, task)
    assert words in fact.reason
    assert (fact.time, fact.attempt) == (NOW, 3)
    assert failure.error is None


@pytest.mark.parametrize("name", ["python_killed", "python_exit3", "connect_python_killed"])
def test_a_python_worker_that_was_killed(name: str) -> None:
    fact = read(name).event
    assert isinstance(fact, TaskLost)
    assert fact.task == 1
    assert fact.reason == "Python worker exited unexpectedly (crashed)"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("cancel_all", "cancellation of all jobs"),
        ("cancel_group", "job group g1"),
        ("cancel_tag", "job tags t1"),
        ("ui_kill_job", "Web UI"),
        ("ui_kill_stage", "Web UI"),
        ("connect_ui_kill", "Web UI"),
        ("connect_interrupt_all", "Spark Connect"),
        ("connect_interrupt_tag", "Spark Connect"),
        ("context_stopped", "application was ended"),
        ("app_removed", "application was ended"),
    ],
)
def test_a_job_that_somebody_cancelled(name: str, words: str) -> None:
    failure = read(name)
    assert isinstance(failure.event, JobCancelled)
    assert words in failure.event.reason
    assert "SQLSTATE" not in failure.event.reason
    assert "\n" not in failure.why


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("too_few", "9 slots"),
        ("connect_too_few", "9 slots"),
        ("dynamic", "--conf spark.dynamicAllocation.enabled=false"),
        ("python_version", "Python is 3.11 and the driver's is 3.9"),
        ("no_python", "cannot run /opt/nowhere/bin/python3: No such file or directory"),
    ],
)
def test_what_a_person_can_set_right(name: str, words: str) -> None:
    failure = read(name, tasks=9)
    assert failure.event is None
    assert isinstance(failure.error, CannotPlace)
    assert words in str(failure.error)
    assert "\n" not in str(failure.error)


@pytest.mark.parametrize("name", ["python_version", "no_python"])
def test_a_wrong_interpreter_names_the_setting(name: str) -> None:
    assert "PYSPARK_PYTHON" in str(read(name).error)


@pytest.mark.parametrize("name", ["raise", "connect_raise"])
def test_an_exception_of_our_own_code_in_a_task(name: str) -> None:
    failure = read(name)
    assert isinstance(failure.error, InternalError)
    assert "ValueError: user's own words" in str(failure.error)
    assert "task 1" in str(failure.error)


def test_a_call_that_a_guarded_session_refuses() -> None:
    refusal = "py4j.security.Py4JSecurityException: Constructor public X() is not whitelisted."
    failure = read_failure(f"Py4JError: An error occurred. Trace:\n{refusal}\n\tat py4j.X.y", time=NOW)

    assert isinstance(failure.error, CannotPlace)
    assert "refuses what a barrier stage needs: Constructor public X()" in str(failure.error)
    assert "--mode connect" in (failure.error.hint or "")


def test_a_session_whose_jvm_is_gone() -> None:
    assert isinstance(read("jvm_killed").error, AgentLost)
    assert isinstance(read_failure(ConnectionRefusedError(111, "refused"), time=NOW).error, AgentLost)


SERVER = "the Kubernetes API server at https://h:6443"
FORBIDDEN = 'it answers 403 configmaps is forbidden: User "system:anonymous" cannot create resource'


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("kube_refused", "cannot be reached: Connection refused"),
        ("kube_unknown_host", "cannot be reached: no host is known by the name of nosuchhost.invalid"),
        ("kube_no_tls", "cannot be reached: what listens there does not speak TLS"),
        (
            "kube_certificate",
            "cannot be reached: unable to find valid certification path to requested target",
        ),
        ("kube_late", "cannot be reached: it does not answer"),
        ("kube_forbidden", f"refuses the application: {FORBIDDEN}"),
    ],
)
def test_a_kubernetes_master_that_is_of_no_use(name: str, said: str) -> None:
    """Logs of Spark's JVM; the text of the exception is the second part of one."""
    text = (TEXTS / f"{name}.txt").read_text()
    assert kubernetes_refusal(text, "k8s://https://h:6443") == f"{SERVER} {said}"
    assert kubernetes_refusal(text[text.index("io.fabric8") :], "k8s://https://h:6443") == f"{SERVER} {said}"


@pytest.mark.parametrize(
    "text", ["io.fabric8.kubernetes.client.Other", "\nio.fabric8.kubernetes.client.SomeException: \n"]
)
def test_a_kubernetes_error_without_a_reason(text: str) -> None:
    assert (
        kubernetes_refusal(text, "k8s://https://h:6443") == f"{SERVER} cannot be reached: it gives no reason"
    )


def test_another_refusal_is_not_put_on_kubernetes() -> None:
    assert "" == kubernetes_refusal((TEXTS / "too_few.txt").read_text(), "spark://h:7077")


class Untold(Exception):
    """As py4j's, whose text is in the JVM that is gone."""

    def __str__(self) -> str:
        raise ConnectionRefusedError(111, "refused")


def test_an_error_that_cannot_say_itself() -> None:
    failure = read_failure(Untold(), time=NOW)
    assert isinstance(failure.error, AgentLost)
    assert "JVM" in failure.why


def test_versions_as_older_sparks_say_them() -> None:
    text = "Exception: Python in worker has different version (3, 9) than that in driver 3.8, PySpark cannot"
    assert "Python is 3.9 and the driver's is 3.8" in str(read_failure(text, time=NOW).error)


@pytest.mark.parametrize(
    "text", ["", "\n \n", "at x.y(Z.scala:1)", "java.lang.Error: odd\nmore", "\x1b[31m?"]
)
def test_any_other_text_is_still_one_sentence(text: str) -> None:
    failure = read_failure(text, time=NOW)
    assert isinstance(failure.error, InternalError)
    assert failure.why
    assert "\n" not in failure.why


def test_the_first_line_has_no_class_name() -> None:
    assert first_line("Py4JJavaError: An error\n: java.io.IOException: disk full\n   at a.b") == "disk full"


@pytest.mark.parametrize("path", sorted(TEXTS.glob("*.txt")), ids=lambda p: p.stem)
def test_a_text_that_was_cut_does_no_harm(path: Path) -> None:
    text = path.read_text()
    for end in range(0, len(text), 37):
        assert read_failure(text[:end], time=NOW).why


# ---- Spark's own words, now


@pytest.fixture
def session(tmp_path: Path, cluster: Cluster) -> Iterator[Session]:
    check = "spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures"
    made = open_session(
        SparkSpec(master=cluster.url, conf=cluster.conf() | {check: "2"}),
        session=None,
        environ=dict(os.environ),
        log=tmp_path / "spark.log",
        app_name="failures",
        slots=4,
        server=False,
    )
    until(lambda: executors.look(made, SlotNeed(1)).free == 4, within=60)
    yield made
    made.close()


def busy(session: Session) -> bool:
    return sum(e.cores - e.cores_free for e in executors.executors(session) or ()) == 4


def broken(session: Session, act: Callable[[], object], tasks: int = 4) -> Failure:
    """Run a barrier stage, do something to it while all its tasks run, and read what came of it."""

    def wait_for_it() -> None:
        until(lambda: busy(session), within=60)
        act()

    def sleep(_: Any) -> list[int]:
        import time

        time.sleep(60)
        return []

    actor = threading.Thread(target=wait_for_it)
    actor.start()
    try:
        rdd = session.context.parallelize(range(tasks), tasks)
        with pytest.raises(Exception) as caught:  # noqa: PT011  # whatever it is, it is to be read
            rdd.barrier().mapPartitions(sleep).collect()
    finally:
        actor.join()
    return read_failure(caught.value, time=time.time(), tasks=tasks)


@pytest.mark.spark
def test_a_live_spark_still_speaks_so(session: Session, cluster: Cluster) -> None:
    """One session, one break after another: the session survives each."""
    tracker = session.context._jsc.sc().statusTracker()

    def kill_job() -> None:
        press(session.ui, "/jobs/", "/jobs/job/kill/", id=next(iter(tracker.getActiveJobIds())))

    failure = broken(session, kill_job)
    assert isinstance(failure.event, JobCancelled)
    until(lambda: executors.look(session, SlotNeed(1)).free == 4, within=30)

    failure = broken(session, lambda: os.kill(cluster.executors()[0], signal.SIGKILL))
    assert isinstance(failure.event, ExecutorLost)
    assert failure.event.executor in {"0", "1"}
    assert failure.event.task in range(4)
    until(lambda: executors.look(session, SlotNeed(1)).free == 4, within=60)

    rdd = session.context.parallelize(range(9), 9)
    with pytest.raises(Exception) as caught:  # noqa: PT011
        rdd.barrier().mapPartitions(lambda _: []).collect()
    assert isinstance(read_failure(caught.value, time=NOW, tasks=9).error, CannotPlace)

    failure = broken(
        session, lambda: press(cluster.ui, "/", "/app/kill/", id=session.application, terminate="true")
    )
    assert isinstance(failure.event, JobCancelled)


@pytest.mark.spark
def test_a_live_jvm_that_dies(session: Session) -> None:
    assert session._jvm is not None
    failure = broken(session, session._jvm.process.kill)
    assert isinstance(failure.error, AgentLost)


@pytest.mark.spark
def test_a_connect_executor_without_pyarrow(tmp_path: Path, spark_here: None) -> None:
    hidden = tmp_path / "hidden"
    (hidden / "pyarrow").mkdir(parents=True)
    (hidden / "pyarrow" / "__init__.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'pyarrow'\")\n"
    )
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={hidden}:$PYTHONPATH exec {sys.executable} "$@"\n')
    python.chmod(0o755)

    def same(batches: Any) -> Any:
        yield from batches

    with ConnectServer(python=str(python)) as server:
        session = open_session(
            SparkSpec(remote=server.url),
            session=None,
            environ=dict(os.environ),
            log=tmp_path / "spark.log",
            app_name="failures",
            slots=1,
            server=True,
        )
        try:
            with pytest.raises(Exception) as caught:  # noqa: PT011
                session.spark.range(0, 1, 1, 1).mapInArrow(same, "id long", barrier=True).collect()
            failure = read_failure(caught.value, time=NOW)
        finally:
            session.close()
    assert isinstance(failure.error, CannotPlace)
    assert "pyarrow" in str(failure.error)


# ---- a Connect server


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("SparkConnectGrpcException: <_MultiThreadedRendezvous status = StatusCode.UNAVAILABLE", ""),
        ("SparkConnectException: [NO_ACTIVE_SESSION] No active Spark session found.", "its session"),
        ("[INVALID_HANDLE.SESSION_CHANGED] The handle is invalid.", "its session"),
    ],
)
def test_a_server_or_its_session_that_is_gone_is_a_fact_with_its_name(text: str, reason: str) -> None:
    failure = read_failure(text, time=NOW, server="sc://h:15002")
    assert failure.error is None
    assert isinstance(failure.event, ServerLost)
    assert "sc://h:15002" == failure.event.server
    assert failure.event.reason.startswith(reason)


def test_an_agent_without_a_way_says_what_it_has_tried() -> None:
    said = "cannot reach the engine at 10.0.0.1:4000 (Connection refused)"
    text = f"File x\nRuntimeError: rankdeck-unreachable: agent 1 on node7: {said}\n\nat org.apache.spark"
    failure = read_failure(text, time=NOW)
    assert isinstance(failure.error, EngineCutOff)
    assert f"agent 1 on node7 has no way to this run's engine: {said}" == str(failure.error)
