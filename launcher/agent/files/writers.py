"""The processes of ranks on this host: which of them has a file open, and whether all are alive."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

_KNOWN_S = 2.0
_LOOKS_A_SECOND = 10
_NAMES = ("RANK", "RANKDECK_RANK")
_HOST_SIZES = ("LOCAL_WORLD_SIZE", "RANKDECK_LOCAL_WORLD_SIZE")
_FLAGS = 6  # among the fields of /proc/PID/stat after the name, see proc(5)
_PF_EXITING = 0x4  # include/linux/sched.h


class Look(NamedTuple):
    """The ranks of this host that are known to be alive, and how many it has; 0 if none was ever seen."""

    alive: frozenset[int]
    size: int


class Writers:
    """Finds the ranks among this host's processes: those that work in the folder, and their children.

    Args:
        root: the ranks' working folder.
        monotonic: a clock in seconds.
    """

    def __init__(self, root: str, monotonic: Callable[[], float]) -> None:
        self._root, self._monotonic = root, monotonic
        self._ranks: dict[int, int] = {}
        self._size = 0
        self._known_until = self._next_look = float("-inf")

    def rank_with(self, path: str) -> int | None:
        """The rank that has this file open; None if that is not known. It looks only now and then."""
        now = self._monotonic()
        if now < self._next_look:
            return None
        self._next_look = now + 1 / _LOOKS_A_SECOND
        return next((rank for pid, rank in self._known().items() if _has_open(pid, path)), None)

    def look(self) -> Look:
        """Which ranks of this host are alive, and how many there are; each rank knows that."""
        known = self._known()
        ending = {rank for pid, rank in known.items() if _is_ending(pid)}
        return Look(frozenset(known.values()) - ending, self._size)

    def _known(self) -> Mapping[int, int]:
        """The ranks' processes as of a moment ago, each with its rank; sooner if some are missing."""
        now = self._monotonic()
        if now >= self._known_until:
            self._ranks = dict(self._find())
            complete = len(set(self._ranks.values())) == self._size > 0
            self._known_until = now + (_KNOWN_S if complete else 1 / _LOOKS_A_SECOND)
        return self._ranks

    def _find(self) -> Iterator[tuple[int, int]]:
        """The processes that work in the folder and belong to a rank."""
        for name in os.listdir("/proc"):
            with contextlib.suppress(OSError, ValueError):
                if name.isdigit() and os.readlink(f"/proc/{name}/cwd").startswith(self._root):
                    variables = _environ(int(name))
                    rank = _number(variables, _NAMES)
                    self._size = _number(variables, _HOST_SIZES)
                    yield int(name), rank


def _environ(pid: int) -> dict[str, str]:
    """The environment that a process was started with."""
    with open(f"/proc/{pid}/environ", "rb") as file:
        entries = file.read(1 << 20).decode(errors="replace").split("\0")
    return dict(entry.split("=", 1) for entry in entries if "=" in entry)


def _number(variables: Mapping[str, str], names: Iterable[str]) -> int:
    """The number in the first of these variables that there is.

    Raises:
        ValueError: there is none, or it is no number.
    """
    return int(next((variables[name] for name in names if name in variables), ""))


def _is_ending(pid: int) -> bool:
    """Whether a process is being ended, or is gone. The kernel says so before it closes the files."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return True
    return bool(int(fields[_FLAGS]) & _PF_EXITING)


def _has_open(pid: int, path: str) -> bool:
    folder = f"/proc/{pid}/fd"
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            with contextlib.suppress(OSError):
                if os.readlink(f"{folder}/{name}") == path:
                    return True
    return False
