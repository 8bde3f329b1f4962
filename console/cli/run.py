"""`rankdeck run`: its options, the request made from them, and a run in the foreground.

The engine owns the run. This process watches the run through a connection; when the connection closes, the
engine knows that this process is gone.
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

from launcher.engine.client import Attachment, prepare, submit
from launcher.errors import AgentLost, InternalError
from launcher.runs.logs.printer import Printer, hosts_of
from launcher.runs.reader import Presence, StateTail
from launcher.spec.job import LAUNCH_OPTIONS, RANKS, RUN_MODULE, Target, named_module
from launcher.spec.options import FLAG, PATH, SECONDS, SWITCH, WHOLE, Option, ValueKind
from launcher.spec.request import Request
from launcher.state import events as ev
from launcher.state.run_state import Phase, RunState

from ..data.run.narration import deleted_line, narrate
from ..echo import json_line, print_cleaned, print_while_possible, say
from .away import call_at_end
from .output import coloured_streams, parse_ranks, print_end

Command = TypeVar("Command", bound=Callable[..., Any])

_CLICK: Mapping[ValueKind, Mapping[str, Any]] = {
    WHOLE: {"type": int},
    SECONDS: {"type": float},
    PATH: {"type": click.Path()},
    SWITCH: {},
    FLAG: {"is_flag": True},
}
"""The kinds whose values click parses; for the other kinds click passes the text on."""


def _click_option(option: Option) -> Callable[[Command], Command]:
    """The click option of a launch option."""
    kind, flags = option.kind, [flag for flag in (option.short, option.flag) if flag]
    more: dict[str, Any] = {"default": None, **_CLICK.get(kind, {"type": str})}
    if kind.many:
        more |= {"multiple": True}
    elif kind in (WHOLE, SECONDS, RANKS) and option.default is not None:
        more |= {"default": option.default, "show_default": True}
    elif kind.choices and kind not in _CLICK:
        more |= {"type": click.Choice(kind.choices)}
    return click.option(option.name, *flags, metavar=option.metavar or None, help=option.help or None, **more)


def with_options(options: Sequence[Option]) -> Callable[[Command], Command]:
    """Add options of launches or predictions to a command."""

    def add(command: Command) -> Command:
        for option in reversed(options):
            if option.flag:
                command = _click_option(option)(command)
        return command

    return add


launch_options = with_options(LAUNCH_OPTIONS)


def given_options(context: click.Context, options: Sequence[Option] = LAUNCH_OPTIONS) -> dict[str, Any]:
    """The values of options on the command line, by name, without those left at their default.

    Raises:
        SpecError: an option's value is invalid.
    """
    default = ParameterSource.DEFAULT
    given = [o for o in options if o.flag and context.get_parameter_source(o.name) is not default]
    return {option.name: _value(option, context.params[option.name]) for option in given}


def _value(option: Option, raw: Any) -> Any:
    if option.kind in (WHOLE, SECONDS, SWITCH, FLAG):
        return raw
    return option.read(raw if option.kind.many else [raw], Path.cwd())


def request_from(
    target: str | Target,
    args: Sequence[str],
    given: Mapping[str, Any],
    defaults: Mapping[str, str] | None = None,
) -> Request:
    """Make the request of a launch.

    Args:
        target: what to run, as the user types it, or checked already.
        args: its own arguments, if it is not checked yet.
        given: the given launch options' values, by name.
        defaults: texts for options that are not given, from `console.settings.launch_defaults`.

    Raises:
        SpecError: the launch is invalid.
    """
    from launcher.frameworks.registry import require_framework
    from launcher.spec.job import JobSpec
    from launcher.spec.request import Request, require_python, require_sent_files, require_workdir
    from launcher.spec.target import resolve

    from ..data.launch.given import mode_of, require_effect, with_defaults

    here, defaults = Path.cwd(), defaults or {}
    mode = mode_of(given, defaults)
    require_effect(given, mode)
    values = {"workdir": str(here), **with_defaults(given, defaults, mode, here), "mode": mode}
    if not isinstance(target, Target):
        base = _base(target, Path(values["workdir"]))
        target = resolve(target, params=given.get("param", {}), args=args, workdir=base)
    spec = JobSpec(target).with_options(values)
    require_workdir(spec)
    require_sent_files(spec)
    require_framework(spec)
    request = Request(spec)
    require_python(request)
    return request


def _base(target: str, workdir: Path) -> Path:
    """The folder in which a target is searched: a file here, a module where the ranks will import it."""
    source = named_module(target) or target.rpartition(":")[0]
    return workdir if source and not source.endswith(".py") and "/" not in source else Path.cwd()


_DETACH = click.option("--detach", is_flag=True, help="Start it, print its id, and leave it running.")
_DRY_RUN = click.option("--dry-run", is_flag=True, help="Print the plan and start nothing.")
_OUTPUT = click.option("--output", type=click.Choice(["text", "jsonl"]), default="text", show_default=True)
_RANKS = click.option(
    "--ranks", default="all", show_default=True, metavar="all|none|0,3-5", help="The ranks to print."
)
_ON_DISCONNECT = click.option(
    "--on-disconnect",
    type=click.Choice(["detach", "stop"]),
    help="If this command is killed: by default the run goes on if a terminal started it.",
)


def start_options(command: Command) -> Command:
    """Add the options for how a run is started and watched."""
    for option in reversed((_DETACH, _DRY_RUN, _OUTPUT, _RANKS, _ON_DISCONNECT)):
        command = option(command)
    return command


def watch_options(command: Command) -> Command:
    """Add those of them but `--output`, which a command may have for itself."""
    for option in reversed((_DETACH, _DRY_RUN, _RANKS, _ON_DISCONNECT)):
        command = option(command)
    return command


@click.command()
@click.argument("target")
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
@click.option("-m", "--module", is_flag=True, help="TARGET is a module, run as python -m runs it.")
@launch_options
@click.option("--no-defaults", is_flag=True, help="Ignore [defaults] of config.toml.")
@start_options
@click.pass_context
def run(
    context: click.Context,
    /,
    target: str,
    args: tuple[str, ...],
    *,
    module: bool,
    no_defaults: bool,
    **options: Any,
) -> int:
    """Run TARGET on every rank.

    TARGET is train.py, train.py:function, package.module:function, -m package.module, ./run.sh or another
    program. Its own ARGS go after --.
    """
    from ..settings import launch_defaults

    target = f"{RUN_MODULE} {target}" if module else target
    defaults = {} if no_defaults else launch_defaults()
    return start(request_from(target, args, given_options(context), defaults), options)


def start(request: Request, options: dict[str, Any]) -> int:
    """Start a run as the `start_options` require, and return the exit code."""
    if options["dry_run"]:
        from .plan import print_plan

        return print_plan(request)
    from . import output as headless

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
    """Run in the foreground, and return the run's exit code.

    Args:
        request: what to run.
        output: ``text``, or ``jsonl`` for the facts.
        ranks: the ranks whose output is printed.
        on_disconnect: what the engine does with the run when this process is gone: ``detach`` or ``stop``; by
            default ``detach`` if this process was started from a terminal.
    """
    chosen = parse_ranks(ranks, request.spec.most)
    policy = on_disconnect or ("detach" if from_terminal() else "stop")
    request = prepare(request, say)
    handler = SignalHandler(hangup_stops=on_disconnect == "stop")
    with _handling(handler):
        started = submit(request, on_disconnect=policy)
        try:
            handler.watch(started)
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
    code = _finish(started, state, prints_end=output == "text")
    record.check(last=True)
    return code


def from_terminal() -> bool:
    """Whether this process was started from a terminal, judged by its standard streams."""
    return any(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))


class Hangup(Exception):
    """The terminal hung up: this command ends, and the run goes on."""


class RecordWatch:
    """Reports that the run's folder was deleted, once while the run goes on and once when it has ended."""

    def __init__(self, folder: Path) -> None:
        self._presence = Presence(folder)
        self._reported = False

    def check(self, *, last: bool = False) -> None:
        """Check whether the folder still exists."""
        if self._presence.gone() and (last or not self._reported):
            self._reported = True
            say(deleted_line(self._presence.seen))


