"""`horovod.spark.run` on rankdeck: its defaults, its streams, and every rank's value."""

from __future__ import annotations

import io
import os
import re
import sys
from typing import Any

import pytest

from launcher.compat import horovod_on_spark
from launcher.compat.horovod_on_spark import run
from launcher.compat.originals import CallersSpark
from launcher.distributor import Distributor, attend
from launcher.errors import RankFailed
from launcher.job import Job
from launcher.runs.catalog import run_ids
from launcher.runs.paths import runs_root
from launcher.runs.reader import read_spec
from tests import drop_ins, framework_envs
from tests.commands import until
from tests.spark_cluster import Cluster
from tests.spark_runs import agents_of, classic_session


def test_it_needs_a_session() -> None:
    with pytest.raises(RuntimeError, match=r"horovod\.spark\.run needs an active Spark session"):
        run(print)


@pytest.mark.parametrize("given", [{"use_mpi": True}, {"extra_mpi_args": "--verbose"}])
def test_what_is_mpis_is_told(given: dict[str, Any]) -> None:
    (name,) = given
    with (
        pytest.warns(UserWarning, match=f"{name} has no meaning under rankdeck: ranks meet by gloo") as told,
        pytest.raises(RuntimeError, match="active Spark session"),
    ):
        run(print, **given)
    assert __file__ == told[0].filename


class FakeContext:
    defaultParallelism = 6  # noqa: N815  as Spark names it


class FakeSession:
    """A session with some settings, and a context that a client of a Connect server has not."""

    sparkContext = FakeContext()  # noqa: N815

    def __init__(self, **settings: str) -> None:
        self.conf = settings


@pytest.mark.parametrize(
    ("settings", "number"), [({}, 6), ({"spark.default.parallelism": "3"}, 3)], ids=["cores", "setting"]
)
def test_the_sessions_parallelism_is_the_number_of_ranks(settings: dict[str, str], number: int) -> None:
    assert number == horovod_on_spark._parallelism(CallersSpark(FakeSession(**settings)))


def test_a_connect_session_that_tells_no_parallelism(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CallersSpark, "remote", True)
    with pytest.raises(ValueError, match="name num_proc: this Spark Connect session does not tell"):
        horovod_on_spark._parallelism(CallersSpark(FakeSession()))


@pytest.fixture
def no_run(monkeypatch: pytest.MonkeyPatch, home: Any) -> None:
    """A session on which nothing may be started."""
    session = CallersSpark(type("Session", (FakeSession,), {})())
    monkeypatch.setattr(CallersSpark, "require", classmethod(lambda *_: session))


@pytest.mark.usefixtures("no_run")
@pytest.mark.parametrize("number", [0, -1, 2.0, "2", True])
def test_a_number_of_ranks_that_cannot_be(number: Any) -> None:
    with pytest.raises(ValueError, match="num_proc must be a whole number of 1 or more, not "):
        run(print, num_proc=number)
    assert [] == run_ids(runs_root())


@pytest.mark.usefixtures("no_run")
def test_a_start_limit_that_is_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOROVOD_SPARK_START_TIMEOUT", "soon")
    with pytest.raises(ValueError, match="HOROVOD_SPARK_START_TIMEOUT must be a number of seconds"):
        run(print, num_proc=1)


def test_the_start_limit_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 600 == horovod_on_spark._start_limit()
    monkeypatch.setenv("HOROVOD_SPARK_START_TIMEOUT", "30")
    assert 30 == horovod_on_spark._start_limit()


@pytest.mark.parametrize("nics", [None, [], "", set()])
def test_without_interfaces_ranks_choose(nics: Any) -> None:
    assert {} == horovod_on_spark._interfaces(nics)


@pytest.mark.parametrize("nics", [["eth0", "ib0"], "eth0,ib0", ("eth0", "ib0"), "eth0, ib0"])
def test_gloo_gets_one_interface_and_nccl_all(nics: Any) -> None:
    wanted = {"HOROVOD_GLOO_IFACE": "eth0", "NCCL_SOCKET_IFNAME": "eth0,ib0"}
    assert wanted == horovod_on_spark._interfaces(nics)


# --- what is shown ---------------------------------------------------------------------------------------


def speak() -> str:
    os.write(1, b"to stdout\nhalf a line")
    os.write(2, b"\x1b[31mto stderr\x1b[0m\n")
    return os.environ["RANK"]


