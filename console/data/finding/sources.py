"""Where the entries of the command bar come from, each source to be read in a thread.

Sources yield entries a few at a time, the ones that are wanted most first.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING

from launcher.errors import LauncherError

from ...manual import topics
from ..history.query import all_runs
from ..launch.presets import list_presets, presets_folder
from ..launch.targets import candidates, recent_candidates
from .entry import BarEntry, Kind, entry

if TYPE_CHECKING:
    from launcher.runs.status import Status

    from ..launch.presets import Preset
    from ..launch.targets import Candidate
    from ..run.model import RankView

_FIRST, _BATCH, _RECENT = 128, 2000, 200
"""Runs in the first batch, which fills a screen; in the others; and those whose targets are recent."""


def places_read(
    ranks: Sequence[RankView], hosts: Iterable[str], themes: Iterable[str], theme: str
) -> Iterator[list[BarEntry]]:
    """What is known already: the ranks of the open run, hosts, themes, topics of the manual."""
    yield [*map(_rank, ranks)]
    known = dict.fromkeys([socket.gethostname(), *hosts, *(view.rank.host for view in ranks)])
    yield [_host(name) for name in known if name]
    yield [_theme(name, here=name == theme) for name in themes]
    yield [entry(Kind.TOPIC, each.name, each.name, each.summary) for each in topics().values()]


def _rank(view: RankView) -> BarEntry:
    rank = view.rank
    parts = (str(view.condition), rank.host, f"step {rank.step:,}" if rank.step is not None else "")
    return entry(Kind.RANK, str(rank.rank), str(rank.rank), " · ".join(filter(None, parts)))


def _host(name: str) -> BarEntry:
    here = "this machine, on the cluster screen" if name == socket.gethostname() else "on the cluster screen"
    return entry(Kind.HOST, name, name, here)


def _theme(name: str, *, here: bool) -> BarEntry:
    return entry(Kind.THEME, name, name, "the present one" if here else "until the console ends")


def runs_read(root: Path, workdir: Path) -> Iterator[list[BarEntry]]:
    """Every run, newest first, and the targets of the newest."""
    try:
        found = all_runs(root)
        first = list(islice(found, _FIRST))
        yield [*map(_run, first)]
        more = list(islice(found, _RECENT - _FIRST))
        yield [_target(each) for each in recent_candidates([*first, *more], workdir)]
        rest = chain(more, found)
        while batch := [_run(run) for run in islice(rest, _BATCH)]:
            yield batch
    except LauncherError:  # the folder of runs cannot be read: the screens say so
        return


def _run(run: Status) -> BarEntry:
    state = run.state.value
    why = "" if run.why == state else run.why
    return entry(
        Kind.RUN, run.id, run.name or run.target or run.id, " · ".join(filter(None, (state, run.id, why)))
    )


def targets_read(workdir: Path) -> Iterator[list[BarEntry]]:
    """The presets, and every target that is found below the folder."""
    yield [_preset(each) for each in list_presets(presets_folder(), workdir) if each.draft is not None]
    for batch in candidates(workdir):
        yield [*map(_target, batch)]


def _preset(preset: Preset) -> BarEntry:
    target = preset.draft.target if preset.draft is not None else ""
    return entry(Kind.PRESET, preset.name, preset.name, f"fills in the form: {target}")


def _target(candidate: Candidate) -> BarEntry:
    about = candidate.doc or candidate.takes
    return entry(Kind.TARGET, candidate.target, candidate.target, "" if about == "recent" else about)
