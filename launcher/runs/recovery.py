"""Runs whose owner was killed: make their folders whole, and say that they are lost.

A folder is touched only where its owner is provably dead on this host and the lock of its facts is free.
What was said before the end stays: torn ends are closed off, bytes without a record get one.
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
from .catalog import run_ids
from .files import Growing
from .logs import writer
from .reader import read_state
from .results import write_summaries
from .status import NO_VERDICT, Owner, Status, stored_status, write_status

YOUNG_S = 60.0
_BLOCK = 1 << 20


def mark_lost_runs(root: Path, now: float | None = None, *, settled: set[str] | None = None) -> list[str]:
    """Bury every dead run under `root`; the ids of those that were. Never raises for a folder's sake.

    Args:
        root: the folder of runs.
        now: the time of day.
        settled: runs that are known to have a verdict, which are not looked at; those that are found to
            have one are added. For who does this again and again.
    """
    buried = []
    settled = set() if settled is None else settled
    with contextlib.suppress(RecordError):
        for name in run_ids(root):
            if name in settled:
                continue
            with contextlib.suppress(OSError, RecordError):
                if _is_final(root / name):
                    settled.add(name)
                elif mark_lost(root / name, now):
                    buried.append(name)
    return buried


def mark_lost(run: Path, now: float | None = None) -> bool:
    """Give a run that its owner left without a verdict the verdict ``lost``, and make its folder whole.

    Args:
        run: the run folder.
        now: the time of day.

    Returns:
        False for a run that has a verdict, that goes on, or of which that cannot be known here.

    Raises:
        OSError: the folder cannot be written.
    """
    now = time.time() if now is None else now
    if not _may_be_dead(run, now):
        return False
    with _locked(run) as events:
        if events is None or not _may_be_dead(run, now):  # somebody was quicker
            return False
        seen = _last_sign(run, now)
        _close_off(run / paths.EVENTS, events)
        _mend(run)
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
    """Whether a run has a verdict: only that is looked at, for there are many."""
    try:
        return Phase(json.loads(files.read_whole(run, run / paths.STATUS))["state"]).final
    except (OSError, ValueError, TypeError, LookupError, RecursionError):
        return False


def _may_be_dead(run: Path, now: float) -> bool:
    """Whether all that the folder says of its owner allows that it is dead."""
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
    """The file of facts while nobody else writes it; None if somebody does."""
    events = Growing(run / paths.EVENTS)
    try:
        yield events if _lock(events.descriptor) else None
    finally:
        events.close()


def _lock(descriptor: int) -> bool:
    """Whether the lock is ours; a file system without locks leaves it to what is known of the owner."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _close_off(path: Path, events: Growing) -> None:
    """End a torn last line: it is then one line that says nothing."""
    with files.open_file(path.parent, path, buffering=0) as file:
        if os.pread(file.fileno(), 1, max(0, events.size - 1)) not in (b"", b"\n"):
            events.whole(b"\n")


def _mend(run: Path) -> None:
    """Remove what was half made, and record what was not recorded."""
    left = run / paths.RESERVE, run / paths.CONTROL
    files = opening.files_below(run)
    half_made = [path for path in files if path.match(".*.partial") or path.match("*.mirrored")]
    for half in (*half_made, *left):
        half.unlink(missing_ok=True)
    for attempt in paths.attempts(run):
        _mend_logs(run, attempt)
    returned = [r.returned for r in read_state(run).ranks if r.returned]
    if returned:
        write_summaries(run, returned)


def _mend_logs(run: Path, attempt: int) -> None:
    """Give the bytes that came last a record, as of when their file was written."""
    folder = paths.log_folder(run, attempt)
    files.names_in(run, folder)  # which fails for a link that leads elsewhere
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


def _last_sign(run: Path, now: float) -> float:
    """When something was last written: nobody knows when the owner died."""
    return min(now, max(path.lstat().st_mtime for path in (run, *files.files_below(run))))
