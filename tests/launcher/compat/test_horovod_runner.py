"""`HorovodRunner` as Databricks documents it: here, on a cluster, and what ranks tell the caller."""

from __future__ import annotations

import functools
import importlib
import os
import signal
import subprocess
import sys
import threading
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from launcher.agent.report import MESSAGE
from launcher.compat import HorovodRunner, installed, log_to_driver
from launcher.compat.horovod_callbacks import LogCallback
from launcher.distributor import Distributor
from launcher.errors import CannotPlace, RankFailed
from launcher.runs.catalog import run_ids
from launcher.runs.paths import EVENTS, runs_root
from launcher.runs.reader import FactTail, read_spec, read_state
from launcher.state import events as ev
from tests import drop_ins, framework_envs
from tests.commands import until
from tests.framework_envs import Environment
from tests.spark_cluster import Cluster, ConnectServer
from tests.spark_runs import agents_of, classic_session
from tests.trainings import TOLERANCE, examples, reference

(EXAMPLE,) = examples("horovod")
ON_SPARK = (pytest.mark.spark, pytest.mark.frameworks, pytest.mark.timeout(300, func_only=True))


# --- arguments ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("np", [2.0, "2", None, True, [2], "x" * 10_000])
def test_a_number_of_ranks_is_a_whole_number(np: Any) -> None:
    with pytest.raises(ValueError, match="np must be a whole number, not ") as error:
        HorovodRunner(np=np)
    assert len(str(error.value)) < 200


def test_numpys_integers_are_whole_numbers() -> None:
    numpy = pytest.importorskip("numpy")
    assert -2 == HorovodRunner(np=numpy.int64(-2)).num_processor


def test_all_slots_are_to_be_counted_by_the_caller() -> None:
    with pytest.raises(ValueError, match="np=0, all slots of the cluster, is not served: name"):
        HorovodRunner(np=0)


@pytest.mark.parametrize("verbosity", ["ALL", "", None, ["all"]])
def test_a_verbosity_that_there_is_not(verbosity: Any) -> None:
    with pytest.raises(ValueError, match='driver_log_verbosity must be "all" or "log_callback_only", not'):
        HorovodRunner(np=-1, driver_log_verbosity=verbosity)


def test_arguments_are_named() -> None:
    with pytest.raises(TypeError):
        HorovodRunner(-1)  # type: ignore[call-arg]


def test_a_cluster_needs_a_session(home: Any) -> None:
    with pytest.raises(RuntimeError, match="HorovodRunner needs an active Spark session"):
        HorovodRunner(np=2).run(print)
    assert [] == run_ids(runs_root())


def test_keywords_that_do_not_fit_the_function(home: Any) -> None:
    with pytest.raises(ValueError, match=r"the arguments do not fit .*<lambda>: .*'rate'"):
        HorovodRunner(np=-1).run(lambda rate: rate, lr=1)
    assert [] == run_ids(runs_root())


# --- on this machine -----------------------------------------------------------------------------------


