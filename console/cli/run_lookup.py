"""From what a person typed to a run's folder: an id, a folder somewhere, or a file that `export` made."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from launcher.errors import RunNotFound

LOGS, PICKLES, ALL = "logs", "pickles", "all"

_MARKS = ("spec.json", "events.jsonl")


def find(wanted: str, *parts: str) -> Path:
    """The folder of the run that is meant; an exported file is unpacked until this process ends.

    Of such a file comes what tells of the run, and these `parts` of it, as `export.archive` calls them.

    Raises:
        RunNotFound: none, or several; or there is no run in that place.
        RecordError: the file cannot be unpacked.
    """
    from launcher.errors import RunNotFound

    if _is_place(wanted):
        return _at(Path(wanted), parts)
    try:
        return find_stored(wanted)
    except RunNotFound:
        if wanted and os.path.lexists(wanted):
            return _at(Path(wanted), parts)
        raise


def find_stored(wanted: str) -> Path:
    """The same for ids only: for what changes a run's folder.

    Raises:
        RunNotFound: none, or several.
    """
    from launcher.runs.catalog import find_run
    from launcher.runs.paths import runs_root

    return find_run(runs_root(), wanted)


def _is_place(wanted: str) -> bool:
    """Whether it can only mean a file or a folder."""
    return os.sep in wanted or wanted.endswith(".zip") or wanted in (".", "..", "~")


def _at(place: Path, parts: Sequence[str]) -> Path:
    place = place.expanduser().absolute()
    if place.is_dir():
        if any((place / mark).is_file() for mark in _MARKS):
            return Path(os.path.normpath(place))
        raise _nothing(f"{place} holds no run")
    if place.is_file():
        from ..export.archive import unpack

        return unpack(place, parts)
    raise _nothing(f"there is no {place}")


def _nothing(what: str) -> RunNotFound:
    from launcher.errors import RunNotFound

    return RunNotFound(what, hint="a run is meant by its id, its folder, or a file from: rankdeck export")