def shown(**given: Any) -> list[Any]:
    """The values of two ranks here, whose lines are shown as the arguments say."""
    options = {"stdout": None, "stderr": None, "with_time": False, "quiet": False, **given}
    job = Distributor(2).start(lambda: speak())
    return attend(job, horovod_on_spark._shown(**options), Job.results)


@pytest.mark.process
@pytest.mark.usefixtures("mark")
class TestStreams:
    def test_lines_are_those_of_horovodrun(self, capsys: pytest.CaptureFixture[str]) -> None:
        out, err = io.StringIO(), io.StringIO()

        assert ["0", "1"] == shown(stdout=out, stderr=err)
        of_both = [f"[{rank}]<stdout>:{text}" for rank in (0, 1) for text in ("half a line", "to stdout")]
        assert of_both == sorted(out.getvalue().splitlines())
        assert ["[0]<stderr>:to stderr", "[1]<stderr>:to stderr"] == sorted(err.getvalue().splitlines())
        assert ("", "") == capsys.readouterr()

    def test_a_line_may_have_its_time(self) -> None:
        out = io.StringIO()
        shown(stdout=out, with_time=True)
        first = out.getvalue().splitlines()[0]
        assert re.fullmatch(r"\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4}\[[01]\]<stdout>:.*", first)

    def test_the_other_stream_is_the_callers(self, capsys: pytest.CaptureFixture[str]) -> None:
        shown(stdout=io.StringIO())
        out, err = capsys.readouterr()
        assert ("", ["[0]<stderr>:to stderr", "[1]<stderr>:to stderr"]) == (out, sorted(err.splitlines()))

    def test_without_streams_lines_are_rankdecks_own(self, capsys: pytest.CaptureFixture[str]) -> None:
        """The original shows none of them."""
        shown()
        assert "r0 | to stdout" in capsys.readouterr().out.splitlines()

    def test_nothing_is_shown_if_not_wanted(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert ["0", "1"] == shown(quiet=True)
        assert ("", "") == capsys.readouterr()

    def test_a_stream_that_breaks_ends_no_training(self) -> None:
        class Broken(io.StringIO):
            def write(self, text: str) -> int:
                raise OSError("gone")

        assert ["0", "1"] == shown(stdout=Broken(), stderr=Broken())


# --- on a cluster ------------------------------------------------------------------------------------


@pytest.mark.frameworks
@pytest.mark.spark
@pytest.mark.timeout(300, func_only=True)
@pytest.mark.parametrize("number", [2, 0], ids=["named", "default"])
def test_every_ranks_value_in_the_order_of_ranks(cpu_cluster: Cluster, number: int, home: Any) -> None:
    env = framework_envs.made("horovod")
    done = drop_ins.run("horovod_on_spark", number, env=env, cluster=cpu_cluster)

    assert [10, 12] == done.value["values"]
    assert ["[0]<stdout>:rank 0 of 2", "[1]<stdout>:rank 1 of 2"] == done.value["out"]
    assert [] == done.lines


@pytest.mark.spark
@pytest.mark.timeout(300, func_only=True)
def test_what_ranks_get_and_what_they_fail_with(cpu_cluster: Cluster, home: Any) -> None:
    def seen(*names: str, last: str) -> list[str]:
        return [sys.executable, *map(os.environ.__getitem__, (*names, last))]

    def unlucky() -> None:
        if os.environ["RANK"] == "1":
            raise ValueError("bad luck")
        raise SystemExit(0)

    python = os.path.realpath(sys.executable)
    with classic_session(cpu_cluster):
        values = run(
            seen,
            ("HOROVOD_RANK", "NCCL_SOCKET_IFNAME"),
            {"last": "MINE"},
            num_proc=2,
            env={"MINE": "m"},
            nics=["lo"],
            executable=python,
            verbose=0,
            start_timeout=60,
        )
        with pytest.raises(RuntimeError, match="ValueError: bad luck") as caught:
            run(unlucky, num_proc=2, verbose=0)

    assert [[python, "0", "lo", "m"], [python, "1", "lo", "m"]] == values
    assert isinstance(caught.value.__cause__, RankFailed)
    spec = read_spec(runs_root() / min(run_ids(runs_root())))
    assert (60, "horovod") == (spec.start_timeout_s, spec.framework)
    until(lambda: not agents_of(cpu_cluster), within=20)
