"""The zygotes that a process keeps for its runs on this machine: shared, bounded in number, let go when idle.

A zygote (`launcher.agent.warm.zygote`) has imported what a run's target imports, and forks the run's agent. A
run for which there is none has a fresh agent and fresh ranks, as with ``--fresh``.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..agent import linux
from ..agent.boot import Boot, base_environ
from ..agent.warm import zygote
from ..agent.warm.starting import Started, ZygoteKind, kind_of, start
from ..agent.warm.wanted import modules_of
from ..serialization import to_plain
from ..spec.job import TargetKind
from ..spec.program_sources import program_sources
from ..spec.request import Request

ROOT = str(Path(__file__).resolve().parents[2])
MOST = 3
IDLE_S = 600.0
# How long a run waits for its zygote, and how long one may take for later runs.
PATIENCE_S, LOADING_S = 10.0, 300.0
# For how long nothing of a kind is started again whose imports failed or printed something.
UNFIT_S = 600.0


@dataclass(frozen=True, slots=True)
class Need:
    """What a run needs of a zygote: its kind, and the modules that the target imports."""

    kind: ZygoteKind
    modules: tuple[str, ...]


def need_of(request: Request) -> Need | None:
    """What a run needs of its zygote; None if it cannot have one."""
    modules = modules_for(request)
    if modules is None or request.interpreter != sys.executable:
        return None
    env = base_environ(request.environ, request.spec.env, python=request.interpreter)
    return Need(kind_of(env, modules), modules)


def modules_for(request: Request) -> tuple[str, ...] | None:
    """What a zygote imports for a run; None if its ranks are to be fresh."""
    spec = request.spec
    if spec.fresh or spec.python or spec.target.kind is TargetKind.PROGRAM:
        return None
    texts = list(program_sources(spec.target, Path(spec.workdir)))
    if request.payload and b"torch" in request.payload:  # a function by value has no source of its own
        texts.append("import torch")
    modules = modules_of("\n".join(texts))
    if modules is None or request.payload is None:
        return modules
    return (*modules, "cloudpickle")


@dataclass(slots=True)
class ForkedAgent:
    """The process of an agent that a zygote has forked: its warden's."""

    pid: int
    pidfd: int

    def await_end(self, limit_s: float) -> bool:
        """Whether it has ended, or does within `limit_s` seconds."""
        return linux.await_end(self.pidfd, limit_s)

    def terminate(self) -> None:
        """Send SIGTERM."""
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, signal.SIGTERM)

    def close(self) -> None:
        """Close the descriptor."""
        os.close(self.pidfd)


