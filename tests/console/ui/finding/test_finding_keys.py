"""The bar, jump mode, help and commands of the user, in a real terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.demo import record_demo
from tests.console.terminals import Pty

RANKDECK = [sys.executable, "-P", "-m", "console"]
ASKS = "import sys; print(input(sys.argv[1]), 7 * 6)"
ROOT = Path(__file__).parents[4]

pytestmark = pytest.mark.terminal


@pytest.fixture
def console(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pty]:
    """The console on an ended run of eight ranks."""
    (home / "config").mkdir(parents=True)
    (home / "config" / "config.toml").write_text(
        "[commands.asks]\n"
        'keys = "ctrl+g"\n'
        f'argv = ["{sys.executable}", "-c", "{ASKS}", "{{run}} asks "]\n'
        'about = "asks for a word"\n'
        "terminal = true\n"
    )
    run = record_demo(home / "runs", seconds=20)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("COLUMNS", "120")  # the size of the terminal is only set once the console may read it
    monkeypatch.setenv("LINES", "40")
    monkeypatch.chdir(home)
    with Pty([*RANKDECK, "attach", run.name], columns=120, rows=40) as terminal:
        terminal.await_text("Result")
        yield terminal


def fresh(terminal: Pty, keys: str, *texts: str) -> None:
    """Press keys, and see texts that come after them."""
    terminal.received = b""
    terminal.press(keys)
    terminal.await_text(*texts)


def test_every_way_to_what_there_is_has_its_key(console: Pty) -> None:
    """No key is escape: with the next key it would be read as alt and that key."""
    fresh(console, "\x10", "Go to, open, do", "esc closes")  # ctrl+p
    fresh(console, "theme graph", "until the console ends")
    fresh(console, "\r", "keeps it")
    fresh(console, "1:", "Go to, open, do")
    fresh(console, "result\r", "Result")
    fresh(console, "\x0f", " a ", " s ", " d ")  # ctrl+o
    fresh(console, "d", "Logs")
    fresh(console, "\x1bOP", "Keys here", "Every rank with its state")  # F1
    fresh(console, "q", "Logs")
    fresh(console, "?", "Keys here", "Your commands")
    fresh(console, "q", "Logs")
    fresh(console, "\x1bOS", "New run")  # F4
    fresh(console, "?", "Keys here", "What to run and where")  # the target is empty
    fresh(console, "q", "Target")
    console.press("\x11")  # ctrl+q
    assert 0 == console.exit_code()


def test_a_command_has_the_terminal_and_the_console_is_back_after_it(console: Pty) -> None:
    fresh(console, "\x07", " asks ")  # ctrl+g
    assert b"\x1b[?1049l" in console.received, "the console has left the alternate screen"
    fresh(console, "word\r", "word 42", "\x1b[?1049h", "Result")
    fresh(console, "\x10", "Go to, open, do")
    fresh(console, "asks", "asks for a word")
    fresh(console, "\r", " asks ")
    fresh(console, "\x03", "was ended by SIGINT", "Result")
    console.press("q")
    assert 0 == console.exit_code()