@pytest.mark.process
class TestLocally:
    def test_rank_0s_value_and_all_output(self, mark: str, capsys: pytest.CaptureFixture[str]) -> None:
        base = 10

        def train_hvd(learning_rate: float, batch_size: int = 4) -> list[Any]:
            rank = os.environ["HOROVOD_RANK"]
            os.write(1, b"a line\n")
            log_to_driver(f"rank {rank}")
            return [rank, os.environ["HOROVOD_SIZE"], learning_rate, batch_size + base]

        assert ["0", "2", 0.5, 14] == HorovodRunner(np=-2).run(train_hvd, learning_rate=0.5)
        shown = capsys.readouterr().out.splitlines()
        assert ["r0 | a line", "r0 | rank 0", "r1 | a line", "r1 | rank 1"] == sorted(shown)

    def test_the_record_names_the_users_function(self, mark: str) -> None:
        def train_hvd(lr: float) -> None: ...

        HorovodRunner(np=-1).run(train_hvd, lr=0.5)

        target = read_spec(runs_root() / run_ids(runs_root())[0]).target
        assert (__file__, (("lr", "0.5"),)) == (target.source, target.kwargs)
        assert target.name.endswith(".train_hvd")

    def test_a_lambda_and_a_callable_without_a_name(self, mark: str) -> None:
        assert 3 == HorovodRunner(np=-1).run(lambda: 3)
        assert 7 == HorovodRunner(np=-1).run(functools.partial(pow, 2, 5), mod=25)

    def test_imports_of_the_original_in_a_rank_are_ours(self, mark: str) -> None:
        """`sparkdl` is not installed here."""

        def train() -> str:
            name: str = importlib.import_module("sparkdl.horovod").log_to_driver.__module__
            return name

        assert log_to_driver.__module__ == HorovodRunner(np=-1).run(train)

    def test_a_failure_has_the_users_words_and_none_of_our_frames(self, mark: str) -> None:
        def train() -> None:
            if os.environ["RANK"] == "1":
                raise ValueError("bad luck")
            threading.Event().wait()

        with pytest.raises(RuntimeError, match="ValueError: bad luck") as caught:
            HorovodRunner(np=-2).run(train)

        assert isinstance(caught.value.__cause__, RankFailed)
        assert 1 == caught.value.__cause__.rank
        assert 1 == str(caught.value).count('File "')

    def test_ctrl_c_ends_the_run_and_nothing_is_left(self, mark: str) -> None:
        interrupt(drop_ins.words("horovod_waits", -2))

        (run,) = run_ids(runs_root())
        state = read_state(runs_root() / run)
        assert ("stopped", 130) == (state.phase.value, state.exit_code)


def interrupt(command: list[str], env: Environment | None = None) -> None:
    """Interrupt a program once a rank has told it something; it says so, and ends."""
    around = drop_ins.around(env)
    with subprocess.Popen(command, env=around, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        line = next(each for each in running.stdout if "waits" in each)
        assert line
        running.send_signal(signal.SIGINT)
        assert '"interrupted"' == running.stdout.read().splitlines()[-1]
    assert 0 == running.returncode


# --- what ranks tell -------------------------------------------------------------------------------


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch, mark: str) -> None:
    """What would run on a cluster runs on this machine."""
    monkeypatch.setattr(
        HorovodRunner, "_distributor", lambda self: Distributor(self.num_processor, framework="horovod")
    )


def told(main: Any, capsys: pytest.CaptureFixture[str], np: int = 1) -> list[str]:
    """The lines that the caller sees of a run."""
    HorovodRunner(np=np).run(main)
    return capsys.readouterr().out.splitlines()


