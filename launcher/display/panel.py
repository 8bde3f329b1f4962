"""What a notebook shows of a run: its state, progress, ranks and last lines, bounded in size. Pure.

Of many ranks only some have a row: those that failed, then those that are behind, then the first ones.
"""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from statistics import fmean

from ..errors import counted
from ..runs.logs.text import plain
from ..spec.places import host_labels
from ..state.ranks import Rank, RankPhase
from ..state.run_state import Phase, RunState
from ..state.separate import describe_separate
from .rows import row_progress, rows_line
from .service import awaited_line, service_line, tells
from .waits import files_line, waiting_ranks_line

ROWS = 24
TAIL = 20
_METRICS, _NOTES = 4, 4
_TEXT, _LINE, _HOST = 300, 200, 28
_GIB = 1 << 30
_REPORTS, _PACE_S = 16, 30.0
_NO_FIGURES = ("total_steps", "checkpoint")


class Paces:
    """The steps a second of each rank, by its last reports."""

    def __init__(self) -> None:
        self._attempt = 0
        self._reports: dict[int, deque[tuple[float, int]]] = {}

    def observe(self, state: RunState) -> None:
        """Add the ranks' last reports."""
        if state.attempt != self._attempt:  # it repeats steps
            self._attempt = state.attempt
            self._reports.clear()
        for rank in state.ranks:
            if rank.step is not None and rank.reported_at is not None:
                self._add(rank.rank, rank.reported_at, rank.step)

    def _add(self, rank: int, time: float, step: int) -> None:
        reports = self._reports.setdefault(rank, deque(maxlen=_REPORTS))
        if not reports or (time > reports[-1][0] and step > reports[-1][1]):
            reports.append((time, step))
        while len(reports) > 2 and reports[-1][0] - reports[0][0] > _PACE_S:
            reports.popleft()

    def of(self, rank: int) -> float | None:
        """Steps a second; None if they are not known."""
        reports = self._reports.get(rank)
        if reports is None or len(reports) < 2:
            return None
        (since, first), (until, last) = reports[0], reports[-1]
        return (last - first) / (until - since)


@dataclass(frozen=True, slots=True)
class Row:
    """One rank. Texts of figures that are not known are empty."""

    rank: int
    phase: RankPhase
    state: str
    host: str = ""
    done: str = ""
    pace: str = ""
    usage: str = ""
    memory: str = ""

    @property
    def cells(self) -> tuple[str, ...]:
        """Its texts, by column."""
        return str(self.rank), self.state, self.host, self.done, self.pace, self.usage, self.memory


COLUMNS = ("rank", "state", "host", "step", "steps/s", "GPU or CPU", "memory")
OF_WORKERS = ("rank", "state", "host", "rows", "rows/s", "GPU or CPU", "memory")


@dataclass(frozen=True, slots=True)
class Panel:
    """A run at one moment.

    Attributes:
        head: the parts of the title.
        columns: the titles of the rows' cells.
        lines: what it waits for, warnings, and why it ended.
        done: the share of all steps, 0 to 1; None if there is no total.
        progress: step, time left and metrics; empty without reports.
        rest: how many more ranks there are, by state; empty if each has a row.
        tail: the last lines of the ranks' output.
        command: what to type in a terminal to see it there.
    """

    phase: Phase
    head: tuple[str, ...]
    columns: tuple[str, ...] = COLUMNS
    lines: tuple[str, ...] = ()
    done: float | None = None
    progress: str = ""
    rows: tuple[Row, ...] = ()
    rest: str = ""
    tail: tuple[str, ...] = ()
    command: str = ""


def panel_of(state: RunState, *, now: float, paces: Paces, tail: Iterable[str] = ()) -> Panel:
    """The panel of a run at `now`; `tail` is the end of its output, as lines for people."""
    shown = _chosen(state)
    names = host_labels((rank.host for rank in shown), _HOST)
    rows = row_progress(state, now)
    done, progress = _progress(state, paces) if rows is None else (rows.done, rows_line(rows))
    size = len(state.ranks) or state.requested
    return Panel(
        phase=state.phase,
        head=_head(state, size, now),
        columns=COLUMNS if state.prediction is None else OF_WORKERS,
        lines=tuple(clean(line) for line in _lines(state)),
        done=done,
        progress=clean(progress),
        rows=tuple(_row(state, rank, names.get(rank.host, ""), paces) for rank in shown),
        rest=_rest(state.ranks, shown),
        tail=tuple(_cut(line, _LINE) for line in tail)[-TAIL:],
        command=f"rankdeck {'logs' if state.phase.final else 'attach'} {state.id}",
    )


def _head(state: RunState, size: int, now: float) -> tuple[str, ...]:
    took = None if state.started is None else (state.ended or now) - state.started
    parts = [
        clean(state.name or state.target),
        state.phase.value,
        counted(size, "rank" if state.prediction is None else "worker"),
        clean(state.mode),
        f"attempt {state.attempt}" if state.attempt else "",
        duration(took),
        state.id,
    ]
    return tuple(filter(None, parts))


