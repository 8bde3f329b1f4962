"""Which Spark a run goes to, what a session of ours leaves behind, and what is said when there is none."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from launcher.backends.spark import config, connect
from launcher.backends.spark.config import (
    SparkConfig,
    SparkEnvironment,
    choose_spark,
    own_settings,
    parse_properties,
)
from launcher.backends.spark.session import Session, find_active, open_session
from launcher.errors import CannotPlace, SpecError
from launcher.spec import spark_address
from launcher.spec.job import SparkSpec
from tests import survivors
from tests.commands import until
from tests.spark_cluster import Cluster, ConnectServer

HOME = Path("/opt/spark")
FAILS_FAST_S = 8.0


def around(defaults: dict[str, str] | None = None, **environ: str) -> SparkEnvironment:
    return SparkEnvironment(environ, HOME, defaults or {})


# ---- rules


@pytest.mark.parametrize(
    ("spec", "surroundings", "server", "url"),
    [
        (SparkSpec(master="spark://a:1"), around(MASTER="spark://b:1"), False, "spark://a:1"),
        (SparkSpec(conf={"spark.master": "yarn"}), around(SPARK_REMOTE="sc://c"), False, "yarn"),
        (SparkSpec(remote="sc://a"), around(MASTER="spark://b:1"), False, "sc://a"),
        (SparkSpec(), around(SPARK_REMOTE="sc://c", MASTER="spark://b:1"), False, "sc://c"),
        (SparkSpec(), around({"spark.master": "k8s://x"}, MASTER="spark://b:1"), False, "k8s://x"),
        (SparkSpec(), around(MASTER="spark://b:1"), False, "spark://b:1"),
        (SparkSpec(), around(), False, "local[4]"),
        (SparkSpec(), around({"spark.master": "yarn"}, SPARK_REMOTE="sc://c"), True, "sc://c"),
        (SparkSpec(), around({"spark.remote": "sc://d:9"}), True, "sc://d:9"),
        (
            SparkSpec(),
            around({"spark.master": "yarn"}, PYSPARK_SUBMIT_ARGS="--master spark://s:7077 pyspark-shell"),
            False,
            "spark://s:7077",
        ),
        (
            SparkSpec(),
            around(PYSPARK_SUBMIT_ARGS="--conf 'spark.master=spark://s:7077' pyspark-shell"),
            False,
            "spark://s:7077",
        ),
    ],
)
def test_the_first_that_names_a_spark_is_taken(
    spec: SparkSpec, surroundings: SparkEnvironment, server: bool, url: str
) -> None:
    assert choose_spark(spec, surroundings, 4, server=server).url == url


def test_only_a_spark_that_nobody_named_is_embedded() -> None:
    assert choose_spark(SparkSpec(), around(), 3, server=False) == SparkConfig("local[3]", embedded=True)
    assert not choose_spark(SparkSpec(master="local[3]"), around(), 3, server=False).embedded


@pytest.mark.parametrize(
    ("spec", "environ"),
    [
        (SparkSpec(), {}),
        (SparkSpec(), {"MASTER": "spark://b:1"}),
        (SparkSpec(master="spark://b:1"), {"SPARK_REMOTE": "sc://c"}),
        (SparkSpec(), {"SPARK_REMOTE": "local[2]"}),
        (SparkSpec(remote="sc://"), {}),
        (SparkSpec(remote="sc://host:99999"), {}),
        (SparkSpec(remote="http://host"), {}),
    ],
)
def test_connect_without_a_server_says_what_to_give(spec: SparkSpec, environ: dict[str, str]) -> None:
    with pytest.raises(SpecError) as caught:
        choose_spark(spec, SparkEnvironment(environ, HOME), 1, server=True)
    assert "sc://host:15002" in str(caught.value) or "99999" in str(caught.value)


def test_properties_are_read_as_java_reads_them() -> None:
    text = (
        "# comment\n! another\n\nspark.master   spark://h:7077\nspark.a=1\n spark.b : two words \n"
        "spark.c\\ d x\nspark.long one,\\\n    two\nspark.empty\n"
    )
    assert parse_properties(text) == {
        "spark.master": "spark://h:7077",
        "spark.a": "1",
        "spark.b": "two words",
        "spark.c d": "x",
        "spark.long": "one,two",
        "spark.empty": "",
    }


def test_spark_defaults_are_found_where_spark_looks(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text("spark.master spark://home:1\n")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "spark-defaults.conf").write_text("spark.master spark://other:1\n")
    assert config.spark_environment({}, tmp_path).value("spark.master") == "spark://home:1"
    other = config.spark_environment({"SPARK_CONF_DIR": str(tmp_path / "other")}, tmp_path)
    assert other.value("spark.master") == "spark://other:1"
    assert config.spark_environment({"SPARK_CONF_DIR": "/nowhere"}, tmp_path).defaults == {}


def settings(spec: SparkSpec, surroundings: SparkEnvironment, address: str = "") -> dict[str, str]:
    choice = choose_spark(spec, surroundings, 2, server=False)
    made, _ = own_settings(spec, surroundings, choice, app_name="run", slots=8, limit_s=600, address=address)
    return made


def test_what_the_request_and_spark_defaults_say_stands() -> None:
    key = "spark.scheduler.barrier.maxConcurrentTasksCheck.interval"
    assert settings(SparkSpec(), around())[key] == "1s"
    assert key not in settings(SparkSpec(), around({key: "7s"}))
    assert settings(SparkSpec(conf={key: "9s"}), around({key: "7s"}))[key] == "9s"


def test_executors_are_told_the_address_that_leads_to_us() -> None:
    assert settings(SparkSpec(), around(), "10.0.0.7")["spark.driver.host"] == "10.0.0.7"
    assert "spark.driver.host" not in settings(SparkSpec(), around(SPARK_LOCAL_IP="10.1.1.1"), "10.0.0.7")
    own = SparkSpec(conf={"spark.driver.host": "nat"})
    assert settings(own, around(), "10.0.0.7")["spark.driver.host"] == "nat"


def test_dynamic_allocation_of_spark_defaults_is_off_for_a_session_of_ours() -> None:
    dynamic = "spark.dynamicAllocation.enabled"
    defaults = around({dynamic: "true", "spark.executor.cores": "4", "spark.task.cpus": "2"})
    choice = choose_spark(SparkSpec(), defaults, 2, server=False)
    made, notes = own_settings(SparkSpec(), defaults, choice, app_name="run", slots=8, limit_s=9, address="")
    assert made[dynamic] == "false"
    assert made["spark.executor.instances"] == "4"
    assert any(dynamic in note for note in notes)
    asked = SparkSpec(conf={dynamic: "true"})
    assert settings(asked, defaults)[dynamic] == "true"


def test_the_interpreter_of_tasks() -> None:
    def python(spec: SparkSpec, surroundings: SparkEnvironment, *, here: bool) -> str:
        return config.python_for(spec, surroundings, here=here, own="/venv/python")

    assert python(SparkSpec(), around(), here=True) == "/venv/python"
    assert python(SparkSpec(), around(), here=False) == "python3"
    assert python(SparkSpec(), around(PYSPARK_PYTHON="/p"), here=True) == "/p"
    conf = {"spark.pyspark.python": "/c"}
    assert python(SparkSpec(), around(conf, PYSPARK_PYTHON="/p"), here=False) == "/c"
    assert python(SparkSpec(conf=conf), around(PYSPARK_PYTHON="/p"), here=False) == "/c"


def test_masters_that_fail_over_are_all_known() -> None:
    assert spark_address.standalone_hosts("spark://a:1,b:2") == [("a", 1), ("b", 2)]
    assert spark_address.standalone_hosts("spark://[::1]:7077") == [("::1", 7077)]
    assert spark_address.standalone_hosts("yarn") == []
    with pytest.raises(SpecError):
        spark_address.standalone_hosts("spark://a")


# ---- what is said when there is no Spark


def attempt(tmp_path: Path, spec: SparkSpec, *, server: bool = False, **more: Any) -> Session:
    environ = {k: v for k, v in os.environ.items() if k not in ("MASTER", "SPARK_REMOTE")}
    environ |= more.pop("environ", {})
    return open_session(
        spec,
        session=more.pop("session", None),
        environ=environ,
        log=tmp_path / "spark.log",
        app_name="run",
        slots=2,
        server=server,
        given=more.pop("given", True),
        limit_s=more.pop("limit_s", 60.0),
    )


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"JAVA_HOME": "/nowhere"}, "JAVA_HOME=/nowhere"),
        ({"JAVA_HOME": "", "PATH": "/nowhere"}, "no java on PATH"),
    ],
)
def test_without_java_it_says_how_to_get_it(tmp_path: Path, environ: dict[str, str], words: str) -> None:
    pytest.importorskip("pyspark")
    with pytest.raises(CannotPlace) as caught:
        attempt(tmp_path, SparkSpec(), environ=environ)
    assert words in str(caught.value)
    assert "Java 17" in str(caught.value)
    assert "--mode local" in str(caught.value)


@pytest.mark.parametrize("server", [False, True])
def test_without_pyspark_or_its_connect_packages_it_says_what_to_install(
    tmp_path: Path, server: bool
) -> None:
    missing = "grpc" if server else "pyspark"
    spec = {"remote": "sc://127.0.0.1:1"} if server else {}
    code = f"""
