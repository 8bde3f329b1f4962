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
with open(sys.argv[1] + ".0") as gate:
    gate.read()
raise SystemExit(int(sys.argv[2]))
"""
BELL_AND_OSC = "[notify]\nbell = true\nosc9 = true\nosc777 = true\n"
HOSTILE = "evil\x1b]0;owned\x07name"


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
    done = rankdeck("run", "--detach", "--name", HOSTILE, program, "--", gate.path, "3")
    assert 0 == done.returncode, done.stderr
    with Pty([COMMAND, "attach", "last"]) as terminal:
        terminal.await_text("\x1b[22;0t\x1b]2;evil", ": running\a")
        assert b"\a\a" not in terminal.received
        gate.open()
        terminal.await_text("\x1b]9;rankdeck: evil", "\x1b]777;notify;rankdeck;evil", "failed (exit 3)")
        terminal.await_text(": failed\a")
        assert b"owned" not in terminal.received.split(b"\x1b]0;")[-1] or b"\x1b]0;" not in terminal.received
        terminal.press("q")
        assert 3 == terminal.exit_code()
        until(lambda: b"\x1b[23;0t" in terminal.received)
        assert 1 == terminal.received.count(b"\x1b[23;0t") == terminal.received.count(b"\x1b[22;0t")
        assert 1 == terminal.received.count(b"\x1b]9;")


def test_an_ended_run_calls_nobody_and_the_title_can_be_switched_off(
    program: Path, gate: commands.Gate
) -> None:
    settle(f"{BELL_AND_OSC}title = false\n")
    gate.open()
    assert 3 == rankdeck("run", program, "--", gate.path, "3").returncode
    with Pty([COMMAND, "attach", "last"]) as terminal:
        terminal.await_text("exited with 3")
        terminal.press("q")
        assert 3 == terminal.exit_code()
        assert not [
            sign
            for sign in (b"\x1b]2;", b"\x1b[22;0t", b"\x1b]9;", b"\x1b]777;")
            if sign in terminal.received
        ]


@pytest.mark.parametrize("command", ["run", "logs"])
def test_a_command_calls_at_the_end_of_a_run_that_it_watched(
    program: Path, gate: commands.Gate, command: str
) -> None:
    settle(BELL_AND_OSC)
    if command == "logs":
        assert 0 == rankdeck("run", "--detach", "--name", "well", program, "--", gate.path, "0").returncode
        words = [COMMAND, "logs", "last", "-f"]
    else:
        words = [COMMAND, "run", "--name", "well", program, "--", gate.path, "0"]
    with Pty(words) as terminal:
        if command == "run":
            terminal.await_text("run 2")
        gate.open()
        terminal.await_text("\x1b]9;rankdeck: well succeeded\a\x1b]777;notify;rankdeck;well succeeded\a\a")
        assert 0 == terminal.exit_code()
    if command == "logs":
        with Pty(words) as terminal:
            assert 0 == terminal.exit_code()
            assert b"\x1b]9;" not in terminal.received


def test_without_a_terminal_nothing_is_called(program: Path, gate: commands.Gate) -> None:
    settle(BELL_AND_OSC)
    gate.open()
    done = rankdeck("run", program, "--", gate.path, "0")

    assert "\x1b" not in done.stdout + done.stderr
    assert "\a" not in done.stdout + done.stderr
