"""What /proc tells of a process's threads and signals. What it does not tell is empty, never an error."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

THREADS = 16
_STATES = {
    "D": "in uninterruptible sleep",
    "R": "running",
    "S": "asleep",
    "T": "stopped",
    "t": "traced",
    "Z": "ended",
}


def is_alive(pid: int) -> bool:
    """Whether a thread of the process still runs; its first one may have ended before the others."""
    status = _status(f"{pid}")
    return bool(status) and (
        status.get("State", "Z")[:1] not in "ZX" or status.get("Threads") not in ("0", "1")
    )


def resident(pid: int) -> int:
    """A process's memory in bytes; 0 for one that is gone."""
    pages = _read(f"{pid}/statm").split()[1:2]
    return int(pages[0]) * os.sysconf("SC_PAGE_SIZE") if pages else 0


def catches(pid: int, signum: int) -> bool:
    """Whether the process handles the signal by code of its own."""
    return _has(_status(f"{pid}").get("SigCgt", ""), signum)


def is_pending(pid: int, signum: int) -> bool:
    """Whether the signal has been sent to the process and no thread has taken it yet."""
    return _has(_status(f"{pid}").get("ShdPnd", ""), signum)


def blocking(pid: int, signum: int) -> frozenset[int]:
    """The threads that do not take the signal now: those that block it, and one that is handling it."""
    return frozenset(t for t in _threads(pid) if _has(_status(f"{pid}/task/{t}").get("SigBlk", ""), signum))


def threads(pid: int, signum: int) -> Iterator[str]:
    """A line for each thread: its state, and where in the kernel it waits as far as that can be read."""
    found = _threads(pid)
    if found and found == sorted(blocking(pid, signum)):
        yield "all of its threads block the signal"
    for thread in found[:THREADS]:
        yield f"thread {thread}: {_doing(f'{pid}/task/{thread}')}"
    if len(found) > THREADS:
        yield f"and {len(found) - THREADS} more threads"


def _doing(place: str) -> str:
    status = _status(place)
    state = status.get("State", "")[:1]
    said = [status.get("Name", ""), _STATES.get(state, state)]
    if (channel := _read(f"{place}/wchan").strip()) not in ("", "0"):
        said.append(f"in {channel}")
    number = _read(f"{place}/syscall").partition(" ")[0].strip()
    if number.isdecimal():
        said.append(f"system call {number}")
    return ", ".join(filter(None, said))


def _threads(pid: int) -> list[int]:
    try:
        return sorted(int(name) for name in os.listdir(f"/proc/{pid}/task"))
    except OSError:  # it has ended
        return []


def _status(place: str) -> dict[str, str]:
    pairs = (line.partition(":\t") for line in _read(f"{place}/status").splitlines())
    return {key: value.strip() for key, _, value in pairs}


def _has(mask: str, signum: int) -> bool:
    return bool(mask) and bool(int(mask, 16) >> (signum - 1) & 1)


def _read(place: str) -> str:
    try:
        return Path("/proc", place).read_text(errors="replace")
    except OSError:
        return ""
