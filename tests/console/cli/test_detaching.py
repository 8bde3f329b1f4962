"""Clients that go away: what becomes of their runs, and that another one sees all of them afterwards."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
from pathlib import Path

import pytest

from launcher.engine.server import CLIENT_GONE
from launcher.errors import RecordError
from launcher.runs import paths
from launcher.runs.reader import read_state, status_of
from launcher.state.run_state import Phase
from tests import commands, survivors
from tests.commands import COMMAND, Foreground, rankdeck, until
from tests.console.terminals import TMUX, Pty, Tmux

pytestmark = [pytest.mark.terminal, pytest.mark.process, pytest.mark.usefixtures("mark")]

BYTES = b"caf\xe9 \0\x1b[31mred\n\r 10%\r100%\n"
TALKER = f"""
import os, sys
os.write(1, {BYTES!r})
print("before", flush=True)
with open(sys.argv[1] + "." + os.environ["RANK"]) as gate:
    gate.read()
for number in range(2000):
    print("after", number)
"""
WRITTEN = BYTES + b"before\n" + b"".join(b"after %d\n" % number for number in range(2000))


@pytest.fixture
def gate(tmp_path: Path) -> commands.Gate:
    return commands.Gate(tmp_path / "gate")


@pytest.fixture
def talker(tmp_path: Path) -> Path:
    """A program that says something, waits at a gate, and says much."""
    script = tmp_path / "talker.py"
    script.write_text(TALKER)
    return script


def running() -> bool:
    return bool(commands.runs()) and has_come_to(Phase.RUNNING)


def has_come_to(phase: Phase | None = None) -> bool:
    """Whether the last run has got so far; its folder may just be in the making."""
    try:
        state = status_of(commands.last()).state
    except RecordError:
        return False
    return state is phase if phase else state.final


def has_said(text: bytes) -> bool:
    log = paths.log_file(commands.last(), 0, 0, paths.STDOUT)
    return log.exists() and text in log.read_bytes()


def ended_by_itself(gate: commands.Gate) -> None:
    """The run is alive with nobody beside it; it ends well, and all of it is seen from elsewhere."""
    assert running()
    assert Phase.RUNNING is read_state(commands.last()).phase
    gate.open()
    until(has_come_to)
    assert (Phase.SUCCEEDED, 0) == (read_state(commands.last()).phase, read_state(commands.last()).exit_code)
    seen_from_the_first_byte()


def seen_from_the_first_byte() -> None:
    identity = commands.last().name
    raw = subprocess.run([COMMAND, "logs", identity, "-r", "0", "--raw"], capture_output=True, check=True)
    assert WRITTEN == raw.stdout
    for words in (("attach", identity), ("logs", "-f", identity)):
        again = rankdeck(*words)
        assert 0 == again.returncode
        lines = again.stdout.splitlines()
        assert lines[0].startswith("r0 | caf")
        assert ["r0 | before", *(f"r0 | after {n}" for n in range(2000))] == lines[-2001:]
    with Pty([COMMAND, "attach", identity]) as terminal:  # another terminal: the console
        terminal.await_text("succeeded", "after 1999")
        terminal.press("q")
        assert 0 == terminal.exit_code()


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"


# --- a foreground run in a terminal


@pytest.mark.skipif(TMUX is None, reason="there is no tmux")
def test_a_run_outlives_its_tmux_server(talker: Path, gate: commands.Gate) -> None:
    command = shlex.join([COMMAND, "run", os.fspath(talker), "--", os.fspath(gate.path)])
    with Tmux(f"exec {command}") as tmux:
        tmux.await_text("r0 | before")
        client = tmux.shell
        tmux.kill_server()
        until(lambda: gone(client))
    ended_by_itself(gate)


@pytest.mark.parametrize("loss", ["hangup", "SIGHUP", "SIGKILL"])
def test_a_run_outlives_its_terminal_and_its_client(talker: Path, gate: commands.Gate, loss: str) -> None:
    with Pty([COMMAND, "run", talker, "--", gate.path]) as terminal:
        terminal.await_text("r0 | before")
        if loss == "hangup":
            terminal.hang_up()
        else:
            terminal.signal(signal.Signals[loss])
        assert {"hangup": 129, "SIGHUP": 129, "SIGKILL": -9}[loss] == terminal.exit_code()
        if loss == "SIGHUP":
            identity = commands.last().name
            terminal.await_text(f"run {identity} goes on; see it again with: rankdeck attach {identity}")
    ended_by_itself(gate)


@pytest.mark.parametrize("key", ["\x03", "\x1c"], ids=["Ctrl-C", "Ctrl-\\"])
def test_keys_that_end_a_command(talker: Path, gate: commands.Gate, mark: str, key: str) -> None:
    """Ctrl-C is an explicit stop; the other one kills the client alone."""
    with Pty([COMMAND, "run", talker, "--", gate.path]) as terminal:
        terminal.await_text("r0 | before")
        terminal.press(key)
        if key == "\x03":
            assert 130 == terminal.exit_code()
            assert {} == survivors.alive(mark)
            assert (Phase.STOPPED, 130) == (
                read_state(commands.last()).phase,
                read_state(commands.last()).exit_code,
            )
            return
        assert -signal.SIGQUIT == terminal.exit_code()
    ended_by_itself(gate)


# --- the console


@pytest.mark.parametrize("loss", ["hangup", "SIGHUP", "SIGKILL", "q"])
def test_a_run_outlives_the_console_that_shows_it(talker: Path, gate: commands.Gate, loss: str) -> None:
    rankdeck("run", talker, "--detach", "--", gate.path)
    until(lambda: running() and has_said(b"before\n"))
    with Pty([COMMAND, "attach", "last"]) as terminal:
        terminal.await_text("running", "before")
        if loss == "hangup":
            terminal.hang_up()
        elif loss == "q":
            terminal.press("q")
        else:
            terminal.signal(signal.Signals[loss])
        code = terminal.exit_code()
    # nobody sees the code of one whose terminal is gone: the signal came first, or an error of writing
    assert code in {"hangup": (129, 70), "SIGHUP": (129,), "SIGKILL": (-9,), "q": (0,)}[loss]
    ended_by_itself(gate)


@pytest.mark.skipif(TMUX is None, reason="there is no tmux")
def test_a_run_outlives_the_console_that_started_it(
    talker: Path, gate: commands.Gate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Launched by hand in the console, in tmux, whose server is then killed: the first run there is, too."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "train.py").write_text(
        f"import sys\nsys.argv = ['train.py', {os.fspath(gate.path)!r}]\n{TALKER}"
    )
    command = f"cd {shlex.quote(os.fspath(tmp_path / 'work'))} && exec {shlex.quote(COMMAND)}"
    with Tmux(command) as tmux:
        tmux.await_text("1 New run")
        tmux.press("-l", "train.py")
        tmux.await_text("ready")
        tmux.press("C-r")
        until(lambda: running() and has_said(b"before\n"), within=60)
        client = tmux.shell
        tmux.kill_server()
        until(lambda: gone(client))
    ended_by_itself(gate)


# --- clients without a terminal


def test_a_run_without_a_terminal_ends_with_its_client(
    talker: Path, gate: commands.Gate, tmp_path: Path, mark: str
) -> None:
    with Foreground("run", talker, "--", gate.path, folder=tmp_path) as run:
        run.await_line("before")
        run.process.kill()
        assert -9 == run.finish()
    until(has_come_to)

    state = read_state(commands.last())
    assert (Phase.STOPPED, 143) == (state.phase, state.exit_code)
    assert CLIENT_GONE in state.why
    assert {} == survivors.gone(mark, within=5)
    assert 143 == rankdeck("logs", "-f", "last").returncode


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGKILL])
def test_it_can_be_told_to_go_on_all_the_same(
    talker: Path, gate: commands.Gate, tmp_path: Path, number: signal.Signals
) -> None:
    words = ("run", "--on-disconnect", "detach", talker, "--", gate.path)
    with Foreground(*words, folder=tmp_path) as run:
        run.await_line("before")
        run.signal(number)
        assert {signal.SIGHUP: 129, signal.SIGKILL: -9}[number] == run.finish()
    ended_by_itself(gate)


@pytest.mark.parametrize("loss", ["hangup", "SIGKILL"])
def test_a_run_in_a_terminal_can_be_told_to_end_with_it(
    talker: Path, gate: commands.Gate, mark: str, loss: str
) -> None:
    with Pty([COMMAND, "run", "--on-disconnect", "stop", talker, "--", gate.path]) as terminal:
        terminal.await_text("r0 | before")
        if loss == "hangup":
            terminal.hang_up()
        else:
            terminal.signal(signal.SIGKILL)
        assert {"hangup": 143, "SIGKILL": -9}[loss] == terminal.exit_code()
    until(has_come_to)

    state = read_state(commands.last())
    assert (Phase.STOPPED, 143) == (state.phase, state.exit_code)
    assert {"hangup": "hung up", "SIGKILL": CLIENT_GONE}[loss] in state.why
    assert {} == survivors.gone(mark, within=5)


def test_a_client_that_stands_still_holds_nothing_up(
    talker: Path, gate: commands.Gate, tmp_path: Path
) -> None:
    with Foreground("run", talker, "--", gate.path, folder=tmp_path) as run:
        run.await_line("before")
        run.signal(signal.SIGSTOP)
        gate.open()
        until(lambda: status_of(commands.last()).state is Phase.SUCCEEDED)
        run.signal(signal.SIGCONT)
        assert 0 == run.finish()

    assert [f"r0 | after {n}" for n in range(2000)] == run.printed[-2000:]


# --- many who watch


def test_many_may_watch_one_run(talker: Path, gate: commands.Gate, tmp_path: Path) -> None:
    rankdeck("run", talker, "--detach", "--", gate.path)
    words = [("logs", "-f", "last"), ("attach", "last"), ("logs", "-f", "last", "--raw", "-r", "0")]
    watchers = [subprocess.Popen([COMMAND, *command], stdout=subprocess.PIPE) for command in words * 2]
    result = subprocess.Popen([COMMAND, "result", "last", "--wait"], stderr=subprocess.PIPE)
    with Pty([COMMAND, "attach", "last"]) as terminal:
        terminal.await_text("running", "before")
        watchers[0].kill()
        assert "running" == json.loads(rankdeck("ps", "--json").stdout)[0]["state"]
        gate.open()
        said = [watcher.communicate(timeout=60)[0] for watcher in watchers]
        terminal.await_text("succeeded")
        terminal.press("q")
        assert 0 == terminal.exit_code()

    assert b"left no value" in result.communicate(timeout=60)[1]
    assert [-9, *[0] * 5] == [watcher.returncode for watcher in watchers]
    for command, output in list(zip(words * 2, said, strict=True))[1:]:
        assert WRITTEN == output if "--raw" in command else output.endswith(b"\nr0 | after 1999\n")
