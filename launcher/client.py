"""What a console or a command does to runs that it does not own: start one that outlives it, stop one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from launcher import errors
from launcher.backends.local import ROOT
from launcher.control import send_command
from launcher.errors import InternalError, LauncherError, RunStopped
from launcher.keeper import BOOT, write_request
from launcher.request import Request
from launcher.runs.paths import home

START_LIMIT_S = 60.0


def start_detached(request: Request) -> str:
    """Start a run that lives on without the caller; its id.

    Raises:
        LauncherError: as `launcher.distributor.launch` does.
    """
    keeper = subprocess.Popen(
        [sys.executable, "-P", "-c", BOOT, ROOT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd="/",
        env=_keepers_environ(),
        start_new_session=True,
    )
    try:
        out, err = keeper.communicate(write_request(request), START_LIMIT_S)
    except subprocess.TimeoutExpired as error:
        keeper.kill()
        keeper.communicate()
        raise InternalError(f"the run's keeper did not answer within {START_LIMIT_S:g} s") from error
    return _run_id(out, err.decode(errors="replace"))


def _keepers_environ() -> dict[str, str]:
    """Ours; a home that is relative to our folder is not to be looked for in the keeper's."""
    place = {"RANKDECK_HOME": str(home())} if os.environ.get("RANKDECK_HOME") else {}
    return {**os.environ, **place}


def _run_id(out: bytes, noise: str) -> str:
    try:
        answer: dict[str, Any] = json.loads(out)
    except ValueError:
        last = (noise.strip().splitlines() or ["no output"])[-1]
        raise InternalError(f"the run's keeper failed: {last}") from None
    if "run" in answer:
        return str(answer["run"])
    kind: type[LauncherError] = getattr(errors, answer["error"], InternalError)
    raise kind(answer["message"], hint=answer["hint"])


def request_stop(run: Path, *, force: bool = False, reason: str = "on request") -> None:
    """Ask a run's owner to stop it: SIGTERM, grace, SIGKILL; `force` skips the grace.

    Raises:
        LauncherError: its owner cannot be reached from here.
    """
    send_command(run.name, {"reason": reason, "force": force, "exit_code": RunStopped.exit_code})