@pytest.mark.process
@pytest.mark.usefixtures("here")
class TestMessages:
    def test_messages_alone_are_shown(self, capsys: pytest.CaptureFixture[str]) -> None:
        def main() -> None:
            os.write(1, b"no message\n")
            os.write(2, b"no error\n")
            log_to_driver(f"from {os.environ['RANK']}")

        HorovodRunner(np=2).run(main)
        out, err = capsys.readouterr()
        assert (["from 0", "from 1"], "") == (sorted(out.splitlines()), err)

    def test_they_come_while_the_ranks_run(self, capsys: pytest.CaptureFixture[str], tmp_path: Any) -> None:
        gate = tmp_path / "gate"

        def main() -> None:
            log_to_driver("early")
            while not gate.exists():
                time.sleep(0.01)

        thread = threading.Thread(target=lambda: HorovodRunner(np=1).run(main))
        thread.start()
        until(lambda: "early\n" == capsys.readouterr().out)
        gate.touch()
        thread.join()

    def test_with_all_a_message_is_one_of_the_lines(self, capsys: pytest.CaptureFixture[str]) -> None:
        def main() -> None:
            os.write(1, b"a line\n")
            log_to_driver("a message")

        HorovodRunner(np=1, driver_log_verbosity="all").run(main)
        assert ["r0 | a line", "r0 | a message"] == capsys.readouterr().out.splitlines()

    def test_a_long_message_is_cut_and_whole_in_the_log(self, capsys: pytest.CaptureFixture[str]) -> None:
        def main() -> None:
            for size in (4000, 4001, 16 << 10):
                log_to_driver("é" * size)
            log_to_driver("\U0001f600" * 16384)  # of which JSON makes 12 bytes each

        lines = told(main, capsys)
        cut = "é" * (MESSAGE - 1) + "…"
        assert ["é" * MESSAGE, cut, cut, "\U0001f600" * (MESSAGE - 1) + "…"] == lines
        (run,) = run_ids(runs_root())
        logged = b"".join(path.read_bytes() for path in (runs_root() / run).glob("logs/0/*"))
        assert ("é" * (16 << 10)).encode() in logged

    def test_messages_cannot_control_the_terminal(self, capsys: pytest.CaptureFixture[str]) -> None:
        def main() -> None:
            log_to_driver("\x1b[2J\x1b]0;title\x07a \x1b[31mred\x1b[0m word\u202e\x00")
            log_to_driver("two\nlines")
            log_to_driver("half a pair: \ud83d")

        assert ["a red word", "two", "lines", "half a pair: ?"] == told(main, capsys)

    def test_what_is_no_text_is_converted(self, capsys: pytest.CaptureFixture[str]) -> None:
        def main() -> None:
            for value in (3, None, {"loss": 0.5}, b"bytes", ""):
                log_to_driver(value)

        assert ["3", "None", "{'loss': 0.5}", "b'bytes'", ""] == told(main, capsys)

    def test_from_a_thread_and_not_from_a_fork(self, capsys: pytest.CaptureFixture[str]) -> None:
        def main() -> None:
            thread = threading.Thread(target=log_to_driver, args=("thread",))
            thread.start()
            thread.join()
            if not (child := os.fork()):
                log_to_driver("fork")
                os._exit(0)
            os.waitpid(child, 0)
            log_to_driver("last")

        assert ["thread", "last"] == told(main, capsys)
        (run,) = run_ids(runs_root())
        (log,) = (runs_root() / run).glob("logs/0/*.out")
        assert b"fork\n" in log.read_bytes()

    def test_a_burst_arrives_whole_and_in_order(self, capsys: pytest.CaptureFixture[str]) -> None:
        def main() -> None:
            def some(name: str) -> None:
                for number in range(5000):
                    log_to_driver(f"{name} {number}")

            other = threading.Thread(target=some, args=("b",))
            other.start()
            some("a")
            other.join()

        lines = told(main, capsys)
        for name in "ab":
            assert [f"{name} {n}" for n in range(5000)] == [each for each in lines if each[0] == name]
        (run,) = run_ids(runs_root())
        assert "4999" == read_state(runs_root() / run).ranks[0].message.split()[1]

    def test_the_record_has_them_with_their_rank(self, capsys: pytest.CaptureFixture[str]) -> None:
        def main() -> None:
            log_to_driver(f"from {os.environ['RANK']}")

        told(main, capsys, np=2)
        (run,) = run_ids(runs_root())
        facts = [each for each in FactTail(runs_root() / run).poll() if isinstance(each, ev.MessageLogged)]
        assert {(0, "from 0"), (1, "from 1")} == {(each.rank, each.text) for each in facts}


FLOOD = """
from launcher import Distributor
from launcher.compat import HorovodRunner, log_to_driver

def main():
    while True:
        log_to_driver("x" * 1000)

HorovodRunner._distributor = lambda self: Distributor(self.num_processor, framework="horovod")
HorovodRunner(np=1).run(main)
"""


