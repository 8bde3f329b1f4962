"""Ends a test cluster when its owner lets go of the pipe, by will or by death.

    python spark_guard.py MARK FOLDER

Standard input names what to remove, a line each: ``netns NAME`` and ``link NAME``. At its end, all processes
that carry the mark are killed, and then namespaces, links and the folder go.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

MARK = "RANKDECK_CLUSTER_MARK"
ROUNDS = 500


def marked(mark: str) -> list[int]:
    """Live processes that were started with the mark in their environment."""
    needle = f"{MARK}={mark}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            alive = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[0] not in "ZX"
            if alive and needle in (entry / "environ").read_bytes().split(b"\0"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def _kill_all(mark: str) -> None:
    for _ in range(ROUNDS):
        left = [p for p in marked(mark) if p != os.getpid()]
        if not left:
            return
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.01)  # a killed process has no event for a stranger; the next look decides


def main(mark: str, folder: str) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    things = sys.stdin.read().splitlines()
    _kill_all(mark)
    for kind, name in (line.split() for line in things):
        command = ["ip", "netns", "del", name] if kind == "netns" else ["ip", "link", "del", name]
        subprocess.run(command, capture_output=True, check=False)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
