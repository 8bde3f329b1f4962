"""Stacks of ranks while they run: ask each interpreter for them, and say why where none come.

A rank's faulthandler writes to a file of the agent's own, so nothing of it gets into the rank's output,
and it needs neither the interpreter's lock nor a thread that is awake. A signal that nobody handles
would end the rank; so each is sent only to a process that handles it and still has our file.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass

from ..channel import frames
from . import linux, rank_main
from .boot import Emit
from .process import RankProcess

POLL_S = 0.02
LIMIT_S = 2.0
SETTLED_S = 0.5  # by then a dump that has stopped growing is whole, whatever a thread's mask says
BYTES = 64 << 10

_OURS = re.compile(r'  File "(?:<string>|[^"]*launcher/agent/rank_main\.py)", line \d+ in \S+')


@dataclass(slots=True)
class _Asked:
    """One rank's part.

    Attributes:
        process: the rank.
        until: when it has had its time.
        why_not: why it was not signalled; empty if it was.
        blocked: its threads that had the signal blocked before.
        size: how much it has written.
        grown: when that was last more.
    """

    process: RankProcess
    until: float
    why_not: str
    blocked: frozenset[int]
    size: int
    grown: float


class Dump:
    """One round: all ranks are asked at once, and `poll` tells of each as its answer is whole."""

    def __init__(self, emit: Emit, naming: rank_main.Naming) -> None:
        self._emit = emit
        self._naming = naming
        self._number = 0
        self._asked: dict[int, _Asked] = {}

    def ask(self, ranks: Mapping[int, RankProcess], *, number: int, now: float) -> None:
        """Ask ranks, but for those that are being asked; so who asks while others are answered hears of all.

        Args:
            ranks: those that have not ended.
            number: of the request; the last one is told when all have answered.
            now: the clock that `poll` goes by.
        """
        self._number = number
        for rank in sorted(ranks.keys() - self._asked.keys()):
            self._asked[rank] = _ask(ranks[rank], now)

    def poll(self, now: float, time: float) -> bool:
        """Tell what has come; whether that is all.

        Args:
            now: the clock by which the ranks were asked.
            time: the time of day.
        """
        from ..state.events import StacksTaken

        for rank, asked in list(self._asked.items()):
            if now >= asked.until or _is_whole(asked, now):
                del self._asked[rank]
                text, reason = _answer(asked, self._naming)
                self._emit.fact(StacksTaken(rank=rank, time=time, text=text, reason=reason))
        if not self._asked:
            self._emit.raw(frames.Kind.STACKED, json.dumps({"round": self._number}).encode(), rank=0)
        return not self._asked


def _ask(process: RankProcess, now: float) -> _Asked:
    """Signal a rank, if that does it no harm."""
    os.ftruncate(process.stacks, 0)
    blocked = linux.blocking(process.pid, rank_main.STACKS_SIGNAL)
    asked = _Asked(process, now + LIMIT_S, _why_not(process), blocked, 0, now)
    if not asked.why_not:
        with contextlib.suppress(OSError):  # it has just ended, or changed its user
            os.kill(process.pid, rank_main.STACKS_SIGNAL)
    return asked


def _why_not(process: RankProcess) -> str:
    """Why a rank must not be signalled: the signal would kill it, or the stacks go who knows where."""
    if not linux.catches(process.pid, rank_main.STACKS_SIGNAL):
        return "it cannot be asked: its interpreter is starting or ending, or it has become another program"
    if not linux.same_file(f"/proc/{process.pid}/fd/{process.stacks}", process.stacks):
        return "it cannot be asked: it has closed the file that its stacks go to"
    return ""


def _is_whole(asked: _Asked, now: float) -> bool:
    """Whether nothing more will come: its handler has run and returned, or could not begin."""
    pid = asked.process.pid
    if asked.why_not or not linux.is_alive(pid):
        return True
    size = os.fstat(asked.process.stacks).st_size
    if size != asked.size or not size:
        asked.size, asked.grown = size, now
        return False
    handling = linux.blocking(pid, rank_main.STACKS_SIGNAL) - asked.blocked
    return now >= asked.grown + SETTLED_S or not (handling or linux.is_pending(pid, rank_main.STACKS_SIGNAL))


def _answer(asked: _Asked, naming: rank_main.Naming) -> tuple[str, str]:
    """What a rank has printed, or why that is nothing."""
    data = os.pread(asked.process.stacks, BYTES, 0)
    if data:
        return rank_main.cut(naming(own_frames(data.decode(errors="replace"))), BYTES), ""
    pid = asked.process.pid
    if not linux.is_alive(pid):
        return "", "it ended before it could answer"
    why = asked.why_not or f"it printed none within {LIMIT_S:g} s"
    return "", rank_main.cut("\n".join((why, *linux.threads(pid, rank_main.STACKS_SIGNAL))), BYTES)


def own_frames(text: str) -> str:
    """The stacks without the frames at their bottom through which we called the user's code."""
    blocks = []
    for block in text.strip().split("\n\n"):
        lines = block.splitlines()
        while lines and _OURS.fullmatch(lines[-1]):
            lines.pop()
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks) + "\n"
