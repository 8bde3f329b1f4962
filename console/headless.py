"""Runs without the console: `run` in the foreground, `logs`, `stop`, the plan.

Prints what ranks write, prefixed, as it comes; the facts on request; and at the end the result, or the
one block that says what failed.
"""

from __future__ import annotations

import re
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from console.listing import duration, value_text
from console.printing import Printer, say, tell
from launcher import events as ev
from launcher.client import request_stop, start_detached
from launcher.codec import to_plain
from launcher.distributor import launch, plan_for
from launcher.errors import AgentLost, InternalError, SpecError
from launcher.job import Job
from launcher.outcome import rank_failed
from launcher.plan import THREADS
from launcher.request import Request
from launcher.runs import paths
from launcher.runs.reader import read_spec, read_summary, status_of
from launcher.runs.status import Status
from launcher.state import Phase, RunState

POLL_S = 0.1
_SIGNALS = {
    signal.SIGINT: ("interrupted", 130),
    signal.SIGTERM: ("terminated", 143),
    signal.SIGHUP: ("hung up", 143),
}
_BLOCK = 1 << 20


def parse_ranks(text: str, world_size: int) -> frozenset[int]:
    """The ranks that ``all``, ``none`` or ``0,3-5`` mean.

    Raises:
        SpecError: it means none of these, or a rank that the run does not have.
    """
    if text == "all":
        return frozenset(range(world_size))
    if text == "none":
        return frozenset()
    chosen: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)(?:\s*-\s*(\d+))?\s*", part)
        if match is None:
            raise SpecError(f"--ranks takes all, none, or ranks such as 0,3-5, not {text!r}")
        first, last = int(match[1]), int(match[2] or match[1])
        chosen.update(range(first, last + 1))
    if chosen and max(chosen) >= world_size:
        raise SpecError(f"there is no rank {max(chosen)}: the run has ranks 0 to {world_size - 1}")
    return frozenset(chosen)


def run(request: Request, *, output: str, ranks: str) -> int:
    """Run in the foreground; the run's exit code."""
    chosen = parse_ranks(ranks, request.spec.num_processes)
    job = launch(request)
    with _signals_stop(job):
        say(f"run {job.id}")
        if output == "jsonl":
            _print_facts(job)
        else:
            _print_output(job, chosen)
        state = job.wait()
    if output == "text":
        _print_end(job.folder, state)
    return InternalError.exit_code if state.exit_code is None else state.exit_code


def detach(request: Request, *, output: str, ranks: str) -> int:
    """Start a run that lives on without this command, and print its id."""
    for option, value, default in (("--output", output, "text"), ("--ranks", ranks, "all")):
        if value != default:
            raise SpecError(f"--detach prints no output: {option} has no meaning with it")
    tell(start_detached(request))
    return 0


def _print_facts(job: Job) -> None:
    for event in job.events(samples=True):
        tell(ev.encode(event, job.id), nl=False)


def _print_output(job: Job, ranks: frozenset[int]) -> None:
    printer = Printer(job.folder, job.state.num_processes, ranks)
    seen, noted, stopping = -1, 0, False
    while not job.done:
        seen = job.wait_for_news(seen)
        printer.advance()
        state = job.state
        for note in state.notes[noted:]:
            say(f"note: {note.text}")
        noted = len(state.notes)
        if state.stop is not None and not stopping:
            stopping = True
            say(f"stopping: {state.stop.reason} (SIGTERM, then SIGKILL after {state.stop.grace_s:g} s)")
    printer.finish()


def _print_end(folder: Path, state: RunState) -> None:
    """The failure in one block, or the result; the result is the last thing on standard output."""
    took = duration(state.started, state.ended)
    if state.blamed is not None:
        say(failure_block(folder, state))
    say(
        f"{state.phase.value} after {took}" + (f": {state.why}" if state.phase is not Phase.SUCCEEDED else "")
    )
    for entry in read_summary(folder)[:1]:
        if state.phase is Phase.SUCCEEDED:
            tell(value_text(entry))


def failure_block(folder: Path, state: RunState) -> str:
    """First failing rank, traceback or tail, and what became of the others."""
    first = state.ranks[state.blamed or 0]
    failure = rank_failed(first, folder, state)
    others = [r for r in state.ranks if r.rank != first.rank and r.exit_code]
    lines = ["", f"✗ {failure.message}", ""]
    detail = failure.traceback or failure.tail
    if detail:
        lines += [detail.rstrip(), ""]
    if others:
        ends = ", ".join(f"rank {r.rank} {r.signal or f'exit {r.exit_code}'}" for r in others[:8])
        more = f" and {len(others) - 8} more" if len(others) > 8 else ""
        lines += [f"ended in consequence: {ends}{more}"]
    return "\n".join([*lines, f"logs: rankdeck logs {state.id} -r {first.rank}"])


