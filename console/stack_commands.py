"""`rankdeck stacks`: what every rank is doing now, or was doing when its run was ended."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from console.echo import say, tell, tell_json
from console.finding import find

if TYPE_CHECKING:
    from launcher.state import RunState

ANSWER_S = 6.0
_POLL_S = 0.05


@click.command()
@click.argument("id")
@click.option("--json", "as_json", is_flag=True, help="A list of {rank, host, time, text, reason}.")
def stacks(id: str, *, as_json: bool) -> int:  # noqa: A002  the contract's own word
    """Print the stacks of every rank: now if the run goes on, else those that were taken at its end."""
    return print_stacks(find(id), as_json=as_json)


def print_stacks(folder: Path, *, as_json: bool = False) -> int:
    """Ask the owner of a run that goes on, and print what its ranks answer.

    Raises:
        SpecError: no stacks were taken of a run that has ended.
        LauncherError: no rank can be asked, or the owner cannot be reached from here.
    """
    from console.sources.stacks import spans, stacks_block
    from launcher.errors import SpecError
    from launcher.runs.reader import read_state, status_of

    missing: list[int] = []
    state = read_state(folder)
    if not status_of(folder).state.final:
        state, missing = taken_now(folder)
    elif not state.stacks:
        raise SpecError(f"run {folder.name} has ended, and no stacks were taken of it", run=folder.name)
    if as_json:
        tell_json(_documents(state))
    else:
        tell(stacks_block(state, most=None))
    if missing:
        say(f"no answer of rank{'s' * (len(missing) > 1)} {spans(missing)}")
    return 0


def _documents(state: RunState) -> list[dict[str, Any]]:
    hosts = {rank.rank: rank.host for rank in state.ranks}
    return [
        {"rank": t.rank, "host": hosts.get(t.rank, ""), "time": t.time, "text": t.text, "reason": t.reason}
        for t in state.stacks
    ]


def taken_now(folder: Path) -> tuple[RunState, list[int]]:
    """Have the stacks taken, and wait for the facts: the state with them alone, and who has not answered."""
    from launcher.client import tell_owner
    from launcher.fold import fold, fold_all
    from launcher.runs.reader import FactTail

    tail = FactTail(folder)
    state = replace(fold_all(tail.poll(), run=folder.name), stacks=())
    tell_owner(folder, {"stacks": True})
    deadline = time.monotonic() + ANSWER_S
    while True:
        over = time.monotonic() >= deadline
        for fact in tail.poll():
            state = fold(state, fact)
        answered = {taken.rank for taken in state.stacks}
        missing = [rank.rank for rank in state.ranks if rank.alive and rank.rank not in answered]
        if over or state.phase.final or not missing:
            return state, missing
        time.sleep(_POLL_S)
