"""Printing a run's output as prefixed lines and its end as one block, following it, and stopping it."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from launcher.diagnosis.stacks import stacks_block, standstill_line
from launcher.diagnosis.wording import cause_lines
from launcher.display.artifacts import total_line
from launcher.engine.client import request_stop, start_detached
from launcher.errors import AgentLost, NoProgress, RecordError, SpecError, TimeLimit
from launcher.job import rank_failed
from launcher.runs import files, paths
from launcher.runs.logs.printer import Printer, hosts_of
from launcher.runs.reader import Presence, read_spec, read_state, read_summary, status_of
from launcher.runs.status import Status
from launcher.spec.request import Request
from launcher.state.events import PartUnreadable
from launcher.state.fold import fold
from launcher.state.run_state import Phase, RunState

from ..data.run.narration import deleted_line, unreadable_lines, value_text
from ..echo import print_bytes, print_cleaned, print_text, print_while_possible, say
from ..formatting import time_between
from .away import call_at_end_of

_BLOCK = 1 << 20
_LIMITS = (TimeLimit.exit_code, NoProgress.exit_code)


def parse_ranks(text: str, world_size: int) -> frozenset[int]:
    """Parse ``all``, ``none`` or ranks such as ``0,3-5``.

    Raises:
        SpecError: the text is none of these, or names a rank that the run does not have.
    """
    if text == "all":
        return frozenset(range(world_size))
    if text == "none":
        return frozenset()
    chosen: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,9})(?:\s*-\s*(\d{1,9}))?\s*", part, re.ASCII)
        if match is None:
            raise SpecError(f"--ranks takes all, none, or ranks such as 0,3-5, not {text!r}")
        first, last = int(match[1]), int(match[2] or match[1])
        if max(first, last) >= world_size:
            raise SpecError(f"there is no rank {max(first, last)}: the run has ranks 0 to {world_size - 1}")
        chosen.update(range(first, last + 1))
    return frozenset(chosen)


def detach(request: Request, *, output: str, ranks: str) -> int:
    """Start a run that goes on without this command, and print its id."""
    for option, value, default in (("--output", output, "text"), ("--ranks", ranks, "all")):
        if value != default:
            raise SpecError(f"--detach prints no output: {option} has no meaning with it")
    run = start_detached(request, tell=say)
    print_while_possible(print_text, run)
    return 0


def print_end(folder: Path, state: RunState) -> None:
    """Print the failure as one block, or the result, which is the last line on standard output."""
    took = time_between(state.started, state.ended)
    if state.blamed is not None and state.blamed < len(state.ranks):
        say(failure_block(folder, state))
    elif (state.found is not None or state.exit_code in _LIMITS) and (block := _standing_block(state)):
        say(block)
    told = state.separate is not None or state.prediction is not None or any(r.left for r in state.ranks)
    expected = state.phase is Phase.SUCCEEDED and not told
    why = "" if expected else f": {state.why}"
    if came := total_line(state):
        say(f"{came}, came home: rankdeck artifacts {state.id}")
    say(f"{state.phase.value} after {took}{why}")
    for entry in read_summary(folder)[:1]:
        if state.phase is Phase.SUCCEEDED:
            print_while_possible(print_text, value_text(entry))


def _standing_block(state: RunState) -> str:
    """Why a gang without a first failure ended: its stacks, and the cause or else where its ranks were."""
    told = "\n".join(cause_lines(state.found)) or standstill_line(state.last_stacks)
    return "\n\n".join(filter(None, (stacks_block(state, state.last_stacks), told)))


def failure_block(folder: Path, state: RunState) -> str:
    """The first failing rank, its traceback or last output, and how the other ranks ended."""
    from launcher.diagnosis.failing_code import traceback_text

    first = state.ranks[state.blamed or 0]
    failure = rank_failed(first, folder, state)
    others = [r for r in state.ranks if r.rank != first.rank and r.exit_code]
    lines = ["", f"✗ {failure.message}", ""]
    detail = traceback_text(first.raised) if first.raised else failure.tail
    if detail:
        lines += [detail.rstrip(), ""]
    if state.found is not None:
        lines += [*cause_lines(state.found), ""]
    if others:
        ends = ", ".join(f"rank {r.rank} {r.signal or f'exit {r.exit_code}'}" for r in others[:8])
        more = f" and {len(others) - 8} more" if len(others) > 8 else ""
        lines += [f"ended in consequence: {ends}{more}"]
    attempt = f" --attempt {state.attempt}" if state.attempt else ""
    return "\n".join([*lines, f"logs: rankdeck logs {state.id} -r {first.rank}{attempt}"])


def logs(
    folder: Path,
    *,
    rank: int | None = None,
    attempt: int | None = None,
    follow: bool = False,
    grep: str | None = None,
    raw: bool = False,
    stderr: bool = False,
) -> int:
    """Print the output of all attempts or one; with `follow`, until the end, and return the exit code."""
    if raw and grep is not None:
        raise SpecError("--raw prints every byte: --grep has no meaning with it")
    if stderr and not raw:
        raise SpecError("--stderr chooses a stream for --raw", hint="merged output shows both")
    world_size = _world_size(folder)
    if attempt is not None and attempt not in (known := paths.attempts(folder)):
        raise SpecError(f"there is no attempt {attempt}: the run has had {len(known)}, counted from 0")
    if raw:
        stream = paths.STDERR if stderr else paths.STDOUT
        return _raw(folder, _one_rank(rank, world_size), stream, attempt=attempt, follow=follow)
    chosen = frozenset(range(world_size)) if rank is None else frozenset((_one_rank(rank, world_size),))
    printer = Printer(
        folder,
        world_size,
        chosen,
        grep=_pattern(grep),
        write=print_cleaned,
        coloured=coloured_streams(),
        attempt=attempt,
        hosts=lambda: hosts_of(read_state(folder)),
    )
    live = follow and not status_of(folder).state.final
    status = until_ended(folder, printer.advance) if follow else status_of(folder)
    printer.finish()
    for line in unreadable_lines(_with_unreadable(read_state(folder), printer.unreadable)):
        say(line)
    if live:
        call_at_end_of(folder)
    return (status.exit_code or 0) if follow else 0


def coloured_streams() -> dict[int, bool]:
    """Which of our streams is a terminal, on which a rank's colours may stay."""
    streams = {paths.STDOUT: sys.stdout, paths.STDERR: sys.stderr}
    return {key: bool(stream) and stream.isatty() for key, stream in streams.items()}


