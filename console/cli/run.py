"""`rankdeck run`: its options, the request they make, and a run in the foreground.

The run is an engine's. This process watches it through a connection, by which the engine notices our loss.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import click

import launcher
from launcher.engine.client import Attachment, submit
from launcher.errors import AgentLost, InternalError
from launcher.runs.reader import StateTail
from launcher.spec.modes import Mode
from launcher.spec.request import Request
from launcher.state import events as ev
from launcher.state.run_state import Phase, RunState

from ..data.run.feed import Presence, deleted_line
from ..data.run.narration import narrate
from ..echo import json_line, lasting, say, tell_cleaned
from .output import Printer, hosts_of, parse_ranks, print_end

Command = TypeVar("Command", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "-n",
        "--num-processes",
        default="1",
        show_default=True,
        metavar="N|MIN:MAX",
        help="World size; with MIN:MAX, as many as there is room for.",
    ),
    click.option(
        "--mode",
        type=click.Choice([mode.value for mode in Mode]),
        help="Where: by default local, or what --master and --remote say.",
    ),
    click.option(
        "--gpu/--no-gpu",
        default=None,
        help="Demand or hide GPUs; by default they are used if there are enough.",
    ),
    click.option("--gpus-per-rank", default=1, show_default=True, metavar="K", help="GPUs of each rank."),
    click.option(
        "--gpus-per-task", type=int, metavar="K", help="GPUs of one Spark task, whose ranks share it."
    ),
    click.option("--master", default="", metavar="URL", help="Spark master, such as spark://host:7077."),
    click.option("--remote", default="", metavar="URL", help="Spark Connect server: sc://host:15002."),
    click.option("--conf", multiple=True, metavar="K=V", help="A setting of Spark's own."),
    click.option(
        "--listen", default="", metavar="HOST[:PORT[-PORT]]", help="Where executors find this machine."
    ),
    click.option(
        "--spool",
        default="",
        metavar="DIR",
        help="Shared folder for output, where executors cannot reach this machine.",
    ),
    click.option(
        "--lost-after",
        default=20.0,
        show_default=True,
        metavar="S",
        help="Silence after which an executor's host counts as lost.",
    ),
    click.option(
        "--py-files", multiple=True, metavar="PATH", help="Python files, folders or zips to send along."
    ),
    click.option(
        "--max-restarts", default=0, show_default=True, metavar="N", help="Start a failed gang again."
    ),
    click.option(
        "--start-timeout", default=600.0, show_default=True, metavar="S", help="How long to wait for slots."
    ),
    click.option(
        "--param", multiple=True, metavar="K=V", help="Keyword argument of a function, a Python literal."
    ),
    click.option("--env", multiple=True, metavar="K=V", help="Addition to the ranks' environment."),
    click.option("--workdir", type=click.Path(path_type=Path), help="The ranks' working directory."),
    click.option("--name", default="", help="A label for people."),
    click.option("--timeout", type=float, metavar="S", help="Stop the run after so many seconds (exit 124)."),
    click.option(
        "--no-progress-timeout",
        type=float,
        metavar="S",
        help="Stop it when no rank has written, reported or returned anything for so long (exit 125).",
    ),
    click.option(
        "--grace", type=float, default=10.0, show_default=True, metavar="S", help="From SIGTERM to SIGKILL."
    ),
    click.option("--sample-interval", type=float, default=1.0, show_default=True, metavar="S"),
)


def launch_options(command: Command) -> Command:
    """Add what describes a launch to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def request_from(target: str, args: Sequence[str], options: dict[str, Any]) -> Request:
    """The request that a target, its arguments and `launch_options` mean.

    Raises:
        SpecError: they mean nothing that could be launched.
    """
    from launcher.spec.job import JobSpec, world_size
    from launcher.spec.modes import DEFAULT_MODE, implied_mode
    from launcher.spec.request import Request, require_py_files, require_workdir
    from launcher.spec.target import resolve

    mode = Mode(options["mode"] or implied_mode(options) or DEFAULT_MODE)
    _check_elsewhere(mode, options)
    workdir = (options["workdir"] or Path.cwd()).absolute()
    params = pairs(options["param"], "--param")
    least, most = world_size(options["num_processes"])
    spec = JobSpec(
        target=resolve(target, params=params, args=args, workdir=_base(target, workdir)),
        num_processes=most,
        min_processes=least,
        mode=mode,
        gpu=options["gpu"],
        gpus_per_rank=options["gpus_per_rank"],
        gpus_per_task=options["gpus_per_task"],
        name=options["name"],
        workdir=str(workdir),
        env=pairs(options["env"], "--env"),
        grace_s=options["grace"],
        timeout_s=options["timeout"],
        no_progress_timeout_s=options["no_progress_timeout"],
        sample_s=options["sample_interval"],
        max_restarts=options["max_restarts"],
        start_timeout_s=options["start_timeout"],
        py_files=tuple(str(Path(path).absolute()) for path in options["py_files"]),
        spark=_spark(options),
    )
    require_workdir(spec)
    require_py_files(spec)
    return Request(spec)


def _spark(options: dict[str, Any]) -> Any:
    from launcher.spec.job import SparkSpec

    return SparkSpec(
        master=options["master"],
        remote=options["remote"],
        conf=pairs(options["conf"], "--conf"),
        listen=options["listen"],
        spool=options["spool"],
        lost_after_s=options["lost_after"],
    )


def _check_elsewhere(mode: Mode, options: dict[str, Any]) -> None:
    """An option that would have no effect is a mistake to be told."""
    from launcher.spec.modes import SPARK, modes_taking

    if SPARK not in mode.traits.takes:
        for name in ("master", "remote", "conf", "listen", "spool", "py_files", "gpus_per_task"):
            if options[name]:
                option = "--" + name.replace("_", "-")
                raise launcher.SpecError(
                    f"{option} is for Spark, and the mode is {mode}",
                    hint=f"add --mode {' or '.join(modes_taking(SPARK))}",
                )
    elif options["remote"] and not mode.traits.through_server:
        raise launcher.SpecError("--remote names a Connect server", hint="use --mode connect")
    elif options["master"] and mode.traits.through_server:
        raise launcher.SpecError("--master names a cluster", hint="use --mode cluster, or --remote")


def pairs(items: Sequence[str], option: str) -> dict[str, str]:
    """``K=V`` options as a mapping.

    Raises:
        SpecError: one has no name or no value, or a name is given twice.
    """
    found = {}
    for item in items:
        key, sign, value = item.partition("=")
        if not sign or not key:
            raise launcher.SpecError(f"{option} takes NAME=VALUE, not {item!r}")
        if key in found:
            raise launcher.SpecError(f"{option} {key} is given twice")
        found[key] = value
    return found


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
@start_options
def run(target: str, args: tuple[str, ...], **options: Any) -> int:
    """Run TARGET on every rank: train.py, train.py:function or package.module:function.

    A script's own ARGS go after --.
    """
    return start(request_from(target, args, options), options)


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
        started.folder, tail.state.asked, ranks, write=_print_on, hosts=lambda: hosts_of(tail.state)
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
