"""Where the entries of the command bar come from, each source to be read in a thread.

Sources yield entries a few at a time, the ones that are wanted most first.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from launcher.errors import LauncherError

from ...manual import topics
from ..history.run_list import RunCache
from ..launch.presets import list_presets, presets_folder
from ..launch.targets import candidates, recent_candidates
from .entry import BarEntry, Kind, entry

if TYPE_CHECKING:
    from launcher.runs.status import Status

    from ..launch.presets import Preset
    from ..launch.targets import Candidate
    from ..run.model import RankView

_RECENT, _MOST_TARGETS = 200, 5000
"""How many runs have recent targets, and how many targets of a folder are enough."""


def places_read(
    ranks: Sequence[RankView], hosts: Iterable[str], themes: Iterable[str], theme: str
) -> Iterator[list[BarEntry]]:
    """What is known already: the ranks of the open run, hosts, themes, topics of the manual."""
    yield [*map(_rank, ranks)]
    known = dict.fromkeys([this_host(), *hosts, *(view.rank.host for view in ranks)])
    yield [_host(name) for name in known if name]
    yield [_theme(name, here=name == theme) for name in themes]
    yield [entry(Kind.TOPIC, each.name, each.name, each.summary) for each in topics().values()]


def _rank(view: RankView) -> BarEntry:
    rank = view.rank
    parts = (str(view.condition), rank.host, f"step {rank.step:,}" if rank.step is not None else "")
    return entry(Kind.RANK, str(rank.rank), str(rank.rank), " · ".join(filter(None, parts)))


def _host(name: str) -> BarEntry:
    here = "this machine, on the cluster screen" if name == this_host() else "on the cluster screen"
    return entry(Kind.HOST, name, name, here)


def this_host() -> str:
    """The name of this machine, as runs record it."""
    return socket.gethostname()


def _theme(name: str, *, here: bool) -> BarEntry:
    return entry(Kind.THEME, name, name, "the present one" if here else "until the console ends")


class RunEntries:
    """The entries of all runs, kept between two openings of the bar: only live runs are read again."""

    def __init__(self, root: Path, workdir: Path) -> None:
        self._workdir = workdir
        self._cache = RunCache(root)
        self._made: dict[str, tuple[Status, BarEntry]] = {}
        self._reading = threading.Lock()

    def read(self) -> Iterator[list[BarEntry]]:
        """Every run, newest first, and after those that fill a screen presets and targets; in a thread."""
        with self._reading:  # a bar that was closed meanwhile may still read
            batches = self._batches()
            first = next(batches, ())
            yield [*map(self._entry, first)]
            yield [_target(each) for each in recent_candidates(first[:_RECENT], self._workdir)]
            yield from targets_read(self._workdir)
            sent = len(first)
            for runs in batches:
                yield [*map(self._entry, runs[sent:])]
                sent = len(runs)

    def _batches(self) -> Iterator[tuple[Status, ...]]:
        """The runs; at the first time those that fill a screen, then all."""
        try:
            yield from self._cache.look()
        except (OSError, ValueError, LauncherError):  # the screens tell why they cannot be read
            return

    def _entry(self, run: Status) -> BarEntry:
        known = self._made.get(run.id)
        if known is not None and known[0] is run:
            return known[1]
        state = run.state.value
        about = " · ".join(filter(None, (state, run.id, "" if run.why == state else run.why)))
        made = entry(Kind.RUN, run.id, run.name or run.target or run.id, about)
        self._made[run.id] = (run, made)
        return made


def targets_read(workdir: Path) -> Iterator[list[BarEntry]]:
    """The presets, and every target that is found below the folder."""
    yield [_preset(each) for each in list_presets(presets_folder(), workdir) if each.draft is not None]
    count = 0
    for batch in candidates(workdir):
        yield [*map(_target, batch)]
        count += len(batch)
        if count >= _MOST_TARGETS:  # in such a folder the picker is the better way
            return


def _preset(preset: Preset) -> BarEntry:
    target = preset.draft.target if preset.draft is not None else ""
    return entry(Kind.PRESET, preset.name, preset.name, f"fills in the form: {target}")


def _target(candidate: Candidate) -> BarEntry:
    about = candidate.doc or candidate.takes
    return entry(Kind.TARGET, candidate.target, candidate.target, "" if about == "recent" else about)
