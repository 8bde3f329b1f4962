"""Which runs are kept, and for how long: a pure choice, and what carries it out. A run that goes on stays."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from launcher.errors import LauncherError
from launcher.runs.catalog import remove_run, run_ids, sweep
from launcher.runs.status import read_status
from launcher.settings import Policy

_BLOCK = 512


@dataclass(frozen=True, slots=True)
class Stored:
    """A run in its folder: when it ended, None if it has not or that is not known, and the room it takes."""

    id: str
    ended: float | None = None
    bytes: int = 0


def choose(runs: Iterable[Stored], policy: Policy, now: float) -> list[str]:
    """The runs that the policy lets go, oldest first; never one that has not ended.

    One that has not ended counts among those that are kept, with its bytes.
    """
    newest_first = sorted(runs, key=lambda run: run.id, reverse=True)
    gone: list[Stored] = []
    size = sum(run.bytes for run in newest_first)
    for place, run in reversed(list(enumerate(newest_first))):
        if run.ended is None:
            continue
        many = policy.count is not None and place >= policy.count
        old = policy.age_s is not None and run.ended < now - policy.age_s
        large = policy.bytes is not None and size > policy.bytes
        if many or old or large:
            gone.append(run)
            size -= run.bytes
    return [run.id for run in gone]


def prune(root: Path, policy: Policy, *, now: float | None = None, dry_run: bool = False) -> list[str]:
    """Delete what the policy lets go; the ids of those runs, oldest first. One that resists stops no other.

    Looks into no folder that may stay for its number and its age, unless bytes are limited.

    Raises:
        RecordError: the folder of runs cannot be read, or a run cannot be deleted.
    """
    now = time.time() if now is None else now
    gone = choose(_stored(root, policy, now), policy, now)
    if not dry_run:
        with contextlib.suppress(OSError):
            sweep(root)
        _remove(root, gone)
    return gone


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
    """How the id of a run that began then begins."""
    return time.strftime("%Y%m%d-%H%M%S", time.gmtime(time_s))


def _ended(run: Path) -> float | None:
    """When a run ended; for one that was lost without a word, when its folder last changed."""
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
    """The room that a folder takes on its disk, in bytes; what vanishes meanwhile takes none."""
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
