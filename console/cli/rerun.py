"""`rerun`: running a recorded run again, with changed options if there are any."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from .. import echo
from .run import given_options, launch_options, start, start_options
from .run_lookup import PICKLES, find

if TYPE_CHECKING:
    from launcher.spec.job import JobSpec


@click.command()
@click.argument("id")
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
@launch_options
@click.option("--yes", is_flag=True, help="Run the code of a run that was not launched here without asking.")
@click.option("--edit", is_flag=True, help="Open the console's form, filled in, instead of starting.")
@start_options
@click.pass_context
def rerun(context: click.Context, /, id: str, args: tuple[str, ...], **options: Any) -> int:  # noqa: A002
    """Run a recorded run again; options that are given replace its own.

    Other ARGS go after --. Secrets are kept beside the record of a run that was launched here; else they come
    from the environment, or --env. For a run from elsewhere (a file, another folder) it asks first.
    """
    folder, given = find(id, PICKLES), given_options(context)
    if options["edit"]:
        return _edit(context.obj, folder, given, args, yes=options["yes"])
    from launcher.spec.redaction import REDACTED

    from ..data.launch.rerun import request_again

    if options["dry_run"]:
        return start(request_again(folder, given, args, ask=lambda _: REDACTED), options)
    secret = _secret if _has_terminal() else None
    agree = partial(_agree, folder, yes=options["yes"])
    return start(request_again(folder, given, args, ask=secret, agree=agree), options)


def _agree(folder: Path, spec: JobSpec, *, yes: bool) -> None:
    """Print what a run from elsewhere would run, and ask the user to confirm it.

    Raises:
        SpecError: there is no terminal to ask on.
        click.Abort: the user declines.
    """
    from launcher.errors import SpecError

    from ..data.launch.rerun import FOREIGN, what_would_run

    for line in what_would_run(spec):
        echo.say(line)
    if yes:
        return
    if not _has_terminal():
        raise SpecError(
            f"run {folder.name} was not launched here, and running it again runs its code as you",
            hint="--dry-run shows the plan, --yes runs it",
        )
    if echo.ask(f"{FOREIGN} [y/N]").strip().lower() not in ("y", "yes"):
        raise click.Abort


def _has_terminal() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _secret(option: str) -> str | None:
    """Ask for a secret that the record does not hold; None for an empty answer."""
    return echo.ask(f"not recorded: {option}", hidden=True) or None


def _edit(
    console: dict[str, Any], folder: Path, given: dict[str, Any], args: tuple[str, ...], *, yes: bool
) -> int:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise click.UsageError(
            "--edit needs a terminal; without one, give what is to be otherwise as options"
        )
    from launcher.runs.catalog import read_private
    from launcher.runs.paths import runs_root
    from launcher.runs.reader import read_spec

    from ..app import run_console
    from ..data.launch.draft import draft_of, require_editable
    from ..data.launch.rerun import changed, is_own

    spec = changed(read_spec(folder), given, args)
    require_editable(spec)
    own = is_own(folder)
    if not own:
        _agree(folder, spec, yes=yes)
    draft = draft_of(spec, Path.cwd(), read_private(folder) if own else {})
    return run_console(root=runs_root(), workdir=Path.cwd(), draft=draft, look=console)
