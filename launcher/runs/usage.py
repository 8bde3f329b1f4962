"""`usage.json`: what a run used over all its time, replaced as a whole every few seconds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from ..errors import RecordError
from ..serialization import from_plain, to_plain
from ..state.events import Sampled
from ..state.ranks import Rank
from ..state.usage import Usage, UsageSums
from . import files, paths
from .files import write_whole

EACH_S = 10.0


class UsageWriter:
    """Sums the samples of one run, and writes the sums."""

    def __init__(self, run: Path) -> None:
        self._path = run / paths.USAGE
        self._sums = UsageSums()
        self._due = 0.0
        self._stale = False

    def take(self, sample: Sampled, ranks: Sequence[Rank]) -> None:
        """Add a sample; `flush` writes the sums."""
        self._sums.take(sample, ranks)
        self._stale = True

    def due(self, now: float) -> bool:
        """Whether it is time to `flush` again; `now` is monotonic."""
        if not self._stale or now < self._due:
            return False
        self._due = now + EACH_S
        return True

    def flush(self) -> None:
        """Write the sums, if they have changed.

        Raises:
            OSError: they cannot be written.
        """
        if self._stale:
            write_whole(self._path, json.dumps(to_plain(self._sums.usage)).encode() + b"\n")
            self._stale = False


def read_usage(run: Path) -> Usage | None:
    """What a run used; None if nothing is recorded, as of a run of an older version.

    Raises:
        RecordError: the file cannot be read, or holds something else.
    """
    try:
        return from_plain(Usage, json.loads(files.read_whole(run, run / paths.USAGE)))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, RecursionError) as error:
        raise RecordError(f"unreadable: {paths.USAGE}: {error}") from error
