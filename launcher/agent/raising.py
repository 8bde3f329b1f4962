"""Exceptions on their way through a rank: found, and told before they have ended it.

A rank that raises may need long to leave: a `finally` saves a checkpoint or destroys the process group, and
its peers fail at once. Three look for an exception in flight: the agent's question, which is a signal, a
process group that is destroyed or made, and a report. It is evidence: whether it ends the rank is not known
before the rank ends, and what was swallowed is taken back at the next look.

While a `finally`, a `with` or an `except` that raises again still runs, `sys.exception()` already knows the
exception; but it knows one that was caught for good just as well (``except FileNotFoundError: train()``).
The two are told apart by the code that the frame still has before it. Since CPython 3.11 every handler begins
with PUSH_EXC_INFO, and whoever is done with an exception says POP_EXCEPT, while one that goes on ends in
RERAISE or RAISE_VARARGS. So an exception is in flight where no way from the present instruction comes to the
POP_EXCEPT of its handler. Frames above may still catch it: it is evidence, and no fact of a failure.
"""

from __future__ import annotations

import functools
import importlib.util
import signal
import sys
import time
import types
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import ModuleSpec
from itertools import pairwise
from typing import Any

from .rank_pipe import RankPipe

# Beside that for stacks, and as far from those that scripts and virtual machines take for themselves.
QUESTION_SIGNAL = signal.SIGRTMAX - 6
_MODULE = "torch.distributed.distributed_c10d"
_HOOKED = ("destroy_process_group", "init_process_group")

Describe = Callable[[BaseException, types.TracebackType | None], dict[str, Any]]


class Raising:
    """What the agent was told last.

    Args:
        line: to the agent.
        describe: the fields by which an exception is told.
    """

    def __init__(self, line: RankPipe, describe: Describe) -> None:
        self._line = line
        self._describe = describe
        self._told: int | None = None

    def install(self) -> None:
        """Answer the agent's question, and look where process groups come and go."""
        signal.signal(QUESTION_SIGNAL, lambda _, frame: self.look(frame))
        sys.meta_path.insert(0, _Finder(self.look))

    def look(self, frame: types.FrameType | None) -> None:
        """Tell what is in flight above a frame, once, or that what was told has ended nothing."""
        if not self._line.mine:
            return
        try:
            found = exception_in_flight(frame)
            if found is None:
                self.take_back()
            elif id(found[0]) != self._told:
                self._told = id(found[0])
                self._line.send_fact("rank_raising", self._describe(*found))
        except Exception:  # noqa: BLE001  whatever the stack looks like, looking at it must not end a training
            return

    def look_again(self) -> None:
        """See whether what was told is still in flight; costs nothing where nothing was."""
        if self._told is not None:
            self.look(sys._getframe(1))  # noqa: SLF001  the documented way to one's own caller

    def take_back(self) -> None:
        """Say that the exception which was told did not end the rank."""
        if self._told is not None:
            self._told = None
            self._line.send_fact("rank_recovered", {"time": time.time()})


class _Finder:
    """Finds torch's module of process groups as everybody else would, once, and hooks it as it is loaded."""

    def __init__(self, look: Callable[[types.FrameType | None], None]) -> None:
        self._look = look

    def find_spec(
        self, name: str, _path: Sequence[str] | None = None, _target: types.ModuleType | None = None
    ) -> ModuleSpec | None:
        """The module's own spec, with a loader that hooks it."""
        if name != _MODULE:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            _load_hooked(spec.loader, self._look)
        return spec


def _load_hooked(loader: Any, look: Callable[[types.FrameType | None], None]) -> None:
    load = loader.exec_module

    def exec_module(module: types.ModuleType) -> None:
        load(module)
        for name in _HOOKED:
            if callable(function := getattr(module, name, None)):
                setattr(module, name, _looking(function, look))

    loader.exec_module = exec_module


def _looking(
    function: Callable[..., Any], look: Callable[[types.FrameType | None], None]
) -> Callable[..., Any]:
    @functools.wraps(function)
    def hooked(*args: Any, **kwargs: Any) -> Any:
        look(sys._getframe(1))  # noqa: SLF001  the documented way to one's own caller
        return function(*args, **kwargs)

    return hooked


_ENDS = frozenset({"RETURN_VALUE", "RETURN_CONST", "RERAISE", "RAISE_VARARGS", "INTERPRETER_EXIT"})
_LEAVERS = (SystemExit, GeneratorExit)
_MOST_STATES = 100_000  # of a generated function; what is larger is not looked into


def exception_in_flight(
    frame: types.FrameType | None,
) -> tuple[BaseException, types.TracebackType | None] | None:
    """The exception that is leaving the calling thread's stack, with its whole traceback.

    Args:
        frame: the innermost frame to look at.
    """
    error = sys.exception()
    while frame is not None and error is not None:
        held, caught = _handlers(frame.f_code, frame.f_lasti)
        for _ in range(caught):
            error = None if error is None else error.__context__
        if error is not None and held > caught:
            return None if isinstance(error, _LEAVERS) else (error, _from_the_bottom(error, frame.f_back))
        frame = frame.f_back
    return None


def _from_the_bottom(error: BaseException, frame: types.FrameType | None) -> types.TracebackType | None:
    """The traceback as it will be once the exception has left all frames."""
    tb = error.__traceback__
    while frame is not None:
        tb = types.TracebackType(tb, frame, frame.f_lasti, frame.f_lineno)
        frame = frame.f_back
    return tb


def _handlers(code: types.CodeType, lasti: int) -> tuple[int, int]:
    """How many exceptions a frame holds at an instruction, and with how many of them it will be done."""
    flow = _Flow(code)
    at = flow.at(lasti)
    held = flow.held(at)
    return len(held), 0 if not held or flow.in_exit(held[-1], at) else len(held) - flow.least(at, len(held))


class _Flow:
    """The ways through one function's code."""

    def __init__(self, code: types.CodeType) -> None:
        import dis  # which ranks that do not fail never need

        self._jumps = frozenset((*dis.hasjrel, *dis.hasjabs))
        parsed = dis.Bytecode(code)
        self._code = {i.offset: i for i in parsed}
        order = list(self._code)
        self._next = dict(pairwise(order))
        self._table = parsed.exception_entries  # type: ignore[attr-defined]  # public since 3.11, and not in stubs

    def at(self, lasti: int) -> int:
        """The instruction to which an offset belongs; that of a call in progress may lie behind it."""
        return max((offset for offset in self._code if offset <= lasti), default=0)

    def held(self, at: int) -> tuple[int, ...]:
        """Where the handlers begin that are at work when an instruction runs, the outermost first."""
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
            waiting += [(there, after) for there in self._onward(here)]
        return ()

    def least(self, at: int, held: int) -> int:
        """How few of the exceptions that are held here may still be held when the frame ends or raises."""
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
            waiting += [(there, left) for there in self._onward(here)]
        return max(fewest, 0)

    def in_exit(self, handler: int, at: int) -> bool:
        """Whether a `with` is being left: its `__exit__` could suppress the exception, and seldom does."""
        second = self._next.get(handler, handler)
        if self._code[second].opname != "WITH_EXCEPT_START":
            return False
        here = second
        while here != at and self._code[here].opname != "RERAISE" and here in self._next:
            here = self._next[here]
        return here == at

    def _onward(self, here: int) -> Iterator[int]:
        instruction = self._code[here]
        if instruction.opname in _ENDS:
            return
        if instruction.opcode in self._jumps:
            yield instruction.argval
            if instruction.opname.startswith("JUMP_") and "_IF_" not in instruction.opname:
                return
        if here in self._next:
            yield self._next[here]