import sys
sys.modules[{missing!r}] = None
from pathlib import Path
from launcher.backends.spark.session import open_session
from launcher.spec.job import SparkSpec
try:
    open_session(SparkSpec(**{spec}), session=None, environ={{}}, log=Path("x"), app_name="x", slots=1,
                 server={server})
except Exception as error:
    print(type(error).__name__, error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("CannotPlace"), done.stderr
    assert "pip install" in done.stdout
    assert missing in done.stdout


@pytest.mark.parametrize("kind", ["master", "remote"])
def test_nobody_there_is_said_at_once(tmp_path: Path, spark_here: None, kind: str) -> None:
    port = closed_port()
    scheme, server = {"master": ("spark", False), "remote": ("sc", True)}[kind]
    began = time.monotonic()
    with pytest.raises(CannotPlace) as caught:
        attempt(tmp_path, SparkSpec(**{kind: f"{scheme}://127.0.0.1:{port}"}), server=server)  # type: ignore[arg-type]
    assert time.monotonic() - began < FAILS_FAST_S
    assert f"127.0.0.1:{port}" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.spark
@pytest.mark.parametrize("kind", ["master", "remote"])
def test_a_port_that_takes_calls_and_never_answers(tmp_path: Path, spark_here: None, kind: str) -> None:
    """A machine that hangs, or some other service."""
    scheme, server = {"master": ("spark", False), "remote": ("sc", True)}[kind]
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"{scheme}://127.0.0.1:{silent.getsockname()[1]}"
        began = time.monotonic()
        with pytest.raises(CannotPlace) as caught:
            attempt(tmp_path, SparkSpec(**{kind: url}), server=server, limit_s=4.0)  # type: ignore[arg-type]
    assert time.monotonic() - began < 4.0 + FAILS_FAST_S
    assert url in str(caught.value) or "did not start" in str(caught.value)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (SparkSpec(master="yarn"), "HADOOP_CONF_DIR"),
        (SparkSpec(master="local[2]", conf={"spark.driver.memory": "1x"}), "heap size"),
        (SparkSpec(master="mesos://h:1"), "Master must"),
        (
            SparkSpec(master="k8s://https://127.0.0.1:1"),
            "the Kubernetes API server at https://127.0.0.1:1 cannot be reached: Connection refused",
        ),
    ],
)
def test_sparks_own_refusal_is_one_sentence(
    tmp_path: Path, spark_here: None, spec: SparkSpec, words: str
) -> None:
    with pytest.raises((CannotPlace, SpecError)) as caught:
        attempt(tmp_path, spec)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "Exception" not in str(caught.value)