def _follow(started: Attachment, record: RecordWatch, advance: Callable[[], None]) -> None:
    """Call `advance` whenever the engine signals news of the run, until it signals the end."""
    while not started.done:
        started.wait_for_news()
        record.check()
        advance()


def _print_facts(started: Attachment, record: RecordWatch) -> RunState:
    tail = StateTail(started.folder)

    def advance() -> None:
        for event in tail.poll():
            print_while_possible(print_cleaned, json_line(ev.to_dict(event, started.id)))

    _follow(started, record, advance)
    return tail.state


def _print_output(started: Attachment, ranks: frozenset[int], record: RecordWatch) -> RunState:
    tail = StateTail(started.folder)
    tail.poll()
    printer = Printer(
        started.folder,
        tail.state.requested,
        ranks,
        write=_print_cleaned,
        coloured=coloured_streams(),
        hosts=lambda: hosts_of(tail.state),
    )
    narrated = RunState()

    def advance() -> None:
        nonlocal narrated
        tail.poll()
        printer.advance()
        narrated = _narrate(narrated, tail.state, marks=not ranks)

    _follow(started, record, advance)
    printer.finish()
    return tail.state


def _print_cleaned(text: str, *, err: bool = False) -> None:
    print_while_possible(print_cleaned, text, err=err)


