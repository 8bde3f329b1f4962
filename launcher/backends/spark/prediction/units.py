"""The units of a prediction: files of the input that are predicted and written together. Pure.

A prediction that ends early goes on with the units that are not written yet. The name of a unit is a digest
of what it reads and of how it predicts, so a file that has changed is another unit.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ....serialization import to_plain
from ....spec.prediction import Prediction

UNIT_BYTES = 4 << 30
UNIT_FILES = 256
LEAST_UNITS = 8
"""A prediction has about this many units if it has files enough, so an early end costs a part of it only."""
FILES_A_SLOT = 2
"""A unit has at least so many files for each slot: units are done one by one, and all slots should work."""


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file of the input: its URI, its size in bytes, and when it was written."""

    uri: str
    size: int
    modified: str = ""


@dataclass(frozen=True, slots=True)
class Unit:
    """Files that are predicted together: their URIs, their names as `file_name` has them, and all bytes."""

    name: str
    files: tuple[str, ...]
    names: tuple[str, ...]
    size: int


@dataclass(frozen=True, slots=True)
class UnitPlan:
    """What is to be done, in order, and how many bytes of the input were done before."""

    units: tuple[Unit, ...]
    done_before: int = 0

    @property
    def skipped(self) -> float:
        """Which share of the input was done before, 0 to 1."""
        return self.share(0)

    def share(self, units: int) -> float:
        """Which share of the input is done with so many of the units."""
        sizes = [unit.size for unit in self.units]
        total = self.done_before + sum(sizes)
        return (self.done_before + sum(sizes[:units])) / total if total else 1.0


def plan_units(
    files: Iterable[InputFile], how: str, done: Collection[str] = (), *, slots: int = 1
) -> UnitPlan:
    """Group files by their order into units.

    Args:
        files: the files of the input.
        how: the digest of how they are predicted.
        done: the names of files whose rows are written, as `file_name` has them.
        slots: how many tasks run at once.
    """
    named = {file_name(file, how): file for file in sorted(files, key=lambda file: file.uri)}
    left = {name: file for name, file in named.items() if name not in done}
    most = max(FILES_A_SLOT * slots, min(UNIT_FILES, len(left) // LEAST_UNITS))
    groups: list[dict[str, InputFile]] = []
    for name, file in left.items():
        last = groups[-1] if groups else {}
        full = len(last) >= most or sum(map(_weight, last.values())) + _weight(file) > UNIT_BYTES
        if not groups or (last and full):
            groups.append({})
        groups[-1][name] = file
    before = sum(_weight(file) for name, file in named.items() if name in done)
    return UnitPlan(tuple(map(_unit, groups)), before)


def _unit(files: Mapping[str, InputFile]) -> Unit:
    uris = tuple(file.uri for file in files.values())
    return Unit(_digest(*files), uris, tuple(files), sum(map(_weight, files.values())))


def _weight(file: InputFile) -> int:
    """Its size; an empty file is something to do too."""
    return max(1, file.size)


def file_name(file: InputFile, how: str) -> str:
    """The name of what a file's prediction wrote."""
    return _digest(how, file.uri, str(file.size), file.modified)


def how_predicted(prediction: Prediction, target: Any) -> str:
    """A digest of how a prediction predicts, without where its input and output are."""
    fields = {**to_plain(prediction), "target": to_plain(target)}
    for name in ("input", "output", "if_exists", "workers", "batch_size"):
        fields.pop(name, None)
    return _digest(json.dumps(fields, sort_keys=True))


def part_name(unit: Unit, file: str) -> str:
    """The final name of a file that Spark wrote for a unit."""
    return f"part-{unit.name}-{os.path.basename(file).removeprefix('part-')}"


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:20]
