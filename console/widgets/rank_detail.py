"""One rank in full: where it is, what its devices do, and how old each kind of news from it is."""

from __future__ import annotations

from collections.abc import Sequence

from console.messages import Metric, RankView, RunView
from console.widgets import figures as fig
from console.widgets.failure import ending
from console.widgets.pace_rows import gpu_figures, system_figures
from console.widgets.rank_rows import GLYPHS, STYLES
from console.widgets.sheet import Row, ScrollingSheet, Span, clip

_LABEL, _LATELY = 10, 20


class RankDetail(ScrollingSheet):
    """The rank under the cursor."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self.view: RunView | None = None
        self.rank = 0

    def show(self, view: RunView, rank: int) -> None:
        """Show another moment, or another rank."""
        self.view, self.rank = view, rank
        self.entitle(f"2 Rank {rank}" if view.ranks else "2 Rank")
        self.refresh_rows()

    def rows(self, width: int) -> Sequence[Row]:
        """The rank's facts."""
        if self.view is None or self.rank >= len(self.view.ranks):
            return [((" no rank has a place yet", "muted"),)]
        return [
            clip(row, width) for row in (*detail_rows(self.view.ranks[self.rank], width), *self._host(width))
        ]

    def _host(self, width: int) -> list[Row]:
        """What its host does, and how many of the ranks are there."""
        assert self.view is not None
        agent = self.view.ranks[self.rank].rank.agent
        mates = [v for v in self.view.ranks if v.rank.agent == agent]
        system = system_figures(self.view.state.hosts.get(agent)) or fig.UNKNOWN
        told = f"{len(mates)} rank{'s' * (len(mates) != 1)}", gpu_figures(mates)
        together = "  ".join(told)
        there = [together] if _LABEL + len(together) <= width else [*told]
        rows = [_fact("there" * (not n), (text, "")) for n, text in enumerate(there)]
        return [_fact("its host", (system, "")), *rows]


def detail_rows(view: RankView, width: int) -> list[Row]:
    """Everything known of one rank, unknown included."""
    rank = view.rank
    state = STYLES[view.condition]
    rows: list[Row] = [
        _fact("state", (f"{GLYPHS[view.condition]} {view.condition}", state), (_end(view), "muted")),
        _fact("host", (rank.host or fig.UNKNOWN, ""), (f"  pid {rank.pid or fig.UNKNOWN}", "muted")),
        _fact("device", (view.device or "no GPU: CPU only", "" if view.device else "muted")),
        _fact("step", (fig.count(rank.step), "bold"), (_metrics(view), "")),
        _fact(
            "ages", (f"step {fig.age(view.step_age)}  log {fig.age(view.log_age)}", ""),
            (f"  telemetry {fig.age(view.sample_age)}", ""),
        ),
    ]  # fmt: skip
    rows += _device_rows(view, width) if view.device else []
    return rows + _process_rows(view, width)


def _device_rows(view: RankView, width: int) -> list[Row]:
    used = view.memory / view.memory_total if view.memory is not None and view.memory_total else None
    drawn = view.power / view.power_limit if view.power is not None and view.power_limit else None
    share = view.util / 100 if view.util is not None else None
    return [
        _gauge("GPU", share, f"{fig.percent(view.util)} {fig.celsius(view.temperature)}", width),
        _gauge("memory", used, f"{fig.memory(view.memory)} of {fig.memory(view.memory_total)}", width),
        _gauge("power", drawn, f"{fig.watts(view.power)} of {fig.watts(view.power_limit)}", width),
        _fact("lately", (_lately(view, Metric.USE, width), "bar dim")),
    ]


def _process_rows(view: RankView, width: int) -> list[Row]:
    sample = view.rank.sample
    rss, processes = (sample.rss, sample.processes) if sample else (None, None)
    row = _fact(
        "CPU",
        (fig.percent(view.cpu) + (" of one core" if view.cpu is not None else ""), ""),
        (f"  RSS {fig.memory(rss)}  {fig.count(processes)} process{'' if processes == 1 else 'es'}", ""),
    )
    if view.device:
        return [row]
    return [row, _fact("lately", (_lately(view, Metric.CPU, width), "bar dim"))]


def _lately(view: RankView, metric: Metric, width: int) -> str:
    """Its course, against a scale that a rank on several cores can widen."""
    history = view.history(metric, min(width - _LABEL - 2, _LATELY))
    top = max(metric.top, *(v for v in history if v is not None), metric.top)
    return fig.strip(history, len(history), top=top)


def _end(view: RankView) -> str:
    rank = view.rank
    return f"  {ending(rank)}" if rank.phase.ended and (rank.exit_code or rank.signal) else ""


def _metrics(view: RankView) -> str:
    shown = (f"  {k} {fig.metric(v)}" for k, v in view.rank.metrics.items() if k != "total_steps")
    return "".join(shown)


def _fact(label: str, *spans: Span) -> Row:
    return ((f" {label:<{_LABEL - 1}}", "muted"), *spans)


def _gauge(label: str, share: float | None, text: str, width: int) -> Row:
    room = min(max(width - _LABEL - 18, 0), 16)
    filled, rest = fig.bar(share, room)
    return _fact(label, (filled, "bar"), (rest, "bar-track"), (f" {text}", ""))
