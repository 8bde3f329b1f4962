"""Exceptions in flight in a rank: find and report them before they end the rank.

A rank that raises may need long to end: a `finally` saves a checkpoint or destroys the process group, and
its peers fail at once. Three events check for an exception in flight: the agent's signal, a process group
that is destroyed or made, and a report. A reported exception is evidence, not yet a failure: callers may
still catch it. If they have, the next check withdraws it.

While a `finally`, a `with` or an `except` that raises again still runs, `sys.exception()` returns the
exception; but it also returns one that was caught for good (``except FileNotFoundError: train()``). The code
that the frame has yet to run distinguishes the two. Since CPython 3.11 every handler begins with
PUSH_EXC_INFO; it ends in POP_EXCEPT if it is done with the exception, and in RERAISE or RAISE_VARARGS if it
raises it again. So an exception is in flight if no path from the current instruction leads to the POP_EXCEPT
of its handler.
"""

from __future__ import annotations

import signal
import sys
import time
import types
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

from . import import_hooks
from .rank_pipe import RankPipe

# Next to the signal for stacks, and equally far from those that scripts and virtual machines use.
INQUIRE_SIGNAL = signal.SIGRTMAX - 6
GROUPS = "torch.distributed.distributed_c10d"
_HOOKED = ("destroy_process_group", "init_process_group")

Describe = Callable[[BaseException, types.TracebackType | None], dict[str, Any]]


class Raising:
    """Reports exceptions in flight to the agent, and withdraws them.

    Args:
        line: the pipe to the agent.
        describe: makes the reported fields of an exception.
    """

    def __init__(self, line: RankPipe, describe: Describe) -> None:
        self._line = line
        self._describe = describe
        self._reported_id: int | None = None

    def install(self) -> None:
        """Check on the agent's signal, and when process groups are made or destroyed."""
        signal.signal(INQUIRE_SIGNAL, lambda _, frame: self.check(frame))
        import_hooks.when_imported(GROUPS, self._hook)

    def _hook(self, module: types.ModuleType) -> None:
        for name in _HOOKED:
            import_hooks.around(module, name, before=self.check)

    def check(self, frame: types.FrameType | None) -> None:
        """Report the exception in flight at a frame once; withdraw the last one if there is none."""
        if not self._line.mine:
            return
        try:
            in_flight = exception_in_flight(frame)
            if in_flight is None:
                self.withdraw()
            elif id(in_flight[0]) != self._reported_id:
                self._reported_id = id(in_flight[0])
                self._line.send_fact("rank_raising", self._describe(*in_flight))
        except Exception:  # noqa: BLE001  whatever the stack is, its analysis must not end a training
            return

    def check_again(self) -> None:
        """Check whether the reported exception is still in flight; costs nothing if none was reported."""
        if self._reported_id is not None:
            self.check(sys._getframe(1))  # noqa: SLF001  the documented way to one's own caller

    def withdraw(self) -> None:
        """Report that the reported exception did not end the rank."""
        if self._reported_id is not None:
            self._reported_id = None
            self._line.send_fact("rank_recovered", {"time": time.time()})


_ENDS = frozenset({"RETURN_VALUE", "RETURN_CONST", "RERAISE", "RAISE_VARARGS", "INTERPRETER_EXIT"})
_NO_FAILURES = (SystemExit, GeneratorExit)
_MOST_STATES = 100_000  # a function with more, probably generated, is not analysed to its end


def exception_in_flight(
    frame: types.FrameType | None,
) -> tuple[BaseException, types.TracebackType | None] | None:
    """The exception in flight in the calling thread, with its whole traceback.

    Args:
        frame: the innermost frame to check at.
    """
    error = sys.exception()
    while frame is not None and error is not None:
        held, caught = _handlers(frame.f_code, frame.f_lasti)
        for _ in range(caught):
            error = None if error is None else error.__context__
        if error is not None and held > caught:
            return None if isinstance(error, _NO_FAILURES) else (error, _full_traceback(error, frame.f_back))
        frame = frame.f_back
    return None


def _full_traceback(error: BaseException, frame: types.FrameType | None) -> types.TracebackType | None:
    """The traceback as it will be after the exception has passed all frames."""
    tb = error.__traceback__
    while frame is not None:
        tb = types.TracebackType(tb, frame, frame.f_lasti, frame.f_lineno)
        frame = frame.f_back
    return tb


def _handlers(code: types.CodeType, lasti: int) -> tuple[int, int]:
    """How many exceptions a frame is handling at an instruction, and how many of them it may yet catch."""
    flow = _Flow(code)
    at = flow.at(lasti)
    held = flow.held(at)
    return len(held), 0 if not held or flow.in_exit(held[-1], at) else len(held) - flow.least(at, len(held))


class _Flow:
    """The control flow of one function's code."""

    def __init__(self, code: types.CodeType) -> None:
        import dis  # only failing ranks need it

        self._jumps = frozenset((*dis.hasjrel, *dis.hasjabs))
        parsed = dis.Bytecode(code)
        self._code = {i.offset: i for i in parsed}
        order = list(self._code)
        self._next = dict(pairwise(order))
        self._table = parsed.exception_entries  # type: ignore[attr-defined]  # public since 3.11, and not in stubs

    def at(self, lasti: int) -> int:
        """The instruction to which an offset belongs; the offset of a call in progress may lie behind it."""
        return max((offset for offset in self._code if offset <= lasti), default=0)

    def held(self, at: int) -> tuple[int, ...]:
        """The starts of the handlers that are active at an instruction, the outermost first."""
        seen: set[tuple[int, tuple[int, ...]]] = set()
        waiting: list[tuple[int, tuple[int, ...]]] = [(next(iter(self._code), 0), ())]
        while waiting and len(seen) < _MOST_STATES:
            here, held = state = waiting.pop()
            if state in seen or here not in self._code:
                continue
            if here == at:
                return held
            seen.add(state)
            waiting += [(e.target, held) for e in self._table if e.start <= here < e.end]
            name = self._code[here].opname
            after = (*held, here) if name == "PUSH_EXC_INFO" else held[:-1] if name == "POP_EXCEPT" else held
            waiting += [(there, after) for there in self._successors(here)]
        return ()

    def least(self, at: int, held: int) -> int:
        """The fewest of the `held` exceptions that may still be held on any path from an instruction."""
        seen: set[tuple[int, int]] = set()
        waiting, fewest = [(at, held)], held
        while waiting and len(seen) < _MOST_STATES:
            here, left = state = waiting.pop()
            if state in seen or here not in self._code:
                continue
            seen.add(state)
            name = self._code[here].opname
            left += (name == "PUSH_EXC_INFO") - (name == "POP_EXCEPT")
            fewest = min(fewest, left)
            waiting += [(there, left) for there in self._successors(here)]
        return max(fewest, 0)

    def in_exit(self, handler: int, at: int) -> bool:
        """Whether a `with` is calling its `__exit__`, which could suppress the exception but seldom does."""
        second = self._next.get(handler, handler)
        if self._code[second].opname != "WITH_EXCEPT_START":
            return False
        here = second
        while here != at and self._code[here].opname != "RERAISE" and here in self._next:
            here = self._next[here]
        return here == at

    def _successors(self, here: int) -> Iterator[int]:
        instruction = self._code[here]
        if instruction.opname in _ENDS:
            return
        if instruction.opcode in self._jumps:
            yield instruction.argval
            if instruction.opname.startswith("JUMP_") and "_IF_" not in instruction.opname:
                return
        if here in self._next:
            yield self._next[here]
