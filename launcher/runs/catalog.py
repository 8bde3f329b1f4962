"""The run folders: make one, list them, find one by what a person typed, remove old ones.

A request is written as two files. `spec.json` is for everybody who may read the run. `private.json` holds the
secrets, so that the same can be run again; it is never exported.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ..errors import LauncherError, RecordError, RunNotFound, SpecError
from ..serialization import to_plain
from ..settings import Policy
from ..spec.job import JobSpec
from . import paths
from .files import read_whole, write_whole
from .reader import known_status
from .status import Status, read_status, write_status

YOUNG_S = 60.0
_REMOVED, _NEW = ".removed", ".new"


def new_id(now: float, salt: str) -> str:
    """An id that sorts by start time: UTC to the millisecond, and three hex digits against ties."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime(now))
    return f"{stamp}-{int(now * 1000) % 1000:03d}{salt}"


def create_folder(root: Path, now: float, spec: JobSpec | None = None) -> Path:
    """A new, private run folder. With a spec, it holds the request and a status from the moment it appears.

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
    """Make the folder under another name and rename it, so that a listing shows a complete one or none.

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
    """The status of every run, newest first; without a status file, as far as the facts allow."""
    for name in run_ids(root):
        yield known_status(root / name)


def find_run(root: Path, wanted: str) -> Path:
    """The folder of the run that a person typed: an id, a unique part of its start or end, or ``last``.

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
    """Delete a run's folder. It is renamed first, so that readers lose it at once, whatever its size.

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
        return  # another process has removed it
    except OSError as error:
        raise RecordError(f"cannot delete {folder}: {error.strerror}") from error


def sweep(root: Path) -> None:
    """Delete folders whose removal or creation was interrupted."""
    for hidden in (*root.glob(f".*{_REMOVED}"), *filter(_is_old, root.glob(f".*{_NEW}"))):
        if paths.is_run_id(hidden.stem[1:]):
            shutil.rmtree(hidden, ignore_errors=True)


def _is_old(folder: Path) -> bool:
    """Whether the process that makes it has had enough time to finish."""
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


def write_spec(run: Path, spec: JobSpec) -> None:
    """Write the request, without its secrets."""
    write_whole(run / paths.SPEC, json.dumps(to_plain(spec.redacted()), indent=1).encode())


def write_private(run: Path, spec: JobSpec) -> None:
    """Write what `write_spec` leaves out, by its place; no file if there is nothing."""
    if private := spec.private():
        write_whole(run / paths.PRIVATE, json.dumps(private).encode())


def read_private(run: Path) -> dict[str, str]:
    """What `write_private` wrote, by its place; empty if it cannot be read."""
    try:
        found = json.loads(read_whole(run, run / paths.PRIVATE))
    except (OSError, ValueError, RecursionError):
        return {}
    known = found.items() if isinstance(found, dict) else ()
    return {place: text for place, text in known if isinstance(text, str)}


_BLOCK = 512


@dataclass(frozen=True, slots=True)
class Stored:
    """A run in its folder: when it ended (None if it has not, or this is unknown), and its size on disk."""

    id: str
    ended: float | None = None
    bytes: int = 0


def choose_expired(runs: Iterable[Stored], policy: Policy, now: float) -> list[str]:
    """The ids of the runs that the policy does not keep, oldest first; never one that has not ended.

    A run that has not ended counts among those that are kept, with its bytes.
    """
    newest_first = sorted(runs, key=lambda run: run.id, reverse=True)
    expired: list[Stored] = []
    size = sum(run.bytes for run in newest_first)
    for place, run in reversed(list(enumerate(newest_first))):
        if run.ended is None:
            continue
        many = policy.count is not None and place >= policy.count
        old = policy.age_s is not None and run.ended < now - policy.age_s
        large = policy.bytes is not None and size > policy.bytes
        if many or old or large:
            expired.append(run)
            size -= run.bytes
    return [run.id for run in expired]


def prune(root: Path, policy: Policy, *, now: float | None = None, dry_run: bool = False) -> list[str]:
    """Delete the runs that the policy does not keep; their ids, oldest first.

    Unless bytes are limited, a folder is read only if the run's number or age does not allow it to stay.

    Raises:
        RecordError: the folder of runs cannot be read, or a run cannot be deleted; all others were.
    """
    now = time.time() if now is None else now
    expired = choose_expired(_stored(root, policy, now), policy, now)
    if not dry_run:
        with contextlib.suppress(OSError):
            sweep(root)
        _remove(root, expired)
    return expired


def _remove(root: Path, runs: Iterable[str]) -> None:
    failed: list[LauncherError] = []
    for run in runs:
        try:
            remove_run(root / run)
        except LauncherError as error:
            failed.append(error)
    if failed:
        raise failed[0]


def _stored(root: Path, policy: Policy, now: float) -> Iterator[Stored]:
    cutoff = "" if policy.age_s is None else _stamp(max(0.0, now - policy.age_s))
    for place, run in enumerate(run_ids(root)):
        candidate = (policy.count is not None and place >= policy.count) or run < cutoff
        size = 0 if policy.bytes is None else folder_bytes(root / run)
        yield Stored(run, _ended(root / run) if candidate or size else None, size)


def _stamp(time_s: float) -> str:
    """The beginning of the id of a run that began at this time."""
    return time.strftime("%Y%m%d-%H%M%S", time.gmtime(time_s))


def _ended(run: Path) -> float | None:
    """When a run ended; for a lost run without a verdict, when its folder last changed."""
    status = read_status(run)
    if status is None or not status.state.final:
        return None
    if status.ended is not None:
        return status.ended
    try:
        return max(run.stat().st_mtime, status.started or 0.0)
    except OSError:
        return None


def folder_bytes(folder: Path) -> int:
    """The size of a folder on its disk, in bytes; files that vanish meanwhile do not count."""
    total = 0
    waiting = [os.fspath(folder)]
    while waiting:
        with contextlib.suppress(OSError), os.scandir(waiting.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    total += entry.stat(follow_symlinks=False).st_blocks * _BLOCK
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(entry.path)
    return total
