"""What a real terminal gets when a run is watched: its title, its bell, its notifications, and no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from launcher.settings import config_file
from tests import commands
from tests.commands import COMMAND, rankdeck, until
from tests.console.terminals import Pty

pytestmark = [pytest.mark.terminal, pytest.mark.process, pytest.mark.usefixtures("mark")]

PROGRAM = """
import sys
print("here", flush=True)
if len(sys.argv) > 2:
    with open(sys.argv[2] + ".0") as gate:
        gate.read()
raise SystemExit(int(sys.argv[1]))
"""
BELL_AND_OSC = "[notify]\nbell = true\nosc9 = true\nosc777 = true\n"
HOSTILE = "evil\x1b]0;owned\x07name"
CALLS = "\x1b]9;rankdeck: well succeeded\a\x1b]777;notify;rankdeck;well succeeded\a\a"


@pytest.fixture
def gate(tmp_path: Path) -> commands.Gate:
    return commands.Gate(tmp_path / "gate")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    path = tmp_path / "waits.py"
    path.write_text(PROGRAM)
    return path


@pytest.fixture(autouse=True)
def outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TMUX", "STY"):
        monkeypatch.delenv(name, raising=False)


def settle(text: str) -> None:
    config_file().parent.mkdir(parents=True, exist_ok=True)
    config_file().write_text(text)


def test_the_console_sets_the_title_calls_at_the_end_and_gives_the_title_back(
    program: Path, gate: commands.Gate
) -> None:
    settle(BELL_AND_OSC)
    done = rankdeck("run", "--detach", "--name", HOSTILE, program, "--", "3", gate.path)
    assert 0 == done.returncode, done.stderr
    with Pty([COMMAND, "attach", "last"]) as terminal:
        terminal.await_text("\x1b[22;0t\x1b]2;evil", ": running\a")
        assert b"\x1b]9;" not in terminal.received
        gate.open()
        terminal.await_text("\x1b]9;rankdeck: evil", "\x1b]777;notify;rankdeck;evil", "failed (exit 3)")
        terminal.await_text(": failed\a")
        assert b"\x1b]0;" not in terminal.received, "the run's name sets no title of its own"
        terminal.press("q")
        assert 3 == terminal.exit_code()
        until(lambda: b"\x1b[23;0t" in terminal.received)
        assert 1 == terminal.received.count(b"\x1b[23;0t") == terminal.received.count(b"\x1b[22;0t")
        assert 1 == terminal.received.count(b"\x1b]9;")


def test_an_ended_run_calls_nobody_and_the_title_can_be_switched_off(program: Path) -> None:
    settle(f"{BELL_AND_OSC}title = false\n")
    assert 3 == rankdeck("run", program, "--", "3").returncode
    with Pty([COMMAND, "attach", "last"]) as terminal:
        terminal.await_text("exited with 3")
        terminal.press("q")
        assert 3 == terminal.exit_code()
        signs = (b"\x1b]2;", b"\x1b[22;0t", b"\x1b]9;", b"\x1b]777;")
        assert [] == [sign for sign in signs if sign in terminal.received]


def test_a_run_in_the_foreground_calls_at_its_end(program: Path, gate: commands.Gate) -> None:
    settle(BELL_AND_OSC)
    with Pty([COMMAND, "run", "--name", "well", program, "--", "0", gate.path]) as terminal:
        terminal.await_text("here")
        gate.open()
        terminal.await_text(CALLS)
        assert 0 == terminal.exit_code()


def test_following_calls_at_the_end_of_a_run_that_was_live(program: Path, gate: commands.Gate) -> None:
    settle(BELL_AND_OSC)
    done = rankdeck("run", "--detach", "--name", "well", program, "--", "0", gate.path)
    assert 0 == done.returncode, done.stderr
    with Pty([COMMAND, "logs", "last", "-f"]) as terminal:
        terminal.await_text("here")
        gate.open()
        terminal.await_text(CALLS)
        assert 0 == terminal.exit_code()
    with Pty([COMMAND, "logs", "last", "-f"]) as terminal:
        terminal.await_text("here")
        assert 0 == terminal.exit_code()
        assert b"\x1b]9;" not in terminal.received


def test_without_a_terminal_nothing_is_called(program: Path) -> None:
    settle(BELL_AND_OSC)
    done = rankdeck("run", program, "--", "0")

    assert "\x1b" not in done.stdout + done.stderr
    assert "\a" not in done.stdout + done.stderr
