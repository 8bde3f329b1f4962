"""The commands `ps`, `show`, `result` and `compare`: runs as tables for people and as JSON for programs."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from operator import attrgetter
from typing import Any

import click

from launcher.runs.paths import runs_root
from launcher.runs.status import Status
from launcher.spec.modes import Mode

from ..data.filtering import Filter
from ..data.history.arguments import Differences
from ..data.history.query import chosen_runs, took, took_text
from ..echo import print_json, print_text, say
from ..formatting import count, date, metric, one_line, table
from ..sanitize import printable
from .run_lookup import find

# copied from the launcher, so that a command's --help does not import it
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
_MODES = tuple(mode.value for mode in Mode)
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
@click.option("--name", default="", metavar="GLOB", help="With a matching name.")
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
    from ..data.history.query import flags_filter

    if every and limit is not None:
        raise click.UsageError("--all and --limit exclude each other")
    flags = {
        "state": ",".join(states) or None,
        "name": name or None,
        "target": target or None,
        "user": user or None,
        "mode": mode or None,
        "since": after,
    }
    runs_filter = flags_filter(flags, time.time())
    effective_limit = limit if limit is not None or as_json or every else _SCREENFUL
    return print_runs(runs_filter, limit=effective_limit, as_json=as_json)


@click.command()
@click.argument("id")
@click.option("--json", "as_json", is_flag=True)
def show(id: str, *, as_json: bool) -> int:  # noqa: A002  the name in the usage line
    """Show a run: its request, its state and every rank."""
    from . import show as listing

    return listing.show(find(id), as_json=as_json)


@click.command()
@click.argument("id")
@click.option("-r", "--rank", type=int, default=0, show_default=True)
@click.option("--wait", is_flag=True, help="Wait for the end; a failed run's code becomes the exit code.")
@click.option("--json", "as_json", is_flag=True, help="{rank, type, value}")
def result(id: str, rank: int, *, wait: bool, as_json: bool) -> int:  # noqa: A002
    """Print a rank's return value, from the run's summary; nothing is unpickled."""
    from . import show as listing
    from .output import until_ended

    folder = find(id)
    if wait and (code := until_ended(folder).exit_code):
        return code
    return listing.result(folder, rank, as_json=as_json)


@click.command()
@click.argument("ids", nargs=-1, required=True, metavar="A B…")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="The differences by section: {name, a, b, delta}; of more than two runs, {name, values}.",
)
def compare(ids: tuple[str, ...], *, as_json: bool) -> int:
    """Compare 2 to 8 runs: options, requests, code, packages, outcomes, last figures."""
    from .compare import print_comparison

    return print_comparison([find(each) for each in ids], as_json=as_json)


_KEYS = (
    "id", "name", "state", "exit_code", "mode", "num_processes", "started", "ended", "why",
    "target", "args", "user", "host", "attempt", "step", "metrics", "revision", "dirty",
)  # fmt: skip
_values = attrgetter(*_KEYS)
_HEAD = ("ID", "NAME", "RANKS", "MODE", "STATE", "EXIT", "STARTED", "TOOK", "BY", "TARGET", "LAST", "WHY")
_OPTIONAL = frozenset({"TARGET", "LAST"})
_WHY, _LEAST, _TARGET, _LAST, _FIGURES = 60, 20, 32, 40, 3


def print_runs(runs_filter: Filter[Status], *, limit: int | None, as_json: bool) -> int:
    """Print the runs that pass the filter, newest first."""
    runs = list(chosen_runs(runs_root(), runs_filter, limit))
    if as_json:
        print_json([_document(run) for run in runs])
        return 0
    if not runs:
        say("no such runs" if runs_filter.tests else "no runs yet; start one with: rankdeck run TARGET")
        return 0
    _print(runs)
    if limit is not None and len(runs) == limit:
        say(f"the newest {limit}; --all lists every run")
    return 0


def _document(run: Status) -> dict[str, Any]:
    """A run's JSON object."""
    document = dict(zip(_KEYS, _values(run), strict=True))
    if run.unreadable is not None:
        document["unreadable"] = run.unreadable
    return document


def _print(runs: Sequence[Status]) -> None:
    now = time.time()
    differences = Differences(runs)
    rows = [_row(run, now, differences) for run in runs]
    columns = [i for i, head in enumerate(_HEAD) if head not in _OPTIONAL or any(row[i] for row in rows)]
    lines = [[row[i] for i in columns] for row in rows]
    room = _room(lines, [_HEAD[i] for i in columns])
    for line in lines:
        line[-1] = one_line(line[-1], room)
    print_text(table([_HEAD[i] for i in columns], lines))


def _room(lines: Sequence[Sequence[str]], head: Sequence[str]) -> int:
    """The width of the last column: the rest of the terminal's, but at least `_LEAST`."""
    if not sys.stdout.isatty():
        return _WHY
    others = sum(max(len(printable(row[i])) for row in (head, *lines)) + 2 for i in range(len(head) - 1))
    return max(_LEAST, shutil.get_terminal_size().columns - others)


def _row(run: Status, now: float, differences: Differences) -> tuple[str, ...]:
    code = "" if run.exit_code is None else str(run.exit_code)
    return (
        run.id,
        one_line(run.name, _TARGET),
        str(run.num_processes),
        run.mode,
        run.state.value,
        code,
        date(run.started) if run.started else "",
        "" if took(run, now) is None else took_text(run, now),
        run.user,
        _target(run, differences),
        last(run),
        _why(run),
    )


def _why(run: Status) -> str:
    """Why the run's folder cannot be read, and why the run did not succeed, or not as it seems."""
    unreadable = [] if run.unreadable is None else [f"unreadable: {run.unreadable}"]
    told = run.why and (run.state != "succeeded" or run.warns)
    return " · ".join([*unreadable, *([run.why] if told else [])])


def _target(run: Status, differences: Differences) -> str:
    """The target with its arguments; empty if the run's name already shows them.

    Of several runs of a target, only the arguments in which they differ.
    """
    source = os.path.basename(run.target)
    if differences.among(run):
        return one_line(f"{source} {differences.text(run)}", _TARGET)
    words = f"{source} {run.args}".strip()
    return "" if words == run.name or f":{run.name}" == words[words.find(":") :] else one_line(words, _TARGET)


def last(run: Status) -> str:
    """The last reported step and figures."""
    step = [] if run.step is None else [f"step {count(run.step)}"]
    return one_line(" ".join([*step, *figures(run.metrics)]), _LAST)


def figures(metrics: Mapping[str, Any]) -> list[str]:
    """The first few of a run's last figures; losses come before others."""
    ordered = sorted(metrics.items(), key=lambda item: "loss" not in item[0].lower())
    return [f"{name}={metric(value)}" for name, value in ordered[:_FIGURES]]
