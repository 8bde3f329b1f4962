"""Engines that tests have started: found, and ended."""

from __future__ import annotations

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
    known = [int(json.loads(path.read_text())["pid"]) for path in found]
    return [pid for pid in known if process_start(pid) is not None]


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
        os.kill(pid, signal.SIGKILL)
        until(lambda pid=pid: process_start(pid) is None)  # type: ignore[misc]  # a lambda's default
