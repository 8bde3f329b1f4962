"""`samples/`: telemetry, complete for the last hour, thinned before that, of bounded size.

Samples arrive once a second for as long as a training lasts. They are appended to segments of ten minutes; a
segment older than an hour is reduced to one sample for each minute and source, and the thinned file is halved
when it reaches its bound. So a run of a week keeps a few megabytes, and its newest hour.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..state import events as ev
from . import files, paths
from . import files as opening
from .files import Growing, NotPlain, opener

SEGMENT_S = 600.0
RAW_S = 3600.0
THINNED_STEP_S = 60.0
THINNED_BYTES = 16 << 20
THINNED = "thinned.jsonl"
_BLOCK = 1 << 20


class SampleWriter:
    """Appends facts of telemetry and thins old ones, by the facts' own times."""

    def __init__(self, run: Path) -> None:
        self._folder = run / paths.SAMPLES
        self._folder.mkdir(mode=paths.FOLDER_MODE, exist_ok=True)
        self._run = run.name
        self._opened: float | None = None
        self._file: Growing | None = None

    def append(self, event: ev.Event) -> None:
        """Write one fact of telemetry.

        Raises:
            OSError: it cannot be written.
        """
        if self._opened is None or event.time >= self._opened + SEGMENT_S:
            self._roll(event.time)
        assert self._file
        self._file.whole(ev.encode(event, self._run))

    def close(self) -> None:
        """Close the current segment."""
        if self._file:
            self._file.close()
            self._file = None

    def _roll(self, now: float) -> None:
        self.close()
        self._opened = None
        self._file = Growing(self._folder / f"{int(now):012d}.jsonl")
        self._opened = now
        for old in segments(self._folder)[:-1]:
            if int(old.stem) + SEGMENT_S <= now - RAW_S:
                self._thin(old)

    def _thin(self, segment: Path) -> None:
        with open(self._folder / THINNED, "ab", opener=opener) as out:
            out.writelines(_one_per(THINNED_STEP_S, segment.read_bytes().splitlines(True)))
        segment.unlink()
        self._bound(self._folder / THINNED)

    def _bound(self, thinned: Path) -> None:
        if thinned.stat().st_size <= THINNED_BYTES:
            return
        lines = thinned.read_bytes().splitlines(True)
        partial = thinned.with_suffix(".partial")
        with open(partial, "wb", opener=opener) as out:
            out.writelines(_halved(lines))
        partial.replace(thinned)


def _one_per(step: float, lines: Iterable[bytes]) -> Iterator[bytes]:
    """The first line of each source in each `step` seconds."""
    last: dict[str, float] = {}
    for source, time, line in _readable(lines):
        if time - last.get(source, float("-inf")) >= step:
            last[source] = time
            yield line


def _halved(lines: Iterable[bytes]) -> Iterator[bytes]:
    """Every other line of each source."""
    seen: Counter[str] = Counter()
    for source, _, line in _readable(lines):
        seen[source] += 1
        if seen[source] % 2:
            yield line


def _readable(lines: Iterable[bytes]) -> Iterator[tuple[str, float, bytes]]:
    """Source, time and text of each line, without those that a full disk or a killed writer tore."""
    for line in lines:
        try:
            fact = json.loads(line)
            source = f"{fact['event']} {fact.get('rank', fact.get('agent'))}"
            yield source, float(fact["time"]), line.rstrip(b"\n") + b"\n"
        except (ValueError, TypeError, LookupError, RecursionError):
            continue


def segments(folder: Path) -> list[Path]:
    """The raw segments, oldest first."""
    names = files.names_in(folder.parent, folder)
    return [folder / name for name in names if name.endswith(".jsonl") and name not in (THINNED, ".jsonl")]


def sample_files(run: Path) -> list[Path]:
    """Every file of samples, in order of time."""
    folder = run / paths.SAMPLES
    thinned = folder / THINNED
    return ([thinned] if files.is_file(run, thinned) else []) + segments(folder)


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of a file of samples: whole lines from `start` to before `end`, in bytes."""

    path: Path
    start: int
    end: int


def halves(files: Sequence[Path], limit: int) -> tuple[list[Stretch], list[Stretch]]:
    """Two parts of all samples: the older lines, and the newest, which are at most `limit` bytes."""
    older: list[Stretch] = []
    newer: list[Stretch] = []
    for path in reversed(files):
        try:
            size = opening.stat_file(_run_of(path), path).st_size
            start = line_start(path, max(size - limit, 0))
        except (FileNotFoundError, NotPlain, PermissionError):  # thinned meanwhile, or not a plain file
            continue
        newer.append(Stretch(path, start, size))
        older.append(Stretch(path, 0, start))
        limit = max(limit - size, 0)
    return [s for s in reversed(older) if s.end], newer[::-1]


def line_start(path: Path, offset: int) -> int:
    """The offset of the first line that begins at `offset` or after it; the file's end if there is none.

    Raises:
        OSError: it cannot be read.
    """
    if not offset:
        return 0
    with files.open_file(_run_of(path), path) as file:
        file.seek(offset - 1)
        at = offset - 1
        while part := file.readline(_BLOCK):  # piece by piece: a line may be as long as its file
            at += len(part)
            if part.endswith(b"\n"):
                break
        return at


def newest(run: Path, limit: int = 1 << 20) -> list[bytes]:
    """The last whole lines of the newest samples, at most `limit` bytes of them."""
    lines: list[bytes] = []
    for stretch in halves(sample_files(run), limit)[1]:
        lines += lines_of(stretch)
    return [line for line in lines if line.endswith(b"\n")]


_SOURCE = re.compile(rb'"event":"(sampled|rank_reported)",.*?"(?:agent|rank)":(\d+),')
_FIGURES = b"0123456789.-+"


def newest_of_each(lines: Sequence[tuple[int, bytes]], keep: int | None = None) -> list[tuple[int, bytes]]:
    """The lines, without those that a later one of the same host or rank replaces: it has the same figures.

    Args:
        lines: numbers and texts.
        keep: the rank of which all are kept.
    """
    seen: set[object] = set()
    chosen: list[tuple[int, bytes]] = []
    for each in reversed(lines):
        line = each[1]
        source = _SOURCE.search(line)
        # two lines that differ in digits only tell of the same figures; a "nan" is no digit
        key = source and (source[1], source[2], line.translate(None, _FIGURES))
        kept = source is None or (source[1] == b"rank_reported" and int(source[2]) == keep)
        if kept or key not in seen:
            seen.add(key)
            chosen.append(each)
    return chosen[::-1]


def lines_of(stretch: Stretch) -> list[bytes]:
    """Its lines; none if the file was thinned meanwhile."""
    try:
        with files.open_file(_run_of(stretch.path), stretch.path) as file:
            file.seek(stretch.start)
            return file.read(stretch.end - stretch.start).splitlines(keepends=True)
    except (FileNotFoundError, NotPlain, PermissionError):
        return []


def _run_of(path: Path) -> Path:
    return path.parent.parent