# ---- sessions of ours


@pytest.fixture
def opened() -> Iterator[list[Session]]:
    """Sessions to be closed at the end of the test."""
    made: list[Session] = []
    yield made
    for session in made:
        session.close()


def pythons(session: Session, tasks: int) -> set[str]:
    def here(_: Any) -> list[str]:
        import sys

        return [sys.executable]

    context = session.context
    found: list[str] = context.parallelize(range(tasks), tasks).barrier().mapPartitions(here).collect()
    return set(found)


@pytest.mark.spark
def test_an_embedded_spark_runs_a_barrier_stage_and_is_gone_after(
    tmp_path: Path, spark_here: None, mark: str, capfd: pytest.CaptureFixture[str]
) -> None:
    handler, path = signal.getsignal(signal.SIGINT), list(os.environ)
    session = attempt(tmp_path, SparkSpec())
    assert (session.owned, session.remote, session.local) == (True, False, True)
    assert session.driver_host == "127.0.0.1"
    assert pythons(session, 2) == {sys.executable}
    assert survivors.alive(mark)
    began = time.monotonic()
    session.close()
    closed = time.monotonic() - began
    assert closed < 5
    assert not [line for line in survivors.alive(mark).values() if "java" in line]
    session.close()
    assert find_active() is None
    assert capfd.readouterr() == ("", "")
    log = tmp_path / "spark.log"
    assert log.stat().st_size > 0
    assert log.stat().st_mode & 0o777 == 0o600
    assert signal.getsignal(signal.SIGINT) is handler
    assert not {"PYSPARK_GATEWAY_PORT", "PYSPARK_GATEWAY_SECRET"} & set(os.environ), path


