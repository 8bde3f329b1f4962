"""What is known of runs, printed: `ps`, `show`, `result`."""

from __future__ import annotations

import json
import re
import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from console.sources.cleaning import plain
from launcher.codec import to_plain
from launcher.errors import SpecError
from launcher.runs.catalog import list_runs
from launcher.runs.paths import runs_root
from launcher.runs.reader import read_spec, read_state, read_summary, status_of
from launcher.runs.status import Status
from launcher.state import Rank, RunState

# all that JSON leaves as it is and a terminal might obey: C1 controls, directions, lone surrogates
_UNPRINTABLE = re.compile("[\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
_PS_KEYS = ("id", "name", "state", "exit_code", "mode", "num_processes", "started", "ended", "why")


def ps(*, as_json: bool) -> int:
    """Print all runs."""
    runs = list(list_runs(runs_root()))
    if as_json:
        click.echo(json.dumps([{k: to_plain(getattr(r, k)) for k in _PS_KEYS} for r in runs]))
        return 0
    if not runs:
        click.echo("no runs yet; start one with: rankdeck run TARGET", err=True)
        return 0
    rows = [_ps_row(r) for r in runs]
    click.echo(table(("ID", "NAME", "RANKS", "MODE", "STATE", "EXIT", "STARTED", "TOOK", "WHY"), rows))
    return 0


def _ps_row(run: Status) -> tuple[str, ...]:
    code = "" if run.exit_code is None else str(run.exit_code)
    took = duration(run.started, run.ended or (None if run.state.final else time.time()))
    why = "" if run.state == "succeeded" else run.why
    started = time.strftime("%d %b %H:%M", time.localtime(run.started)) if run.started else ""
    ranks = str(run.num_processes)
    return (run.id, run.name, ranks, run.mode, run.state.value, code, started, took, shorten(why, 60))


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns as wide as their widest cell, two spaces apart."""
    cleaned = [[printable(cell).replace("\n", " ") for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in (head, *cleaned)) for i in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (head, *cleaned)
    )


def duration(start: float | None, end: float | None) -> str:
    """Seconds with a tenth below a minute, then minutes and hours."""
    if start is None or end is None:
        return ""
    seconds = max(0.0, end - start)
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours else f"{minutes}m{seconds:02d}s"


def shorten(text: str, width: int) -> str:
    """One line of at most `width` characters."""
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 1] + "…"


def show(folder: Path, *, as_json: bool) -> int:
    """Print one run."""
    state, status = read_state(folder), status_of(folder)
    if as_json:
        click.echo(json.dumps(_show_document(folder, state, status)))
        return 0
    spec = read_spec(folder)
    took = duration(state.started, state.ended)
    code = "" if status.exit_code is None else f", exit {status.exit_code}"
    click.echo(printable(f"{folder.name}  {status.name}"))
    click.echo(printable(f"target   {shlex.join([spec.target.label, *spec.target.args])}"))
    click.echo(f"state    {status.state.value}{code}{f', took {took}' if took else ''}")
    if status.why:
        click.echo(printable(f"why      {status.why}"))
    click.echo(f"folder   {folder}")
    click.echo()
    rows = [_rank_row(r) for r in state.ranks]
    click.echo(table(("RANK", "HOST", "PID", "STATE", "EXIT", "DEVICES", "STEP"), rows))
    for note in state.notes:
        click.echo(f"note: {note.text}")
    return 0


def _rank_row(rank: Rank) -> tuple[str, ...]:
    code = "" if rank.exit_code is None else str(rank.exit_code)
    devices = " ".join(f"{d.index}:{d.name}" for d in rank.devices) or "cpu"
    step = "" if rank.step is None else str(rank.step)
    pid = str(rank.pid or "")
    return (str(rank.rank), rank.host, pid, rank.phase.value, rank.signal or code, devices, step)


def _show_document(folder: Path, state: RunState, status: Status) -> dict[str, Any]:
    first = state.first_failure
    return {
        "id": folder.name,
        "spec": to_plain(read_spec(folder)),
        "state": status.state.value,
        "exit_code": status.exit_code,
        "why": status.why,
        "started": state.started,
        "ended": state.ended,
        "ranks": [_rank_document(r) for r in state.ranks],
        "first_failure": None if first is None else _failure_document(first),
        "cleanup": [to_plain(h.cleanup) for h in state.hosts.values() if h.cleanup],
    }


def _rank_document(rank: Rank) -> dict[str, Any]:
    return {
        "rank": rank.rank,
        "host": rank.host,
        "pid": rank.pid,
        "state": rank.phase.value,
        "devices": to_plain(rank.devices),
        "exit_code": rank.exit_code,
        "signal": rank.signal,
        "step": rank.step,
        "metrics": dict(rank.metrics),
    }


def _failure_document(rank: Rank) -> dict[str, Any]:
    raised = rank.raised
    return {
        "rank": rank.rank,
        "host": rank.host,
        "exit_code": rank.exit_code,
        "signal": rank.signal,
        "exception": raised.kind if raised else None,
        "message": raised.message if raised else None,
        "traceback": raised.traceback if raised else None,
    }


def result(folder: Path, rank: int, *, as_json: bool) -> int:
    """Print one rank's value.

    Raises:
        SpecError: there is none.
    """
    entry = next((e for e in read_summary(folder) if e["rank"] == rank), None)
    if entry is None:
        raise SpecError(f"rank {rank} of run {folder.name} left no value", run=folder.name)
    if as_json:
        click.echo(json.dumps({k: entry[k] for k in ("rank", "type", "value")}))
        return 0
    click.echo(value_text(entry))
    return 0


def value_text(entry: dict[str, Any]) -> str:
    """A summary's value for people: JSON where it is, else what is known of it."""
    if entry["json"]:
        text = json.dumps(entry["value"], indent=2, ensure_ascii=False)
        return _UNPRINTABLE.sub(lambda match: json.dumps(match[0])[1:-1], text)
    return printable(f"{entry['value']}  ({entry['size']} bytes pickled)")


def printable(text: str) -> str:
    """The text without what could control a terminal; its line breaks stay."""
    return "\n".join(plain(line.encode(errors="replace")) for line in text.split("\n"))
