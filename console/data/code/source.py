"""The code that frames and lines of output name, where it is at hand on this machine.

Only an own run's paths are opened: a record from elsewhere could name any file. What is read is bounded, and
a file that is missing, no regular one or too large has no lines.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from launcher.errors import LauncherError
from launcher.runs import files, paths
from launcher.runs.reader import read_spec

from ..launch.rerun import is_own

MOST_BYTES, MOST_FILES, _MOST_LINE = 4 << 20, 200, 240
_LONGEST_PATH, _SEARCHED = 4096, 4000
_PATH = r"[\w./~+@-]{1,400}\.(?:pyx?|ipynb|sh|ya?ml|toml|json|c|cc|cpp|cu|h|rs|go|jl)"
_NAMED = re.compile(
    rf"""File "(?P<quoted>[^"\n]{{1,{_LONGEST_PATH}}})", line (?P<counted>\d{{1,9}})"""
    rf"|(?<![\w./~+@-])(?P<path>{_PATH}):(?P<line>\d{{1,9}})(?!\d)"
)


@dataclass(frozen=True, slots=True)
class Spot:
    """A line of a file, as a traceback, a stack or a line of output names it; `line` counts from 1."""

    file: str
    line: int
    function: str = ""

    def __str__(self) -> str:
        return f"{self.file.rpartition('/')[2]}:{self.line}"


class NotAtHand(Exception):
    """The code cannot be shown or opened here; the message says why."""


def spot_in(text: str) -> Spot | None:
    """The last place that a line of output names, as ``file.py:12`` or as a traceback does; None for none."""
    found = None
    for found in _NAMED.finditer(text[:_SEARCHED]):  # noqa: B007  the last one
        pass
    if found is None:
        return None
    return Spot(found["quoted"] or found["path"], int(found["counted"] or found["line"]))


def file_of(run: Path, spot: Spot, root: Path | None = None) -> Path:
    """The file of a spot on this machine. It reads the run's record, so not in the thread that paints.

    Args:
        run: the run folder.
        spot: the line; a relative path is one below the run's working directory.
        root: the folder of our own runs, if not the usual one.

    Raises:
        NotAtHand: the run is from elsewhere, or there is no such regular file here.
    """
    path = _own_path(_base(run, root), spot.file)
    if path is None:
        raise NotAtHand(f"{spot.file[:_MOST_LINE]} is no file: its code was made while the program ran")
    try:
        files.stat_file(path.parent, path)
    except files.NotPlain as error:
        raise NotAtHand(f"{path} {error.strerror}") from None
    except OSError as error:
        raise NotAtHand(f"{path} is not on this machine: {error.strerror}") from None
    return path


def read_lines(run: Path, spots: Iterable[Spot], root: Path | None = None) -> dict[Spot, str]:
    """The code at each spot whose file is at hand; nothing for a run from elsewhere. Never raises.

    A file that was changed after the run began is left out: its lines need not be those that ran.
    """
    try:
        base = _base(run, root)
    except NotAtHand:
        return {}
    by_file: dict[str, list[Spot]] = {}
    for spot in spots:
        by_file.setdefault(spot.file, []).append(spot)
    found: dict[Spot, str] = {}
    began = _began(run)
    for file in list(by_file)[:MOST_FILES]:
        found.update(_lines_of(_own_path(base, file), by_file[file], began))
    return found


def _base(run: Path, root: Path | None) -> Path:
    """The folder that relative paths are below.

    Raises:
        NotAtHand: the run is from elsewhere.
    """
    if not is_own(run, root):
        raise NotAtHand("this run is from elsewhere: the files that it names are not opened")
    try:
        return Path(read_spec(run).workdir or "/")
    except LauncherError:
        return Path("/")


def _began(run: Path) -> float | None:
    """When the run's record was made; None if that is not known."""
    try:
        return files.stat_file(run, run / paths.SPEC).st_mtime
    except OSError:
        return None


def _own_path(base: Path, file: str) -> Path | None:
    """The real path of a file that an own run names; None for what is no path, as ``<string>``."""
    if not file or len(file) > _LONGEST_PATH or file.startswith("<") or "\0" in file:
        return None
    try:
        return Path(os.path.realpath(base / os.path.expanduser(file)))
    except ValueError:  # characters that no path can have
        return None


def _lines_of(path: Path | None, spots: Iterable[Spot], began: float | None) -> Mapping[Spot, str]:
    if path is None:
        return {}
    try:
        if began is not None and files.stat_file(path.parent, path).st_mtime > began:
            return {}
        data = files.read_whole(path.parent, path, MOST_BYTES)
    except OSError:
        return {}
    lines = data.decode("utf-8", "replace").splitlines()
    numbered = ((spot, spot.line - 1) for spot in spots)
    return {spot: lines[at].strip()[:_MOST_LINE] for spot, at in numbered if 0 <= at < len(lines)}