@pytest.mark.spark
def test_a_second_session_after_the_first(tmp_path: Path, spark_here: None, opened: list[Session]) -> None:
    attempt(tmp_path, SparkSpec()).close()
    opened.append(attempt(tmp_path, SparkSpec()))
    assert pythons(opened[0], 1) == {sys.executable}


@pytest.mark.spark
def test_on_a_cluster_closing_frees_the_executors_at_once(tmp_path: Path, cluster: Cluster) -> None:
    session = attempt(tmp_path, SparkSpec(master=cluster.url, conf=cluster.conf()))
    assert session.driver_host == "127.0.0.1"
    assert pythons(session, 2) == {sys.executable}
    began = time.monotonic()
    session.close()
    assert time.monotonic() - began < 5
    ended = {app["id"]: app["state"] for app in cluster.state()["completedapps"]}
    assert ended[session.application] == "FINISHED"
    until(lambda: not cluster.executors(), within=5)


@pytest.mark.spark
def test_secrets_are_not_on_a_command_line(tmp_path: Path, spark_here: None, opened: list[Session]) -> None:
    secret = "spark.hadoop.fs.s3a.secret.key"
    opened.append(attempt(tmp_path, SparkSpec(conf={secret: "pssst", "spark.some.setting": "open"})))
    assert opened[0].conf(secret) == "pssst"
    assert opened[0]._jvm is not None
    line = Path(f"/proc/{opened[0]._jvm.process.pid}/cmdline").read_bytes()
    assert b"open" in line
    assert b"pssst" not in line


