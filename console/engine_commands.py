"""Commands about the processes that own runs: which there are, what they hold, and ending them."""

from __future__ import annotations

import time
from typing import Any

import click

from console.echo import say, tell, tell_json


@click.group()
def engine() -> None:
    """The processes that own runs, and the Spark sessions that those share."""


@engine.command()
@click.option("--json", "as_json", is_flag=True, help="A list of objects: pid, target, version, runs, …")
def status(*, as_json: bool) -> int:
    """List engines and what they hold."""
    from console.listing import table
    from launcher.client import engines

    found = list(engines())
    if as_json:
        tell_json(found)
        return 0
    if not found:
        say("no engine; one starts with the first run")
        return 0
    head = ("PID", "TARGET", "VERSION", "UP", "RUNS", "CLIENTS", "MEMORY", "SLOTS", "SESSION")
    tell(table(head, [_row(each) for each in found]))
    return 0


@engine.command()
@click.option("--force", is_flag=True, help="Stop its runs too.")
@click.option("--pid", type=int, help="This one only.")
def stop(*, force: bool, pid: int | None) -> int:
    """End engines. One with runs is left alone without --force; nothing of a stopped run stays alive."""
    from launcher.client import engines, stop_engine
    from launcher.errors import SpecError

    found = [each for each in engines() if pid in (None, each["pid"])]
    if pid is not None and not found:
        raise SpecError(f"no engine has the pid {pid}", hint="rankdeck engine status lists them")
    busy = [each for each in found if each["runs"] and not force]
    for each in found:
        if each not in busy:
            stop_engine(each, force=force)
            say(f"engine {each['pid']} for {each['target']} has ended")
    if busy:
        runs = ", ".join(run["id"] for each in busy for run in each["runs"][:3])
        raise SpecError(f"runs are going on: {runs}", hint="--force stops them too")
    if not found:
        say("there is no engine")
    return 0


def _row(known: dict[str, Any]) -> tuple[str, ...]:
    from console.listing import took_text

    if "silent" in known:
        return (str(known["pid"]), known["target"], known["version"], *[""] * 5, known["silent"])
    slots, session = known["slots"], known["session"]
    return (
        str(known["pid"]),
        known["target"],
        known["version"],
        took_text(known["started"], time.time()),
        str(len(known["runs"])),
        str(known["clients"]),
        f"{known['memory'] / 2**20:.0f} MiB",
        f"{slots['local_runs']}/{slots['of']}" if known["target"] == "local" else "",
        f"{session['application']} on {session['master']}" if session else "",
    )
