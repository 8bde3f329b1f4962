"""All runs of a folder, read once; after that only what may have changed is looked at.

A run that has ended changes no more, so a look costs a listing of names and the status of the live ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from console.sources.history import all_runs, current
from launcher.runs.catalog import run_ids
from launcher.runs.reader import known_status
from launcher.runs.status import Status, read_status

_SCREENFUL = 128


class Ledger:
    """The runs, newest first. For one thread."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._runs: dict[str, Status] | None = None

    def forget(self) -> None:
        """Read everything anew at the next look."""
        self._runs = None

    def look(self) -> Iterator[tuple[Status, ...]]:
        """The runs as they are now; the first time, those of a first screen come before all of them.

        Raises:
            RecordError: the folder of runs cannot be read.
        """
        if self._runs is None:
            yield from self._read_all()
        else:
            self._runs = self._renewed(self._runs)
            yield tuple(self._runs.values())

    def live(self) -> tuple[Status, ...]:
        """The runs that go on, as they are now.

        Raises:
            RecordError: the folder of runs cannot be read.
        """
        for runs in self.look():
            found = tuple(run for run in runs if not run.state.final)
        return found

    def _read_all(self) -> Iterator[tuple[Status, ...]]:
        found: list[Status] = []
        for run in all_runs(self._root):
            found.append(current(run, self._root))
            if len(found) == _SCREENFUL:
                yield tuple(found)
        self._runs = {run.id: run for run in found}
        yield tuple(found)

    def _renewed(self, known: dict[str, Status]) -> dict[str, Status]:
        renewed = {}
        for run in run_ids(self._root):
            status = known.get(run)
            renewed[run] = status if status is not None and status.state.final else self._read(run)
        return renewed

    def _read(self, run: str) -> Status:
        status = read_status(self._root / run) or known_status(self._root / run)
        return current(replace(status, id=run), self._root)
