"""Output of `show` and `result`: a run's request, state and ranks, and a rank's return value."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from launcher.diagnosis.stacks import Standstill, standstill_line, standstills
from launcher.diagnosis.wording import cause_lines
from launcher.display.artifacts import total_line
from launcher.display.hangs import hung_line, hung_ranks, named, paused_line
from launcher.display.service import service_line

from ..data.run.narration import value_text
from ..data.run.trackers import tracker_records
from ..data.run.usage import recorded_use, use_texts
from ..echo import print_json, print_text
from ..formatting import framework_text, number, table, time_between
from ..sanitize import escaped

if TYPE_CHECKING:
    from launcher.runs.status import Status
    from launcher.spec.job import JobSpec
    from launcher.state.events import CauseFound, Checkout, OriginFound
    from launcher.state.ranks import Rank
    from launcher.state.run_state import RunState


def show(folder: Path, *, as_json: bool) -> int:
    """Print one run."""
    from launcher.runs.reader import examined, read_state, status_of

    from ..data.run.narration import record_line

    state, status = examined(folder, read_state(folder)), status_of(folder)
    spec = _spec_of(folder)
    if as_json:
        print_json(_show_document(folder, spec, state, status))
        return 0
    target = state.target if spec is None else shlex.join([*spec.target.words, *spec.target.args])
    took = time_between(state.started, state.ended)
    code = "" if status.exit_code is None else f", exit {status.exit_code}"
    print_text(f"{folder.name}  {status.name}")
    print_text(f"target   {escaped(target)}")
    print_text(f"state    {status.state.value}{code}{f', took {took}' if took else ''}")
    if status.why:
        print_text(f"why      {status.why}")
    for line in cause_lines(state.found):
        print_text(line)
    for line in _circumstances(state):
        print_text(line)
    use, _, unread = recorded_use(folder)
    if used := use_texts(use):
        print_text(f"used     {', '.join(used)}")
    print_text(f"folder   {escaped(str(folder))}")
    print_text()
    role = ["ROLE"] if any(rank.role for rank in state.ranks) else []
    rows = [_rank_row(r, with_role=bool(role)) for r in state.ranks]
    print_text(table(("RANK", *role, "HOST", "PID", "STATE", "EXIT", "DEVICES", "STEP"), rows))
    for note in state.notes:
        print_text(f"note: {note.text}")
    for line in (record_line(state), *_unreadable(status), unread):
        if line:
            print_text(line)
    for line in _failing_code(state):
        print_text(line)
    return 0


def _failing_code(state: RunState) -> Iterator[str]:
    """The traceback of the first failure, after an empty line; nothing without one."""
    first = state.first_failure
    if first is None or first.raised is None:
        return
    from launcher.diagnosis.failing_code import traceback_text

    yield ""
    yield f"rank {first.rank} on {first.host}:"
    yield traceback_text(first.raised)


def _spec_of(folder: Path) -> JobSpec | None:
    """The request; None if it cannot be read, which `Status.unreadable` reports."""
    from launcher.errors import RecordError
    from launcher.runs.reader import read_spec

    try:
        return read_spec(folder)
    except RecordError:
        return None


def _unreadable(status: Status) -> Iterator[str]:
    if status.unreadable is not None:
        yield f"unreadable: {status.unreadable}"


def _group(state: RunState) -> str:
    """Who trained together; empty if that is not known."""
    joined = [rank.world_size for rank in state.ranks if rank.world_size > 1]
    if joined and any(each.is_rank for each in state.services):  # the driver found the others
        return f"{number(max(joined), 'node')} in one cluster"
    return f"{len(joined)} of {number(len(state.ranks), 'rank')} joined" if joined else ""


def _circumstances(state: RunState) -> Iterator[str]:
    """Lines on the user, the code, Spark, the way of the output, trackers, restarts and stacks."""
    if (by := state.submitted) is not None and by.user:
        yield f"by       {by.user}" + (f" on {by.host}" if by.host else "")
    if (origin := state.origin) is not None:
        yield from _origin(origin)
    if (chosen := state.framework) is not None:
        yield f"uses     {framework_text(chosen.framework, asked=chosen.asked, found=bool(chosen.detected))}"
    if services := service_line(state):
        yield f"service  {escaped(services)}"
    if group := _group(state):
        yield f"group    {group}"
    if (spark := state.spark) is not None:
        page = f"  {spark.ui}" if spark.ui else ""
        yield f"spark    {spark.application} on {spark.master}, Spark {spark.version}{page}"
    if (delivery := state.delivery) is not None:
        yield f"output   {delivery.way}" + (f": {delivery.reason}" if delivery.reason else "")
    for record in tracker_records(state):
        yield f"tracked  {record.line}"
    if came := total_line(state):
        yield f"files    {came}, came home: rankdeck artifacts {state.id}"
    for restart in state.restarts:
        how = "in place" if restart.in_place else "with new agents"
        yield f"attempt  {restart.attempt} {how}, because {restart.reason}"
    if hung := hung_line(state, time.time()):
        yield f"hangs    {hung}"
    elif hung_then := hung_ranks(state):
        yield f"hung     {named(hung_then)}"
    if paused := paused_line(state):
        yield f"paused   {paused}"
    if stood := "" if hung or state.found is not None else standstill_line(state.last_stacks):
        yield f"stood    {stood}"
    if count := len(state.stacks):
        yield f"stacks   of {number(count, 'rank')}: rankdeck stacks {state.id}"


def _origin(origin: OriginFound) -> Iterator[str]:
    """Lines on the code and the packages."""
    if origin.root:
        yield f"code     {_checkout(origin)}"
    if origin.beside is not None:
        yield f"beside   {_checkout(origin.beside)}"
    python = [f"Python {origin.python}"] if origin.python else []
    yield f"with     {', '.join([*python, *map('=='.join, origin.packages.items())])}"


def _checkout(code: OriginFound | Checkout) -> str:
    branch = f" ({code.branch})" if code.branch else ""
    state = {True: ", with changes that are not committed", False: "", None: ", changes unknown"}[code.dirty]
    return f"{code.revision[:12] or 'no revision'}{branch}{state}, in {code.root}"


def _rank_row(rank: Rank, *, with_role: bool) -> tuple[str, ...]:
    code = "" if rank.exit_code is None else str(rank.exit_code)
    devices = " ".join(f"{d.index}:{d.name}" for d in rank.devices) or "cpu"
    step = "" if rank.step is None else str(rank.step)
    pid = str(rank.pid or "")
    role = (rank.role,) if with_role else ()
    return (str(rank.rank), *role, rank.host, pid, _rank_state(rank), rank.signal or code, devices, step)


def _rank_state(rank: Rank) -> str:
    """Its phase; of a living rank that does nothing, in what way."""
    if not rank.alive:
        return rank.phase.value
    if rank.paused is not None:
        return "paused"
    if rank.hung:
        return "HUNG"
    if rank.waits:
        return "waiting"
    return rank.phase.value if rank.silent_since is None else "silent"


def _show_document(folder: Path, spec: JobSpec | None, state: RunState, status: Status) -> dict[str, Any]:
    from ..data.run.narration import unreadable_lines

    first = state.first_failure
    _, usage, unread = recorded_use(folder)
    return {
        "id": folder.name,
        "spec": spec,
        "state": status.state.value,
        "exit_code": status.exit_code,
        "why": status.why,
        "started": state.started,
        "ended": state.ended,
        "submitted": state.submitted,
        "origin": state.origin,
        "attempt": state.attempt,
        "restarts": state.restarts,
        "spark": state.spark,
        "delivery": state.delivery,
        "framework": state.framework,
        "services": state.services,
        "separate": state.separate,
        "trackers": tracker_records(state),
        "artifacts": _artifacts_document(state),
        "recording": state.recording,
        "lost": state.lost,
        "ranks": [_rank_document(r) for r in state.ranks],
        "usage": usage,
        "first_failure": None if first is None else _failure_document(state, first),
        "places": [_place_document(place) for place in standstills(state.last_stacks)],
        "cause": None if state.found is None else _cause_document(state.found),
        "cleanup": [h.cleanup for h in state.hosts.values() if h.cleanup],
        "unreadable": [*unreadable_lines(state), *_unreadable(status), *filter(None, [unread])],
    }


def _artifacts_document(state: RunState) -> dict[str, int] | None:
    """How many files came home, and their size in bytes."""
    kept = state.came_home
    return None if kept is None else {"files": kept.total_files, "size": kept.total_size}


def _rank_document(rank: Rank) -> dict[str, Any]:
    return {
        "rank": rank.rank,
        "role": rank.role,
        "host": rank.host,
        "pid": rank.pid,
        "state": rank.phase.value,
        "devices": rank.devices,
        "exit_code": rank.exit_code,
        "signal": rank.signal,
        "step": rank.step,
        "metrics": rank.metrics,
        "world_size": rank.world_size,
        "paused": rank.paused,
        "silent_since": rank.silent_since,
        "hung": rank.hung,
        "waits": rank.waits,
    }


def _failure_document(state: RunState, rank: Rank) -> dict[str, Any]:
    from launcher.state.outcome_rules import early_leavers

    raised = rank.raised
    return {
        "rank": rank.rank,
        "host": rank.host,
        "exit_code": rank.exit_code,
        "signal": rank.signal,
        "exception": raised.kind if raised else None,
        "message": raised.message if raised else None,
        "traceback": raised.traceback if raised else None,
        "excerpts": raised.excerpts if raised else [],
        "variables": raised.variables if raised else [],
        "unreturned": rank.unreturned,
        "left_before": list(early_leavers(state, rank)),
    }


def _place_document(place: Standstill) -> dict[str, Any]:
    return {
        "ranks": place.ranks,
        "function": place.function,
        "place": place.place,
        "waits": place.waits,
        "reason": place.reason,
    }


def _cause_document(found: CauseFound) -> dict[str, Any]:
    return {
        "id": found.id,
        "certainty": found.certainty,
        "rank": found.rank,
        "text": found.text,
        "evidence": found.evidence,
        "remedy": found.remedy,
    }


def result(folder: Path, rank: int, *, as_json: bool) -> int:
    """Print one rank's return value.

    Raises:
        SpecError: the rank left no value.
    """
    from launcher.errors import SpecError
    from launcher.runs.reader import read_state, read_summary

    entry = next((e for e in read_summary(folder) if e["rank"] == rank), None)
    if entry is None:
        ranks = read_state(folder).ranks
        left = rank < len(ranks) and ranks[rank].left
        why = ": it ended by sys.exit before the function returned" if left else ""
        raise SpecError(f"rank {rank} of run {folder.name} left no value{why}", run=folder.name)
    if as_json:
        print_json({k: entry[k] for k in ("rank", "type", "value")})
        return 0
    print_text(value_text(entry))
    return 0
