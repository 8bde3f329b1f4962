"""Local mode with real processes: what fails and how it is told, what is written, what a rank sees."""

from __future__ import annotations

import hashlib
import os
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from launcher.distributor import Distributor
from launcher.errors import RankFailed, RunStopped, TimeLimit
from launcher.job import Job, load_result
from launcher.runs import paths
from launcher.state import events as ev
from launcher.state.outcome_rules import describe_failure
from launcher.state.ranks import Rank, RankPhase
from launcher.state.run_state import Phase
from tests import commands, survivors
from tests.commands import Foreground, Gate, until
from tests.targets import publishing, writing

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("mark")]

GRACE_S = 0.5
LARGE = (1 << 30) if os.environ.get("RANKDECK_SOAK") else (256 << 20)


def fail(targets: Path, behaviour: str, **options: Any) -> tuple[RankFailed, Job]:
    """The error of two ranks of which the last one fails."""
    distributor = Distributor(2, grace_s=GRACE_S, **options)
    job = distributor.start(str(targets / "failing.py"), behaviour)
    with pytest.raises(RankFailed) as caught:
        job.result()
    return caught.value, job


def log(job: Job, rank: int, stream: int) -> bytes:
    path = paths.log_file(job.folder, 0, rank, stream)
    return path.read_bytes() if path.exists() else b""


def raised(job: Job) -> ev.RankRaised:
    return next(e for e in job.events() if isinstance(e, ev.RankRaised))


# --- how ranks end


@pytest.mark.parametrize(
    ("behaviour", "code", "signal", "message"),
    [
        ("exit_7", 7, None, "exited with code 7"),
        ("os_exit_3", 3, None, "exited with code 3"),
        ("exit_with_words", 1, None, "exited with code 1"),
        ("exit_300", 300 % 256, None, "exited with code 44"),
        ("interrupt", 130, None, "raised KeyboardInterrupt"),
        ("killed", 137, "SIGKILL", "was killed by SIGKILL"),
        ("segfault", 139, "SIGSEGV", "was killed by SIGSEGV"),
        ("wrong_value", 1, None, "raised ValueError: bad learning rate -1.0"),
    ],
)
def test_a_failing_rank_is_told_with_its_own_code(
    targets: Path, behaviour: str, code: int, signal: str | None, message: str
) -> None:
    error, job = fail(targets, behaviour)

    assert (1, code, signal) == (error.rank, error.exit_code, error.signal)
    assert f"rank 1 on {os.uname().nodename} {message}" == error.message  # and no hint of the OOM killer
    assert os.uname().nodename == error.host
    assert code == job.state.exit_code
    assert Phase.FAILED is job.state.phase


def test_the_tail_holds_what_the_rank_said_last(targets: Path) -> None:
    assert "about to leave with 7" == fail(targets, "exit_7")[0].tail
    assert "the data set is empty" == fail(targets, "exit_with_words")[0].tail


def test_a_crash_leaves_its_stack_in_the_tail(targets: Path) -> None:
    tail = fail(targets, "segfault")[0].tail

    assert "Fatal Python error: Segmentation fault" in tail
    assert re.search(r'File ".*failing.py", line \d+ in segfault', tail)


def test_exiting_without_a_code_is_success(targets: Path) -> None:
    assert Distributor(1).run(str(targets / "failing.py"), "exit_none") is None


@pytest.mark.parametrize(("kills", "hint"), [(1, True), (0, False), (None, False)])
def test_the_oom_killer_is_named_only_where_the_kernel_counted_it(kills: int | None, hint: bool) -> None:
    rank = Rank(3, RankPhase.FAILED, host="alpha", exit_code=137, signal="SIGKILL", oom_kills=kills)

    assert hint == ("OOM" in describe_failure(rank))
    assert describe_failure(rank).startswith("rank 3 on alpha was killed by SIGKILL")


def test_a_traceback_is_the_users_own(targets: Path) -> None:
    error, job = fail(targets, "wrong_value")
    text = log(job, 1, paths.STDERR).decode()

    for told in (error.traceback or "", text, str(error)):
        assert "ValueError: bad learning rate -1.0" in told
        assert re.search(r'File ".*/targets/failing\.py", line \d+, in wrong_value', told)
        assert "launcher" not in told
        assert "runpy" not in told
    assert error.traceback == raised(job).traceback
    assert ["<module>", "main", "wrong_value"] == [frame[2] for frame in raised(job).frames]


