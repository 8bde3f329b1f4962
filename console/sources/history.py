"""The runs there have been, newest first, and what they were asked to do."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from launcher.errors import RecordError
from launcher.runs.catalog import list_runs
from launcher.runs.status import Status

MOST = 100


def recent_runs(root: Path, limit: int = MOST) -> tuple[Status, ...]:
    """The newest runs; none where there is no folder of runs yet, or it cannot be read."""
    try:
        return tuple(islice(list_runs(root), limit))
    except RecordError:
        return ()