@contextmanager
def _signals_stop(job: Job) -> Iterator[None]:
    """The first signal asks the ranks to stop, a second one kills them."""

    asked = False

    def handle(signum: int, _frame: object) -> None:
        nonlocal asked
        reason, code = _SIGNALS[signal.Signals(signum)]
        job.stop(reason=reason, exit_code=code, force=asked or job.state.stop is not None)
        asked = True

    # what our starter ignores (nohup) is not ours to obey
    heeded = [signum for signum in _SIGNALS if signal.getsignal(signum) is not signal.SIG_IGN]
    old = {signum: signal.signal(signum, handle) for signum in heeded}
    try:
        yield
    finally:
        for signum, handler in old.items():
            signal.signal(signum, handler)


def print_plan(request: Request) -> int:
    """What would be started: one line a rank, and the environment that they would get."""
    plan = plan_for(request)
    spec = request.spec
    click.echo(f"target   {shlex.join([spec.target.label, *spec.target.args])}")
    click.echo(f"python   {request.python}")
    click.echo(f"workdir  {spec.workdir}")
    for place in plan.ranks:
        devices = ", ".join(f"{d.uuid} ({d.name})" for d in place.devices) or "cpu"
        click.echo(
            f"rank {place.rank}   host {place.host}  local rank {place.local_rank} of "
            f"{place.local_world_size}  node {place.node_rank}  {devices}  {THREADS}={place.threads}"
        )
    for name, value in to_plain(spec.redacted().env).items():
        click.echo(f"env      {name}={value}")
    for note in plan.notes:
        say(f"note: {note}")
    return 0


def logs(
    folder: Path,
    *,
    rank: int | None = None,
    follow: bool = False,
    grep: str | None = None,
    raw: bool = False,
    stderr: bool = False,
) -> int:
    """Print a run's output; with `follow` until it ends, and then its exit code."""
    if raw and grep is not None:
        raise SpecError("--raw prints every byte: --grep has no meaning with it")
    if stderr and not raw:
        raise SpecError("--stderr chooses a stream for --raw", hint="merged output shows both")
    world_size = read_spec(folder).num_processes
    if raw:
        return _raw(
            folder, _one_rank(rank, world_size), paths.STDERR if stderr else paths.STDOUT, follow=follow
        )
    chosen = frozenset(range(world_size)) if rank is None else frozenset((_one_rank(rank, world_size),))
    printer = Printer(folder, world_size, chosen, grep=_pattern(grep), write=click.echo)
    status = _until_ended(folder, printer.advance) if follow else status_of(folder)
    printer.finish()
    return (status.exit_code or 0) if follow else 0


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


def _raw(folder: Path, rank: int, stream: int, *, follow: bool) -> int:
    path, position = paths.log_file(folder, 0, rank, stream), 0

    def copy() -> None:
        nonlocal position
        if path.exists():
            with open(path, "rb") as file:
                file.seek(position)
                while block := file.read(_BLOCK):
                    sys.stdout.buffer.write(block)
                    position += len(block)
            sys.stdout.buffer.flush()

    status = _until_ended(folder, copy) if follow else status_of(folder)
    copy()
    return (status.exit_code or 0) if follow else 0


def _until_ended(folder: Path, advance: Callable[[], None]) -> Status:
    """Look again and again until the run has ended; its last status."""
    while not (status := status_of(folder)).state.final:
        advance()
        time.sleep(POLL_S)
    return status


def stop(folder: Path, *, force: bool) -> int:
    """Stop a run and wait for its end."""
    status = status_of(folder)
    if status.state.final:
        say(f"run {folder.name} had already {_ended_words(status)}")
        return 0
    try:
        request_stop(folder, force=force)
    except AgentLost:
        if not status_of(folder).state.final:  # else it ended by itself while we asked
            raise
    status = _until_ended(folder, lambda: None)
    say(f"run {folder.name} {_ended_words(status)}")
    return 0


def _ended_words(status: Status) -> str:
    return f"ended: {status.state.value}, exit {status.exit_code}"
