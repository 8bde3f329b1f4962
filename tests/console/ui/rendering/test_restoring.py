"""The terminal as a shell finds it again: after an end, a crash, signals and a stop."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.console.ui.rendering.test_terminal import Terminal, restored

pytestmark = [pytest.mark.terminal, pytest.mark.process]

CRASHING = """
import sys
from console.ui.rendering.containment import Contained
from console.demo import run_demo
from console.ui.run.screen import RunScreen

def crash(self, *_):
    raise ZeroDivisionError("it broke in the console")

RunScreen.action_pane = crash
Contained._contain = crash  # what fails alone ends nothing, unless that fails too
sys.exit(run_demo())
"""
ALTERNATE, LEFT, MOUSE = b"\x1b[?1049h", b"\x1b[?1049l", b"\x1b[?1003h"


@pytest.fixture
def shell(tmp_path: Path) -> Callable[[str], Terminal]:
    """An interactive shell in which a command is started, its terminal's settings kept before and after."""
    (tmp_path / "tmp").mkdir()
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {
        **os.environ, "TERM": "xterm-256color", "LANG": "C.UTF-8", "TMPDIR": str(tmp_path / "tmp"),
        "PATH": path, "PS1": "$ ",
    }  # fmt: skip

    def start(command: str) -> Terminal:
        terminal = Terminal("bash", "--norc", "--noprofile", "-i", size=(100, 30), cwd=tmp_path, env=env)
        terminal.until("$ ")
        terminal.press(f"stty -g > before; {command}; echo code=$?; stty -g > after; echo EN''DED\r")
        return terminal

    return start


def told_and_left(terminal: Terminal, folder: Path) -> str:
    """Wait until the shell has its terminal again, and see that it is as it was."""
    screen = terminal.until("ENDED")
    assert (folder / "before").read_text() == (folder / "after").read_text()
    assert restored(terminal.received)
    assert terminal.received.rindex(b"\x1b[?2004l") > terminal.received.rindex(b"\x1b[?1049h")
    return screen


def console_of(terminal: Terminal) -> psutil.Process:
    return psutil.Process(terminal.child.pid).children()[0]


def closed(terminal: Terminal) -> None:
    terminal.press("exit\r")
    terminal.exit_code()


def test_leaving_gives_the_shell_its_terminal_back(
    shell: Callable[[str], Terminal], home: Path, tmp_path: Path
) -> None:
    terminal = shell("rankdeck demo")
    terminal.until("1 Ranks")
    terminal.press("q")

    assert "code=0" in told_and_left(terminal, tmp_path)
    closed(terminal)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_signal_gives_the_shell_its_terminal_back(
    shell: Callable[[str], Terminal], home: Path, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    terminal = shell("rankdeck demo")
    terminal.until("1 Ranks")
    console_of(terminal).send_signal(number)

    assert f"code={code}" in told_and_left(terminal, tmp_path)
    closed(terminal)


def test_a_crash_gives_the_shell_its_terminal_back_and_says_what_broke(
    shell: Callable[[str], Terminal], home: Path, tmp_path: Path
) -> None:
    (tmp_path / "crashing.py").write_text(CRASHING)
    terminal = shell(f"PYTHONPATH={Path(__file__).parents[4]} {sys.executable} crashing.py")
    terminal.until("1 Ranks")
    terminal.press("1")

    screen = told_and_left(terminal, tmp_path)
    assert "it broke in the console" in screen
    assert "code=0" not in screen
    closed(terminal)


def test_a_stopped_console_gives_the_terminal_back_and_takes_it_again(
    shell: Callable[[str], Terminal], home: Path, tmp_path: Path
) -> None:
    terminal = shell("rankdeck demo")
    terminal.until("1 Ranks")
    terminal.press("\x1a")
    assert "Stopped" in told_and_left(terminal, tmp_path)
    seen = len(terminal.received)
    terminal.press("fg\r")
    taken = (ALTERNATE, MOUSE, b"3 Logs")
    terminal.wait(lambda _: all(text in terminal.received[seen:] for text in taken), "the console again")

    terminal.press("q")
    terminal.wait(lambda _: b"$ " in terminal.received[seen:].partition(LEFT)[2], "the shell again")
    terminal.press("stty -g > after; echo EN''DED TWICE\r")
    terminal.until("ENDED TWICE")
    assert told_and_left(terminal, tmp_path)
    closed(terminal)
