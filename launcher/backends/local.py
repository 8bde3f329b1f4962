"""The backend for this machine: one agent process for each run, and the queue of runs that wait to start.

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
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from ..agent import agent, gpus, linux
from ..agent.boot import Boot
from ..channel import handshake
from ..channel.connection import AgentConnection
from ..errors import AgentLost, CannotPlace, counted
from ..placement.plan import Plan
from ..runs.files import opener
from ..selectable_queue import SelectableQueue
from ..serialization import to_plain
from ..spec.places import Offer
from ..spec.request import Request
from ..state.events import SlotsAwaited
from .base import AgentsExpected, News, StageOver
from .zygotes import ROOT, ForkedAgent, KeptZygote, Need, Zygotes, need_of

AGENT_ERRORS = "agent.err"
GONE_S = 35.0


class LocalBackend:
    """Starts one agent on this machine.

    Args:
        queue: limits how many runs may go on at once; None for any number.
        zygotes: what agents are forked from; None for fresh ones.
    """

    def __init__(self, queue: RunQueue | None = None, zygotes: Zygotes | None = None) -> None:
        self._queue = queue
        self._zygotes = zygotes
        self._need: Need | None = None
        self._zygote: KeptZygote | None = None
        self._permit: RunPermit | None = None
        self._start: Callable[[], None] | None = None
        self._granted = threading.Event()
        self._box: SelectableQueue[News] = SelectableQueue()
        self._process: AgentProcess | None = None
        self._errors: Path | None = None

    def reserve(self, request: Request, *, whole: bool) -> bool:
        """Always: runs that are too many wait in the queue of this machine."""
        del request, whole
        return True

    def offers(self, request: Request) -> tuple[Sequence[Offer] | None, str]:
        """This machine: the cores that this process may use, and its GPUs or those that Spark granted."""
        found = gpus.granted_gpus(request.gpus, {**request.environ, **request.spec.env})
        offer = Offer(agent=0, host=socket.gethostname(), cores=_cores(request), devices=found.devices)
        return (offer,), found.reason

    def launch(self, request: Request, plan: Plan | None, folder: Path, *, attempt: int) -> None:
        """Start the agent once the run has a permit, which it keeps for all its attempts.

        Raises:
            CannotPlace: the agent's process cannot be started.
            AgentLost: processes of the attempt before do not end.
        """
        del attempt
        assert plan is not None  # `offers` returned offers
        self._start = partial(self._begin, request, plan, folder)
        self._need = need_of(request) if self._zygotes else None
        self._zygote = self._zygotes.get(self._need) if self._zygotes and self._need else None
        if self._queue is None or self._permit is not None:
            self._granted.set()
        else:
            self._permit = self._queue.take(self._on_permit)
            if not self._granted.is_set():
                self._box.put(_awaited(self._queue, request.spec.start_timeout_s))
        if self._zygote is not None:
            self._zygote.when_settled(self._box.wake)
        self._begin_now()

    def _on_permit(self) -> None:
        """Wake the run's own thread, which starts the agent. Called on any thread."""
        self._granted.set()
        self._box.wake()

    def _begin_now(self) -> None:
        """Start the agent, if the run has its permit and nothing is being loaded for it."""
        if not self._granted.is_set() or (self._zygote is not None and not self._zygote.settled):
            return
        start, self._start = self._start, None
        if start:
            start()

    def _begin(self, request: Request, plan: Plan, folder: Path) -> None:
        """Start the agent with one end of a pair of sockets, once all processes of a former one are gone."""
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
        if self._process is not None:
            self._process.close()
        try:
            self._process = self._start_agent(boot, self._errors)
        except OSError as error:
            near.close()
            raise CannotPlace(f"cannot start an agent: {error.strerror}") from error
        finally:
            far.close()
        self._box.put(AgentsExpected(1), AgentConnection(near, 0, token), StageOver())

    def fileno(self) -> int:
        """Readable while there is news."""
        return self._box.fileno()

    def news(self) -> list[News]:
        """The agent's connection and its number, one; if the run had to wait, this call starts the agent.

        Raises:
            CannotPlace, AgentLost: as `launch`.
        """
        self._begin_now()
        return self._box.take()

    def abort(self) -> None:
        """Terminate the agent, which then ends its ranks; a run that waits for a permit has no agent."""
        if self._process is not None:
            self._process.terminate()
        if self._start is not None:
            self._start = None
            self._box.put(StageOver())

    def close(self, timeout_s: float) -> bool:
        """Wait for the end of the agent's process tree, and delete its error file if that is empty."""
        self._start = None
        gone = self._gone(timeout_s)
        if gone and self._process is not None:
            self._process.close()
            self._process = None
        if self._permit is not None:
            self._permit.give_back()
        self._box.close()
        if not gone:
            return False
        if self._errors and self._errors.exists() and not self._errors.stat().st_size:
            self._errors.unlink()
        return True

    def settings(self, names: Sequence[str]) -> Mapping[str, str]:
        """None: nothing schedules here."""
        del names
        return {}

    def complaint(self) -> str:
        """The last line of the agent's error file, and the file's path."""
        if not self._errors or not self._errors.exists():
            return ""
        lines = self._errors.read_text(errors="replace").strip().splitlines()
        return f"the agent printed: {lines[-1]} (all of it in {self._errors})" if lines else ""

    def _gone(self, timeout_s: float) -> bool:
        """Wait for the agent's warden, which is the last of its tree to end; whether it has."""
        return self._process is None or self._process.await_end(timeout_s)

    def _start_agent(self, boot: Boot, errors: Path) -> AgentProcess:
        """Have the zygote fork it, or else start a fresh one."""
        with open(errors, "ab", opener=opener) as file:
            if self._need is not None and self._zygote is not None and self._zygote.ready:
                with contextlib.suppress(OSError):  # it says why in `why`
                    return self._zygote.fork_agent(boot, file.fileno(), self._need.modules)
            return FreshAgent(boot, file.fileno())


