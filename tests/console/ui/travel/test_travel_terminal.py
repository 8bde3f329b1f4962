"""Time travel on a real terminal: keys lead to the past and back, and a moment at rest writes nothing."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from console.demo import record_demo
from launcher.runs.paths import runs_root
from tests.console.ui.rendering.test_terminal import Terminal

pytestmark = [pytest.mark.terminal, pytest.mark.process]


@pytest.fixture
def terminal(tmp_path: Path, rankdeck: str) -> Iterator[Terminal]:
    """A console with a recorded run that failed."""
    run = record_demo(runs_root(), seconds=40, fail=True)
    env = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8"}
    terminal = Terminal(rankdeck, "attach", run.name, size=(100, 30), cwd=tmp_path, env=env)
    yield terminal
    terminal.child.close(force=True)


def test_a_failed_run_is_seen_before_its_failure(terminal: Terminal) -> None:
    terminal.until("✗ failed", "t Time travel")
    terminal.press("t")
    terminal.until("◀ PAST", "paused", "[ Step back")
    terminal.press("{")
    terminal.until("● running", "8 running", "step 24")
    terminal.press(" ")
    terminal.until("playing", "space Pause")
    terminal.press(" ")
    terminal.until("paused")
    terminal.press("\x1b[H")
    terminal.until("○ submitted", "at 00:00:00 of 00:00:2")
    terminal.press("t")
    screen = terminal.until("✗ failed", "OutOfMemoryError")
    assert "PAST" not in screen
    terminal.press("q")
    assert 1 == terminal.exit_code()


def test_a_moment_at_rest_writes_nothing(terminal: Terminal) -> None:
    terminal.until("✗ failed", "t Time travel")
    terminal.press("t")
    terminal.until("◀ PAST")
    terminal.press("[")
    terminal.wait(lambda screen: re.search(r"PAST .*step \d+ ", screen), "the step")
    seen, rest = -1, time.monotonic()
    while time.monotonic() - rest < 2.0:
        if len(terminal.received) != seen:
            seen, rest = len(terminal.received), time.monotonic()
            assert rest < time.monotonic() + 60
        terminal._read()

    assert len(terminal.received) == seen
