"""Engines that tests have started: found, and ended."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from pathlib import Path

from launcher.engine.client import engines, stop_engine
from launcher.errors import LauncherError
from launcher.runs.status import process_start
from launcher.runtime_dir import runtime_place
from tests.commands import until


def pids(folder: Path | None = None) -> list[int]:
    """The engines of a home that are alive."""
    found = (folder or runtime_place()).glob("engine-*.json")
    return [pid for path in found if (pid := _pid_in(path)) and process_start(pid) is not None]


def _pid_in(record: Path) -> int:
    """The engine's pid; 0 of one that has just taken its record away."""
    try:
        return int(json.loads(record.read_text())["pid"])
    except FileNotFoundError:
        return 0


def end_all() -> None:
    """Stop every engine and its runs; kill one that does not listen."""
    if not runtime_place().is_dir():
        return
    for known in list(engines()):
        try:
            stop_engine(known, force=True)
        except (ConnectionError, LauncherError, ProcessLookupError):
            continue
    for pid in pids():
        with contextlib.suppress(ProcessLookupError):  # it has left meanwhile
            os.kill(pid, signal.SIGKILL)
        until(lambda pid=pid: process_start(pid) is None)  # type: ignore[misc]  # a lambda's default
