"""`rerun`: a recorded run once more, with what is to be otherwise."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from console.finding import find
from console.launching import launch_options, pairs
from console.starting import start, start_options

_PAIRS = ("conf", "env", "param")


@click.command()
@click.argument("id")
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
@launch_options
@click.option("--edit", is_flag=True, help="Open the console's form, filled in, instead of starting.")
@start_options
@click.pass_context
def rerun(context: click.Context, /, id: str, args: tuple[str, ...], **options: Any) -> int:  # noqa: A002
    """Run a recorded run again; options that are given replace its own.

    Other ARGS go after --. Secrets are not in the record: they come from the environment, or --env.
    """
    folder, given = find(id), _given(context, options)
    if options["edit"]:
        return _edit(context.obj, folder, given, args)
    from console.sources.again import request_again

    return start(request_again(folder, given, args), options)


def _given(context: click.Context, options: dict[str, Any]) -> dict[str, Any]:
    """The options of a launch that a person gave, rather than their defaults."""
    from console.sources.again import KNOWN

    told = {
        n for n in KNOWN & options.keys() if context.get_parameter_source(n) is not ParameterSource.DEFAULT
    }
    return {n: pairs(options[n], f"--{n}") if n in _PAIRS else options[n] for n in told}


def _edit(console: dict[str, Any], folder: Path, given: dict[str, Any], args: tuple[str, ...]) -> int:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError(
            "--edit needs a terminal; without one, give what is to be otherwise as options"
        )
    from console.opening import run_console
    from console.sources.again import changed
    from console.sources.drafts import draft_of, require_editable
    from launcher.runs.paths import runs_root
    from launcher.runs.reader import read_spec

    spec = changed(read_spec(folder), given, args)
    require_editable(spec)
    draft = draft_of(spec, Path.cwd())
    return run_console(root=runs_root(), workdir=Path.cwd(), draft=draft, look=console)
