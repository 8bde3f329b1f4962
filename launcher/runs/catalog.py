"""Which run folders there are: make one, list them, find one by what a person typed, remove one."""

from __future__ import annotations

import os
import secrets
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from launcher.errors import RecordError, RunNotFound, SpecError
from launcher.runs import paths
from launcher.runs.status import Status, read_status


def new_id(now: float, salt: str) -> str:
    """An id that sorts by start time: UTC to the millisecond, and three hex digits against ties."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now))
    return f"{stamp}-{int(now * 1000) % 1000:03d}{salt}"


def create_folder(root: Path, now: float) -> Path:
    """A new, private run folder.

    Raises:
        RecordError: the run root cannot be made or written.
    """
    try:
        root.mkdir(parents=True, exist_ok=True, mode=paths.FOLDER_MODE)
        while True:
            folder = root / new_id(now, secrets.token_hex(2)[:3])
            try:
                folder.mkdir(mode=paths.FOLDER_MODE)
            except FileExistsError:
                continue
            return folder
    except OSError as error:
        raise RecordError(
            f"cannot make a run folder under {root}: {error.strerror}",
            hint="set RANKDECK_HOME to a folder you can write to",
        ) from error


def run_ids(root: Path) -> list[str]:
    """All run ids under `root`, newest first."""
    try:
        names = os.listdir(root)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RecordError(f"cannot read {root}: {error.strerror}") from error
    return sorted(filter(paths.is_run_id, names), reverse=True)


def list_runs(root: Path) -> Iterator[Status]:
    """The status of every run, newest first; a folder without one is shown as far as it is known."""
    for name in run_ids(root):
        yield read_status(root / name) or Status(id=name)


def find_run(root: Path, wanted: str) -> Path:
    """The folder of the run that a person means: an id, a unique part of its start or end, or ``last``.

    Raises:
        RunNotFound: no run matches, or several do.
    """
    ids = run_ids(root)
    if wanted == "last":
        if not ids:
            raise RunNotFound("there is no run yet", hint="start one with: rankdeck run TARGET")
        return root / ids[0]
    if wanted in ids:
        return root / wanted
    matches = [i for i in ids if wanted and (i.startswith(wanted) or i.endswith(f"-{wanted}"))]
    if not matches:
        raise RunNotFound(f"no run is called {wanted!r}", hint="rankdeck ps lists them")
    if len(matches) > 1:
        some = ", ".join(matches[:3]) + (", …" if len(matches) > 3 else "")
        raise RunNotFound(f"{wanted!r} means {len(matches)} runs: {some}", hint="type more of the id")
    return root / matches[0]


def remove_run(folder: Path) -> None:
    """Delete a run's folder.

    Raises:
        SpecError: the run has not ended.
    """
    require_ended(folder)
    shutil.rmtree(folder)


def require_ended(folder: Path) -> None:
    """Refuse a run that is still going on.

    Raises:
        SpecError: the run has not ended.
    """
    status = read_status(folder)
    if status and not status.state.final:
        raise SpecError(
            f"run {folder.name} is {status.state}",
            hint=f"stop it first: rankdeck stop {folder.name}",
        )
