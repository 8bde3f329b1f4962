"""Finding what a test left running: everything it starts carries a mark in its environment."""

from __future__ import annotations

import os
import time
import uuid
from pathlib import Path

# Named like a variable that is read when a process starts, so that a zygote serves runs of its own mark only.
MARK = "MALLOC_RANKDECK_TEST_MARK"
ENGINE = "rankdeck engine for "
IDLE = {"rankdeck-zygote", "rankdeck-spare"}


def new_mark() -> str:
    return uuid.uuid4().hex


def alive(mark: str, *, engines: bool = False) -> dict[int, str]:
    """pid and command line of every live process that was started with the mark, this one excluded.

    Engines and zygotes stay for a while by design, as do agents that have no work yet. They are left out
    unless they are asked for.
    """
    needle = f"{MARK}={mark}".encode()
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if needle in (entry / "environ").read_bytes() and _state(entry) not in "ZX":
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                stays = ENGINE in command or (entry / "comm").read_text(errors="replace").strip() in IDLE
                if engines or not stays:
                    found[int(entry.name)] = command
        except OSError:
            continue
    return found


def _state(entry: Path) -> str:
    return (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]


def named(mark: str, name: str) -> list[int]:
    """The pids of the processes with the mark that are listed under a name, such as that of an agent."""
    return sorted(pid for pid in alive(mark) if Path(f"/proc/{pid}/comm").read_text().strip() == name)


def gone(mark: str, within: float, *, engines: bool = False) -> dict[int, str]:
    """What is still alive once nothing is, or after `within` seconds: empty is good."""
    deadline = time.monotonic() + within
    while (left := alive(mark, engines=engines)) and time.monotonic() < deadline:
        time.sleep(0.01)  # there is no event for another tree's death; the condition is what counts
    return left
