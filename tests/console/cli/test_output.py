"""Runs without the console: what is printed and when, how they are ended, and how they are left."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest

from console.cli.output import failure_block, parse_ranks
from launcher.errors import SpecError
from launcher.runs import paths
from launcher.runs.catalog import run_ids
from launcher.state import events as ev
from tests import commands, survivors
from tests.commands import COMMAND, Foreground, Gate, rankdeck, until
from tests.console.scripted import SPARK, Scripted

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("mark")]


# --- what is printed


def test_lines_appear_while_the_ranks_run_and_the_result_comes_last(targets: Path, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate", ranks=2)
    with Foreground(
        "run", targets / "waiting.py", "-n", "2", "--", "gate", gate.path, folder=tmp_path
    ) as run:
        assert {"r0 | ready", "r1 | ready"} == {run.await_line("ready"), run.await_line("ready")}
        assert run.process.poll() is None  # both ranks wait at the gate
        assert "running" == json.loads(rankdeck("ps", "--json").stdout)[0]["state"]
        assert run.narrated.startswith(f"run {commands.last().name}\n")
        gate.open()
        assert 0 == run.finish()

    assert ["{", '  "waited": 1', "}"] == run.printed[-3:]
    assert {"r0 | passed", "r1 | passed"} == set(run.printed[2:4])
    again = json.loads(rankdeck("result", "last", "--json").stdout)
    assert {"rank": 0, "type": "dict", "value": {"waited": 1}} == again


@pytest.mark.parametrize(
    ("behaviour", "code", "said"),
    [
        ("exit_7", 7, "exited with code 7"),
        ("killed", 137, "was killed by SIGKILL"),
        ("segfault", 139, "was killed by SIGSEGV"),
        ("os_exit_3", 3, "exited with code 3"),
        ("wrong_value", 1, "raised ValueError: bad learning rate -1.0"),
    ],
)
def test_the_exit_code_is_the_failing_ranks(targets: Path, behaviour: str, code: int, said: str) -> None:
    done = rankdeck("run", targets / "failing.py", "-n", "2", "--grace", "0.3", "--", behaviour)

    assert code == done.returncode
    assert f"✗ rank 1 on {os.uname().nodename} {said}\n" in done.stderr
    assert "OOM" not in done.stderr
    assert f"logs: rankdeck logs {commands.last().name} -r 1" in done.stderr
    assert "launcher/agent" not in done.stderr or behaviour == "segfault"  # the whole stack, there
    assert "" == done.stdout
    assert code == rankdeck("logs", "-f", "last").returncode
    assert code == rankdeck("attach", "last").returncode


def test_an_exception_is_told_with_file_and_line(targets: Path) -> None:
    done = rankdeck("run", targets / "functions.py:broken")
    written = (commands.last() / paths.EVENTS).read_text()

    place = re.findall(r'  File "(.*)", line (\d+), in broken', done.stderr)
    assert 2 == len(place)  # once as the rank wrote it, once in the summary
    assert {str(targets / "functions.py")} == {file for file, _ in place}
    assert "ValueError: from a function" in written
    assert json.dumps(f'"{targets}/functions.py", line {place[0][1]}')[1:-1] in written


def test_only_the_ranks_that_are_asked_for_are_printed(targets: Path) -> None:
    lines = {
        wanted: rankdeck("run", targets / "hello.py", "-n", "3", "--ranks", wanted).stdout.splitlines()
        for wanted in ("none", "0,2", "1-2")
    }

    assert [] == lines["none"]
    assert ["r0 | ", "r2 | "] == sorted(line[:5] for line in lines["0,2"])
    assert ["r1 | ", "r2 | "] == sorted(line[:5] for line in lines["1-2"])


@pytest.mark.parametrize(
    ("text", "ranks"),
    [
        ("all", {0, 1, 2, 3}),
        ("none", set()),
        ("0", {0}),
        ("0,2-3", {0, 2, 3}),
        (" 1 , 3 ", {1, 3}),
        ("3-1", set()),
    ],
)
def test_ranks_are_chosen_by_number_and_span(text: str, ranks: set[int]) -> None:
    assert ranks == parse_ranks(text, 4)


@pytest.mark.parametrize("text", ["", "4", "0-4", "a", "-1", "1-", "0,,1", "0-999999999", "9" * 5000])
def test_ranks_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(SpecError):
        parse_ranks(text, 4)


def test_every_fact_is_one_json_object_a_line(targets: Path) -> None:
    done = rankdeck("run", targets / "functions.py:odd_reports", "-n", "2", "--output", "jsonl")
    told = [json.loads(line) for line in done.stdout.splitlines()]

    assert 0 == done.returncode
    assert all({"schema", "event", "time", "run", "attempt"} <= set(fact) for fact in told)
    assert {1} == {fact["schema"] for fact in told}
    assert {commands.last().name} == {fact["run"] for fact in told}
    kinds = [fact["event"] for fact in told]
    assert ("run_submitted", "run_ended") == (kinds[0], kinds[-1])
    assert {
        "gang_placed",
        "rank_started",
        "rank_entered",
        "rank_reported",
        "rank_exited",
        "cleanup_proven",
    } <= set(kinds)
    assert f"run {commands.last().name}\n" == done.stderr.partition("\n")[0] + "\n"


# --- a reader that goes away


@pytest.mark.parametrize("output", ["text", "jsonl"])
@pytest.mark.parametrize("also_stderr", [False, True])
def test_a_run_goes_on_when_nobody_reads_any_more(
    targets: Path, tmp_path: Path, output: str, also_stderr: bool
) -> None:
    gate = Gate(tmp_path / "gate")
    process = subprocess.Popen(
        [COMMAND, "run", str(targets / "waiting.py"), "--output", output, "--", "gate", str(gate.path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if also_stderr else subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline()
    until(lambda: bool(commands.runs()) and (commands.last() / "logs/0/00000.out").exists())
    process.stdout.close()
    gate.open()
    said = process.stderr.read() if process.stderr else ""

    assert 0 == process.wait(30)
    if process.stderr:
        process.stderr.close()
        assert 1 == said.count("rankdeck: nobody reads the output any more; the run goes on")
        assert "Traceback" not in said
    assert {"waited": 1} == json.loads(rankdeck("result", "last", "--json").stdout)["value"]


def test_a_full_disk_under_the_output_does_not_end_a_run(targets: Path) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [COMMAND, "run", str(targets / "functions.py:rank")],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )

    assert 0 == done.returncode
    assert "cannot write the output: No space left on device; the run goes on" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_reader_of_logs_may_leave_quietly(targets: Path, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("for i in range(100_000): print('line', i)\n")
    rankdeck("run", script, "--ranks", "none")
    for words in ("logs last", "logs last --raw -r 0"):
        piped = f"{COMMAND} {words} | head -1; exit $PIPESTATUS"
        done = subprocess.run(["bash", "-c", piped], capture_output=True, text=True, check=False)
        assert "" == done.stderr
        assert done.stdout.endswith("line 0\n")


# --- how a run is ended


def test_ctrl_c_lets_the_ranks_finish(targets: Path, tmp_path: Path, mark: str) -> None:
    words = ("run", targets / "waiting.py", "-n", "2", "--grace", "30", "--", "polite")
    with Foreground(*words, folder=tmp_path) as run:
        run.await_line("ready"), run.await_line("ready")
        run.signal(signal.SIGINT)
        assert 130 == run.finish()
        assert {} == survivors.alive(mark)

    assert ["r0 | saved", "r1 | saved"] == sorted(run.printed[2:])
    assert "stopping: interrupted (SIGTERM, then SIGKILL after 30 s)" in run.narrated
    assert "stopped after" in run.narrated


def test_ctrl_c_while_files_are_read_starts_nothing(targets: Path, tmp_path: Path, mark: str) -> None:
    large = tmp_path / "large.bin"
    large.touch()
    os.truncate(large, 64 << 30)
    words = ("run", "--mode", "cluster", "--master", "spark://127.0.0.1:1", "--files", large)
    with Foreground(*words, targets / "waiting.py", folder=tmp_path) as run:
        run.await_narration("reading")
        run.signal(signal.SIGINT)
        assert 130 == run.finish()
        assert {} == survivors.alive(mark)

    assert not commands.runs()


def test_a_second_ctrl_c_kills(targets: Path, tmp_path: Path, mark: str) -> None:
    words = ("run", targets / "waiting.py", "-n", "2", "--grace", "300", "--", "stubborn")
    with Foreground(*words, folder=tmp_path) as run:
        run.await_line("ready"), run.await_line("ready")
        run.signal(signal.SIGINT)
        run.await_narration("stopping: interrupted")
        run.signal(signal.SIGINT)
        assert 130 == run.finish()
        assert {} == survivors.alive(mark)


@pytest.mark.parametrize(
    ("number", "code", "reason", "words"),
    [
        (signal.SIGTERM, 143, "terminated", ()),
        (signal.SIGHUP, 143, "hung up", ("--on-disconnect", "stop")),
    ],
)
def test_a_signal_to_the_command_stops_the_run(
    targets: Path,
    tmp_path: Path,
    mark: str,
    number: signal.Signals,
    code: int,
    reason: str,
    words: tuple[str, ...],
) -> None:
    with Foreground("run", *words, targets / "waiting.py", "--", "plain", folder=tmp_path) as run:
        run.await_line("ready")
        run.signal(number)
        assert code == run.finish()
        assert {} == survivors.alive(mark)

    assert f"stopped: {reason}" in run.narrated
    assert code == json.loads(rankdeck("ps", "--json").stdout)[0]["exit_code"]


def test_a_hangup_that_was_to_be_ignored_is_ignored(targets: Path, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        words = ("run", targets / "waiting.py", "--", "gate", gate.path)
        with Foreground(*words, folder=tmp_path) as run:
            run.await_line("ready")
            run.signal(signal.SIGHUP)
            gate.open()
            assert 0 == run.finish()
    finally:
        signal.signal(signal.SIGHUP, before)


def test_the_time_limit_is_exit_124(targets: Path) -> None:
    done = rankdeck("run", targets / "waiting.py", "--timeout", "0.5", "--grace", "0.2", "--", "stubborn")

    assert 124 == done.returncode
    assert "stopped: the time limit of 0.5 s" in done.stderr


# --- runs of another process


def test_a_detached_run_is_followed_and_ends_by_itself(targets: Path, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    started = rankdeck("run", targets / "waiting.py", "--detach", "--", "gate", gate.path)
    identity = started.stdout.strip()
    assert (0, f"{identity}\n", "") == (started.returncode, started.stdout, started.stderr)
    assert [identity] == commands.runs()

    with Foreground("logs", "-f", identity, folder=tmp_path) as follow:
        assert "r0 | ready" == follow.await_line("ready")
        gate.open()
        assert 0 == follow.finish()
    assert "r0 | passed" == follow.printed[-1]
    assert {"waited": 1} == json.loads(rankdeck("result", identity, "--json").stdout)["value"]
    late = rankdeck("stop", identity)
    assert (0, f"run {identity} had already ended: succeeded, exit 0\n") == (late.returncode, late.stderr)


@pytest.mark.parametrize("force", [False, True])
def test_a_detached_run_is_stopped_from_elsewhere(
    targets: Path, tmp_path: Path, mark: str, force: bool
) -> None:
    words = ("--detach", "--grace", "300", "-n", "2", "--", "stubborn" if force else "polite")
    identity = rankdeck("run", targets / "waiting.py", *words).stdout.strip()
    with Foreground("logs", "-f", identity, folder=tmp_path) as follow:
        follow.await_line("ready"), follow.await_line("ready")
        started = time.monotonic()
        stop = rankdeck("stop", identity, *(["--force"] if force else []))
        assert (0, f"run {identity} ended: stopped, exit 143\n") == (stop.returncode, stop.stderr)
        assert time.monotonic() - started < 30
        assert 143 == follow.finish()
    assert {} == survivors.gone(mark, within=5)  # the agent leaves last


def test_a_detached_run_outlives_its_starter_and_its_terminal(targets: Path, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    identity = rankdeck("run", targets / "waiting.py", "--detach", "--", "gate", gate.path).stdout.strip()
    owner = json.loads((commands.last() / paths.STATUS).read_text())["owner"]["pid"]

    assert os.getsid(owner) != os.getsid(0)
    assert "/dev/null" == os.readlink(f"/proc/{owner}/fd/0")
    assert {".log"} == {Path(os.readlink(f"/proc/{owner}/fd/{fd}")).suffix for fd in (1, 2)}
    os.kill(owner, signal.SIGHUP)
    gate.open()
    assert 0 == rankdeck("logs", "-f", identity).returncode


def test_a_relative_home_is_the_same_for_a_detached_run(targets: Path, tmp_path: Path) -> None:
    env = {"RANKDECK_HOME": "here"}
    started = rankdeck("run", targets / "hello.py", "--detach", cwd=tmp_path, env=env)

    assert 0 == started.returncode
    assert 0 == rankdeck("logs", "-f", "last", cwd=tmp_path, env=env).returncode
    assert [started.stdout.strip()] == run_ids(tmp_path / "here" / "runs")
    assert 0 == rankdeck("engine", "stop", cwd=tmp_path / "here", env={"RANKDECK_HOME": "."}).returncode


# --- logs


def test_logs_are_exact_or_searched(targets: Path, tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import os, sys\n"
        "os.write(1, b'caf\\xe9 \\0\\x1b[31mred\\x1b[0m\\nstep 1 \\xc3\\xa9\\n')\n"
        "os.write(2, b'warn\\r\\n')\nos.write(1, b'unfinished')\n"
    )
    rankdeck("run", script)

    def raw(*words: str) -> bytes:
        return subprocess.run([COMMAND, "logs", "last", *words], capture_output=True, check=True).stdout

    assert b"caf\xe9 \0\x1b[31mred\x1b[0m\nstep 1 \xc3\xa9\nunfinished" == raw("-r", "0", "--raw")
    assert b"warn\r\n" == raw("-r", "0", "--raw", "--stderr")
    assert (
        "r0 | caf\N{REPLACEMENT CHARACTER} red\nr0 | step 1 é\nr0 | unfinished\n"
        == rankdeck("logs", "last").stdout
    )
    assert "r0 | warn\n" == rankdeck("logs", "last").stderr
    for pattern in ("step", "é$", "\\u00e9", "[é]", "^step .* é"):
        assert "r0 | step 1 é\n" == rankdeck("logs", "last", "--grep", pattern).stdout
    assert "r0 |" in rankdeck("logs", "last", "--grep", " red").stdout  # as it is seen, not as it is coded


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--grep", "("), "is not a regular expression"),
        (("-r", "5"), "there is no rank 5: the run has ranks 0 to 0"),
        (("--raw",), "say which with -r"),
        (("--raw", "-r", "1"), "there is no rank 1"),
        (("--raw", "-r", "0", "--grep", "x"), "--raw prints every byte: --grep has no meaning with it"),
        (("--stderr",), "--stderr chooses a stream for --raw"),
    ],
)
def test_logs_that_cannot_be_are_refused(targets: Path, words: tuple[str, ...], said: str) -> None:
    rankdeck("run", targets / "hello.py")
    done = rankdeck("logs", "last", *words)

    assert (2, "") == (done.returncode, done.stdout)
    assert said in done.stderr


# --- several attempts


@pytest.fixture
def restarted(home: Path) -> Path:
    """A run of two ranks that failed, was started again and succeeded; its folder."""
    run = Scripted(home / "runs", ranks=2, hosts=("node1", "node2"))
    run.add(SPARK)
    run.place(2.0)
    run.add((3.0, 0, "zero\nhalf"), (3.1, 1, "boom\n"))
    run.fail(4.0, 1)
    run.restart(6.0, 1, "rank 1 on node2 exited with code 7")
    run.place(6.0, 1)
    run.add((7.0, 0, "once more\n"), (7.1, 1, "fine\n"))
    run.add(*(ev.RankExited(time=8.0, attempt=1, rank=r, exit_code=0) for r in (0, 1)))
    run.add(ev.RunEnded(time=9.0, attempt=1, state="succeeded", exit_code=0, why="every rank exited with 0"))
    run.writer.close()
    return run.folder


def test_logs_show_all_attempts_in_order_and_say_where_one_begins(restarted: Path) -> None:
    done = rankdeck("logs", "last")
    assert (
        "r0 node1 | zero\nr1 node2 | boom\nr0 node1 | half\nr0 node1 | once more\nr1 node2 | fine\n"
        == done.stdout
    )
    assert "── attempt 1 (rank 1 on node2 exited with code 7) ──\n" == done.stderr
    one = rankdeck("logs", restarted.name, "-r", "1")
    assert ("r1 node2 | boom\nr1 node2 | fine\n", done.stderr) == (one.stdout, one.stderr)


def test_the_mark_of_an_attempt_stands_between_the_lines(restarted: Path) -> None:
    done = subprocess.run(
        [COMMAND, "logs", "last", "-f"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
    )
    assert [
        "r0 node1 | half",
        "── attempt 1 (rank 1 on node2 exited with code 7) ──",
        "r0 node1 | once more",
    ] == (done.stdout.splitlines()[2:5])
    assert restarted.exists()


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((), b"zero\nhalfonce more\n"),
        (("--attempt", "0"), b"zero\nhalf"),
        (("--attempt", "1"), b"once more\n"),
        (("-f",), b"zero\nhalfonce more\n"),
        (("--stderr",), b""),
    ],
)
def test_raw_logs_are_the_bytes_of_the_attempts_and_no_more(
    restarted: Path, words: tuple[str, ...], expected: bytes
) -> None:
    command = [COMMAND, "logs", restarted.name, "-r", "0", "--raw", *words]
    done = subprocess.run(command, capture_output=True, check=True)
    assert (expected, b"") == (done.stdout, done.stderr)


def test_the_logs_of_one_attempt(restarted: Path) -> None:
    done = [rankdeck("logs", restarted.name, "--attempt", k) for k in ("0", "1", "2")]
    assert [
        (0, "r0 node1 | zero\nr1 node2 | boom\nr0 node1 | half\n", ""),
        (0, "r0 node1 | once more\nr1 node2 | fine\n", ""),
        (2, "", "rankdeck: there is no attempt 2: the run has had 2, counted from 0\n"),
    ] == [(each.returncode, each.stdout, each.stderr) for each in done]


def test_on_spark_a_line_says_its_host_though_all_ranks_share_one(home: Path) -> None:
    """As they do when an executor was lost."""
    run = Scripted(home / "runs", ranks=2, hosts=("node2", "node2"))
    run.place(1.0)
    run.add((2.0, 0, "zero\n"), (2.1, 1, "one\n"))
    run.add(ev.RunEnded(time=6.0, attempt=0, state="succeeded", exit_code=0, why="w"))
    run.writer.close()
    assert "r0 node2 | zero\nr1 node2 | one\n" == rankdeck("logs", "last").stdout


def test_raw_logs_follow_into_the_next_attempt(home: Path, tmp_path: Path) -> None:
    run = Scripted(home / "runs", ranks=1, hosts=("node1",))
    run.place(1.0)
    run.add((2.0, 0, "old\n"))
    with Foreground("logs", "last", "-f", "-r", "0", "--raw", folder=tmp_path) as follow:
        assert "old" == follow.await_line("old")
        run.fail(3.0, 0)
        run.add((3.5, 0, "last words\n"))
        run.restart(4.0, 1, "it failed")
        run.place(4.0, 1)
        run.add((5.0, 0, "new\n"))
        assert "new" == follow.await_line("new")
        run.add(ev.RunEnded(time=6.0, attempt=1, state="failed", exit_code=9, why="w"))
        assert 9 == follow.finish()
    run.writer.close()
    assert ["old", "last words", "new"] == follow.printed


def test_a_failure_after_restarts_points_to_the_logs_of_its_attempt(home: Path) -> None:
    run = Scripted(home / "runs", ranks=2, hosts=("node1", "node2"))
    run.place(1.0)
    run.fail(2.0, 1)
    run.restart(4.0, 1, "it failed")
    run.place(4.0, 1)
    run.fail(5.0, 0, 1, code=3)
    run.add(ev.RunEnded(time=7.0, attempt=1, state="failed", exit_code=3, why="w", rank=0))
    run.writer.close()
    block = failure_block(run.folder, run.writer.state)
    assert "✗ rank 0 on node1 exited with code 3" in block
    assert block.endswith(f"logs: rankdeck logs {run.folder.name} -r 0 --attempt 1")
