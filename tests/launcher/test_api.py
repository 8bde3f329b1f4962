"""The library as a program uses it: what may be run, what comes back, and how a run is left."""

from __future__ import annotations

import functools
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from launcher.distributor import Distributor
from launcher.errors import InternalError, LauncherError, RankFailed, RecordError, RunStopped, SpecError
from launcher.job import Job, load_result
from launcher.runs import paths
from launcher.runs.reader import read_spec, read_summary
from launcher.state import events as ev
from launcher.state.fold import fold_all
from launcher.state.run_state import Phase, RunState
from launcher.supervisor.mailbox import Mailbox
from tests import commands, survivors
from tests.commands import Gate, until

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("mark")]


@pytest.fixture
def functions(targets: Path) -> str:
    return str(targets / "functions.py")


def embedding(targets: Path, way: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(targets / "embedding.py"), way]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


# --- what may be run


def test_closures_lambdas_and_partials_are_run() -> None:
    factor = 3

    def scaled(x: int) -> int:
        return factor * x

    assert 12 == Distributor(1).run(scaled, 4)
    assert ["0", "1"] == Distributor(2).start(lambda: os.environ["RANK"]).results()
    assert 9 == Distributor(1).run(functools.partial(scaled, x=3))


@pytest.mark.parametrize(
    ("function", "args", "value"), [(len, ([1, 2],), 2), (os.path.basename, ("/a/b",), "b")]
)
def test_functions_without_a_python_signature_or_file_are_run(
    function: Callable[..., Any], args: tuple[Any, ...], value: object
) -> None:
    assert value == Distributor(1).run(function, *args)


def test_functions_of_main_are_run(targets: Path) -> None:
    out, err = embedding(targets, "value").communicate(timeout=60)

    assert ("[42, 42]\n", "") == (out, err)


def test_results_come_by_rank(functions: str) -> None:
    job = Distributor(3).start(f"{functions}:rank")

    assert [0, 1, 2] == job.results()
    assert 2 == job.result(2)
    assert 0 == job.result()


def test_arguments_of_a_named_function_arrive_as_they_are(functions: str) -> None:
    run = Distributor(1).run

    assert 5 == run(f"{functions}:add", 2, b=3)
    assert ["foo", None, False, "NoneType"] == run(f"{functions}:echo", "foo")
    assert ["5", "True", False, "str"] == run(f"{functions}:echo", "5", more="True")
    assert ["'quoted'", (1, {"a": [2.5]}), True, "tuple"] == run(
        f"{functions}:echo", text="'quoted'", more=(1, {"a": [2.5]}), flag=True
    )


def test_arguments_that_are_no_literals_arrive_too(functions: str) -> None:
    text, more, _, kind = Distributor(1).run(f"{functions}:echo", "x", more=Path("/a"))

    assert ("x", Path("/a"), "PosixPath") == (text, more, kind)
    spec = read_spec(commands.last()).target
    assert spec.pickled
    assert ("'x'",) == spec.args


def test_a_large_literal_argument_is_no_burden(functions: str) -> None:
    assert 400_000 == Distributor(1).run(f"{functions}:length", list(range(400_000)))
    assert (commands.last() / paths.SPEC).stat().st_size < 10_000


@pytest.mark.parametrize(
    ("name", "args", "kwargs", "words"),
    [
        ("missing", (), {}, "has no function missing"),
        ("add", (), {}, "needs a"),
        ("add", (1,), {"c": 3}, "no parameter 'c'"),
        ("add", (1, 2, 3), {}, "takes 2 (a, b) by position, not 3"),
        ("add", (1,), {"a": 1}, "'a' twice"),
        ("add", (object(),), {"c": 3}, "no parameter 'c'"),
    ],
)
def test_a_call_that_cannot_fit_is_refused(
    functions: str, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], words: str
) -> None:
    with pytest.raises(SpecError) as caught:
        Distributor(1).start(f"{functions}:{name}", *args, **kwargs)

    assert words in str(caught.value)
    assert [] == commands.runs()


