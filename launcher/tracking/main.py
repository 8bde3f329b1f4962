"""The process that writes a run to trackers: started by the run's owner, ended with it.

It gets one JSON line on standard input at its start, and one when the run ends. If standard input is closed
without that, or the owner is gone, the run is lost: it says so to the trackers within a short time, and ends.
On standard output it writes JSON lines for the owner: notes, and where a tracker keeps the run.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import threading
import time
from collections.abc import Callable
from io import RawIOBase
from pathlib import Path
from typing import Any, NoReturn

from ..errors import AgentLost
from .base import TrackerWriter, Verdict
from .follower import EndOfRun, RunFollower, tensorboard_folder

# Our folder may hold other packages, of another interpreter: it serves to import this library, and no more.
BOOT = (
    "import sys; root = sys.argv.pop(1); sys.path.insert(0, root); "
    "from launcher.tracking import main; sys.path.remove(root); main.main()"
)
ORPHANED_S = 2.0
TROUBLED_S = 5.0
_POLL_S = 0.1
_MARGIN_S = 0.5
_NICE = 10
_LINE = 1 << 16


def main() -> NoReturn:
    """Write a run to its trackers until it has ended; end the process."""
    say = _speaker()
    orders = open(0, "rb", buffering=0, closefd=False)  # noqa: SIM115  unbuffered: what follows stays for `poll`
    document = json.loads(orders.readline())
    os.nice(_NICE)  # the ranks come first
    run, ending = Path(document["run"]), EndOfRun()
    followers = [RunFollower(run, _writer(word, run), ending, say) for word in document["track"]]
    threads = [threading.Thread(target=each.run, daemon=True) for each in followers]
    for thread in threads:
        thread.start()
    verdict, limit_s = _await_end(orders, int(document["owner"]))
    signal.setitimer(signal.ITIMER_REAL, limit_s + _MARGIN_S)  # the kernel's end, whatever this process does
    ending.come(verdict)
    began = time.monotonic()
    while unfinished := [each for each, thread in zip(followers, threads, strict=True) if thread.is_alive()]:
        hopeful = any(not each.trouble for each in unfinished)
        if time.monotonic() - began >= (limit_s if hopeful else min(limit_s, TROUBLED_S)):
            break
        threads[followers.index(unfinished[0])].join(_POLL_S)
    for follower in unfinished:
        follower.trouble = follower.trouble or f"it did not answer within {limit_s:g} s"
        follower.give_up()
    os._exit(0)  # a thread may hang in a request


def _speaker() -> Callable[[dict[str, Any]], None]:
    """What writes to the owner; whatever else is printed in this process goes to standard error."""
    out, lock = os.dup(1), threading.Lock()
    os.dup2(2, 1)

    def say(document: dict[str, Any]) -> None:
        line = json.dumps(document).encode() + b"\n"
        with lock:
            try:
                os.write(out, line)
            except OSError:  # the owner is gone; the main thread sees that too
                return

    return say


def _writer(word: str, run: Path) -> TrackerWriter:
    if word.partition("=")[0] == "mlflow":
        from .mlflow import MlflowWriter

        return MlflowWriter()
    from .tensorboard import TensorBoardWriter

    return TensorBoardWriter(tensorboard_folder(run, word))


def _await_end(orders: RawIOBase, owner: int) -> tuple[Verdict, float]:
    """Wait for the end of the run or of its owner; how it ended, and how long this process may still live."""
    waiting = select.poll()
    waiting.register(0, select.POLLIN)
    with contextlib.suppress(OSError):  # it is gone already, and standard input is closed
        waiting.register(os.pidfd_open(owner), select.POLLIN)
    ready = [descriptor for descriptor, _ in waiting.poll()]
    told = _told(orders.readline(_LINE)) if 0 in ready else None
    return told or (Verdict("lost", AgentLost.exit_code, time.time()), ORPHANED_S)


def _told(line: bytes) -> tuple[Verdict, float] | None:
    """The end as the owner tells it; None if it does not."""
    try:
        told = json.loads(line)
        verdict = Verdict(str(told["state"]), int(told["exit_code"]), float(told["time"]))
        return verdict, float(told["limit_s"])
    except (ValueError, TypeError, LookupError):
        return None
