"""One rank in full: its host, its devices, its last figures, and the age of each kind of report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from launcher.state.events import ROWS

from ... import formatting as fig
from ...data.run.health import Condition
from ...data.run.metrics import CPU, RSS, TABLE, TEMPERATURE, UTIL, Metric, Source
from ...data.run.model import RankView, RunView
from ...sanitize import printable
from ..widgets.rows import Row, ScrollingSheet, Span, clip, width_of
from .charts import gpu_figures, system_figures
from .failure import ending
from .rank_cells import GLYPHS, STYLES, unplaced_row

_LABEL, _LATELY = 10, 20


class RankDetail(ScrollingSheet):
    """The rank under the cursor."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self.view: RunView | None = None
        self.rank = 0

    def show(self, view: RunView, rank: int) -> None:
        """Show a newer view, or another rank."""
        self.view, self.rank = view, rank
        self.entitle(f"2 Rank {rank}" if view.ranks else "2 Rank")
        self.refresh_rows()

    def rows(self, width: int) -> Sequence[Row]:
        """The rank's facts."""
        if self.view is None or self.rank >= len(self.view.ranks):
            return [unplaced_row(self.view)]
        return [
            clip(row, width) for row in (*detail_rows(self.view.ranks[self.rank], width), *self._host(width))
        ]

    def _host(self, width: int) -> list[Row]:
        """The figures of its host, and the number and GPUs of the ranks there."""
        assert self.view is not None
        agent = self.view.ranks[self.rank].rank.agent
        mates = self.view.by_agent[agent]
        system = system_figures(self.view.state.hosts.get(agent)) or fig.UNKNOWN
        parts = f"{fig.number(len(mates), 'rank')}", gpu_figures(mates)
        together = "  ".join(parts)
        lines = [together] if _LABEL + len(together) <= width else [*parts]
        rows = [_fact("there" * (not n), (text, "")) for n, text in enumerate(lines)]
        return [*([_fact("its host", (system, ""))] if self.view.live else []), *rows]


def detail_rows(view: RankView, width: int) -> list[Row]:
    """Everything known of one rank; unknown figures are shown as unknown."""
    rank = view.rank
    state = STYLES[view.condition]
    rows: list[Row] = [
        _fact("state", (f"{GLYPHS[view.condition]} {view.condition}", state), (_state_note(view), "muted")),
        _fact("host", (rank.host or fig.UNKNOWN, ""), (f"  pid {rank.pid or fig.UNKNOWN}", "muted")),
        *([_fact("role", (printable(rank.role), ""))] if rank.role else []),
        _fact("device", (view.device or "no GPU: CPU only", "" if view.device else "muted")),
        *([] if ROWS in rank.metrics else [_fact("step", (fig.count(rank.step), "bold"))]),
        *_metrics(view, width),
        *([_fact("says", (" ".join(printable(rank.message).split()), ""))] if rank.message else []),
        _ages(view),
    ]  # fmt: skip
    rows += _device_rows(view, width) if view.device else ()
    return [*rows, *_process_rows(view, width)]


def _ages(view: RankView) -> Row:
    """The ages of its last step, output and telemetry; for a rank that has ended, as they were then."""
    what = ROWS if ROWS in view.rank.metrics else "step"
    ages = f"{what} {fig.age(view.step_age)}  log {fig.age(view.log_age)}"
    if view.rank.phase.ended:
        return _fact("last", (ages, ""), (" before its end", "muted"))
    return _fact("ages", (f"{ages}  telemetry {fig.age(view.sample_age)}", ""))


def _device_rows(view: RankView, width: int) -> Iterator[Row]:
    """The figures of its devices, with the temperature beside the utilisation."""
    for metric in TABLE.shown(Source.DEVICE):
        if metric is not TEMPERATURE:
            beside = f" {view.amount_text(TEMPERATURE)}" if metric is UTIL else ""
            yield _figure(view, metric, beside, width)
    yield _fact("lately", (_lately(view, UTIL, width), "bar dim"))


def _process_rows(view: RankView, width: int) -> Iterator[Row]:
    sample = view.rank.sample
    processes = sample.processes if sample else None
    count = f"  {fig.count(processes)} process{'' if processes == 1 else 'es'}"
    cpu, rss = view.amount_text(CPU), view.amount_text(RSS)
    yield _fact(
        _label(view, CPU),
        (cpu + (" of one core" if view.amount(CPU) is not None else ""), ""),
        (f"  {RSS.label} {rss}{' at most' if view.rank.phase.ended else count}", ""),
    )
    for metric in TABLE.shown(Source.PROCESSES):
        if metric not in (CPU, RSS):
            yield _figure(view, metric, "", width)
    if not view.device:
        yield _fact("lately", (_lately(view, CPU, width), "bar dim"))


def _figure(view: RankView, metric: Metric, beside: str, width: int) -> Row:
    """A metric as text, with a bar if it is a share."""
    label, text = _label(view, metric), f"{view.amount_text(metric)}{beside}"
    share = view.figure(metric)
    if not metric.is_share:
        return _fact(label, (text, ""))
    return _gauge(label, None if share is None else share / 100, text, width)


def _label(view: RankView, metric: Metric) -> str:
    return metric.life_label(_LABEL - 1) if view.rank.phase.ended else metric.label


def _lately(view: RankView, metric: Metric, width: int) -> str:
    """The recent history of a metric; the scale widens for a rank that uses several cores."""
    history = view.past.of(metric, min(width - _LABEL - 2, _LATELY))
    return fig.strip(history, len(history), top=metric.scale_of(history))


def _state_note(view: RankView) -> str:
    """What a rank waits for, why it pauses, since when it shows no activity, or how it ended."""
    rank = view.rank
    if rank.alive and rank.awaits_rows is not None:
        return f"  for rows, after {rank.awaits_rows:,}"
    if rank.alive and rank.awaits_log:
        return "  for its log"
    if view.condition is Condition.PAUSED:
        return f"  {printable(' '.join((rank.paused or '').split()))}"
    if rank.alive and rank.waits:
        return "  for ranks that hang"
    if rank.silent_since is not None and rank.alive:
        return f"  no activity since {fig.moment(rank.silent_since)}"
    return f"  {ending(rank)}" if rank.phase.ended and (rank.exit_code or rank.signal) else ""


def _metrics(view: RankView, width: int) -> Iterator[Row]:
    """The figures that it reported last, as many on a row as fit."""
    metrics = {name: value for name, value in view.rank.metrics.items() if name != "total_steps"}
    line: Row = ()
    for text, style in fig.metric_spans(metrics, ""):
        if line and _LABEL + width_of(line) + len(text) + 2 > width:
            yield _fact("", *line)
            line = ()
        line = (*line, (f"{text}  ", style))
    if line:
        yield _fact("", *line)


def _fact(label: str, *spans: Span) -> Row:
    return ((f" {label:<{_LABEL - 1}}", "muted"), *spans)


def _gauge(label: str, share: float | None, text: str, width: int) -> Row:
    room = min(max(width - _LABEL - 18, 0), 16)
    filled, rest = fig.bar(share, room)
    return _fact(label, (filled, "bar"), (rest, "bar-track"), (f" {text}", ""))
