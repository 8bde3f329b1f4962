"""`run` in the foreground: what a run says while it goes on, and what becomes of it if we do not.

The run is an engine's. This process watches it through a connection, by which the engine notices our loss.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from console.echo import json_line, lasting, say, tell_cleaned
from console.headless import hosts_of, parse_ranks, print_end
from console.narrating import narrate
from console.printing import Printer
from console.sources.presence import Presence, deleted_line
from launcher import events as ev
from launcher.client import Attachment, submit
from launcher.errors import AgentLost, InternalError
from launcher.request import Request
from launcher.runs.reader import StateTail
from launcher.state import Phase, RunState

_SIGNALS = {
    signal.SIGINT: ("interrupted", 130),
    signal.SIGTERM: ("terminated", 143),
    signal.SIGHUP: ("hung up", 143),
}


def run(request: Request, *, output: str, ranks: str, on_disconnect: str | None = None) -> int:
    """Run in the foreground; the run's exit code.

    Args:
        request: what to run.
        output: ``text``, or ``jsonl`` for the facts.
        ranks: whose output to print.
        on_disconnect: what becomes of the run when this process vanishes: ``detach`` or ``stop``; None for
            what is usual, which is to go on if it was started from a terminal.
    """
    chosen = parse_ranks(ranks, request.spec.num_processes)
    policy = on_disconnect or ("detach" if from_terminal() else "stop")
    heeded = Heeded(hangup_stops=on_disconnect == "stop")
    with _signals(heeded):
        started = submit(request, on_disconnect=policy)
        try:
            heeded.watch(started)
            say(f"run {started.id}")
            record = Record(started.folder)
            state = (
                _print_facts(started, record) if output == "jsonl" else _print_output(started, chosen, record)
            )
        except Hangup:
            started.leave()
            say(f"run {started.id} goes on; see it again with: rankdeck attach {started.id}")
            return 128 + signal.SIGHUP
        finally:
            started.close()
    code = _finish(started, state, told=output == "text")
    record.look(last=True)
    return code


def from_terminal() -> bool:
    """Whether a person at a terminal started this process, as far as its streams show."""
    return any(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))


class Hangup(Exception):
    """The terminal is gone, or says so: the run is left to itself."""


class Record:
    """Says that the record was deleted, once while the run goes on and once when it has ended."""

    def __init__(self, folder: Path) -> None:
        self._presence = Presence(folder)
        self._told = False

    def look(self, *, last: bool = False) -> None:
        """See whether it is still there."""
        if self._presence.gone() and (last or not self._told):
            self._told = True
            say(deleted_line(self._presence.seen))


def _print_facts(started: Attachment, record: Record) -> RunState:
    tail = StateTail(started.folder)
    while not started.done:
        started.wait_for_news()
        record.look()
        for event in tail.poll():
            line = json_line(ev.to_dict(event, started.id))
            lasting(tell_cleaned, line)
    return tail.state


def _print_output(started: Attachment, ranks: frozenset[int], record: Record) -> RunState:
    tail = StateTail(started.folder)
    tail.poll()
    printer = Printer(
        started.folder, tail.state.asked, ranks, write=_print_on, hosts=lambda: hosts_of(tail.state)
    )
    told = RunState()
    while not started.done:
        started.wait_for_news()
        record.look()
        tail.poll()
        printer.advance()
        told = _narrate(told, tail.state, marks=not ranks)
    printer.finish()
    return tail.state


def _print_on(text: str, *, err: bool = False) -> None:
    lasting(tell_cleaned, text, err=err)


def _finish(started: Attachment, state: RunState, *, told: bool) -> int:
    """Say how it ended, and the exit code; where the folder could not take the end, by the engine's word."""
    if started.lost:
        say(f"rankdeck: the engine of run {started.id} is gone, and the run with it; its folder is kept")
        return AgentLost.exit_code
    end = started.ended or {}
    if not state.phase.final:
        known = {"phase": Phase(end["ended"]), "exit_code": end["exit_code"], "why": end["why"]}
        state = replace(state, ended=state.ended or time.time(), **known)
    if told:
        print_end(started.folder, state)
    return InternalError.exit_code if state.exit_code is None else state.exit_code


def _narrate(told: RunState, state: RunState, *, marks: bool) -> RunState:
    for line in narrate(told, state, marks=marks):
        say(line)
    return state


class Heeded:
    """What signals mean: the first asks the ranks to stop, a second one kills, a hangup leaves them alone.

    Those that come while the run is being submitted are kept until there is one.
    """

    def __init__(self, *, hangup_stops: bool) -> None:
        self._hangup_stops = hangup_stops
        self._started: Attachment | None = None
        self._early: int | None = None
        self._asked = False

    def watch(self, started: Attachment) -> None:
        """From now on they mean this run.

        Raises:
            Hangup: the terminal hung up meanwhile.
        """
        self._started = started
        if self._early is not None:
            self._obey(self._early)

    def handle(self, signum: int, _frame: object) -> None:
        """As a signal handler.

        Raises:
            Hangup: the terminal hung up.
            SystemExit: a second signal came before there was a run.
        """
        if self._started is not None:
            return self._obey(signum)
        if self._early is not None:
            raise SystemExit(128 + signum)
        self._early = signum
        return None

    def _obey(self, signum: int) -> None:
        assert self._started is not None
        if signum == signal.SIGHUP and not self._hangup_stops:
            raise Hangup
        reason, code = _SIGNALS[signal.Signals(signum)]
        self._started.stop(reason=reason, exit_code=code, force=self._asked)
        self._asked = True


@contextmanager
def _signals(heeded: Heeded) -> Iterator[None]:
    """What our starter ignores (nohup) is not ours to obey."""
    numbers = [signum for signum in _SIGNALS if signal.getsignal(signum) is not signal.SIG_IGN]
    old = {signum: signal.signal(signum, heeded.handle) for signum in numbers}
    try:
        yield
    finally:
        for signum, handler in old.items():
            signal.signal(signum, handler)