def _finish(started: Attachment, state: RunState, *, prints_end: bool) -> int:
    """Print the end and return the exit code; the engine reports both if the folder could not record them."""
    if started.lost:
        say(f"rankdeck: the engine of run {started.id} is gone, and the run with it; its folder is kept")
        return AgentLost.exit_code
    end = started.ended or {}
    if not state.phase.final:
        reported = {"phase": Phase(end["ended"]), "exit_code": end["exit_code"], "why": end["why"]}
        state = replace(state, ended=state.ended or time.time(), **reported)
    if prints_end:
        print_end(started.folder, state)
    call_at_end(state)
    return InternalError.exit_code if state.exit_code is None else state.exit_code


def _narrate(before: RunState, state: RunState, *, marks: bool) -> RunState:
    for line in narrate(before, state, marks=marks):
        say(line)
    return state


class SignalHandler:
    """Acts on signals: the first one stops the run, a second one kills it, a hangup leaves the run alone.

    A signal that arrives while the run is being submitted is acted on afterwards.
    """

    def __init__(self, *, hangup_stops: bool) -> None:
        self._hangup_stops = hangup_stops
        self._started: Attachment | None = None
        self._early: int | None = None
        self._stop_sent = False

    def watch(self, started: Attachment) -> None:
        """Apply signals to this run from now on.

        Raises:
            Hangup: the terminal hung up meanwhile.
        """
        self._started = started
        if self._early is not None:
            self._act_on(self._early)

    def handle(self, signum: int, _frame: object) -> None:
        """Handle a signal; to be registered with `signal.signal`.

        Raises:
            Hangup: the terminal hung up.
            SystemExit: a second signal arrived before the run was submitted.
        """
        if self._started is not None:
            return self._act_on(signum)
        if self._early is not None:
            raise SystemExit(128 + signum)
        self._early = signum
        return None

    def _act_on(self, signum: int) -> None:
        assert self._started is not None
        if signum == signal.SIGHUP and not self._hangup_stops:
            raise Hangup
        reason, code = _SIGNALS[signal.Signals(signum)]
        self._started.stop(reason=reason, exit_code=code, force=self._stop_sent)
        self._stop_sent = True


@contextmanager
def _handling(handler: SignalHandler) -> Iterator[None]:
    """Install the handler, except for signals that our parent made this process ignore, as nohup does."""
    numbers = [signum for signum in _SIGNALS if signal.getsignal(signum) is not signal.SIG_IGN]
    old = {signum: signal.signal(signum, handler.handle) for signum in numbers}
    try:
        yield
    finally:
        for signum, previous in old.items():
            signal.signal(signum, previous)