@pytest.mark.process
def test_ctrl_c_ends_a_run_whose_messages_nobody_takes(mark: str) -> None:
    command = [sys.executable, "-c", FLOOD]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as program:
        until(lambda: bool(run_ids(runs_root())))
        facts = runs_root() / run_ids(runs_root())[0] / EVENTS
        until(lambda: facts.exists() and facts.stat().st_size >= 1_000_000)
        program.send_signal(signal.SIGINT)
        until(lambda: read_state(facts.parent).phase.final)
        program.wait(60)
    assert 130 == read_state(facts.parent).exit_code


def test_outside_a_run_a_message_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    log_to_driver("hello")
    assert "hello\n" == capsys.readouterr().out


def test_without_a_standard_output_nothing_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    log_to_driver("hello")


# --- Keras' callback -------------------------------------------------------------------------------


class KerasCallback:
    """What Keras' own callback does, as far as ours asks."""

    def __init__(self) -> None:
        self.params: dict[str, Any] = {}


@pytest.fixture(params=["tf_keras", "keras"])
def keras(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> type:
    """A Keras that the program has imported, and its callback."""
    made = types.ModuleType(request.param)
    made.callbacks = types.SimpleNamespace(Callback=KerasCallback)  # type: ignore[attr-defined]
    for name in ("tf_keras", "tensorflow", "keras"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, request.param, made)
    return KerasCallback


def test_a_callback_is_keras_own_and_ours(keras: type, capsys: pytest.CaptureFixture[str]) -> None:
    callback: Any = LogCallback()
    assert isinstance(callback, keras)
    assert isinstance(callback, LogCallback)
    assert type(callback) is type(LogCallback())
    assert not hasattr(callback, "on_train_batch_end")  # Keras is faster then

    callback.params = {"epochs": 5}
    callback.on_epoch_begin(1, None)
    callback.on_epoch_end(1, {"loss": 0.123456, "shares": [1, 2], "lr": "low"})
    begin, end = capsys.readouterr().out.splitlines()
    assert "epoch 2 of 5 begins" == begin
    assert end.startswith("epoch 2 of 5 took 0.0 s: loss 0.1235, shares [1, 2], lr low")


def test_a_callback_may_tell_of_batches(keras: type, capsys: pytest.CaptureFixture[str]) -> None:
    callback: Any = LogCallback(per_batch_log=True)
    callback.on_epoch_begin(0)
    callback.on_train_batch_end(2, {"loss": 1})
    callback.on_epoch_end(0)

    lines = capsys.readouterr().out.splitlines()
    assert ["epoch 1 begins", "epoch 1, batch 3: loss 1", "epoch 1 took 0.0 s"] == lines


def test_a_callback_of_the_users_own_builds_on_ours(keras: type) -> None:
    class Louder(LogCallback):
        def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
            log_to_driver("!")

    assert isinstance(Louder(True), (keras, Louder))
    assert isinstance(Louder(), keras)


def test_without_keras_there_is_no_callback(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("tf_keras", "keras"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    with pytest.raises(ImportError):
        LogCallback()


# --- real trainings ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def env() -> Environment:
    return framework_envs.made("horovod")


def check(value: Any) -> None:
    """Two ranks trained as one process does."""
    assert pytest.approx(reference(EXAMPLE, 2), abs=TOLERANCE) == {k: value[k] for k in reference(EXAMPLE, 2)}
    assert 2 == value["ranks"]


@pytest.mark.frameworks
@pytest.mark.process
@pytest.mark.timeout(300, func_only=True)
def test_horovod_trains_on_this_machine(env: Environment, mark: str) -> None:
    done = drop_ins.run("horovod", -2, env=env)

    check(done.value)
    assert {f"r{rank} | rank {rank} of 2: loss True" for rank in (0, 1)} <= {*done.lines}


@pytest.mark.frameworks
@pytest.mark.process
@pytest.mark.timeout(300, func_only=True)
@pytest.mark.parametrize("package", ["keras", "tf_keras"])
def test_keras_of_either_kind_tells_of_its_epochs(package: str, mark: str) -> None:
    done = drop_ins.run(package, -1, env=framework_envs.made("tensorflow"))

    assert [[True, True]] * 2 == done.value
    lines = [each.removeprefix("r0 | ") for each in done.lines]
    begins = [each for each in lines if each.endswith("begins")]
    assert ["epoch 1 of 2 begins", "epoch 2 of 2 begins"] * 2 == begins
    assert 4 == sum(each.startswith("epoch") and " took " in each and "loss 0." in each for each in lines)
    assert 8 == sum("batch" in each for each in lines)


@pytest.fixture
def at_the_end(cpu_cluster: Cluster) -> Iterator[Cluster]:
    """The cluster, on which no agent is left after the test."""
    yield cpu_cluster
    until(lambda: not agents_of(cpu_cluster), within=20)


@pytest.mark.frameworks
@pytest.mark.spark
@pytest.mark.timeout(300, func_only=True)
class TestOnACluster:
    def test_horovod_trains_and_messages_alone_come(self, env: Environment, at_the_end: Cluster) -> None:
        done = drop_ins.run("horovod", 2, env=env, cluster=at_the_end)

        check(done.value)
        assert ["rank 0 of 2: loss True", "rank 1 of 2: loss True"] == sorted(done.lines)

    def test_a_failure_has_the_users_words(self, env: Environment, at_the_end: Cluster) -> None:
        done = drop_ins.run("horovod_fails", 2, env=env, cluster=at_the_end)

        assert "RankFailed" == done.value["cause"]
        assert done.value["text"].endswith("ValueError: lr 3 is no good")
        assert 1 == done.value["text"].count('File "')


@pytest.mark.spark
@pytest.mark.timeout(300, func_only=True)
class TestOnAClusterWithoutHorovod:
    def test_all_lines_if_wanted(self, at_the_end: Cluster) -> None:
        done = drop_ins.run("horovod_all", 2, cluster=at_the_end)

        assert ["a line of 0", "a line of 1"] == sorted(each.partition(" | ")[2] for each in done.lines)

    def test_ctrl_c_leaves_nothing(self, at_the_end: Cluster, mark: str) -> None:
        interrupt(drop_ins.words("horovod_waits", 2, cluster=at_the_end))

        (run,) = run_ids(runs_root())
        assert 130 == read_state(runs_root() / run).exit_code

    def test_more_ranks_than_slots_are_refused_at_once(self, at_the_end: Cluster) -> None:
        with classic_session(at_the_end), pytest.raises(RuntimeError, match="needs 64 slots at once") as told:
            HorovodRunner(np=64).run(print)
        assert isinstance(told.value.__cause__, CannotPlace)

    def test_a_session_of_spark_connect(
        self, connect_server: ConnectServer, mark: str, monkeypatch: pytest.MonkeyPatch, capsys: Any
    ) -> None:
        from pyspark.sql.connect.session import SparkSession

        monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
        monkeypatch.setenv("SPARK_REMOTE", connect_server.url)
        session = SparkSession.builder.remote(connect_server.url).create()

        def main() -> str:
            log_to_driver(f"from {os.environ['HOROVOD_RANK']}")
            return os.environ["HOROVOD_SIZE"]

        try:
            assert "2" == HorovodRunner(np=2).run(main)
        finally:
            session.stop()
        assert ["from 0", "from 1"] == sorted(capsys.readouterr().out.splitlines())


@pytest.mark.process
def test_a_module_that_imports_the_originals_at_its_top(
    mark: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ranks load it before they call its function."""
    (tmp_path / "with_originals.py").write_text(
        "from sparkdl.horovod import log_to_driver\n"
        "from spark_tensorflow_distributor import MirroredStrategyRunner\n"
        "def train(x):\n    log_to_driver('said')\n    return x, MirroredStrategyRunner.__module__\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with installed():
        train = importlib.import_module("with_originals").train
        value = HorovodRunner(np=-1).run(train, x=3)

    assert (3, "launcher.compat.mirrored_strategy_runner") == value
    assert "said" in capsys.readouterr().out
    del sys.modules["with_originals"]
