"""What each key does, on which screen: the steps of some consoles, each started once."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from console.demo import record_demo
from launcher.runs.paths import runs_root
from launcher.state import events as ev
from tests.console.scripted import Scripted
from tests.console.ui.keys.live_keys import COVERED, FAILED, LIVE, SHELL, WIDE
from tests.console.ui.keys.place_keys import CLUSTER, COMPARED, FINDING, HISTORY, LAUNCH, START
from tests.console.ui.keys.pressing import Desk, Step
from tests.console.ui.keys.run_keys import CURVES, DEVICES, LOG, RANKS, RUN, TRAVEL
from tests.console.ui.keys.typing_keys import TYPING
from tests.console.ui.rendering.test_terminal import TRAIN, Terminal

FAILED_ID = "20260101-100000-000abc"
SHELL_WORDS = ("bash", "--norc", "-i")
LIVE_ID = "20260101-110000-000fff"
RUN_ID, OTHER_ID = "20260101-100000-0000de", "20260101-090000-000abc"


@dataclass(frozen=True, slots=True)
class Session:
    """A console: the words of its command, and what is pressed in it."""

    words: tuple[str, ...]
    ready: tuple[str, ...]
    steps: Sequence[Step]
    also: Callable[[Path], object] = lambda base: None
    """Writes the runs that it needs besides two ended ones."""
    ranks: int = 8


def _live(_: Path) -> None:
    record_demo(runs_root() / "live", seconds=20, until=12.0).rename(runs_root() / LIVE_ID)


def _failed(base: Path) -> None:
    """A rank that failed in two frames of one file, and stacks."""
    (code := base / "code.py").write_text("def fit():\n    loss.backward()\nfit()\n")
    os.utime(code, (0, 0))
    run = Scripted(runs_root(), hosts=("node1",))
    run.place(1.0)
    frames = ((str(code), 3, "<module>"), (str(code), 2, "fit"))
    lines = "".join(f'  File "{path}", line {line}, in {name}\n' for path, line, name in frames)
    traceback = f"Traceback (most recent call last):\n{lines}ValueError: no\n"
    run.add(
        ev.RankRaised(time=5.0, rank=1, kind="ValueError", message="no", traceback=traceback, frames=frames)
    )
    stack = "Thread 0x1:\n" + "".join(
        f'  File "{path}", line {n} in {name}\n' for path, n, name in reversed(frames)
    )
    native = "".join(f'  File "/v/site-packages/torch/{name}.py", line 3 in {name}\n' for name in "abcde")
    run.add(
        *(ev.StacksTaken(time=5.05, rank=r, text=stack.replace(":\n", ":\n" + native, 1)) for r in range(3))
    )
    run.fail(5.1, 1, code=1)
    run.add(ev.RunEnded(time=7.0, state="failed", exit_code=1, why="rank 1 failed", rank=1))
    run.writer.close()


def opened(name: str, base: Path, rankdeck: str) -> Desk:
    session = SESSIONS[name]
    runs_root().mkdir(parents=True)
    run = record_demo(runs_root(), seconds=20, ranks=session.ranks)
    shutil.copytree(run, run.parent / OTHER_ID)
    session.also(base)
    (folder := base / "work").mkdir()
    (folder / "train.py").write_text(TRAIN)
    for name, text in {"pager": PAGER, "editor": EDITOR}.items():
        (program := base / name).write_text(text)
        program.chmod(0o700)
    env = {
        **os.environ,
        "PAGER": str(base / "pager"),
        "VISUAL": str(base / "editor"),
        "TERM": "xterm-256color",
        "COLORTERM": "truecolor",
        "LANG": "C.UTF-8",
    }
    words = (
        session.words
        if session.words[:1] in (SHELL_WORDS[:1], (sys.executable,))
        else (rankdeck, *session.words)
    )
    env |= {"RANKDECK": rankdeck, "PS1": "$ "}
    desk = Desk(Terminal(*words, size=(120, 40), cwd=folder, env=env), folder)
    desk.terminal.until(*session.ready)
    return desk


PAGER = """#!/bin/sh
echo PAGED
read answer
"""
EDITOR = """#!/bin/sh
echo "EDITING $1 $2"
read answer
"""
BROKEN = """
from console.cli.main import main
from console.ui.rendering.containment import failure_log
from console.ui.run.rank_grid import RankGrid

real, again = RankGrid.render_line, RankGrid.action_try_again
def fail(self, y):
    raise ValueError("no")
def mend(self):
    RankGrid.render_line = real
    again(self)
RankGrid.render_line, RankGrid.action_try_again = fail, mend
try:
    main()
finally:
    failure_log().unlink()
"""
"""The console, whose pane of ranks fails until it is tried again."""
RUN_READY = ("train: 100%", "tokens_per_s 61,144", "f Follow")
HOME_READY = ("3 Trainings here · 1", "12     return", "llama-ft")
ATTACH = ("attach", RUN_ID)
SESSIONS = {
    "log": Session(ATTACH, RUN_READY, LOG),
    "ranks": Session(ATTACH, RUN_READY, RANKS),
    "devices": Session(ATTACH, RUN_READY, DEVICES),
    "curves": Session(ATTACH, RUN_READY, CURVES),
    "run": Session(ATTACH, RUN_READY, RUN),
    "travel": Session(ATTACH, RUN_READY, TRAVEL),
    "covered": Session((sys.executable, "-c", BROKEN, *ATTACH), ("r tries again",), COVERED),
    "typing": Session((), HOME_READY, TYPING),
    "launch": Session((), HOME_READY, LAUNCH),
    "history": Session((), HOME_READY, HISTORY),
    "cluster": Session((), HOME_READY, CLUSTER, also=_live),
    "compared": Session((), HOME_READY, COMPARED),
    "start": Session((), HOME_READY, START),
    "replay": Session(("demo", "--speed", "0.5"), ("1 Ranks", "step"), LIVE),
    "failed": Session(("attach", FAILED_ID), ("raised ValueError", "f Follow"), FAILED, also=_failed),
    "wide": Session(ATTACH, ("train: 100%", "f Follow"), WIDE, ranks=96),
    "shell": Session(SHELL_WORDS, ("$",), SHELL),
    "finding": Session(ATTACH, RUN_READY, FINDING),
}
