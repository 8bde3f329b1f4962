"""The commands that run another launcher's command line: from its words and our options before it to a run.

``rankdeck [our options] torchrun [torchrun's line]``: the options before the word are those of `rankdeck
run`, which the group of commands reads (`before`) when one of these commands is on the line. They win over
what the line says, the line wins over ``[defaults]``, and a note tells each option that does nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from launcher.errors import SpecError
from launcher.spec.job import LAUNCH_OPTIONS, RUN_MODULE, Target, TargetKind
from launcher.spec.request import Request
from launcher.spec.source import read_module

from ...echo import print_text, say
from ..run import given_options, launch_options, request_from, start, start_options

if TYPE_CHECKING:
    from .base import Here, Original, Row, Translation

_START_OPTIONS = ("detach", "dry_run", "output", "ranks", "on_disconnect")


@click.command()
@launch_options
@click.option("--no-defaults", is_flag=True, help="Ignore [defaults] of config.toml.")
@start_options
def before(**_: Any) -> None:
    """Hold the options that stand before the word."""


class OriginalCommand(click.Command):
    """The command that runs lines of one launcher; its table is loaded when it is used."""

    def __init__(self, name: str, **more: Any) -> None:
        short = f"Run a command line of {name} as it stands"
        about = f"{short}; options of `rankdeck run` go before the word."
        super().__init__(name, help=about, short_help=f"{short}.", add_help_option=False, **more)

    @property
    def original(self) -> Original:
        """The launcher, with its table."""
        assert self.name is not None
        original: Original = import_module(f".{self.name}", __package__).ORIGINAL
        return original

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Leave the words as they are: they are not click's to understand."""
        ctx.params["words"] = tuple(args)
        ctx.args = []
        return []

    def invoke(self, ctx: click.Context) -> int:
        """Run the line, and return the run's exit code."""
        return _run(ctx, self.original, ctx.params["words"])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Files, which scripts are."""
        del ctx
        return [CompletionItem(incomplete, type="file")]

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write what becomes of every option."""
        del ctx
        original = self.original
        formatter.write_usage(f"rankdeck [OPTIONS] {original.name}", original.usage)
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(self.help or "")
        parts = {
            "Served": [(_names(row), row.does) for row in original.rows if row.does],
            "Without meaning here, which a note says": [
                (_names(row), row.without) for row in original.rows if row.without
            ],
            "Refused": [(_names(row), row.refused) for row in original.rows if row.refused],
        }
        for title, rows in parts.items():
            if rows:
                with formatter.section(title):
                    formatter.write_dl(rows, col_max=34)
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(original.remarks)


def _names(row: Row) -> str:
    """An option's spellings for its help: of two that differ in dashes only, the first."""
    seen: dict[str, str] = {}
    for name in row.spellings:
        seen.setdefault(name.replace("_", "-"), name)
    return ", ".join(seen.values())


torchrun = OriginalCommand("torchrun")
deepspeed = OriginalCommand("deepspeed")
accelerate = OriginalCommand("accelerate")
horovodrun = OriginalCommand("horovodrun")


def _run(context: click.Context, original: Original, words: tuple[str, ...]) -> int:
    """Run a line, and return the run's exit code.

    Raises:
        SpecError: the line is wrong, or cannot be served.
    """
    from ...settings import launch_defaults
    from .base import HELP, HelpWanted

    if words[:1] and words[0] in HELP.spellings:
        print_text(context.get_help())
        return 0
    outer = context.parent
    assert outer is not None
    given = given_options(outer)
    defaults = {} if outer.params["no_defaults"] else launch_defaults()
    try:
        made = original.translate(words, _here(outer, given, defaults))
    except HelpWanted:
        print_text(context.get_help())
        return 0
    request = request_for(made, given, defaults)
    options = {name: outer.params[name] for name in _START_OPTIONS}
    if made.ranks and options["detach"]:
        made = made.noting("a detached run prints no output: that the line chooses ranks has no effect")
    elif made.ranks and not _is_given(outer, "ranks"):
        options["ranks"] = made.ranks
    for note in made.notes:
        say(f"note: {note}")
    return start(request, options)


