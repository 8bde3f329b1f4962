"""A program that tells the terminal what to do, again and again, in every text that it has: in vain."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest

from tests.commands import rankdeck
from tests.console.ui.rendering.test_terminal import Terminal

pytestmark = [pytest.mark.terminal, pytest.mark.process]

EVIL = {
    "title": "\x1b]0;OWNED\x07",
    "title, 8 bits": "\x9d0;OWNED\x9c",
    "bell": "\x07",
    "clear": "\x1b[2J\x1b[H",
    "reset": "\x1bc",
    "name": "\x1b[c\x1b[>c\x1b[>q\x1b[6n",
    "clipboard": "\x1b]52;c;T1dORUQ=\x07",
    "other screen": "\x1b[?1049l",
    "device control": "\x1bP+q544e\x1b\\",
    "line feed": "\r\x0b\x0c\x08",
    "backwards": "\u202eOWNED",
}
HOSTILE = """
import sys, time
from launcher import report

EVIL = {evil!r}

class Named(Exception):
    pass

Named.__name__ = Named.__qualname__ = "E" + EVIL

def main(fail: bool = False, steps: int = 4000):
    for step in range(steps):
        print(f"line {{step}} {{EVIL}} end", flush=step % 50 == 0)
        print(EVIL, file=sys.stderr)
        if step % 200 == 0:
            report(step=step, **{{EVIL: 1.0, "loss": 2.0}})
            time.sleep(0.01)
    print("all said", flush=True)
    if fail:
        raise Named("why " + EVIL)
    return {{EVIL: EVIL, "list": [EVIL] * 3, "done": True}}
"""
NEVER = tuple(evil.encode() for evil in EVIL.values() if evil.startswith(("\x1b]", "\x1bP", "\x1bc")))
POINTER = re.compile(rb"\x1b\]22;[a-z-]*\x07")
"""How Textual says what the mouse's pointer looks like."""
TITLE = re.compile(rb"\x1b\]2;[^\x00-\x1f\x7f]{1,480}\x07")
"""The terminal's title, which names the run."""
SAID_ONCE = b"\x1b[?1049l"


def console(tmp_path: Path, *words: str) -> Terminal:
    env = {**os.environ, "TERM": "xterm-256color", "LANG": "C.UTF-8"}
    command = Path(sys.executable).with_name("rankdeck")
    return Terminal(os.fspath(command), *words, size=(120, 40), cwd=tmp_path, env=env)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """It says every evil text, a great many times."""
    path = tmp_path / "evil.py"
    path.write_text(HOSTILE.format(evil="".join(EVIL.values())))
    return path


def harmless(received: bytes) -> None:
    """No byte of it that is not the console's own way of drawing."""
    assert [evil for evil in NEVER if evil in received] == []
    text = received.decode("utf-8", "replace")
    assert not {"\x9d", "\x9c", "\x9b", "\x90", "\u202e"} & set(text)
    received = TITLE.sub(b"", POINTER.sub(b"", received))
    assert b"\x07" not in received
    assert b"OWNED\x1b\\" not in received
    for query in (b"\x1b[c", b"\x1b[>c", b"\x1b[>q", b"\x1b[6n", b"\x1b[2J", b"\x0b", b"\x0c"):
        assert query not in received


@pytest.mark.parametrize("fail", [False, True])
def test_it_does_nothing_to_the_console(
    home: Path, mark: str, program: Path, tmp_path: Path, fail: bool
) -> None:
    name = "n" + "".join(evil for evil in EVIL.values())
    rankdeck(
        "run", f"{program}:main", "-n", "2", "--name", name, "--param", f"fail={fail}", "--env", f"A={name}"
    )
    terminal = console(tmp_path, "attach", "last")
    terminal.until("3 Logs", "failed" if fail else "succeeded")
    for keys in ("1", "2", "5", "z", "z", "4", "3", "t", "g", "G", "/"):
        terminal.press(keys)
    terminal.until("regular expression")
    terminal.press("OWNED\r")
    terminal.until("/OWNED")
    assert SAID_ONCE not in terminal.received
    harmless(terminal.received)
    terminal.press("q")

    assert terminal.exit_code() is not None
    harmless(terminal.received)
    assert terminal.received.count(SAID_ONCE) == 1


@pytest.mark.parametrize("words", [("ps",), ("show", "last"), ("result", "last"), ("logs", "last")])
def test_it_does_nothing_to_a_command(
    home: Path, mark: str, program: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    name = "n" + "".join(EVIL.values())
    rankdeck("run", f"{program}:main", "-n", "1", "--name", name, "--param", "steps=20")
    terminal = console(tmp_path, *words)

    assert terminal.exit_code() == 0
    assert b"OWNED" in terminal.received
    harmless(terminal.received)
