"""Commands about runs that have been: list them, show one, compare two, print what one returned."""

from __future__ import annotations

import time

import click

from console.finding import find

# written out: a command line that is only asked for help imports nothing of the launcher
_STATES = (
    "submitted",
    "waiting",
    "starting",
    "running",
    "stopping",
    "succeeded",
    "failed",
    "stopped",
    "lost",
)
_MODES = ("local", "cluster", "connect")
_SCREENFUL = 50


@click.command()
@click.option("--json", "as_json", is_flag=True, help="A list of objects, newest first.")
@click.option("--all", "every", is_flag=True, help="Every run, however many there are.")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    metavar="N",
    help=f"The newest N; {_SCREENFUL} by default, with --json all.",
)
@click.option("--state", "states", multiple=True, type=click.Choice(_STATES), help="In this state.")
@click.option("--name", default="", metavar="GLOB", help="Whose name matches.")
@click.option("--target", default="", metavar="TEXT", help="With this in the target or its arguments.")
@click.option("--user", default="", help="Submitted by this user.")
@click.option("--mode", default="", type=click.Choice(["", *_MODES]), metavar="|".join(_MODES))
@click.option("--since", "after", metavar="2d", help="Submitted in this time, or since a date.")
def ps(
    *,
    as_json: bool,
    every: bool,
    limit: int | None,
    states: tuple[str, ...],
    name: str,
    target: str,
    user: str,
    mode: str,
    after: str | None,
) -> int:
    """List runs, newest first."""
    from console import runs_table
    from console.sources.history import Query, since

    if every and limit is not None:
        raise click.UsageError("--all and --limit exclude each other")
    asked = Query(
        states=states,
        name=name,
        target=target,
        user=user,
        mode=mode,
        since=None if after is None else since(after, time.time()),
    )
    most = limit if limit is not None or as_json or every else _SCREENFUL
    return runs_table.ps(asked, limit=most, as_json=as_json)


@click.command()
@click.argument("id")
@click.option("--json", "as_json", is_flag=True)
def show(id: str, *, as_json: bool) -> int:  # noqa: A002  the contract's own word
    """Show a run: what was asked, how it stands, every rank."""
    from console import listing

    return listing.show(find(id), as_json=as_json)


@click.command()
@click.argument("id")
@click.option("-r", "--rank", type=int, default=0, show_default=True)
@click.option("--wait", is_flag=True, help="Until the run ends; a failed one gives its exit code.")
@click.option("--json", "as_json", is_flag=True, help="{rank, type, value}")
def result(id: str, rank: int, *, wait: bool, as_json: bool) -> int:  # noqa: A002
    """Print a rank's return value, from the run's summary; nothing is unpickled."""
    from console import listing
    from console.awaiting import until_ended

    folder = find(id)
    if wait and (code := until_ended(folder).exit_code):
        return code
    return listing.result(folder, rank, as_json=as_json)


@click.command()
@click.argument("a")
@click.argument("b")
@click.option("--json", "as_json", is_flag=True, help="The differences by section, as {name, a, b, delta}.")
def compare(a: str, b: str, *, as_json: bool) -> int:
    """Compare two runs: what was asked, the code, the packages, the outcome, the last figures."""
    from console.differences import print_comparison

    return print_comparison(find(a), find(b), as_json=as_json)