@pytest.mark.parametrize(
    ("target", "args", "kwargs", "words"),
    [
        (lambda x: x, (), {}, "<lambda>: missing a required argument: 'x'"),
        (lambda x: x, (threading.Lock(),), {}, "<lambda> cannot be pickled: cannot pickle '_thread.lock'"),
        (lambda x: x, ((n for n in "ab"),), {}, "cannot pickle 'generator'"),
        (42, (), {}, "a target is a function or a path, not int"),
        (
            "functions.py:add",
            (threading.Lock(),),
            {},
            "an argument cannot be pickled: cannot pickle '_thread.lock'",
        ),
        ("seeing.py", (), {"lr": 0.1}, "a script takes no keyword arguments (lr)"),
        ("no_such_file.py", (), {}, "there is no file no_such_file.py"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_starts(
    targets: Path, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any], words: str
) -> None:
    with pytest.raises(SpecError) as caught:
        Distributor(1, workdir=targets).start(target, *args, **kwargs)

    assert words in str(caught.value)
    assert [] == commands.runs()


# --- what comes back


def test_a_value_that_cannot_be_pickled_is_named(functions: str) -> None:
    with pytest.raises(RankFailed) as caught:
        Distributor(1).run(f"{functions}:lock")

    message = "the return value: a value of type _thread.lock cannot be pickled: cannot pickle '_thread.lock'"
    assert message in caught.value.message
    assert 1 == caught.value.exit_code
    assert "launcher/agent" not in (caught.value.traceback or "")


@pytest.mark.parametrize(
    ("name", "size", "json"),
    [
        ("many_texts", 1000, False),
        ("sizeless", None, False),
        ("huge_number", None, False),
        ("loud", None, False),
    ],
)
def test_a_value_that_is_hard_to_show_arrives_all_the_same(
    functions: str, monkeypatch: pytest.MonkeyPatch, targets: Path, name: str, size: int | None, json: bool
) -> None:
    monkeypatch.syspath_prepend(targets)  # values of the module's own classes are loaded by name
    value = Distributor(1).run(f"{functions}:{name}")
    [entry] = read_summary(commands.last())

    assert json == entry["json"]
    assert (commands.last() / paths.SUMMARY).stat().st_size < 70_000
    if size is not None:
        assert size == len(value)
    if name == "huge_number":
        assert 10**5000 + 1 == value


def test_a_value_that_cannot_be_loaded_here_says_so(functions: str) -> None:
    job = Distributor(1).start(f"{functions}:sizeless")
    sys.modules.pop("functions", None)
    with pytest.raises(RecordError, match=r"rank 0's value cannot be loaded here: .*functions"):
        job.result()

    assert Phase.SUCCEEDED is job.state.phase


def test_a_run_without_a_value_returns_none(functions: str) -> None:
    job = Distributor(2).start(f"{functions}:nothing")

    assert [None, None] == job.results()
    with pytest.raises(SpecError, match="there is no rank 2: the run has ranks 0 to 1"):
        job.result(2)
    with pytest.raises(SpecError, match="there is no rank -1"):
        job.result(-1)
    with pytest.raises(RecordError, match="rank 7 left no value"):
        load_result(job.folder, 7)


def test_odd_reports_do_not_end_a_training(functions: str) -> None:
    job = Distributor(1).start(f"{functions}:odd_reports")

    assert "alive" == job.result()
    reports = [e for e in job.events(samples=True) if isinstance(e, ev.RankReported)]
    assert 3 == reports[-1].step
    assert 0.5 == reports[-1].metrics["rate"]


def test_a_failure_says_everything(functions: str) -> None:
    job = Distributor(2).start(f"{functions}:broken")
    with pytest.raises(RankFailed) as caught:
        job.results()
    error = caught.value

    assert (job.id, os.uname().nodename, 1, None) == (error.run, error.host, error.exit_code, error.signal)
    assert "ValueError: from a function" in str(error)
    assert "ValueError: from a function" in error.tail
    with pytest.raises(RankFailed):  # as often as one asks
        job.result()


# --- while it runs


def test_facts_come_live_and_again_after_the_end(targets: Path, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate", ranks=2)
    job = Distributor(2).start(str(targets / "waiting.py"), "gate", str(gate.path))
    live: list[ev.Event] = []
    for event in job.events():
        live.append(event)
        if isinstance(event, ev.RankEntered) and event.rank == 1:
            assert not job.done
            gate.open()

    assert list(job.events()) == live
    assert isinstance(live[0], ev.RunSubmitted)
    assert isinstance(live[-1], ev.RunEnded)
    assert job.state.phase is fold_all(live).phase is Phase.SUCCEEDED


def test_waiting_in_vain_leaves_the_run_alone(targets: Path, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    job = Distributor(1).start(str(targets / "waiting.py"), "gate", str(gate.path))
    for wait in (job.wait, lambda timeout: job.result(timeout=timeout), lambda t: job.results(timeout=t)):
        with pytest.raises(TimeoutError, match=r"has not ended after 0\.01 s"):
            wait(0.01)
    gate.open()

    assert {"waited": 1} == job.result(timeout=30)


def test_a_run_is_stopped_on_request(targets: Path) -> None:
    job = Distributor(2, grace_s=0.2).start(str(targets / "waiting.py"), "stubborn")
    until(lambda: [b"ready\n"] * 2 == written())
    job.stop()
    with pytest.raises(RunStopped, match="stopped: on request"):
        job.result()
    job.stop()  # has no effect any more

    assert Phase.STOPPED is job.state.phase
    assert ["SIGKILL"] * 2 == [r.signal for r in job.state.ranks]


@pytest.mark.parametrize("force", [True, False])
def test_a_stop_in_the_first_moment_is_heeded(targets: Path, force: bool) -> None:
    job = Distributor(2, grace_s=1).start(str(targets / "waiting.py"), "plain")
    job.stop(force=force)

    assert Phase.STOPPED is job.wait(60).phase


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_nobody_waits_for_a_run_whose_thread_broke(tmp_path: Path) -> None:
    class Broken:
        mailbox = Mailbox()
        state = RunState(id="r", num_processes=1)

        def run(self) -> None:
            raise RuntimeError("a defect of ours")

    (tmp_path / paths.EVENTS).touch()
    job = Job(Broken(), tmp_path)  # type: ignore[arg-type]  # as much of a supervisor as this needs

    assert [] == list(job.events())
    with pytest.raises(InternalError):
        job.result(timeout=10)


def test_two_runs_at_once_do_not_mix(functions: str) -> None:
    jobs = [Distributor(2, name=name).start(f"{functions}:echo", name) for name in ("first", "second")]

    assert [["first"] * 2, ["second"] * 2] == [[value[0] for value in job.results()] for job in jobs]
    assert 2 == len({job.id for job in jobs})


def test_a_run_may_be_started_and_left_by_a_short_lived_thread(targets: Path, tmp_path: Path) -> None:
    gate, started = Gate(tmp_path / "gate", ranks=2), []
    target = str(targets / "waiting.py")
    thread = threading.Thread(
        target=lambda: started.append(Distributor(2).start(target, "gate", str(gate.path)))
    )
    thread.start()
    thread.join()
    job: Job = started[0]
    until(lambda: Phase.RUNNING is job.state.phase)
    gate.open()

    assert [{"waited": 1}] * 2 == job.results()


# --- how a program leaves its runs


def test_ctrl_c_in_run_stops_everything_and_is_raised_again(targets: Path, mark: str) -> None:
    with embedding(targets, "run") as program:
        until(lambda: [b"ready\n"] * 2 == written())
        program.send_signal(signal.SIGINT)
        _, err = program.communicate(timeout=30)

    assert "KeyboardInterrupt" in err
    assert 130 == commands.facts(ev.RunEnded)[0].exit_code  # type: ignore[attr-defined]
    assert {} == survivors.alive(mark)


def written() -> list[bytes]:
    """What the ranks of the newest run have written to standard output."""
    if not commands.runs():
        return []
    return [p.read_bytes() for p in sorted(paths.log_folder(commands.last(), 0).glob("*.out"))]


def test_a_program_that_ends_without_waiting_ends_its_ranks(targets: Path, mark: str) -> None:
    out, err = embedding(targets, "leave").communicate(timeout=30)

    assert ("left\n", "") == (out, err)
    assert {} == survivors.alive(mark)
    assert "stopped: the process that started it ended" == commands.facts(ev.RunEnded)[0].why  # type: ignore[attr-defined]


def test_a_forked_child_does_not_wait_for_its_parents_runs(targets: Path) -> None:
    started = time.monotonic()
    out, err = embedding(targets, "fork").communicate(timeout=30)

    assert ("child left with 0 and the job is done: False\n", "") == (out, err)
    assert time.monotonic() - started < 20


@pytest.mark.parametrize(
    "error",
    [
        SpecError("no", hint="yes"),
        RunStopped("stopped", run="r", exit_code=130),
        RankFailed("failed", rank=1, host="h", exit_code=7, tail="t", run="r"),
    ],
)
def test_errors_survive_another_process(error: LauncherError) -> None:
    """A pool's worker sends its exception as a pickle; one that cannot be loaded hangs the pool."""
    again = pickle.loads(pickle.dumps(error))

    assert (type(error), str(error), vars(error)) == (type(again), str(again), vars(again))
