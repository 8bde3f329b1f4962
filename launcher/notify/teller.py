"""The owner's side: what is told of its runs, once of a kind, by a process that outlives the owner.

The owner may be an engine that leaves at once, or a script that ends with the run, and an endpoint may be
slow: so nothing here waits. The process that sends has what it needs on its standard input, and ends by
itself. What only a notice needs is imported when there is one: every launch comes through here.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import LauncherError
from ..runs import paths
from ..runs.files import opener
from ..state.run_state import RunState

if TYPE_CHECKING:
    from ..job import Job
    from .notice import Notice

FOLDER = "notified"
"""Of a run folder: a file for each kind that was told, with what became of it."""

_LOOK_S = 1.0
BOOT = (
    "import sys; root = sys.argv.pop(1); sys.path.insert(0, root); "
    "from launcher.notify import sender; sys.path.remove(root); sender.main()"
)


def watch_run(job: Job) -> None:
    """Tell of a run's end and first alert, as ``[notify]`` says when they happen."""
    teller = RunTeller(lambda: job.state, job.folder)
    job.watch(teller.on_news)
    if job.done:  # it ended before there was anybody to be told
        teller.on_news()


class RunTeller:
    """Looks at a run whenever it has news, on the run's own thread; it never raises and never waits.

    Args:
        state: the run's present state.
        folder: the run folder.
        clock: the time of day.
        monotonic: a clock in seconds.
    """

    def __init__(
        self,
        state: Callable[[], RunState],
        folder: Path,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._state, self._folder = state, folder
        self._clock, self._monotonic = clock, monotonic
        self._ended = self._alerted = False
        self._looked = float("-inf")

    def on_news(self) -> None:
        """Tell what is new. Alerts are looked for once a second: that reads every rank."""
        state = self._state()
        if state.phase.final:
            if not self._ended:
                self._ended = True
                self._tell_end(state)
        elif not self._alerted and (now := self._monotonic()) - self._looked >= _LOOK_S:
            self._looked = now
            if _alarming(state):
                self._alerted = self._tell_alert(state)

    def _tell_end(self, state: RunState) -> None:
        from .notice import end_notice

        tell(end_notice(state), self._folder)

    def _tell_alert(self, state: RunState) -> bool:
        from .notice import alert_in, notice_of

        if why := alert_in(state, self._clock()):
            tell(notice_of(state, "alert", why), self._folder)
        return bool(why)


def _alarming(state: RunState) -> bool:
    """Whether there may be an alert: what `alert_in` asks, without its imports."""
    facts = (state.near, state.recording, state.xids, state.restarts)
    return any(facts) or any(rank.hung for rank in state.ranks)


def tell_lost(run: Path) -> None:
    """Tell that a run was lost whose owner could not tell it any more."""
    from ..runs.reader import read_state
    from .notice import end_notice

    with contextlib.suppress(LauncherError):
        tell(end_notice(read_state(run)), run)


def tell(notice: Notice, folder: Path) -> bool:
    """Have a notice sent, if ``[notify]`` wants it and nobody has sent it; whether it is on its way."""
    from . import settings as config

    chosen = config.load()
    if notice.kind not in chosen.on or not (chosen.webhook or chosen.command):
        return False
    if not _claimed(folder, notice.kind):
        return False
    order = {
        "document": dict(notice.document),
        "webhook": chosen.webhook,
        "command": config.filled(chosen.command, asdict(notice)),
        "report": os.fspath(folder / FOLDER / f"{notice.kind}.json"),
    }
    return _started(json.dumps(order).encode())


def _claimed(folder: Path, kind: str) -> bool:
    """Whether this kind has not been told yet; from now on it has. A folder that is full counts as new."""
    with contextlib.suppress(OSError):
        (folder / FOLDER).mkdir(mode=paths.FOLDER_MODE, exist_ok=True)
    try:
        with open(folder / FOLDER / f"{kind}.json", "xb", opener=opener) as file:
            file.write(b'{"sent": "being sent"}\n')
    except FileExistsError:
        return False
    except OSError:
        return True
    return True


def _started(order: bytes) -> bool:
    """Start the process that sends. The order is smaller than a pipe's buffer: writing it never waits."""
    from ..backends.zygotes import ROOT

    null = subprocess.DEVNULL
    try:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", BOOT, ROOT],
            stdin=subprocess.PIPE,
            stdout=null,
            stderr=null,
            cwd="/",
            start_new_session=True,
        )
    except OSError:
        return False
    assert process.stdin is not None
    with contextlib.suppress(OSError), process.stdin:
        process.stdin.write(order)
    reaper = threading.Thread(target=process.wait, name="notify", daemon=True)
    with contextlib.suppress(RuntimeError):  # no room for a thread, or this process is ending
        reaper.start()
    return True
