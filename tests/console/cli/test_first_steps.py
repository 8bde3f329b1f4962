"""What a newcomer does first, in a real terminal: ask for help, find, be told what is wrong, run it again."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.console.ui.rendering.test_terminal import Terminal, env, folder

__all__ = ["env", "folder"]

pytestmark = [pytest.mark.terminal, pytest.mark.process]
F1, F6 = "\x1bOP", "\x1b[17~"


def test_help_is_one_key_away_and_what_is_missing_is_said_before_a_start(
    rankdeck: str, folder: Path, env: dict[str, str]
) -> None:
    (folder / "other.py").write_text('"""Says nothing much."""\nprint()\n')
    terminal = Terminal(rankdeck, size=(120, 40), cwd=folder, env=env)
    terminal.until("1 New run", "f1 Help")
    terminal.press("?")
    terminal.until("Keys here", "New run (here)")
    terminal.press(F1)
    terminal.wait(lambda screen: "Keys here" not in screen, "the form again")
    terminal.press("\x06")
    terminal.until("3 found", "Says nothing much.")
    terminal.press("mai")
    terminal.until("1 of 3 found")
    terminal.press(F1)
    terminal.until("Keys here")
    terminal.press(F1 + "\r")
    terminal.until("steps", "f5 checks")
    terminal.press("\x14")
    terminal.until("Work folder")
    terminal.press("nowhere")
    terminal.until("nowhere does not exist")
    terminal.press("\x11")

    assert 0 == terminal.exit_code()


def test_a_past_run_is_shown_before_it_is_started_again(
    rankdeck: str, folder: Path, env: dict[str, str], mark: str
) -> None:
    first = [rankdeck, "run", "train.py:main", "-n", "1", "--param", "steps=2"]
    subprocess.run(first, cwd=folder, env=env, check=True, capture_output=True)
    runs = Path(env["RANKDECK_HOME"]) / "runs"
    terminal = Terminal(rankdeck, size=(80, 24), cwd=folder, env=env)
    terminal.until("2 Recent runs · 1")
    terminal.press("\x1b")  # leave the field: the list has not the focus
    terminal.until("? Help")
    terminal.press("r")
    terminal.press(F6)
    terminal.until("r Run again")
    terminal.press("r")
    terminal.until("Start this run again?", "steps=2", "enter  start it")
    terminal.press("\x1b")
    terminal.wait(lambda screen: "Start this" not in screen, "the form again")
    assert 1 == len(list(runs.glob("*/spec.json")))
    terminal.press("r")
    terminal.until("Start this run again?")
    terminal.press("\r")
    terminal.until("succeeded", "1/1 returned")
    terminal.press("q")

    assert 0 == terminal.exit_code()
    assert 2 == len(list(runs.glob("*/spec.json")))
