"""The editor on a real terminal: it has the terminal to itself, and the console is back when it ends."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from launcher.runs.paths import runs_root
from launcher.state import events as ev
from tests.commands import COMMAND, until
from tests.console.scripted import Scripted
from tests.console.terminals import Pty

pytestmark = [pytest.mark.terminal, pytest.mark.process, pytest.mark.usefixtures("mark")]

EDITOR = """#!/bin/sh
printf 'EDITING %s %s\\n' "$1" "$2"
stty -a | grep -q ' icanon' && echo cooked
read answer
echo "$answer" > {}
"""


def test_the_editor_has_the_terminal_and_the_console_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (code := tmp_path / "train.py").write_text("def fit():\n    raise ValueError\n")
    (program := tmp_path / "ed itor").write_text(EDITOR.format(tmp_path / "typed"))
    program.chmod(0o700)
    monkeypatch.setenv("VISUAL", f"'{program}'")
    run = Scripted(runs_root(), ranks=1, hosts=("node1",))
    run.place(1.0)
    traceback = f'Traceback (most recent call last):\n  File "{code}", line 2, in fit\nValueError\n'
    frames = ((str(code), 2, "fit"),)
    run.add(
        ev.RankRaised(time=5.0, rank=0, kind="ValueError", message="", traceback=traceback, frames=frames)
    )
    run.fail(5.1, 0, code=1)
    run.add(ev.RunEnded(time=7.0, state="failed", exit_code=1, why="rank 0 failed", rank=0))
    run.writer.close()
    with Pty([COMMAND, "attach", run.folder.name]) as terminal:
        terminal.await_text("raised ValueError", "Edit")
        terminal.press("e")
        terminal.await_text(f"EDITING +2 {code}", "cooked")
        before, _, _ = terminal.received.partition(b"EDITING")
        assert before.rindex(b"\x1b[?1049l") > before.rindex(b"\x1b[?1049h"), "the console's screen was left"
        assert b"\x1b[23;0t" in before, "so was its title"
        seen = len(terminal.received)
        terminal.press("q is typed here\n")
        until(lambda: b"\x1b[?1049h" in terminal.received[seen:])
        until(lambda: b"ValueError" in terminal.received[seen:])
        until(lambda: b"\x1b[22;0t\x1b]2;llama: failed\a" in terminal.received[seen:])
        assert "q is typed here\n" == (tmp_path / "typed").read_text(), "keys went to the editor"
        terminal.press("q")
        assert terminal.exit_code() == 1
    assert os.path.exists(code)
