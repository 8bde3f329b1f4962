"""What each key does, on which screen: the steps of some consoles, each started once."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from console.demo import record_demo
from launcher.runs.paths import runs_root
from tests.console.ui.keys.place_keys import CLUSTER, FINDING, HISTORY, LAUNCH
from tests.console.ui.keys.pressing import Desk, Step
from tests.console.ui.keys.run_keys import CURVES, DEVICES, LOG, RANKS, RUN
from tests.console.ui.rendering.test_terminal import TRAIN, Terminal

LIVE_ID = "20260101-110000-000fff"
RUN_ID, OTHER_ID = "20260101-100000-0000de", "20260101-090000-000abc"


@dataclass(frozen=True, slots=True)
class Session:
    """A console: the words of its command, and what is pressed in it."""

    words: tuple[str, ...]
    ready: tuple[str, ...]
    steps: Sequence[Step]
    live: bool = False


def opened(name: str, base: Path, rankdeck: str) -> Desk:
    session = SESSIONS[name]
    runs_root().mkdir(parents=True)
    run = record_demo(runs_root(), seconds=20)
    shutil.copytree(run, run.parent / OTHER_ID)
    if session.live:
        record_demo(runs_root() / "live", seconds=20, until=12.0).rename(runs_root() / LIVE_ID)
    (folder := base / "work").mkdir()
    (folder / "train.py").write_text(TRAIN)
    for name, text in {"pager": PAGER, "editor": EDITOR}.items():
        (program := base / name).write_text(text)
        program.chmod(0o700)
    env = {**os.environ, "PAGER": str(base / "pager"), "VISUAL": str(base / "editor"), "TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8"}
    desk = Desk(Terminal(rankdeck, *session.words, size=(120, 40), cwd=folder, env=env), folder)
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
RUN_READY = ("train: 100%", "tokens_per_s 61,144", "f Follow")
HOME_READY = ("3 Trainings here · 1", "12     return", "llama-ft")
ATTACH = ("attach", RUN_ID)
SESSIONS = {
    "log": Session(ATTACH, RUN_READY, LOG),
    "ranks": Session(ATTACH, RUN_READY, RANKS),
    "devices": Session(ATTACH, RUN_READY, DEVICES),
    "curves": Session(ATTACH, RUN_READY, CURVES),
    "run": Session(ATTACH, RUN_READY, RUN),
    "launch": Session((), HOME_READY, LAUNCH),
    "history": Session((), HOME_READY, HISTORY),
    "cluster": Session((), HOME_READY, CLUSTER, live=True),
    "finding": Session(ATTACH, RUN_READY, FINDING),
}
