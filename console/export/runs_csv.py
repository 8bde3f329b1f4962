"""Writing a list of runs as a CSV file for spreadsheets and programs."""

from __future__ import annotations

import csv
import json
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from launcher.errors import RecordError, SpecError
from launcher.runs import paths
from launcher.runs.status import Status
from launcher.serialization import to_plain

_HEAD = (
    "id", "name", "state", "exit_code", "why", "mode", "num_processes", "started", "ended", "target", "args",
    "user", "host", "attempt", "step", "metrics", "revision", "dirty",
)  # fmt: skip
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def write_runs(runs: Sequence[Status], folder: Path, now: float) -> Path:
    """Write the runs in their order to a new file in `folder`, and return its path.

    Times are UTC, metrics are JSON.

    Raises:
        SpecError: the file exists.
        RecordError: the file cannot be written.
    """
    out = folder / time.strftime("runs-%Y%m%d-%H%M%S.csv", time.gmtime(now))
    try:
        number = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, paths.FILE_MODE)
        with open(number, "w", encoding="utf-8", errors="replace", newline="") as file:
            csv.writer(file).writerows([_HEAD, *map(_row, runs)])
    except FileExistsError:
        raise SpecError(f"{out} is there already") from None
    except OSError as error:
        raise RecordError(f"cannot write {out}: {error.strerror or error}") from error
    return out


def _row(run: Status) -> list[object]:
    return [csv_cell(value) for value in _values(run)]


def _values(run: Status) -> Iterator[object]:
    for name in _HEAD:
        value = getattr(run, name)
        if name in ("started", "ended"):
            yield _moment(value)
        elif name == "metrics":
            yield json.dumps(to_plain(value)) if value else ""
        else:
            yield value


def _moment(seconds: float | None) -> str:
    try:
        return "" if seconds is None else time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds))
    except (ValueError, OverflowError, OSError):
        return ""


def csv_cell(value: object) -> object:
    """A cell's value; text that a spreadsheet would take for a formula is quoted, as it may be hostile."""
    if not isinstance(value, str):
        return "" if value is None else value
    return f"'{value}" if value.startswith(_FORMULA) else value
