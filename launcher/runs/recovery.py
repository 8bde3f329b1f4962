"""Runs whose owner was killed: repair their folders, and mark the runs as lost.

A folder is changed only if its owner is certainly dead on this host and the lock of its facts is free. What
was written stays: a torn last line is ended, and output without a chunk record gets one.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..errors import AgentLost, RecordError
from ..state import events as ev
from ..state.run_state import Phase
from . import files, paths
from . import files as opening
from .artifacts import remove_partial
from .catalog import run_ids
from .files import Growing
from .logs import writer
from .reader import read_state
from .results import write_summaries
from .status import NO_VERDICT, Owner, Status, stored_status, write_status

YOUNG_S = 60.0
_BLOCK = 1 << 20


def mark_lost_runs(root: Path, now: float | None = None, *, settled: set[str] | None = None) -> list[str]:
    """Mark every dead run under `root` as lost; their ids. A folder that cannot be repaired is skipped.

    Args:
        root: the folder of runs.
        now: the time of day.
        settled: runs that are known to have a verdict, which are not read; those that turn out to have one
            are added. For callers that do this repeatedly.
    """
    marked = []
    settled = set() if settled is None else settled
    with contextlib.suppress(RecordError):
        for name in run_ids(root):
            if name in settled:
                continue
            with contextlib.suppress(OSError, RecordError):
                if _is_final(root / name):
                    settled.add(name)
                elif mark_lost(root / name, now):
                    marked.append(name)
    return marked


def mark_lost(run: Path, now: float | None = None) -> bool:
    """Give a run whose owner died before its verdict the verdict ``lost``, and repair its folder.

    Args:
        run: the run folder.
        now: the time of day.

    Returns:
        False for a run that has a verdict, that goes on, or whose owner is not known on this host.

    Raises:
        OSError: the folder cannot be written.
    """
    now = time.time() if now is None else now
    if not _may_be_dead(run, now):
        return False
    with _locked(run) as events:
        if events is None or not _may_be_dead(run, now):  # another process has marked it meanwhile
            return False
        seen = _last_change(run, now)
        _end_torn_line(run / paths.EVENTS, events)
        _repair(run)
        state = read_state(run)
        if not state.phase.final:
            code = AgentLost.exit_code
            lost = ev.RunEnded(
                time=max(seen, state.started or 0.0),
                attempt=state.attempt,
                state=Phase.LOST.value,
                exit_code=code,
                why=NO_VERDICT,
            )
            events.whole(ev.encode(lost, run.name))
            state = read_state(run)
        write_status(run, Status.of(state, _owner(run)))
    return True


def _is_final(run: Path) -> bool:
    """Whether a run has a verdict. Nothing else is decoded, because there are many runs."""
    try:
        return Phase(json.loads(files.read_whole(run, run / paths.STATUS))["state"]).final
    except (OSError, ValueError, TypeError, LookupError, RecursionError):
        return False


def _may_be_dead(run: Path, now: float) -> bool:
    """Whether the owner is dead; without a known owner, whether the folder has not changed for a while."""
    status = stored_status(run)
    if status is not None and status.owner.pid:
        return not status.state.final and status.owner.alive is False
    try:
        age = now - max(p.lstat().st_mtime for p in (run, *run.iterdir()))
    except (OSError, ValueError):
        return False
    return (status is None or not status.state.final) and age > YOUNG_S


def _owner(run: Path) -> Owner:
    status = stored_status(run)
    return status.owner if status else Owner("", 0, 0)


@contextmanager
def _locked(run: Path) -> Iterator[Growing | None]:
    """The locked file of facts; None if another process holds the lock."""
    events = Growing(run / paths.EVENTS)
    try:
        yield events if _lock(events.descriptor) else None
    finally:
        events.close()


def _lock(descriptor: int) -> bool:
    """Whether the lock is ours. On a file system without locks it is: the check of the owner must do."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _end_torn_line(path: Path, events: Growing) -> None:
    """End a torn last line, so that only this line is unreadable."""
    with files.open_file(path.parent, path, buffering=0) as file:
        if os.pread(file.fileno(), 1, max(0, events.size - 1)) not in (b"", b"\n"):
            events.whole(b"\n")


def _repair(run: Path) -> None:
    """Remove partial files, and write the records and summaries that are missing."""
    left = run / paths.RESERVE, run / paths.CONTROL
    remove_partial(run)
    files = [path for path in opening.files_below(run) if run / paths.ARTIFACTS not in path.parents]
    half_made = [path for path in files if path.match(".*.partial") or path.match("*.mirrored")]
    for half in (*half_made, *left):
        half.unlink(missing_ok=True)
    for attempt in paths.attempts(run):
        _repair_logs(run, attempt)
    returned = [r.returned for r in read_state(run).ranks if r.returned]
    if returned:
        write_summaries(run, returned)


def _repair_logs(run: Path, attempt: int) -> None:
    """Write records for output that has none, with the time at which its file was last written."""
    folder = paths.log_folder(run, attempt)
    files.names_in(run, folder)  # fails if the folder is a link
    order = Growing(folder / paths.CHUNKS)
    try:
        order.cut(order.size - max(0, order.size - len(writer.MAGIC)) % writer.SIZE)
        if order.size < len(writer.MAGIC):
            order.cut(0)
            order.whole(writer.MAGIC)
        recorded, latest = _recorded(run, folder / paths.CHUNKS)
        tails = list(_unrecorded(run, folder, recorded, latest))
        order.whole(b"".join(map(writer.pack_chunk, tails)))
    finally:
        order.close()


def _recorded(run: Path, path: Path) -> tuple[Counter[tuple[int, int]], int]:
    """How many bytes of each rank and stream have a record, and the time of the last one."""
    lengths: Counter[tuple[int, int]] = Counter()
    latest = 0
    with files.open_file(run, path) as file:
        file.seek(len(writer.MAGIC))
        while block := file.read(_BLOCK // writer.SIZE * writer.SIZE):
            for chunk in writer.unpack_chunk(block):
                lengths[chunk.rank, chunk.stream] += chunk.length
                latest = max(latest, chunk.time_ns)
    return lengths, latest


def _unrecorded(
    run: Path, folder: Path, recorded: Counter[tuple[int, int]], latest: int
) -> Iterator[writer.Chunk]:
    streams = {f".{suffix}": stream for stream, suffix in paths.SUFFIX.items()}
    for path in (folder / name for name in files.names_in(run, folder)):
        if path.suffix in streams and path.stem.isdecimal() and files.is_file(run, path):
            rank, stream = int(path.stem), streams[path.suffix]
            found = files.stat_file(run, path)
            when, rest = max(latest, found.st_mtime_ns), found.st_size - recorded[rank, stream]
            while rest > 0:
                piece = min(rest, writer.LONGEST)
                yield writer.Chunk(when, rank, piece, stream)
                rest -= piece


def _last_change(run: Path, now: float) -> float:
    """When a file of the run was last written; it stands for the end, since the owner's death has no time."""
    return min(now, max(path.lstat().st_mtime for path in (run, *files.files_below(run))))
