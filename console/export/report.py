"""A run as one HTML page for any browser: no scripts, nothing loaded, all text from ranks escaped."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby, islice
from pathlib import Path

from launcher.diagnosis.failing_code import traceback_text
from launcher.diagnosis.wording import cause_text
from launcher.errors import RecordError
from launcher.runs import paths
from launcher.runs.logs.tail import tail_of
from launcher.runs.logs.text import plain
from launcher.runs.reader import FactTail, examined, known_status, read_spec, read_state, read_summary
from launcher.serialization import to_plain
from launcher.spec.job import JobSpec
from launcher.state.events import CauseFound, Event, PartUnreadable, RankReported
from launcher.state.fold import fold
from launcher.state.ranks import Rank
from launcher.state.run_state import Phase, RunState

from ..data.run.narration import record_line, value_text
from ..data.run.trackers import TrackerRecord, tracker_records
from ..formatting import is_finite, metric, number, share, time_between
from ..sanitize import printable

TAIL_LINES = 40
MAX_TAILS = 256
MAX_RESULTS = 64

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --muted: #7a7a7a; --bad: #c62828; --good: #2e7d32; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin: 0; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
table { border-collapse: collapse; width: 100%; } td, th { text-align: left; padding: .2rem .8rem .2rem 0;
border-bottom: 1px solid var(--line); vertical-align: top; } th { color: var(--muted); font-weight: 500; }
pre { font: 13px/1.4 ui-monospace, monospace; background: #8881; padding: .7rem; overflow-x: auto;
white-space: pre-wrap; overflow-wrap: anywhere; } summary { cursor: pointer; }
.state { font-weight: 600; } .failed, .lost { color: var(--bad); } .succeeded { color: var(--good); }
.muted { color: var(--muted); } .curves { display: flex; flex-wrap: wrap; gap: 1rem; }
figure { margin: 0; } svg { background: #8881; } polyline { fill: none; stroke: #1e88e5; stroke-width: 1.5; }
"""
_HEAD = (
    '<!doctype html><html lang="en"><head><meta charset="utf-8">'
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    '<meta name="viewport" content="width=device-width">'
)


@dataclass(frozen=True, slots=True)
class _ReportFacts:
    """The run's data for the page; `phase`, `exit_code` and `why` show a run without its owner as lost."""

    run: Path
    state: RunState
    phase: Phase
    exit_code: int | None
    why: str
    spec: JobSpec | None


def report_page(run: Path, *, logs: bool = True) -> str:
    """The page, with the last lines of every rank unless `logs` is False.

    Raises:
        RecordError: the folder cannot be read.
    """
    facts = _read(run)
    title = text(facts.state.name or run.name)
    parts = [f"{_HEAD}<title>{title} · {facts.phase.value}</title><style>{_STYLE}</style></head><body>"]
    parts += [f"<h1>{title}</h1>", *_summary(facts), *_failure(facts), *_ranks(facts.state)]
    parts += [
        *_metrics(run),
        *_trackers(facts.state),
        *_values(run),
        *_remarks(facts.state),
        *_spec(facts.spec),
    ]
    if logs:
        parts += _tails(run, facts.state)
    return "\n".join([*parts, "</body></html>\n"])


def text(value: object) -> str:
    """A value as text without control characters, escaped for HTML."""
    return escape(printable(str(value)))