KILLED = """
import os, signal, sys
from pathlib import Path
from launcher.backends.spark.session import open_session
from launcher.spec.job import SparkSpec
spec = SparkSpec(master=sys.argv[1], conf={"spark.ui.port": "0"})
session = open_session(spec, session=None, environ=dict(os.environ), log=Path(sys.argv[2]), app_name="killed",
                       slots=1, server=False)
print(session.application, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.spark
def test_a_kill_of_ours_takes_the_jvm_and_the_application_with_it(
    tmp_path: Path, cluster: Cluster, mark: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", KILLED, cluster.url, str(tmp_path / "log")], capture_output=True, check=False
    )
    assert done.returncode == -signal.SIGKILL
    application = done.stdout.decode().strip()
    assert application.startswith("app-")
    assert survivors.gone(mark, within=10) == {}
    until(lambda: application in [a["id"] for a in cluster.state()["completedapps"]], within=5)


@pytest.mark.spark
def test_a_jvm_that_dies_does_not_hold_the_close_up(
    tmp_path: Path, spark_here: None, capfd: pytest.CaptureFixture[str]
) -> None:
    session = attempt(tmp_path, SparkSpec())
    assert session._jvm is not None
    session._jvm.process.kill()
    session._jvm.process.wait()
    session.close()
    assert find_active() is None
    assert capfd.readouterr() == ("", "")


# ---- sessions that were there


@pytest.fixture
def theirs(tmp_path: Path, cluster: Cluster) -> Iterator[Session]:
    """A session that somebody made before us, on the cluster."""
    session = attempt(tmp_path, SparkSpec(master=cluster.url, conf=cluster.conf()))
    yield session
    session.close()


@pytest.mark.spark
def test_a_session_of_somebody_elses_is_found_from_any_thread_and_left_alone(
    tmp_path: Path, theirs: Session
) -> None:
    before = sorted(theirs.context.getConf().getAll())
    found: list[Session] = []
    thread = threading.Thread(target=lambda: found.append(attempt(tmp_path, SparkSpec())))
    thread.start()
    thread.join()
    used = found[0]
    assert used.application == theirs.application
    assert not used.owned
    used.close()
    assert pythons(theirs, 1) == {sys.executable}
    assert sorted(theirs.context.getConf().getAll()) == before


@pytest.mark.spark
def test_what_is_known_of_a_session_is_asked_once(tmp_path: Path, theirs: Session) -> None:
    first = attempt(tmp_path, SparkSpec())
    assert attempt(tmp_path, SparkSpec()) is first
    by_session = attempt(tmp_path, SparkSpec(), session=theirs.spark)
    assert by_session is not first  # it may have settings of its own
    assert attempt(tmp_path, SparkSpec(), session=theirs.spark) is by_session
    by_session.broken = True
    again = attempt(tmp_path, SparkSpec(), session=theirs.spark)
    assert again is not by_session
    assert again.usable
    theirs.close()
    with pytest.raises(SpecError, match="has ended"):
        attempt(tmp_path, SparkSpec(), session=theirs.context)


@pytest.mark.spark
def test_an_active_session_cannot_be_moved_or_changed(tmp_path: Path, theirs: Session) -> None:
    with pytest.raises(SpecError, match="already active"):
        attempt(tmp_path, SparkSpec(master="spark://elsewhere:7077"))
    with pytest.raises(SpecError, match=r"spark\.executor\.memory=512m"):
        attempt(tmp_path, SparkSpec(conf={"spark.executor.memory": "4g"}))
    with pytest.raises(SpecError, match="no Spark Connect session"):
        attempt(tmp_path, SparkSpec(), server=True, session=theirs.context)
    same = SparkSpec(master=theirs.master, conf={"spark.executor.memory": "512m"})
    assert attempt(tmp_path, same).application == theirs.application
    assert attempt(tmp_path, SparkSpec(), session=theirs.spark).application == theirs.application


@pytest.mark.spark
def test_a_session_that_has_ended_is_refused(tmp_path: Path, theirs: Session) -> None:
    spark = theirs.spark
    theirs.close()
    with pytest.raises(SpecError, match="has ended"):
        attempt(tmp_path, SparkSpec(), session=spark)
    with pytest.raises(SpecError, match="no Spark session"):
        attempt(tmp_path, SparkSpec(), session=json)


# ---- Connect


@pytest.mark.spark
def test_a_connect_session_of_ours(
    tmp_path: Path, connect_server: ConnectServer, capfd: pytest.CaptureFixture[str]
) -> None:
    session = attempt(tmp_path, SparkSpec(remote=connect_server.url), server=True)
    assert (session.owned, session.remote, session.context) == (True, True, None)
    assert session.application.startswith("app-")
    assert session.driver_host == "127.0.0.1"
    assert session.conf("spark.executor.cores") == "2"
    assert session.conf("spark.no.such.setting", "none") == "none"
    assert find_active(server=True) is None
    began = time.monotonic()
    session.close()
    assert time.monotonic() - began < 3
    assert capfd.readouterr() == ("", "")


@pytest.mark.spark
def test_a_setting_of_the_server_cannot_be_made_from_here(
    tmp_path: Path, connect_server: ConnectServer
) -> None:
    spec = SparkSpec(remote=connect_server.url, conf={"spark.executor.memory": "9g"})
    with pytest.raises(SpecError, match=r"spark\.executor\.memory cannot be set"):
        attempt(tmp_path, spec, server=True)


@pytest.mark.spark
def test_a_connect_session_of_somebody_elses_is_used_and_left_open(
    tmp_path: Path, connect_server: ConnectServer
) -> None:
    connect.quieten()
    from pyspark.sql.connect.session import SparkSession

    theirs = SparkSession.builder.remote(connect_server.url).create()
    try:
        found: list[Session] = []
        thread = threading.Thread(target=lambda: found.append(attempt(tmp_path, SparkSpec())))
        thread.start()
        thread.join()
        assert found[0].spark is theirs
        found[0].close()
        with pytest.raises(SpecError, match="already active"):
            attempt(tmp_path, SparkSpec(remote="sc://elsewhere"), server=True)
        assert attempt(tmp_path, SparkSpec(remote=connect_server.url), server=True).spark is theirs
        assert theirs.range(3).count() == 3
    finally:
        theirs.stop()
    assert find_active(server=True) is None


@pytest.mark.spark
def test_a_server_is_used_beside_an_active_classic_session_if_it_is_named(
    tmp_path: Path, theirs: Session, connect_server: ConnectServer
) -> None:
    with pytest.raises(SpecError, match="already active in this process is no Spark Connect session"):
        attempt(tmp_path, SparkSpec(), server=True)
    with pytest.raises(SpecError, match="already active in this process is no Spark Connect session"):
        attempt(tmp_path, SparkSpec(), server=True, session=theirs.context, given=False)
    named = SparkSpec(remote=connect_server.url)
    with pytest.raises(SpecError, match="given to the run is no Spark Connect session"):
        attempt(tmp_path, named, server=True, session=theirs.context)

    session = attempt(tmp_path, named, server=True, session=theirs.context, given=False)

    assert (session.remote, session.owned) == (True, True)
    assert session.spark.range(3).count() == 3
    session.close()
    assert theirs.spark.range(4).count() == 4


@pytest.mark.spark
def test_a_server_that_died_does_not_hold_the_close_up(tmp_path: Path, spark_here: None) -> None:
    with ConnectServer() as server:
        session = attempt(tmp_path, SparkSpec(remote=server.url), server=True)
        server.daemon.kill()
        began = time.monotonic()
        session.close()
        assert time.monotonic() - began < 5
