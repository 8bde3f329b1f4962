"""Which run folders there are: make one, list them, find one by what a person typed, remove one."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from launcher.errors import RecordError, RunNotFound, SpecError
from launcher.runs import paths
from launcher.runs.asked import write_private, write_spec
from launcher.runs.reader import known_status
from launcher.runs.status import Status, read_status, write_status
from launcher.spec import JobSpec

YOUNG_S = 60.0
_REMOVED, _NEW = ".removed", ".new"


def new_id(now: float, salt: str) -> str:
    """An id that sorts by start time: UTC to the millisecond, and three hex digits against ties."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now))
    return f"{stamp}-{int(now * 1000) % 1000:03d}{salt}"


def create_folder(root: Path, now: float, spec: JobSpec | None = None) -> Path:
    """A new, private run folder; with a spec, one that says from its first moment what and whose it is.

    Raises:
        RecordError: the run root cannot be made or written.
    """
    try:
        root.mkdir(parents=True, exist_ok=True, mode=paths.FOLDER_MODE)
        while True:
            folder = root / new_id(now, secrets.token_hex(2)[:3])
            with contextlib.suppress(FileExistsError):
                _make(folder, spec)
                return folder
    except OSError as error:
        raise RecordError(
            f"cannot make a run folder under {root}: {error.strerror}",
            hint="set RANKDECK_HOME to a folder you can write to",
        ) from error


def _make(folder: Path, spec: JobSpec | None) -> None:
    """Make it elsewhere and move it here: whoever lists runs finds a whole one or none.

    Raises:
        FileExistsError: the id is taken.
    """
    if spec is None:
        folder.mkdir(mode=paths.FOLDER_MODE)
        return
    new = folder.with_name(f".{folder.name}{_NEW}")
    new.mkdir(mode=paths.FOLDER_MODE)
    try:
        write_spec(new, spec)
        write_private(new, spec)
        write_status(new, Status.first(folder.name, spec))
        if folder.exists():
            raise FileExistsError(folder)
        new.rename(folder)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise


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
        yield known_status(root / name)


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
    """Delete a run's folder: for readers at once, whatever its size.

    Raises:
        SpecError: the run has not ended.
        RecordError: it cannot be deleted.
    """
    require_ended(folder)
    hidden = folder.with_name(f".{folder.name}{_REMOVED}")
    try:
        folder.rename(hidden)
        shutil.rmtree(hidden)
    except FileNotFoundError:
        return  # somebody else was quicker
    except OSError as error:
        raise RecordError(f"cannot delete {folder}: {error.strerror}") from error


def sweep(root: Path) -> None:
    """Delete what is left of runs whose removal, or whose making, was cut short."""
    for hidden in (*root.glob(f".*{_REMOVED}"), *filter(_is_old, root.glob(f".*{_NEW}"))):
        if paths.is_run_id(hidden.stem[1:]):
            shutil.rmtree(hidden, ignore_errors=True)


def _is_old(folder: Path) -> bool:
    """Whether its maker has had the time to finish."""
    try:
        return time.time() - folder.stat().st_mtime > YOUNG_S
    except OSError:
        return False


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