def _read(run: Path) -> _ReportFacts:
    state = examined(run, read_state(run))
    try:
        spec: JobSpec | None = read_spec(run)
    except RecordError:
        spec = None
    status = known_status(run)
    if status.unreadable is not None:
        state = fold(state, PartUnreadable(time=0.0, file=status.unreadable))
    if state.phase.final:
        return _ReportFacts(run, state, state.phase, state.exit_code, state.why, spec)
    return _ReportFacts(run, state, status.state, status.exit_code, status.why, spec)


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    top = f"<tr>{''.join(f'<th>{text(cell)}</th>' for cell in head)}</tr>" if head else ""
    body = "".join(f"<tr>{''.join(f'<td>{text(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table>{top}{body}</table>"


def _summary(facts: _ReportFacts) -> Iterator[str]:
    state, spec = facts.state, facts.spec
    code = "" if facts.exit_code is None else f", exit {facts.exit_code}"
    yield f'<p class="state {facts.phase.value}">{facts.phase.value}{code}</p>'
    target = shlex.join([*spec.target.words, *spec.target.args]) if spec else state.target
    began = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(state.started)) if state.started else ""
    by = state.submitted
    rows = [
        ("why", facts.why),
        *cause_rows(state.found),
        ("run", facts.run.name),
        ("target", target),
        ("ranks", f"{state.num_processes} ({state.mode})"),
        ("started", began),
        ("took", time_between(state.started, state.ended)),
        ("by", f"{by.user} on {by.host}" if by else ""),
        ("code", _code(state)),
        *(("restarted", restart.reason) for restart in state.restarts),
    ]
    yield _table((), [row for row in rows if row[1]])


def cause_rows(found: CauseFound | None) -> list[tuple[str, str]]:
    """The cause of the failure, what shows it, and the remedies."""
    if found is None:
        return []
    rest = [("shown by", line) for line in found.evidence] + [("remedy", line) for line in found.remedy]
    return [("cause", cause_text(found)), *rest]


def _code(state: RunState) -> str:
    origin = state.origin
    if origin is None or not origin.revision:
        return ""
    return origin.revision + (", with changes" if origin.dirty else "")


def _failure(facts: _ReportFacts) -> Iterator[str]:
    ranks, blamed = facts.state.ranks, facts.state.blamed
    first = ranks[blamed] if blamed is not None and blamed < len(ranks) else facts.state.first_failure
    if first is None:
        return
    end = first.signal or (f"exit {first.exit_code}" if first.exit_code is not None else "")
    yield f"<h2>First failure: rank {first.rank} on {text(first.host)} {text(end)}</h2>"
    if first.raised:
        yield f"<pre>{text(traceback_text(first.raised))}</pre>"


def _ranks(state: RunState) -> Iterator[str]:
    if state.ranks:
        yield "<h2>Ranks</h2>"
        head = ("rank", "host", "pid", "state", "end", "devices", "step", "last figures")
        yield _table(head, map(_rank_row, state.ranks))


def _rank_row(rank: Rank) -> tuple[object, ...]:
    end = rank.signal or ("" if rank.exit_code is None else rank.exit_code)
    devices = " ".join(f"{d.index}:{d.name}" for d in rank.devices) or "cpu"
    figures = ", ".join(f"{name} {metric(value)}" for name, value in rank.metrics.items())
    step = "" if rank.step is None else rank.step
    return (rank.rank, rank.host, rank.pid or "", rank.phase.value, end, devices, step, figures)


def _metrics(run: Path) -> Iterator[str]:
    figures = list(curves(FactTail(run, samples=True).poll()))
    if figures:
        yield f'<h2>Figures</h2><div class="curves">{"".join(figures)}</div>'


def _trackers(state: RunState) -> Iterator[str]:
    records = tracker_records(state)
    if records:
        rows = "".join(
            f"<tr><td>{text(record.name)}</td><td>{_link(record)}</td><td>{text(record.makers)}</td></tr>"
            for record in records
        )
        yield f"<h2>Trackers</h2><table>{rows}</table>"


def _link(record: TrackerRecord) -> str:
    """A record's page as a link; the place of one without a page as text."""
    if not record.page:
        return text(record.place)
    return f'<a href="{text(record.page)}" rel="noreferrer">{text(record.page)}</a>'


def _values(run: Path) -> Iterator[str]:
    try:
        entries = read_summary(run)[:MAX_RESULTS]
    except RecordError:
        return
    if entries:
        yield "<h2>Results</h2>"
        yield _table(("rank", "type", "value"), [(e["rank"], e["type"], value_text(e)) for e in entries])


def _remarks(state: RunState) -> Iterator[str]:
    remarks = [note.text for note in state.notes]
    if record := record_line(state):
        remarks.append(record)
    if remarks:
        yield f"<h2>Notes</h2><ul>{''.join(f'<li>{text(remark)}</li>' for remark in remarks)}</ul>"
    for stack in state.last_stacks:
        yield _details(f"Stacks of rank {stack.rank}", text(stack.text or stack.reason))


