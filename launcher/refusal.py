"""Runs that never were: a request that cannot be placed is remembered as well as one that failed later."""

from __future__ import annotations

import contextlib
import shutil
import time
from pathlib import Path

from launcher import events as ev
from launcher.attempt import submission
from launcher.errors import LauncherError, RecordError
from launcher.origin import find_origin
from launcher.request import Request
from launcher.runs.catalog import create_folder
from launcher.runs.writer import RunWriter
from launcher.state import Phase


def record_refusal(request: Request, error: LauncherError, root: Path) -> Path | None:
    """Make a run folder that says what was asked, by whom, and why there is no run.

    Where that cannot be written, there is None: the refusal itself matters more, and is told by its error.
    """
    now = time.time()
    with contextlib.suppress(OSError, RecordError):
        folder = create_folder(root, now, request.spec)
        try:
            _write(folder, request, error, now)
        except (OSError, RecordError):
            shutil.rmtree(folder, ignore_errors=True)  # half a record would look like a run that goes on
            raise
        return folder
    return None


def _write(folder: Path, request: Request, error: LauncherError, now: float) -> None:
    writer = RunWriter(folder, request.spec, payload=request.payload)
    with contextlib.closing(writer):
        for fact in (submission(request, now), find_origin(request), _ended(error)):
            writer.append(fact)


def _ended(error: LauncherError) -> ev.RunEnded:
    return ev.RunEnded(time=time.time(), state=Phase.FAILED.value, exit_code=error.exit_code, why=str(error))