def _with_unreadable(state: RunState, parts: Iterable[PartUnreadable]) -> RunState:
    for part in parts:
        state = fold(state, part)
    return state


def _world_size(folder: Path) -> int:
    """The number of ranks in the request, or in the facts if the request cannot be read.

    Raises:
        RecordError: neither can be read.
    """
    try:
        return read_spec(folder).most
    except RecordError:
        state = read_state(folder)
        if size := max(state.requested, len(state.ranks)):
            return size
        raise


def _pattern(text: str | None) -> re.Pattern[str] | None:
    try:
        return None if text is None else re.compile(text)
    except re.error as error:
        raise SpecError(f"--grep {text!r} is not a regular expression: {error}") from error


def _one_rank(rank: int | None, world_size: int) -> int:
    if rank is None:
        raise SpecError("--raw prints one rank's bytes: say which with -r")
    if not 0 <= rank < world_size:
        raise SpecError(f"there is no rank {rank}: the run has ranks 0 to {world_size - 1}")
    return rank


def _raw(folder: Path, rank: int, stream: int, *, attempt: int | None, follow: bool) -> int:
    """Copy a rank's bytes to standard output: of one attempt, or of all attempts in their order."""
    done, position = -1, 0

    def copy() -> None:
        nonlocal done, position
        attempts = paths.attempts(folder) if attempt is None else [attempt]
        for number in (n for n in attempts if n > done):
            position = _copy_from(folder, paths.log_file(folder, number, rank, stream), position)
            if number != attempts[-1]:
                done, position = number, 0

    status = until_ended(folder, copy) if follow else status_of(folder)
    copy()
    return (status.exit_code or 0) if follow else 0


def _copy_from(folder: Path, path: Path, position: int) -> int:
    """Copy a file's bytes from `position` on to standard output; return the position of their end."""
    try:
        file = files.open_file(folder, path)
    except FileNotFoundError:
        return position
    except (files.NotPlain, PermissionError) as error:
        name = path.relative_to(folder).as_posix()
        raise RecordError(f"unreadable: {name} ({error.strerror})", run=folder.name) from error
    with file:
        file.seek(position)
        while block := file.read(_BLOCK):
            print_bytes(block)
            position += len(block)
    return position


def stop(folder: Path, *, force: bool) -> int:
    """Stop a run and wait for its end."""
    status = status_of(folder)
    if status.state.final:
        say(f"run {folder.name} had already {_end_text(status)}")
        return 0
    try:
        request_stop(folder, force=force)
    except AgentLost:
        if not status_of(folder).state.final:  # else the run ended by itself before the request arrived
            raise
    status = until_ended(folder, lambda: None)
    say(f"run {folder.name} {_end_text(status)}")
    return 0


def _end_text(status: Status) -> str:
    return f"ended: {status.state.value}, exit {status.exit_code}"


POLL_S = 0.1


def until_ended(folder: Path, advance: Callable[[], None] = lambda: None) -> Status:
    """Poll until the run has ended, and return its last status; `advance` is called at every poll.

    Raises:
        RecordError: the folder cannot be read, or was deleted meanwhile.
    """
    presence = Presence(folder)
    status = status_of(folder)
    while not status.state.final:
        advance()
        if status.unreadable is not None and not status.owner.pid:
            raise RecordError(f"the end of run {folder.name} cannot be seen: unreadable: {status.unreadable}")
        time.sleep(POLL_S)
        if presence.gone():
            raise RecordError(deleted_line(presence.seen), run=folder.name)
        status = status_of(folder)
    return status