def _details(title: str, body: str, *, opened: bool = False) -> str:
    """A block that can be opened; `body` is already escaped."""
    return f"<details{' open' * opened}><summary>{escape(title)}</summary><pre>{body}</pre></details>"


def _spec(spec: JobSpec | None) -> Iterator[str]:
    if spec is not None:
        body = json.dumps(to_plain(spec), indent=1, ensure_ascii=False)
        yield _details("What was asked for", text(body))


def _tails(run: Path, state: RunState) -> Iterator[str]:
    """The last lines of the ranks, failed ranks first."""
    order = sorted(state.ranks, key=lambda r: (r.failed_at is None, r.rank))
    yield "<h2>Last output</h2>"
    for rank in islice(order, MAX_TAILS):
        for stream, name in ((paths.STDOUT, "stdout"), (paths.STDERR, "stderr")):
            if lines := tail_of(run, state.attempt, rank.rank, stream, most=TAIL_LINES):
                text = "\n".join(escape(plain(line)) for line in lines)
                yield _details(f"rank {rank.rank}, {name}", text, opened=rank.failed_at is not None)
    if len(order) > MAX_TAILS:
        yield f'<p class="muted">and {number(len(order) - MAX_TAILS, "rank")} more</p>'


MAX_POINTS = 400
MAX_CURVES = 12
_WIDTH, _HEIGHT, _EDGE = 340, 120, 6

Point = tuple[float, float]


def curves(facts: Iterable[Event]) -> Iterator[str]:
    """A chart for each figure that the lowest reporting rank reported at least twice, over steps or time."""
    reports = [fact for fact in facts if isinstance(fact, RankReported)]
    leader = min((fact.rank for fact in reports), default=0)
    series: dict[str, list[Point]] = {}
    for fact in reports:
        at = fact.time if fact.step is None else fact.step
        if fact.rank == leader and is_finite(at):
            for name, value in fact.metrics.items():
                series.setdefault(name, []).append((at, value))
    drawable = [
        (name, points)
        for name, points in series.items()
        if sum(is_finite(value) for _, value in points) > 1 and name != "total_steps"
    ]
    for name, points in drawable[:MAX_CURVES]:
        yield _figure(name, thinned(points, MAX_POINTS))


def thinned(points: Sequence[Point], most: int) -> list[Point]:
    """At most `most` evenly chosen points, including the first and the last."""
    if len(points) <= most:
        return list(points)
    return [points[round(i * (len(points) - 1) / (most - 1))] for i in range(most)]


def _figure(name: str, points: Sequence[Point]) -> str:
    label = escape(plain(name.encode(errors="replace")))
    lines = "".join(f'<polyline points="{line}"/>' for line in _lines(points))
    first, last = points[0][1], points[-1][1]
    return (
        f'<figure><svg width="{_WIDTH}" height="{_HEIGHT}" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">'
        f"<title>{label}</title>{lines}</svg>"
        f"<figcaption>{label}: {metric(first, 6)} → {metric(last, 6)}</figcaption></figure>"
    )


def _lines(points: Sequence[Point]) -> Iterator[str]:
    """The points as lines; values that are not finite are gaps between lines."""
    known = [point for point in points if is_finite(point[1])]
    for finite, line in groupby(points, key=lambda point: is_finite(point[1])):
        if finite:
            yield " ".join(f"{x:.1f},{y:.1f}" for x, y in _scaled([*line], known))


def _scaled(points: Sequence[Point], known: Sequence[Point]) -> Iterator[Point]:
    (left, right), (low, high) = (
        (min(axis), max(axis)) for axis in ([x for x, _ in known], [y for _, y in known])
    )
    for x, y in points:
        across, up = (0.5 if part is None else part for part in (share(x, left, right), share(y, low, high)))
        yield _EDGE + across * (_WIDTH - 2 * _EDGE), _HEIGHT - _EDGE - up * (_HEIGHT - 2 * _EDGE)