class KeptZygote:
    """A zygote, from its start on, and this process's end of its socket. Thread-safe.

    Attributes:
        kind: which runs it fits.
        used_at: the monotonic time of its last use.
        why: why it is of no more use; else empty.
        unfit: whether another one would be of no use either.
    """

    def __init__(self, started: Started) -> None:
        self.kind = started.kind
        self.used_at = time.monotonic()
        self.why, self.unfit = "", False
        self._lock = threading.Lock()
        self._waiting: list[Callable[[], None]] = []
        self._settled = self._ready = False
        self._pid, self._line = started.pid, started.line
        self._pidfd = os.pidfd_open(self._pid)
        self._line.settimeout(PATIENCE_S)
        self._loading = threading.Thread(target=self._await_ready, name="rankdeck-zygote", daemon=True)
        self._loading.start()

    @property
    def settled(self) -> bool:
        """Whether runs need not wait for it: it is ready, or will not be soon."""
        return self._settled

    @property
    def ready(self) -> bool:
        """Whether it can fork agents now."""
        return self._ready and not self.why

    @property
    def has_ended(self) -> bool:
        """Whether it has ended by itself, as it does when something that it has imported has changed."""
        return self._ready and linux.await_end(self._line.fileno(), 0.0)

    def when_settled(self, act: Callable[[], None]) -> None:
        """Call `act` once it is settled, on any thread."""
        with self._lock:
            if not self._settled:
                self._waiting.append(act)
                return
        act()

    def _await_ready(self) -> None:
        if not linux.await_end(self._line.fileno(), PATIENCE_S):
            self._settle()
        self.why = self._why_not_loaded()
        self.unfit = bool(self.why)
        self._ready = not self.why
        self._settle()

    def _why_not_loaded(self) -> str:
        if not linux.await_end(self._line.fileno(), LOADING_S):
            return f"it has not loaded within {LOADING_S:g} s"
        try:
            answer = json.loads(self._line.recv(zygote.MESSAGE))
        except (OSError, ValueError):
            return "it ended while it loaded"
        printed = answer["printed"]
        return f"an import printed {printed!r}" if printed else ""

    def _settle(self) -> None:
        with self._lock:
            self._settled = True
            waiting, self._waiting = self._waiting, []
        for act in waiting:
            act()

    def fork_agent(self, boot: Boot, errors: int, modules: Sequence[str]) -> ForkedAgent:
        """Have it fork an agent.

        Args:
            boot: the agent's settings, of which the descriptor is one of this process.
            errors: where the agent writes errors.
            modules: what the run imports, for later runs of the kind: it is imported after the fork.

        Raises:
            OSError: it cannot, or a file that it has imported has changed: it is of no more use.
        """
        order = {
            "boot": to_plain(boot),
            "modules": modules,
            "environ": None,
            "descriptors": ["channel", "errors"],
        }
        with self._lock:
            try:
                socket.send_fds(self._line, [json.dumps(order).encode()], [boot.descriptor, errors])
                data, descriptors, _, _ = socket.recv_fds(self._line, zygote.MESSAGE, 1)
            except OSError as error:
                self.why = str(error)
                raise
        answer = json.loads(data or '{"refused": "it has ended"}')
        if not descriptors:
            self.why = str(answer["refused"])
            raise OSError(self.why)
        self.used_at = time.monotonic()
        return ForkedAgent(answer["pid"], descriptors[0])

    def describe(self) -> dict[str, Any]:
        """See `Zygotes.describe`."""
        return {
            "pid": self._pid,
            "memory": linux.resident(self._pid),
            "torch": self.kind.torch,
            "idle_s": round(time.monotonic() - self.used_at, 1),
        }

    def close(self) -> None:
        """End it, once. Agents that it has forked go on."""
        self.why = self.why or "it was closed"
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)
        self._loading.join()
        linux.await_end(self._pidfd, PATIENCE_S)
        with contextlib.suppress(ChildProcessError):  # another process has started it
            os.waitid(os.P_PIDFD, self._pidfd, os.WEXITED)
        with self._lock:
            self._line.close()
            os.close(self._pidfd)


class Zygotes:
    """The zygotes of this process, at most `most` at once, each until `idle_s` seconds after its last use.

    Thread-safe.
    """

    def __init__(self, *, most: int = MOST, idle_s: float = IDLE_S) -> None:
        self._most, self._idle_s = most, idle_s
        self._lock = threading.Lock()
        self._kept: list[KeptZygote] = []  # the last used one last
        self._unfit: dict[ZygoteKind, float] = {}

    def get(self, need: Need) -> KeptZygote | None:
        """The zygote for a run, perhaps one that has just been started; None if it has to do without."""
        kind = need.kind
        with self._lock:
            useless = self._take_useless()
            found = next((each for each in self._kept if each.kind == kind), None)
            if found is None and self._unfit.get(kind, 0.0) < time.monotonic():
                with contextlib.suppress(OSError):  # the run's own start will say why
                    found = KeptZygote(start(kind, need.modules, ROOT))
            if found is not None:
                self._kept = [*(each for each in self._kept if each is not found), found]
            over, self._kept = self._kept[: -self._most], self._kept[-self._most :]
        _close([*useless, *over])
        return found

    def adopt(self, started: Started) -> None:
        """Take over one that another process has started."""
        with contextlib.suppress(OSError):  # it has ended
            started.line.send(json.dumps({"owner": os.getpid()}).encode())
            with self._lock:
                self._kept.append(KeptZygote(started))

    def _take_useless(self) -> list[KeptZygote]:
        useless = [each for each in self._kept if each.why or each.has_ended]
        self._kept = [each for each in self._kept if each not in useless]
        self._unfit |= {each.kind: time.monotonic() + UNFIT_S for each in useless if each.unfit}
        return useless

    def close_idle(self) -> None:
        """End those that no run has used for a while."""
        since = time.monotonic() - self._idle_s
        with self._lock:
            over = [each for each in self._kept if each.used_at < since]
            self._kept = [each for each in self._kept if each.used_at >= since]
        _close(over)

    def describe(self) -> list[dict[str, Any]]:
        """Of each, the pid, its memory in bytes, whether it has imported torch, and its idle seconds."""
        with self._lock:
            kept = list(self._kept)
        return [each.describe() for each in kept]

    def close(self) -> None:
        """End all."""
        with self._lock:
            over, self._kept = self._kept, []
        _close(over)


def _close(zygotes: list[KeptZygote]) -> None:
    for each in zygotes:
        each.close()
