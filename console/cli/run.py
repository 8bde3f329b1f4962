"""`rankdeck run`: its options, the request they make, and a run in the foreground.

The run is an engine's. This process watches it through a connection, by which the engine notices our loss.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from launcher.engine.client import Attachment, submit
from launcher.errors import AgentLost, InternalError
from launcher.runs.reader import StateTail
from launcher.spec.job import LAUNCH_OPTIONS, RANKS
from launcher.spec.options import FLAG, PATH, SECONDS, SWITCH, WHOLE, Option, ValueKind
from launcher.spec.request import Request
from launcher.state import events as ev
from launcher.state.run_state import Phase, RunState

from ..data.run.feed import Presence, deleted_line
from ..data.run.narration import narrate
from ..echo import json_line, lasting, say, tell_cleaned
from .output import Printer, hosts_of, parse_ranks, print_end

Command = TypeVar("Command", bound=Callable[..., Any])

_CLICK: Mapping[ValueKind, Mapping[str, Any]] = {
    WHOLE: {"type": int},
    SECONDS: {"type": float},
    PATH: {"type": click.Path()},
    SWITCH: {},
    FLAG: {"is_flag": True},
}
"""What click makes of the values of some kinds; of the others it has the words."""


def _click_option(told: Option) -> Callable[[Command], Command]:
    """A launch option as click's."""
    kind, flags = told.kind, [flag for flag in (told.short, told.flag) if flag]
    more: dict[str, Any] = {"default": None, **_CLICK.get(kind, {"type": str})}
    if kind.many:
        more |= {"multiple": True}
    elif kind in (WHOLE, SECONDS, RANKS) and told.default is not None:
        more |= {"default": told.default, "show_default": True}
    elif kind.choices and kind not in _CLICK:
        more |= {"type": click.Choice(kind.choices)}
    return click.option(told.name, *flags, metavar=told.metavar or None, help=told.help or None, **more)


def launch_options(command: Command) -> Command:
    """Add what describes a launch to a command."""
    for told in reversed(LAUNCH_OPTIONS):
        if told.flag:
            command = _click_option(told)(command)
    return command


def given_options(context: click.Context) -> dict[str, Any]:
    """The launch options that a person gave, rather than their defaults: values by name.

    Raises:
        SpecError: the words of one mean no value.
    """
    default = ParameterSource.DEFAULT
    given = [o for o in LAUNCH_OPTIONS if o.flag and context.get_parameter_source(o.name) is not default]
    return {told.name: _value(told, context.params[told.name]) for told in given}


def _value(told: Option, said: Any) -> Any:
    if told.kind in (WHOLE, SECONDS, SWITCH, FLAG):
        return said
    return told.read(said if told.kind.many else [said], Path.cwd())


def request_from(
    target: str, args: Sequence[str], given: Mapping[str, Any], settled: Mapping[str, str] | None = None
) -> Request:
    """The request that a target, its arguments and the options of a launch mean.

    Args:
        target: what to run, as a person types it.
        args: its own arguments.
        given: values by the options' names.
        settled: what holds for options that are not given, as `console.settings` has it.

    Raises:
        SpecError: they mean nothing that could be launched.
    """
    from launcher.spec.job import JobSpec
    from launcher.spec.request import Request, require_py_files, require_workdir
    from launcher.spec.target import resolve

    from ..data.launch.given import mode_of, require_effect, with_settled

    here, around = Path.cwd(), settled or {}
    mode = mode_of(given, around)
    require_effect(given, mode)
    values = {"workdir": str(here), **with_settled(given, around, mode, here), "mode": mode}
    base = _base(target, Path(values["workdir"]))
    found = resolve(target, params=given.get("param", {}), args=args, workdir=base)
    spec = JobSpec(found).with_options(values)
    require_workdir(spec)
    require_py_files(spec)
    return Request(spec)


def _base(target: str, workdir: Path) -> Path:
    """Where a target is looked for: a file from here, a module from where the ranks will import it."""
    source = target.rpartition(":")[0]
    return workdir if source and not source.endswith(".py") and "/" not in source else Path.cwd()


_START_OPTIONS = (
    click.option("--detach", is_flag=True, help="Start it, print its id, and leave it running."),
    click.option("--dry-run", is_flag=True, help="Print the plan and start nothing."),
    click.option("--output", type=click.Choice(["text", "jsonl"]), default="text", show_default=True),
    click.option(
        "--ranks", default="all", show_default=True, metavar="all|none|0,3-5", help="Whose output to print."
    ),
    click.option(
        "--on-disconnect",
        type=click.Choice(["detach", "stop"]),
        help="If this command is killed: by default the run goes on if a terminal started it.",
    ),
)


def start_options(command: Command) -> Command:
    """Add what says how to start, and not what."""
    for option in reversed(_START_OPTIONS):
        command = option(command)
    return command


@click.command()
@click.argument("target")
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
@launch_options
@click.option("--no-defaults", is_flag=True, help="Leave [defaults] of config.toml aside.")
@start_options
@click.pass_context
def run(
    context: click.Context, /, target: str, args: tuple[str, ...], *, no_defaults: bool, **options: Any
) -> int:
    """Run TARGET on every rank: train.py, train.py:function or package.module:function.

    A script's own ARGS go after --.
    """
    from ..settings import launch_defaults

    settled = {} if no_defaults else launch_defaults()
    return start(request_from(target, args, given_options(context), settled), options)


def start(request: Request, options: dict[str, Any]) -> int:
    """Start it as `start_options` say; the exit code."""
    from . import output as headless

    if options["dry_run"]:
        from .plan import print_plan

        return print_plan(request)
    output, ranks = options["output"], options["ranks"]
    if options["detach"]:
        return headless.detach(request, output=output, ranks=ranks)
    return run_in_foreground(request, output=output, ranks=ranks, on_disconnect=options["on_disconnect"])


_SIGNALS = {
    signal.SIGINT: ("interrupted", 130),
    signal.SIGTERM: ("terminated", 143),
    signal.SIGHUP: ("hung up", 143),
}


def run_in_foreground(request: Request, *, output: str, ranks: str, on_disconnect: str | None = None) -> int:
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
            record = RecordWatch(started.folder)
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


class RecordWatch:
    """Says that the record was deleted, once while the run goes on and once when it has ended."""

    def __init__(self, folder: Path) -> None:
        self._presence = Presence(folder)
        self._told = False

    def look(self, *, last: bool = False) -> None:
        """See whether it is still there."""
        if self._presence.gone() and (last or not self._told):
            self._told = True
            say(deleted_line(self._presence.seen))


def _follow(started: Attachment, record: RecordWatch, advance: Callable[[], None]) -> None:
    """Call `advance` whenever the engine has news of the run, until it says that there is no more."""
    while not started.done:
        started.wait_for_news()
        record.look()
        advance()


def _print_facts(started: Attachment, record: RecordWatch) -> RunState:
    tail = StateTail(started.folder)

    def advance() -> None:
        for event in tail.poll():
            lasting(tell_cleaned, json_line(ev.to_dict(event, started.id)))

    _follow(started, record, advance)
    return tail.state


def _print_output(started: Attachment, ranks: frozenset[int], record: RecordWatch) -> RunState:
    tail = StateTail(started.folder)
    tail.poll()
    printer = Printer(
        started.folder, tail.state.requested, ranks, write=_print_on, hosts=lambda: hosts_of(tail.state)
    )
    told = RunState()

    def advance() -> None:
        nonlocal told
        tail.poll()
        printer.advance()
        told = _narrate(told, tail.state, marks=not ranks)

    _follow(started, record, advance)
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
