"""What was used from the command bar, how often and how lately: one small file beside the run folders.

A use counts 1 and half as much after two weeks. The file is bounded; one that cannot be read counts as empty,
and the next use writes a good one.
"""

from __future__ import annotations

import json
import math
import os
import stat
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from launcher.runs import paths
from launcher.runs.files import write_whole

MOST = 200
"""How many entries are remembered; those of the least weight are forgotten."""
_MOST_BYTES = 1 << 17
_LONGEST = 300
_HALF_S = 14 * 86400.0
_MOST_WEIGHT = 1e6
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK

Uses = dict[str, tuple[float, float]]
"""By an entry's name: its weight, and the time at which it had that weight."""


def usage_file() -> Path:
    """Where the uses are kept."""
    return paths.home() / "console-usage.json"


def read_uses(path: Path) -> Uses:
    """The uses in a file; those that are wrong are left out, and a file that is wrong has none."""
    try:
        descriptor = os.open(path, _FLAGS)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return {}
            data = json.loads(file.read(_MOST_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    table = data.get("used") if isinstance(data, dict) else None
    pairs = ((name, _use(value)) for name, value in table.items()) if isinstance(table, dict) else ()
    uses = {name: use for name, use in pairs if use is not None and len(name) <= _LONGEST}
    return dict(list(uses.items())[:MOST])


def _use(value: object) -> tuple[float, float] | None:
    """A use as it is stored: two numbers; None if they are no such numbers."""
    if not isinstance(value, list) or len(value) != 2:
        return None
    weight, when = (float(n) if type(n) in (int, float) and abs(n) < 1e15 else math.nan for n in value)
    return (min(weight, _MOST_WEIGHT), when) if weight > 0 and math.isfinite(when) else None


def weights(uses: Mapping[str, tuple[float, float]], now: float) -> dict[str, float]:
    """The present weight of every use."""
    return {name: _faded(use, now) for name, use in uses.items()}


def _faded(use: tuple[float, float], now: float) -> float:
    weight, when = use
    return float(weight * 0.5 ** (max(now - when, 0.0) / _HALF_S))  # a clock that was put back adds nothing


def used(uses: Mapping[str, tuple[float, float]], name: str, now: float) -> Uses:
    """The uses after one more."""
    if len(name) > _LONGEST:
        return dict(uses)
    weight = min(_faded(uses.get(name, (0.0, now)), now) + 1.0, _MOST_WEIGHT)
    kept = sorted(uses, key=lambda other: _faded(uses[other], now), reverse=True)
    kept = [other for other in kept if other != name][: MOST - 1]
    return {name: (weight, now), **{other: uses[other] for other in kept}}


class UseRecord:
    """The uses of this console, read once; another console's are merged when one is written."""

    def __init__(
        self, path: Callable[[], Path] = usage_file, clock: Callable[[], float] | None = None
    ) -> None:
        self._path, self._clock = path, clock or time.time
        self._uses: Uses | None = None
        self._lock = threading.Lock()

    @property
    def is_read(self) -> bool:
        """Whether the file has been read."""
        return self._uses is not None

    def read(self) -> None:
        """Read the file, if that was not done; in a thread."""
        if self._uses is None:
            self._uses = read_uses(self._path())

    def weights(self) -> dict[str, float]:
        """The weight of everything that was used; nothing until the file is read."""
        return weights(self._uses or {}, self._clock())

    def note(self, name: str) -> None:
        """Count a use, and write the file; in a thread. A file that cannot be written stays as it is."""
        with self._lock:
            path, now = self._path(), self._clock()
            self._uses = used(read_uses(path), name, now)
            data = json.dumps({"version": 1, "used": self._uses}).encode()
            try:
                path.parent.mkdir(mode=paths.FOLDER_MODE, parents=True, exist_ok=True)
                write_whole(path, data)
            except OSError:  # a full disk: the order of entries is not worth an error
                return
