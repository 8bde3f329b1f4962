"""The end of a run's own work: agents let go, their processes waited for, and the verdict."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from launcher.backends import Backend
from launcher.events import NoteMade
from launcher.roster import Roster
from launcher.runs.writer import RunWriter
from launcher.verdict import verdict

CLOSE_LIMIT_S = 60.0


def conclude(
    writer: RunWriter, roster: Roster, backend: Backend, *, clock: Callable[[], float], broken: str, code: int
) -> None:
    """Release the agents, wait until nothing of theirs is alive, and pronounce.

    Args:
        writer: the run's folder.
        roster: the agents.
        backend: what started them.
        clock: the time of day.
        broken: what broke under the run, if that is why it ends.
        code: the exit code for that.
    """
    record(roster.drop_all)
    backend.close(CLOSE_LIMIT_S)
    if complaint := backend.complaint():
        note = NoteMade(time=clock(), text=complaint, level="error")
        record(lambda: writer.append(note))
    record(writer.settle)
    ended = verdict(writer.state, now=clock(), broken=broken, exit_code=code)
    record(lambda: writer.append(ended))


def record(write: Callable[[], object]) -> None:
    """Write if the disk lets us: at the end there is nobody left to tell that it did not."""
    with contextlib.suppress(OSError):
        write()