def _here(outer: click.Context, given: Mapping[str, Any], defaults: Mapping[str, str]) -> Here:
    """What the line's meaning depends on besides its words."""
    from launcher.agent.gpus import VISIBLE, discover

    from ...data.launch.given import mode_of
    from .base import Here

    ours = {option.name: option.flag_name for option in LAUNCH_OPTIONS if option.name in given}
    if _is_given(outer, "ranks"):
        ours["ranks"] = "--ranks"
    environ = dict(os.environ)
    if VISIBLE in (added := given.get("env", {})):
        environ[VISIBLE] = added[VISIBLE]
        ours[VISIBLE] = "--env"
    on_spark = not mode_of(given, defaults).traits.one_host
    python = os.path.expanduser(given.get("python") or defaults.get("python") or sys.executable)
    if on_spark and shutil.which(python) is None:
        python = sys.executable  # the other one is a path of the executors'
    return Here(
        ours,
        on_spark=on_spark,
        environ=environ,
        gpus=lambda environ: len(discover(environ).devices),
        cpus=len(os.sched_getaffinity(0)),
        hostname=socket.gethostname(),
        ask=partial(ask, python),
    )


def _is_given(outer: click.Context, name: str) -> bool:
    return outer.get_parameter_source(name) is not ParameterSource.DEFAULT


_ANSWER_S = 60.0


def ask(python: str, program: str, words: Sequence[str]) -> Any:
    """The JSON value that a program prints last, run with some words by an interpreter.

    Raises:
        SpecError: it cannot be started, fails, takes too long, or prints no JSON.
    """
    from .base import quoted

    if shutil.which(python) is None:
        where = "" if "/" in python else " on PATH"
        raise SpecError(f"--python: there is no program {quoted(python)}{where}", hint="name an interpreter")
    try:
        # -P: the current folder may hold modules of any name
        command = [python, "-P", "-c", program, *words]
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=False,
            timeout=_ANSWER_S,
        )
    except subprocess.TimeoutExpired:
        raise SpecError(f"{python} does not say within {_ANSWER_S:g} s what the line means") from None
    except (OSError, ValueError) as error:
        raise SpecError(f"{python} cannot be asked what the line means: {error}") from error
    if done.returncode == 0:
        try:
            return json.loads(done.stdout.splitlines()[-1])
        except (ValueError, IndexError):
            raise SpecError(f"{python} does not say what the line means: is it an interpreter?") from None
    said = done.stderr.strip().splitlines() or [f"it exits with {done.returncode}"]
    raise SpecError(f"{python} cannot say what the line means: {said[-1]}")


def request_for(made: Translation, given: Mapping[str, Any], defaults: Mapping[str, str]) -> Request:
    """The request of a line: our own options win over what it says, and that over the defaults.

    Raises:
        SpecError: it is invalid.
    """
    from .base import shortened

    if "param" in given:
        raise SpecError("--param is for functions, and another launcher's line names none")
    usual = {name: value for name, value in made.usual.items() if name not in defaults}
    values = {**usual, **made.options, **given}
    if made.environ:
        values["env"] = {**made.environ, **given.get("env", {})}
    try:
        return request_from(_target(made), made.args, values, defaults)
    except SpecError as error:
        hint = None if error.hint is None else shortened(error.hint)
        raise SpecError(shortened(error.message), hint=hint) from error


def _target(made: Translation) -> str | Target:
    """The target of a line: originals take a script as it is named, whatever its suffix.

    Raises:
        SpecError: there is none.
    """
    from launcher.spec.program import find_program
    from launcher.spec.target import resolve

    from .base import quoted

    here, source = Path.cwd(), made.source
    if made.kind is TargetKind.MODULE:
        if len(source.split()) != 1 or not source.isprintable():
            raise SpecError(f"{quoted(source)} cannot be a module's name")
        return f"{RUN_MODULE} {source}"
    if not source or "\0" in source:
        raise SpecError(f"the name of the {made.kind} is empty or holds a NUL")
    if source.endswith(".py"):
        return resolve(source, params={}, args=made.args, workdir=here)
    if made.kind is TargetKind.PROGRAM:
        if (program := find_program(source, here)) is None:
            raise SpecError(f"there is no program {quoted(source)}")
        return Target(TargetKind.PROGRAM, program, args=made.args)
    path = Path(os.path.abspath(source))
    if os.path.isfile(path / "__main__.py"):
        path /= "__main__.py"  # Python runs such a folder
    if not os.path.isfile(path):
        what = "is a folder" if os.path.isdir(path) else "is no file"
        hint = "rankdeck run runs functions" if ":" in source else "name a script"
        raise SpecError(f"{quoted(source)} {what}", hint=hint)
    read_module(path)
    return Target(TargetKind.SCRIPT, str(path), args=made.args)
