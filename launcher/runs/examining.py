"""What of a run's folder cannot be read beside its facts: told of one run, and of no other."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from launcher.errors import RecordError
from launcher.fold import fold
from launcher.record_events import PartUnreadable
from launcher.runs import chunks, opening, paths
from launcher.runs.log_files import LogFiles
from launcher.runs.opening import NotPlain
from launcher.runs.reader import read_spec, read_summary, reason_of
from launcher.state import RunState

_RECORDS = 4096
_MOST_LOGS = 4096


def examined(run: Path, state: RunState) -> RunState:
    """The state, with all that cannot be read of the request, the results and the output.

    The output itself is not read, only the newest records of its order.
    """
    for name, read in ((paths.SPEC, read_spec), (paths.SUMMARY, read_summary)):
        try:
            read(run)
        except RecordError as error:
            state = fold(state, PartUnreadable(time=0.0, file=name, reason=reason_of(error.__cause__)))
    for attempt in paths.attempts(run):
        for part in _unreadable_logs(run, attempt):
            state = fold(state, part)
    return state


def _unreadable_logs(run: Path, attempt: int) -> list[PartUnreadable]:
    with closing(LogFiles(run, attempt)) as files:
        try:
            names = opening.names_in(run, paths.log_folder(run, attempt))
        except OSError as error:
            return [PartUnreadable(time=0.0, file=f"{paths.LOGS}/{attempt}", reason=error.strerror or "")]
        for name in names[:_MOST_LOGS]:
            files.try_file(paths.log_folder(run, attempt) / name)
        order = paths.log_folder(run, attempt) / paths.CHUNKS
        try:
            size = opening.stat_file(run, order).st_size
        except (FileNotFoundError, NotPlain, PermissionError):
            return list(files.unreadable.values())
        first = max((size - len(chunks.MAGIC)) // chunks.SIZE - _RECORDS, 0)
        found = files.records(attempt, len(chunks.MAGIC) + first * chunks.SIZE, _RECORDS)
        if found is not None and found.wrong:
            files.note_wrong(attempt, first, found.wrong)
        return list(files.unreadable.values())
