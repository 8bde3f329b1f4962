"""The trainings below a folder, the likeliest first: a bounded search that can be stopped at any moment.

Folders and files may be huge, unreadable, or on a file system that does not answer: `find_trainings` looks at
a limited number of entries, files, bytes and seconds, follows no link to a folder, opens regular files only.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from launcher.spec.files.file_search import IgnoreRules, open_file

from .ranking import LIKELY, Judged, judge, recency
from .targets import Candidate, is_aside

_SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages"})
_SHOWN = 200
_EACH = 40
"""After this many files were read, what is known is shown."""
_LOOKS = 64
_ASIDE = 0.1


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """How much is looked at: entries of folders, files read, bytes of each and of all, seconds."""

    entries: int = 50_000
    files: int = 400
    each: int = 64 << 10
    total: int = 8 << 20
    seconds: float = 4.0


@dataclass(frozen=True, slots=True)
class _File:
    path: str
    name: str
    changed: float

    @property
    def order(self) -> tuple[bool, int, float]:
        """Files that are read first: not aside, in few folders, new."""
        return is_aside(self.name), self.name.count("/"), -self.changed


Stop = Callable[[], bool]


def find_trainings(
    folder: Path, stop: Stop = lambda: False, limits: SearchLimits | None = None, now: float | None = None
) -> Iterator[tuple[Candidate, ...]]:
    """What could be trained below `folder`, the likeliest first: what is known so far, and at last all."""
    limits = limits or SearchLimits()
    end = time.monotonic() + limits.seconds

    def over() -> bool:
        return stop() or time.monotonic() > end

    files = sorted(islice(_files(folder, over, limits.entries), limits.entries), key=lambda file: file.order)
    known: list[Candidate] = []
    room = limits.total
    for number, file in enumerate(files[: limits.files]):
        if room <= 0 or over():
            break
        text = _head(file.path, min(limits.each, room))
        room -= len(text)
        if (
            found := _candidate(file, judge(text, file.name), time.time() if now is None else now)
        ) is not None:
            known.append(found)
        if number % _EACH == _EACH - 1:
            yield _best(known)
    if not stop():
        yield _best(known)


def _best(known: list[Candidate]) -> tuple[Candidate, ...]:
    """The trainings; if there are none, whatever can be run."""
    ranked = sorted(known, key=lambda each: (-each.score, each.target))
    return tuple([each for each in ranked if each.score >= LIKELY] or ranked)[:_SHOWN]


def _candidate(file: _File, judged: Judged, now: float) -> Candidate | None:
    if not (judged.runs or judged.entry):
        return None
    score = judged.score + recency(file.changed, now) - 1.5 * file.name.count("/")
    target = file.name if judged.runs else f"{file.name}:{judged.entry}"
    return Candidate(
        target, doc=judged.doc, score=score * (_ASIDE if is_aside(file.name) else 1.0), uses=judged.uses
    )


def _head(path: str, most: int) -> str:
    """The beginning of a file as text; empty if it cannot be read, or is no text."""
    try:
        with open_file(path) as file:
            data = file.read(most)
    except OSError:
        return ""
    return "" if b"\0" in data else data.decode("utf-8", "replace").replace("\r", "")


def _files(folder: Path, over: Stop, most: int) -> Iterator[_File]:
    """The Python files that git would not ignore, level by level; each entry of a folder counts."""
    waiting = deque([(str(folder), "", IgnoreRules().within(str(folder)))])
    seen = 0
    while waiting and seen < most:
        path, prefix, rules = waiting.popleft()
        for entry in _entries(path):
            seen += 1
            if seen > most or (seen % _LOOKS == 0 and over()):
                return
            if entry.name.startswith(".") or entry.name in _SKIPPED or not entry.name.isprintable():
                continue  # a name that is not printable cannot be typed
            if _is_folder(entry):
                if not rules.ignore(entry.path, is_folder=True) and not _is_environment(entry.path):
                    waiting.append((entry.path, f"{prefix}{entry.name}/", rules.within(entry.path)))
            elif entry.name.endswith(".py") and not rules.ignore(entry.path, is_folder=False):
                yield from _as_file(entry, prefix)


def _entries(path: str) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(path) as entries:
            yield from entries
    except OSError:
        return  # a folder that cannot be listed is skipped


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _is_environment(path: str) -> bool:
    return os.path.exists(f"{path}/pyvenv.cfg")


def _as_file(entry: os.DirEntry[str], prefix: str) -> Iterator[_File]:
    try:
        if entry.is_file():
            yield _File(entry.path, f"{prefix}{entry.name}", entry.stat().st_mtime)
    except OSError:
        return