def test_the_cause_of_an_exception_is_told_with_it(targets: Path) -> None:
    told = fail(targets, "chained")[0].traceback or ""

    assert "KeyError: 'MISSING_FROM_EVERYWHERE'" in told
    assert "direct cause" in told


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def broken(:\n", "SyntaxError"),
        (
            "import no_such_module_anywhere\n",
            "ModuleNotFoundError: No module named 'no_such_module_anywhere'",
        ),
        ("1 / 0\n", "ZeroDivisionError: division by zero"),
    ],
)
def test_a_broken_import_is_told_without_our_frames(
    targets: Path, tmp_path: Path, source: str, message: str
) -> None:
    (tmp_path / "broken_neighbour.py").write_text(source)
    error, _ = fail(targets, "imports_broken", env={"PYTHONPATH": str(tmp_path)})

    assert message.partition(":")[0] in error.message
    assert message in (error.traceback or "")
    assert f'"{tmp_path}/broken_neighbour.py", line 1' in (error.traceback or "") or "Module" in message
    assert "launcher/agent" not in (error.traceback or "")


def test_a_function_of_a_file_that_cannot_be_imported_fails_as_the_files_error(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("raise LookupError('at import')\ndef fn(): ...\n")
    with pytest.raises(RankFailed, match="LookupError: at import") as caught:
        Distributor(1).run(f"{tmp_path}/train.py:fn")

    assert [f'File "{tmp_path}/train.py", line 1, in <module>'] == re.findall(
        r"File .*", caught.value.traceback or ""
    )


def test_an_exception_that_cannot_be_printed_is_a_failure_like_others(targets: Path) -> None:
    error, _ = fail(targets, "unprintable")

    assert "raised __main__.Mute: <exception str() failed>" in error.message
    assert "in unprintable" in (error.traceback or "")
    assert "launcher" not in (error.traceback or "")


def test_a_monstrous_message_is_cut_in_the_fact_and_whole_in_the_log(targets: Path) -> None:
    error, job = fail(targets, "long_message")

    assert ("ValueError: " + "é" * 100_000 + "\n").encode() in log(job, 1, paths.STDERR)
    assert "characters left out" in (error.traceback or "")
    assert 1 == error.exit_code
    assert "in long_message" in (error.traceback or "")


def test_a_hook_of_the_users_prints_the_exception(targets: Path) -> None:
    error, job = fail(targets, "own_hook")

    assert b"MY HOOK ValueError for the hook\n" == log(job, 1, paths.STDERR)
    assert "ValueError: for the hook" in (error.traceback or "")


def test_a_hook_that_breaks_is_told_as_python_tells_it(targets: Path) -> None:
    error, job = fail(targets, "broken_hook")
    text = log(job, 1, paths.STDERR).decode()

    assert ["Error in sys.excepthook:", "RuntimeError: the hook broke", "Original exception was:"] == [
        line for line in text.splitlines() if line.startswith(("Error", "Runtime", "Original"))
    ]
    assert text.endswith("ValueError: for the hook\n")
    assert "launcher" not in text
    assert "ValueError: for the hook" in error.message


def test_the_first_failure_is_the_cause_however_late_its_process_ends(targets: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "down"
    os.mkfifo(pipe)
    job = Distributor(2, grace_s=5).start(str(targets / "consequence.py"), str(pipe))
    with pytest.raises(RankFailed, match="the cause") as caught:
        job.result()

    assert 1 == caught.value.rank
    assert b"closed by peer" in log(job, 0, paths.STDERR)


def test_a_teardown_that_hangs_is_cut_off_after_the_grace_period(targets: Path) -> None:
    error, job = fail(targets, "hanging_teardown")
    ended = job.state.ended or 0.0

    assert 1 == error.exit_code
    assert "raised ValueError: and a thread that never ends" in error.message
    assert GRACE_S <= ended - raised(job).time < GRACE_S + 2


def test_the_time_limit_ends_the_run_with_124(targets: Path) -> None:
    job = Distributor(2, timeout_s=0.5, grace_s=0.1).start(str(targets / "waiting.py"), "stubborn")
    with pytest.raises(TimeLimit, match=r"time limit of 0\.5 s") as caught:
        job.result()

    assert 124 == caught.value.exit_code
    assert 124 == job.state.exit_code
    assert Phase.FAILED is job.state.phase


def test_a_rank_that_leaves_with_0_when_stopped_has_not_failed(targets: Path) -> None:
    job = Distributor(2, grace_s=10).start(str(targets / "waiting.py"), "polite")
    until(lambda: log(job, 0, paths.STDOUT) == log(job, 1, paths.STDOUT) == b"ready\n")
    job.stop()
    with pytest.raises(RunStopped) as caught:
        job.result()

    assert 143 == caught.value.exit_code
    assert Phase.STOPPED is job.state.phase
    assert [RankPhase.SUCCEEDED] * 2 == [r.phase for r in job.state.ranks]
    assert b"ready\nsaved\n" == log(job, 0, paths.STDOUT)


# --- what ranks write


def test_many_lines_arrive_whole_and_in_order(targets: Path) -> None:
    job = Distributor(2, name="lines").start(str(targets / "writing.py"), "write_lines")
    job.result()

    for rank in (0, 1):
        expected = hashlib.sha256()
        for number in range(writing.LINES):
            expected.update(writing.line(rank, number).encode())
        written = log(job, rank, paths.STDOUT)
        assert writing.LINES * 100 == len(written)
        assert expected.hexdigest() == hashlib.sha256(written).hexdigest()


CONTROLS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def test_bytes_of_any_kind_are_kept_and_nothing_of_them_controls_the_terminal(targets: Path) -> None:
    done = commands.rankdeck("run", targets / "writing.py", "-n", "2", "--", "write_torture")
    assert 0 == done.returncode

    for rank in (0, 1):
        for stream in writing.STREAMS:
            written = paths.log_file(commands.last(), 0, rank, stream).read_bytes()
            assert b"".join(writing.torture(stream)) == written
    for printed in (done.stdout, done.stderr):
        assert [] == CONTROLS.findall(printed)
        for rank in (0, 1):
            assert f"r{rank} | 100% done\n" in printed
            assert f"r{rank} |  screen cleared\n" in printed
            assert writing.LONG - 2 * (1 << 16) < printed.count("x") / 2 <= writing.LONG + 100


def test_a_large_value_reaches_the_folder_without_growing_anything_but_its_rank(
    targets: Path, tmp_path: Path, mark: str
) -> None:
    before, after = Gate(tmp_path / "before"), Gate(tmp_path / "after")
    words = ("run", targets / "publishing.py", "--", str(LARGE), before.path, after.path)
    with Foreground(*words, folder=tmp_path) as run:
        run.await_line("made")
        rank = next(e.pid for e in commands.facts(ev.RankStarted) if isinstance(e, ev.RankStarted))
        others = [p for p in survivors.alive(mark) if p != rank]
        assert 3 == len(others)  # the command, the warden, the agent
        at_first = {pid: peak_memory(pid) for pid in others}
        before.open()
        run.await_line("published")
        until(paths.result_file(commands.last(), 0).exists)
        grown = {pid: peak_memory(pid) - at_first[pid] for pid in others}
        after.open()
        assert 0 == run.finish()

    assert max(grown.values()) < 100 << 20
    assert (
        hashlib.sha256(publishing.value(LARGE)).digest()
        == hashlib.sha256(load_result(commands.last(), 0)).digest()
    )


def peak_memory(pid: int) -> int:
    """VmHWM in bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(re.findall(r"VmHWM:\s+(\d+) kB", status)[0]) << 10


# --- what ranks see


def see(targets: Path, n: int = 2, **options: Any) -> list[dict[str, Any]]:
    seen: list[dict[str, Any]] = (
        Distributor(n, **options).start(str(targets / "seeing.py"), "--lr=0.1", "").results()
    )
    return seen


def test_a_rank_sees_the_whole_contract_of_torchrun(targets: Path) -> None:
    ranks = see(targets, 3)
    port = {r["env"]["MASTER_PORT"] for r in ranks}
    run = commands.last().name

    assert 1 == len(port)
    for rank, seen in enumerate(ranks):
        contract = {
            "RANK": rank, "WORLD_SIZE": 3, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": 3,
            "GROUP_RANK": 0, "GROUP_WORLD_SIZE": 1, "NODE_RANK": 0,
            "ROLE_NAME": "default", "ROLE_RANK": rank, "ROLE_WORLD_SIZE": 3,
            "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": next(iter(port)),
            "TORCHELASTIC_RUN_ID": run, "TORCHELASTIC_RESTART_COUNT": 0, "TORCHELASTIC_MAX_RESTARTS": 0,
            "TORCHELASTIC_USE_AGENT_STORE": False, "TORCHELASTIC_ERROR_FILE": "",
            "PYTHONUNBUFFERED": 1,
        }  # fmt: skip
        assert {k: str(v) for k, v in contract.items()} == {k: seen["env"].get(k) for k in contract}


def test_a_rank_is_a_process_of_its_own(targets: Path) -> None:
    first, second = see(targets)

    assert first["pid"] == first["session"] == first["group"]
    assert second["pid"] == second["session"] == second["group"] != first["pid"]
    assert b"" == first["stdin"]
    assert [0, 1, 2, 3] == first["descriptors_in_child"]  # 3 is the folder that the child lists


def test_a_rank_sees_a_script_as_python_would_have_started_it(targets: Path) -> None:
    seen = see(targets)[1]

    assert [str(targets / "seeing.py"), "--lr=0.1", ""] == seen["argv"]
    assert str(targets) == seen["path"][0]
    assert "" not in seen["path"]
    assert ("__main__", str(targets / "seeing.py"), "module") == (
        seen["name"],
        seen["file"],
        seen["builtins"],
    )


def test_a_rank_inherits_the_callers_environment_and_folder(
    targets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OF_THE_CALLER", "passes")
    monkeypatch.setenv("OVERRIDDEN", "by the caller")
    monkeypatch.setitem(os.environb, b"NOT_UTF8", b"caf\xe9")
    seen = see(targets, 1, env={"OVERRIDDEN": "by the spec", "ADDED": "a=b"})[0]

    assert str(tmp_path) == seen["cwd"]
    assert "passes" == seen["env"]["OF_THE_CALLER"]
    assert "by the spec" == seen["env"]["OVERRIDDEN"]
    assert "a=b" == seen["env"]["ADDED"]
    assert b"caf\xe9" == os.fsencode(seen["env"]["NOT_UTF8"])
    assert os.path.dirname(sys.executable) == seen["env"]["PATH"].split(os.pathsep)[0]


def test_a_rank_works_where_it_is_told_to(targets: Path, tmp_path: Path) -> None:
    assert str(tmp_path) == see(targets, 1, workdir=tmp_path)[0]["cwd"]


def test_cores_are_divided_among_ranks_and_that_is_said_once(targets: Path) -> None:
    cores = len(os.sched_getaffinity(0))
    seen = see(targets)
    notes = [e.text for e in commands.facts(ev.NoteMade) if isinstance(e, ev.NoteMade)]

    assert {str(max(1, cores // 2))} == {r["env"]["OMP_NUM_THREADS"] for r in seen}
    assert 1 == len([n for n in notes if n.startswith("OMP_NUM_THREADS=")])


def test_a_number_of_threads_that_was_chosen_is_left_alone(
    targets: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "5")
    seen = see(targets, 1)[0]
    notes = [e.text for e in commands.facts(ev.NoteMade) if isinstance(e, ev.NoteMade)]

    assert "5" == seen["env"]["OMP_NUM_THREADS"]
    assert [] == [n for n in notes if "OMP_NUM_THREADS" in n]
    assert "3" == see(targets, 1, env={"OMP_NUM_THREADS": "3"})[0]["env"]["OMP_NUM_THREADS"]


@pytest.mark.parametrize("name", ["json.py", "typing.py", "launcher.py", "socket.py"])
def test_files_in_the_working_directory_do_not_shadow_what_a_rank_needs(
    targets: Path, tmp_path: Path, name: str
) -> None:
    (tmp_path / name).write_text("raise RuntimeError('shadowed')\n")

    assert [0, 1] == Distributor(2, workdir=tmp_path).start(f"{targets}/functions.py:rank").results()


def test_a_launcher_of_the_users_own_keeps_its_name(tmp_path: Path) -> None:
    (tmp_path / "launcher.py").write_text("WORD = 'mine'\n")
    (tmp_path / "train.py").write_text("import launcher\nprint(launcher.WORD)\n")
    job = Distributor(1).start(str(tmp_path / "train.py"))

    assert 0 == job.wait().exit_code
    assert b"mine\n" == log(job, 0, paths.STDOUT)


def test_ranks_can_be_interrupted_and_hung_up_as_usual(tmp_path: Path) -> None:
    signals = "signal.SIGINT, signal.SIGHUP, signal.SIGTERM"
    words = f"print(*(int(signal.getsignal(s) is signal.SIG_IGN) for s in ({signals})))"
    (tmp_path / "train.py").write_text(f"import signal\n{words}\n")
    job = Distributor(1).start(str(tmp_path / "train.py"))

    assert 0 == job.wait().exit_code
    assert b"0 0 0\n" == log(job, 0, paths.STDOUT)
