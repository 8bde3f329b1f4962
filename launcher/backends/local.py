"""Agents on this machine: a process in place of a Spark task, and otherwise the same path.

Needs no JVM, no Spark and no network: the channel is an inherited pair of sockets.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import launcher
from launcher.backends import Expect, News, Over
from launcher.backends.newsbox import Newsbox
from launcher.channel.link import Link
from launcher.codec import to_plain
from launcher.errors import AgentLost, CannotPlace
from launcher.events import SlotsAwaited
from launcher.plan import Plan
from launcher.request import Request
from launcher.runs.private import opener
from launcher.spec import Offer
from launcher.turns import Turn, Turns
from launcher.worker import agent, devices, handshake, kernel
from launcher.worker.boot import Boot

ROOT = str(Path(launcher.__file__).resolve().parent.parent)
AGENT_ERRORS = "agent.err"
GONE_S = 35.0


class LocalBackend:
    """One agent beside the engine.

    Args:
        turns: how many runs may go on at once; None for any number.
    """

    def __init__(self, turns: Turns | None = None) -> None:
        self._turns = turns
        self._turn: Turn | None = None
        self._start: Callable[[], None] | None = None
        self._granted = threading.Event()
        self._box: Newsbox[News] = Newsbox()
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: Path | None = None

    def offers(self, request: Request) -> tuple[Sequence[Offer] | None, str]:
        """This machine: the cores that this process may use, and the GPUs that NVML shows."""
        found = devices.discover(request.environ)
        offer = Offer(agent=0, host=socket.gethostname(), cores=_cores(request), devices=found.devices)
        return (offer,), found.reason

    def launch(self, request: Request, plan: Plan | None, folder: Path, *, attempt: int) -> None:
        """Start the agent when it is the run's turn, which it keeps for all its attempts.

        Raises:
            CannotPlace: the agent's process cannot be started.
            AgentLost: processes of the former one do not end.
        """
        del attempt
        assert plan is not None  # `offers` said what there is
        self._start = partial(self._begin, request, plan, folder)
        if self._turns is None or self._turn is not None:
            return self._begin_now()
        self._turn = self._turns.take(self._on_turn)
        if not self._granted.is_set():
            self._box.put(_awaited(self._turns, request.spec.start_timeout_s))
        return None

    def _on_turn(self) -> None:
        """On whatever thread: the run's own begins."""
        self._granted.set()
        self._box.wake()

    def _begin_now(self) -> None:
        start, self._start = self._start, None
        if start:
            start()

    def _begin(self, request: Request, plan: Plan, folder: Path) -> None:
        """Start the agent with one end of a pair of sockets, once all that came of a former one is gone."""
        if not self._gone(GONE_S):
            raise AgentLost("processes of the attempt before do not end")
        near, far = socket.socketpair()
        token = handshake.new_token()
        boot = Boot(
            agent=0,
            token=token,
            descriptor=far.fileno(),
            watch=os.getpid(),
            sample_s=request.spec.sample_s,
            address="127.0.0.1",
            cores=_cores(request),
            devices=tuple(dict.fromkeys(d for r in plan.ranks for d in r.devices)),
            inherited=request.inherited,
        )
        self._errors = folder / AGENT_ERRORS
        try:
            self._process = self._spawn(far.fileno(), self._errors)
        except OSError as error:
            near.close()
            raise CannotPlace(f"cannot start an agent: {error.strerror}") from error
        finally:
            far.close()
        assert self._process.stdin is not None
        with self._process.stdin as pipe:
            pipe.write(json.dumps(to_plain(boot)).encode() + b"\n")
        self._box.put(Expect(1), Link(near, 0, token), Over())

    def fileno(self) -> int:
        """Readable while there is news."""
        return self._box.fileno()

    def news(self) -> list[News]:
        """The agent's link, and that it is the only one; the agent starts here if the run had to wait.

        Raises:
            CannotPlace, AgentLost: as `launch`.
        """
        if self._granted.is_set():
            self._begin_now()
        return self._box.take()

    def abort(self) -> None:
        """Terminate the agent, which then ends its ranks; a run that waits for its turn has no agent."""
        if self._process is not None:
            self._process.terminate()
        if self._start is not None:
            self._start = None
            self._box.put(Over())

    def close(self, timeout_s: float) -> bool:
        """Wait for the agent's process tree to be gone, and drop its error file if nothing is in it."""
        self._start = None
        gone = self._gone(timeout_s)
        if self._turn is not None:
            self._turn.give_back()
        self._box.close()
        if not gone:
            return False
        if self._errors and self._errors.exists() and not self._errors.stat().st_size:
            self._errors.unlink()
        return True

    def complaint(self) -> str:
        """The last line of the agent's error file, and where the rest is."""
        if not self._errors or not self._errors.exists():
            return ""
        lines = self._errors.read_text(errors="replace").strip().splitlines()
        return f"the agent said: {lines[-1]} (all of it in {self._errors})" if lines else ""

    def _gone(self, timeout_s: float) -> bool:
        """Wait for the agent's warden, which is the last of its tree to end; whether it has."""
        if self._process is None or self._process.poll() is not None:
            return True
        try:
            descriptor = os.pidfd_open(self._process.pid)
        except OSError:  # none is left
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout_s)
        else:
            kernel.await_end(descriptor, timeout_s)
            os.close(descriptor)
        return self._process.poll() is not None

    def _spawn(self, descriptor: int, errors: Path) -> subprocess.Popen[bytes]:
        with open(errors, "ab", opener=opener) as file:
            return subprocess.Popen(
                [sys.executable, "-P", "-c", agent.BOOT, ROOT],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=file,
                cwd="/",
                pass_fds=(descriptor,),
                start_new_session=True,
            )


def _cores(request: Request) -> int:
    """The cores that the run's caller may use."""
    return len(request.inherited.cores) or len(os.sched_getaffinity(0))


def _awaited(turns: Turns, limit_s: float) -> SlotsAwaited:
    return SlotsAwaited(
        time=time.time(),
        have=0,
        need=1,
        limit_s=limit_s,
        reason=f"{turns.limit} of {turns.limit} runs that may go on at once on this machine are going on",
    )
