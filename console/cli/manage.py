"""Commands about runs' folders and the processes that own runs: rm, prune, export, engine, stacks."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..echo import print_json, print_text, say
from ..sanitize import escaped
from .run_lookup import ALL, find, find_stored

if TYPE_CHECKING:
    from launcher.state.run_state import RunState


@click.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID…")
@click.option("--dry-run", is_flag=True, help="Only print which.")
def rm(ids: tuple[str, ...], *, dry_run: bool) -> int:
    """Delete runs that have ended."""
    from launcher.runs.catalog import remove_run, require_ended

    folders = dict.fromkeys(find_stored(i) for i in ids)
    for folder in folders:
        require_ended(folder)
    for folder in folders:
        if not dry_run:
            remove_run(folder)
        print_text(folder.name)
    return 0


@click.command()
@click.option("--keep", type=click.IntRange(min=0), metavar="N", help="Keep the newest N runs.")
@click.option("--older-than", metavar="AGE", help="Delete runs that ended longer ago: 12h, 30d, 8w.")
@click.option("--max-bytes", metavar="SIZE", help="Keep at most this much: 500M, 10G.")
@click.option("--dry-run", is_flag=True, help="Only print which.")
def prune(*, keep: int | None, older_than: str | None, max_bytes: str | None, dry_run: bool) -> int:
    """Delete old runs that have ended: beyond the limits given here, else those of config.toml.

    Without either, the newest 10,000 stay. A run that goes on is never deleted.
    """
    from dataclasses import replace

    from launcher import settings
    from launcher.runs import catalog
    from launcher.runs.paths import runs_root
    from launcher.spec.options import bytes_of

    from ..formatting import seconds_of

    policy = settings.load().retention
    if keep is not None:
        policy = replace(policy, count=keep)
    if older_than is not None:
        policy = replace(policy, age_s=seconds_of(older_than))
    if max_bytes is not None:
        policy = replace(policy, bytes=bytes_of(max_bytes))
    for removed in catalog.prune(runs_root(), policy, dry_run=dry_run):
        print_text(removed)
    return 0


@click.command()
@click.argument("id")
@click.option(
    "-o", "--output", type=click.Path(path_type=Path), default=Path(), help="The file, or a folder for it."
)
@click.option("--results", is_flag=True, help="With the pickles of values and callables.")
@click.option("--no-logs", is_flag=True, help="Without what ranks wrote.")
@click.option("--support", is_flag=True, help="For a bug report: facts, last output, stacks; masked.")
@click.option("--curves", is_flag=True, help="Its reported metrics instead: a .csv and an .svg.")
@click.option("--force", is_flag=True, help="Replace a file that is there.")
def export(
    id: str,  # noqa: A002
    *,
    output: Path,
    results: bool,
    no_logs: bool,
    support: bool,
    curves: bool,
    force: bool,
) -> int:
    """Make one .zip of a run: its folder, and a report.html for any browser.

    Such a file can be given wherever a command takes an ID.
    """
    from ..export import archive

    folder = find(id, ALL)
    if curves:
        return _export_curves(folder, output)
    if support:
        return _export_support(folder, output, results=results, no_logs=no_logs, force=force)
    out = archive.export(folder, output, results=results, logs=not no_logs, force=force)
    print_text(escaped(str(out)))
    if withheld := archive.left_out(folder, results=results):
        say(withheld)
    return 0


def _export_curves(folder: Path, output: Path) -> int:
    from launcher.errors import SpecError
    from launcher.runs.reader import known_status

    from ..data.curves.look import Look
    from ..data.curves.making import curves_of
    from ..export.curves import write_curves

    found = curves_of(folder)
    if not found.names:
        raise SpecError("its ranks reported no metrics", hint="launcher.report(step=…, loss=…) gives curves")
    name = known_status(folder).name or folder.name
    for path in write_curves(output, folder.name, [(name, found)], None, Look()):
        print_text(escaped(str(path)))
    return 0


def _export_support(folder: Path, output: Path, *, results: bool, no_logs: bool, force: bool) -> int:
    from launcher.engine.doctor import diagnose
    from launcher.errors import SpecError
    from launcher.runs.reader import read_spec
    from launcher.spec.request import Request

    from ..export.support import export_support

    if results or no_logs:
        raise SpecError("--support chooses what a bug report needs", hint="leave out --results and --no-logs")

    def findings() -> dict[str, Any]:
        return diagnose(Request(read_spec(folder))).document()

    say("checking what a launch of it would meet …")
    out = export_support(folder, output, findings=findings, force=force)
    print_text(escaped(str(out)))
    say("secrets that are known, or look like one, are masked: read it before you send it")
    return 0


@click.group()
def engine() -> None:
    """The processes that own runs, and the Spark sessions that those share."""


@engine.command()
@click.option("--json", "as_json", is_flag=True, help="A list of objects: pid, target, version, runs, …")
def status(*, as_json: bool) -> int:
    """List engines and what they hold."""
    from launcher.engine.client import engines

    from ..formatting import table

    running = list(engines())
    if as_json:
        print_json(running)
        return 0
    if not running:
        say("no engine; one starts with the first run")
        return 0
    head = ("PID", "TARGET", "VERSION", "UP", "RUNS", "CLIENTS", "MEMORY", "SLOTS", "WARM", "SESSION")
    print_text(table(head, [_row(each) for each in running]))
    return 0


@engine.command()
@click.option("--force", is_flag=True, help="Stop its runs too.")
@click.option("--pid", type=int, help="This one only.")
def stop(*, force: bool, pid: int | None) -> int:
    """End engines. One with runs is left alone without --force; nothing of a stopped run stays alive."""
    from launcher.engine.client import engines, stop_engine
    from launcher.errors import SpecError

    chosen = [each for each in engines() if pid in (None, each["pid"])]
    if pid is not None and not chosen:
        raise SpecError(f"no engine has the pid {pid}", hint="rankdeck engine status lists them")
    busy = [each for each in chosen if each["runs"] and not force]
    for each in chosen:
        if each not in busy:
            stop_engine(each, force=force)
            say(f"engine {each['pid']} for {each['target']} has ended")
    if busy:
        runs = ", ".join(run["id"] for each in busy for run in each["runs"][:3])
        raise SpecError(f"runs are going on: {runs}", hint="--force stops them too")
    if not chosen:
        say("there is no engine")
    return 0


def _row(status: dict[str, Any]) -> tuple[str, ...]:
    from launcher.errors import size_text

    from ..formatting import time_between

    if "silent" in status:
        return (str(status["pid"]), status["target"], status["version"], *[""] * 6, status["silent"])
    slots, session = status["slots"], status["session"]
    return (
        str(status["pid"]),
        status["target"],
        status["version"],
        time_between(status["started"], time.time()),
        str(len(status["runs"])),
        str(status["clients"]),
        size_text(status["memory"]),
        f"{slots['local_runs']}/{slots['of']}" if status["target"] == "local" else "",
        ", ".join(map(_warm_text, status["zygotes"])),
        _session_text(session) if session else "",
    )


def _warm_text(zygote: dict[str, Any]) -> str:
    """What a process has imported from which ranks are forked, and its memory."""
    from launcher.errors import size_text

    return f"{'torch' if zygote['torch'] else 'python'} {size_text(zygote['memory'])}"


def _session_text(session: dict[str, Any]) -> str:
    """A session, the cores that it may take of its cluster, and for how long no run has used it."""
    from launcher.errors import counted

    from ..formatting import duration

    cores = f", at most {counted(session['cores'], 'core')}" if session["cores"] else ""
    idle = f", idle for {duration(session['idle_s'])}" if not session["runs"] else ""
    return f"{session['application']} on {session['master']}{cores}{idle}"


ANSWER_S = 6.0
_POLL_S = 0.05


@click.command()
@click.argument("id")
@click.option("--json", "as_json", is_flag=True, help="A list of {rank, host, time, text, reason, native}.")
def stacks(id: str, *, as_json: bool) -> int:  # noqa: A002  the name in the usage line
    """Print the stacks of every rank: now if the run goes on, else those that were taken at its end."""
    return print_stacks(find(id), as_json=as_json)


def print_stacks(folder: Path, *, as_json: bool = False) -> int:
    """Print the stacks of a run: of one that goes on taken now, by a request to its owner.

    Raises:
        SpecError: the run has ended, and no stacks were taken of it.
        LauncherError: no rank can take its stacks, or the owner cannot be reached from here.
    """
    from launcher.diagnosis.stacks import older_line, spans, stacks_block
    from launcher.errors import SpecError
    from launcher.runs.reader import read_state, status_of

    missing: list[int] = []
    state = read_state(folder)
    if not status_of(folder).state.final:
        state, missing = taken_now(folder)
    elif not state.stacks:
        raise SpecError(f"run {folder.name} has ended, and no stacks were taken of it", run=folder.name)
    if as_json:
        print_json(_documents(state))
    else:
        print_text(stacks_block(state, most=None))
    if older := older_line(state):
        say(older)
    if missing:
        say(f"no answer of rank{'s' * (len(missing) > 1)} {spans(missing)}")
    return 0


def _documents(state: RunState) -> list[dict[str, Any]]:
    hosts = {rank.rank: rank.host for rank in state.ranks}
    return [
        {
            "rank": t.rank,
            "host": hosts.get(t.rank, ""),
            "time": t.time,
            "text": t.text,
            "reason": t.reason,
            "native": t.native,
        }
        for t in state.stacks
    ]


def taken_now(folder: Path) -> tuple[RunState, list[int]]:
    """Request new stacks and wait for their facts, at most `ANSWER_S`.

    Returns:
        The state with only the new stacks, and the living ranks that have not answered.
    """
    from launcher.engine.client import command_owner
    from launcher.runs.reader import FactTail
    from launcher.state.fold import fold, fold_all

    tail = FactTail(folder)
    state = replace(fold_all(tail.poll(), run=folder.name), stacks=())
    command_owner(folder, {"stacks": True})
    deadline = time.monotonic() + ANSWER_S
    while True:
        timed_out = time.monotonic() >= deadline
        for fact in tail.poll():
            state = fold(state, fact)
        answered = {taken.rank for taken in state.stacks if taken.native != ""}
        missing = [rank.rank for rank in state.ranks if rank.alive and rank.rank not in answered]
        if timed_out or state.phase.final or not missing:
            return state, [rank for rank in missing if rank not in {taken.rank for taken in state.stacks}]
        time.sleep(_POLL_S)
