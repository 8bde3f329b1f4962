"""Finding a run's folder from a command's ID: a run's id, a folder's path, or a file made by `export`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from launcher.errors import RunNotFound

LOGS, PICKLES, ALL = "logs", "pickles", "all"

_MARKS = ("spec.json", "events.jsonl")


def find(text: str, *parts: str) -> Path:
    """The folder of a run. An exported file is unpacked into a folder that is removed when this process ends.

    Of an exported file the run's facts are unpacked, and those of its `parts`: `LOGS`, `PICKLES` or `ALL`.

    Raises:
        RunNotFound: no run or several runs match, or the path holds no run.
        RecordError: the file cannot be unpacked.
    """
    from launcher.errors import RunNotFound

    if _is_path(text):
        return _at(Path(text), parts)
    try:
        return find_stored(text)
    except RunNotFound:
        if text and os.path.lexists(text):
            return _at(Path(text), parts)
        raise


def find_stored(text: str) -> Path:
    """The folder of a run by its id only, for commands that change the folder.

    Raises:
        RunNotFound: no run or several runs match.
    """
    from launcher.runs.catalog import find_run
    from launcher.runs.paths import runs_root

    return find_run(runs_root(), text)


def _is_path(text: str) -> bool:
    """Whether the text can only be a path."""
    return os.sep in text or text.endswith(".zip") or text in (".", "..", "~")


def _at(place: Path, parts: Sequence[str]) -> Path:
    place = place.expanduser().absolute()
    if place.is_dir():
        if any((place / mark).is_file() for mark in _MARKS):
            return Path(os.path.normpath(place))
        raise _not_found(f"{place} holds no run")
    if place.is_file():
        from ..export.archive import unpack

        return unpack(place, parts)
    raise _not_found(f"there is no {place}")


def _not_found(message: str) -> RunNotFound:
    from launcher.errors import RunNotFound

    return RunNotFound(message, hint="a run is meant by its id, its folder, or a file from: rankdeck export")
