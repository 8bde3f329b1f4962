"""Stacks of running ranks: request them by a signal, and give a reason where none come.

A rank's faulthandler writes to a file of the agent's own, so nothing of it gets into the rank's output,
and it needs neither the interpreter's lock nor a thread that is awake. A signal without a handler
would end the rank; so it is sent only to a process that handles it and still has our file open.
Native frames follow where `py-spy` is installed (`native_stacks`).
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..channel import frames
from . import exceptions, linux, rank_main
from .boot import Emit
from .process import RankProcess
from .program import Naming

if TYPE_CHECKING:
    from ..state.events import StacksTaken
    from .native_stacks import NativeDump

POLL_S = 0.02
LIMIT_S = 2.0
SETTLED_S = 0.5  # a dump that has not grown for so long is complete, whatever a thread's signal mask is
BYTES = 64 << 10
NATIVE_EVERY_S = 30.0
"""Native frames cost seconds of CPU: they are not looked at more often."""

_OURS = re.compile(
    r'  File "(?:<string>|[^"]*launcher/agent/(?:rank_main|warm/forking)\.py)", line \d+ in \S+'
)


@dataclass(slots=True)
class _StacksRequest:
    """The request to one rank.

    Attributes:
        process: the rank.
        deadline: when to stop waiting for its stacks.
        obstacle: why it was not signalled; empty if it was.
        blocked: its threads that had the signal blocked before.
        size: how many bytes it has written.
        grown_at: when it last wrote more.
    """

    process: RankProcess
    deadline: float
    obstacle: str
    blocked: frozenset[int]
    size: int
    grown_at: float


class Dump:
    """One round: all ranks are signalled at once, and `poll` reports each rank's stacks once complete.

    If it `looks_below`, native frames follow where `py-spy` is installed.
    """

    def __init__(self, emit: Emit, naming: Naming, *, looks_below: bool = False) -> None:
        self._emit = emit
        self._naming = naming
        self._number = 0
        self._requests: dict[int, _StacksRequest] = {}
        self._natives: dict[int, tuple[NativeDump, StacksTaken]] = {}
        self._looks_below = looks_below

    def add(self, ranks: Mapping[int, RankProcess], *, number: int, now: float) -> None:
        """Request the stacks of ranks without a pending request; a second requester shares the pending ones.

        Args:
            ranks: the ranks that have not ended.
            number: the requester's number; the last number is reported when all ranks have answered.
            now: the time on the clock of `poll`.
        """
        self._number = number
        for rank in sorted(ranks.keys() - self._requests.keys()):
            self._requests[rank] = _signal_rank(ranks[rank], now)

    def poll(self, now: float, time: float) -> bool:
        """Report complete stacks; return whether nothing is pending any more.

        Args:
            now: the time on the clock of `add`.
            time: the time of day.
        """
        waiting = bool(self._requests)
        for rank, request in list(self._requests.items()):
            if now >= request.deadline or _is_whole(request, now):
                del self._requests[rank]
                self._report(rank, request, now, time)
        if waiting and not self._requests:
            self._emit.raw(frames.Kind.STACKED, json.dumps({"round": self._number}).encode(), rank=0)
        for rank, (native, _) in list(self._natives.items()):
            if native.is_over(now):
                self._finish(rank)
        return not (self._requests or self._natives)

    def close(self) -> None:
        """Look no further below Python."""
        for rank in list(self._natives):
            self._finish(rank)

    def _report(self, rank: int, request: _StacksRequest, now: float, time: float) -> None:
        """Report a rank's stacks, and have its native frames looked at if that was not done lately."""
        from ..state.events import StacksTaken

        text, reason = _answer(request, self._naming)
        native = self._begin_native(request.process.pid, now) if self._looks_below else None
        fact = StacksTaken(rank=rank, time=time, text=text, reason=reason, native="" if native else None)
        self._emit.fact(fact)
        if native:
            self._natives[rank] = native, fact

    def _begin_native(self, pid: int, now: float) -> NativeDump | None:
        from . import native_stacks  # its imports cost more than an agent's start may

        program = native_stacks.find(pid) if linux.is_alive(pid) else None
        return None if program is None else native_stacks.begin(program, pid, now)

    def _finish(self, rank: int) -> None:
        """Report a rank's stacks again, with the native frames if there are any."""
        native, fact = self._natives.pop(rank)
        self._emit.fact(replace(fact, native=self._naming(native.close()) or None))


def _signal_rank(process: RankProcess, now: float) -> _StacksRequest:
    """Signal a rank, if that cannot harm it."""
    os.ftruncate(process.stacks, 0)
    blocked = linux.blocking(process.pid, rank_main.STACKS_SIGNAL)
    request = _StacksRequest(process, now + LIMIT_S, _obstacle(process), blocked, 0, now)
    if not request.obstacle:
        with contextlib.suppress(OSError):  # it has just ended, or changed its user
            os.kill(process.pid, rank_main.STACKS_SIGNAL)
    return request


def _obstacle(process: RankProcess) -> str:
    """Why a rank must not be signalled: the signal would kill it, or its stacks would go to another file."""
    if not linux.catches(process.pid, rank_main.STACKS_SIGNAL):
        return "it cannot be asked: its interpreter is starting or ending, or it has become another program"
    if not linux.same_file(f"/proc/{process.pid}/fd/{process.stacks}", process.stacks):
        return "it cannot be asked: it has closed the file that its stacks go to"
    return ""


def _is_whole(request: _StacksRequest, now: float) -> bool:
    """Whether the rank will write no more: its handler has returned, or could not begin."""
    pid = request.process.pid
    if request.obstacle or not linux.is_alive(pid):
        return True
    size = os.fstat(request.process.stacks).st_size
    if size != request.size or not size:
        request.size, request.grown_at = size, now
        return False
    handling = linux.blocking(pid, rank_main.STACKS_SIGNAL) - request.blocked
    settled = now >= request.grown_at + SETTLED_S
    return settled or not (handling or linux.is_pending(pid, rank_main.STACKS_SIGNAL))


def _answer(request: _StacksRequest, naming: Naming) -> tuple[str, str]:
    """A rank's stacks, or the reason why there are none."""
    data = os.pread(request.process.stacks, BYTES, 0)
    if data:
        return exceptions.cut(naming(own_frames(data.decode(errors="replace"))), BYTES), ""
    pid = request.process.pid
    if not linux.is_alive(pid):
        return "", "it ended before it could answer"
    why = request.obstacle or f"it printed none within {LIMIT_S:g} s"
    return "", exceptions.cut("\n".join((why, *linux.threads(pid, rank_main.STACKS_SIGNAL))), BYTES)


def own_frames(text: str) -> str:
    """The stacks without the frames at their bottom through which we called the user's code."""
    blocks = []
    for block in text.strip().split("\n\n"):
        lines = block.splitlines()
        while lines and _OURS.fullmatch(lines[-1]):
            lines.pop()
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n"