class FreshAgent:
    """An agent's process in an interpreter of its own, under its warden."""

    def __init__(self, boot: Boot, errors: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", agent.BOOT, ROOT],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            cwd="/",
            pass_fds=(boot.descriptor,),
            start_new_session=True,
        )
        assert self._process.stdin is not None
        with self._process.stdin as pipe:
            pipe.write(json.dumps(to_plain(boot)).encode() + b"\n")

    def await_end(self, limit_s: float) -> bool:
        """Whether it has ended, or does within `limit_s` seconds."""
        if self._process.poll() is not None:
            return True
        try:
            descriptor = os.pidfd_open(self._process.pid)
        except OSError:  # no process of this pid is left
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(limit_s)
        else:
            linux.await_end(descriptor, limit_s)
            os.close(descriptor)
        return self._process.poll() is not None

    def terminate(self) -> None:
        """Send SIGTERM."""
        self._process.terminate()

    def close(self) -> None:
        """Nothing is held."""


AgentProcess = ForkedAgent | FreshAgent


def _cores(request: Request) -> int:
    """The cores that the run's caller may use."""
    return len(request.inherited.cores) or len(os.sched_getaffinity(0))


def _awaited(queue: RunQueue, limit_s: float) -> SlotsAwaited:
    return SlotsAwaited(
        time=time.time(),
        have=0,
        need=1,
        limit_s=limit_s,
        reason=f"this machine already has {counted(queue.limit, 'run')}, of at most {queue.limit} at once",
    )


class RunQueue:
    """A fair semaphore whose waiters do not block but are called back. Thread-safe."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._lock = threading.Lock()
        self._held: set[RunPermit] = set()
        self._waiting: deque[RunPermit] = deque()

    def take(self, granted: Callable[[], None]) -> RunPermit:
        """Request a permit; `granted` is called when the run may start, perhaps at once, on any thread."""
        permit = RunPermit(self, granted)
        with self._lock:
            now = len(self._held) < self.limit
            if now:
                self._held.add(permit)
            else:
                self._waiting.append(permit)
        if now:
            granted()
        return permit

    @property
    def held(self) -> int:
        """How many permits are held."""
        return len(self._held)

    def give_back(self, permit: RunPermit) -> None:
        """Return a permit, or cancel the wait for it; the next run may start. Again has no effect."""
        following = None
        with self._lock:
            if permit in self._held:
                self._held.remove(permit)
                if self._waiting:
                    following = self._waiting.popleft()
                    self._held.add(following)
            elif permit in self._waiting:
                self._waiting.remove(permit)
        if following:
            following.granted()


class RunPermit:
    """A run's permit to go on, or its place in the queue for one."""

    def __init__(self, queue: RunQueue, granted: Callable[[], None]) -> None:
        self.granted = granted
        self._queue = queue

    def give_back(self) -> None:
        """See `RunQueue.give_back`."""
        self._queue.give_back(self)