def _lines(state: RunState) -> list[str]:
    lines = []
    if state.waiting is not None and state.phase in (Phase.SUBMITTED, Phase.WAITING):
        waiting = state.waiting
        limit = "" if waiting.limit_s is None else f", at most {waiting.limit_s:g} s"
        lines.append(f"waiting for slots: {waiting.have} of {waiting.need}{limit} {waiting.reason}")
    if state.files is not None and state.phase is Phase.STARTING:
        lines.append(files_line(state.files))
    if rows := waiting_ranks_line(state):
        lines.append(rows)
    if tells(state) and (line := awaited_line(state) or service_line(state)):
        lines.append(line)
    if state.phase is Phase.STOPPING and state.stop is not None:
        lines.append(f"stopping: {state.stop.reason}")
    lines += [f"note: {note.text}" for note in state.notes[-_NOTES:]]
    if state.separate is not None and not state.separate.required:
        lines.append(describe_separate(state.separate))
    if state.phase.final and (state.phase is not Phase.SUCCEEDED or state.prediction is not None):
        lines.append(
            f"{state.phase.value}: {state.why}" + (f" (exit {state.exit_code})" if state.exit_code else "")
        )
    return lines


def _progress(state: RunState, paces: Paces) -> tuple[float | None, str]:
    leader, slowest = state.leader, _slowest(state.ranks)
    if leader is None:
        return None, ""
    total = leader.metrics.get("total_steps", math.nan)
    step = None if slowest is None else slowest.step
    done, parts = None, []
    if step is not None:
        known = math.isfinite(total) and total > 0
        done = min(max(step / total, 0.0), 1.0) if known else None
        parts.append(f"step {step:,}" + (f" of {total:,.0f}" if known else ""))
        pace = None if slowest is None else paces.of(slowest.rank) or paces.of(leader.rank)
        if known and pace and not state.phase.final:
            parts.append(f"{duration(max(total - step, 0) / pace)} left")
    figures = [(name, value) for name, value in leader.metrics.items() if name not in _NO_FIGURES]
    parts += [f"{name} {value:.4g}" for name, value in figures[:_METRICS]]
    return done, " · ".join(parts)


def _slowest(ranks: Sequence[Rank]) -> Rank | None:
    """The rank with the lowest step, of the living ones that report steps; of all if none is alive."""
    reporting = [rank for rank in ranks if rank.step is not None]
    living = [rank for rank in reporting if rank.alive] or reporting
    return min(living, key=lambda rank: rank.step or 0, default=None)


_URGENCY: Mapping[RankPhase, int] = {RankPhase.FAILED: 1, RankPhase.LOST: 2}


def _chosen(state: RunState) -> list[Rank]:
    """The ranks that have a row, in the order of their rows."""
    if len(state.ranks) <= ROWS:
        return list(state.ranks)
    front = max((rank.step for rank in state.ranks if rank.step is not None), default=0)

    def key(rank: Rank) -> tuple[int, int, int]:
        urgency = 0 if rank.rank == state.blamed or rank.failing else _URGENCY.get(rank.phase, 3)
        behind = front - rank.step if rank.step is not None and rank.alive else 0
        return urgency, -behind if behind > 1 else 0, rank.rank

    return sorted(state.ranks, key=key)[:ROWS]


def _rest(ranks: Sequence[Rank], shown: Sequence[Rank]) -> str:
    rows = {rank.rank for rank in shown}
    counts = Counter(rank.phase.value for rank in ranks if rank.rank not in rows)
    if not counts:
        return ""
    return f"{counts.total():,} more: " + ", ".join(f"{n:,} {phase}" for phase, n in counts.most_common())


def _row(state: RunState, rank: Rank, host: str, paces: Paces) -> Row:
    usage, memory = _load(state, rank)
    predicts = state.prediction is not None
    done = rank.rows if predicts else rank.step
    pace = rank.rows_per_s if predicts else paces.of(rank.rank)
    return Row(
        rank=rank.rank,
        phase=rank.phase,
        state=clean(_rank_state(rank)),
        host=clean(host),
        done="" if done is None else f"{done:,}",
        pace="" if pace is None else f"{pace:.3g}",
        usage=usage,
        memory=memory,
    )


def _rank_state(rank: Rank) -> str:
    if rank.phase is RankPhase.FAILED:
        return f"failed ({rank.signal or f'exit {rank.exit_code}'})"
    return "raised" if rank.alive and rank.failing else rank.phase.value


def _load(state: RunState, rank: Rank) -> tuple[str, str]:
    """What a rank uses of its GPUs, or of the processors if it has none; nothing once it has ended."""
    if rank.phase.ended:
        return "", ""
    host = state.hosts.get(rank.agent)
    samples = [] if host is None else [host.devices[d.uuid] for d in rank.devices if d.uuid in host.devices]
    if rank.devices:
        util = _known(sample.util for sample in samples)
        used = _known(sample.memory_used for sample in samples)
        total = _known(sample.memory_total for sample in samples)
        number = ",".join(str(device.index) for device in rank.devices)
        usage = f"GPU {number}" + (f": {fmean(util):.0f} %" if util else "")
        return usage, f"{_gib(sum(used))} of {_gib(sum(total))}" if used and total else ""
    sample = rank.sample
    if sample is None:
        return "", ""
    cpu, rss = _known([sample.cpu]), _known([sample.rss])
    return f"CPU {cpu[0]:.0f} %" if cpu else "", _gib(rss[0]) if rss else ""


def _known(values: Iterable[float | None]) -> list[float]:
    return [value for value in values if value is not None and math.isfinite(value)]


def _gib(value: float) -> str:
    return f"{value / _GIB:.1f} GiB"


def duration(seconds: float | None) -> str:
    """A duration as ``0:03:12``; empty if it is unknown or no clock can show it."""
    if seconds is None:
        return ""
    try:
        return str(timedelta(seconds=max(int(seconds), 0)))
    except (OverflowError, ValueError):
        return ""


def clean(text: str) -> str:
    """One line of text from anywhere, without control characters and cut to a bounded length."""
    return _cut(plain(" ".join(text.split()).encode(errors="replace")), _TEXT)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
