"""The work on the cluster: a line for each Spark; live runs, applications of others, and engines."""

from __future__ import annotations

import textwrap
from collections.abc import Hashable, Iterator, Sequence

from ... import formatting as fig
from ...data.cluster.model import AppView, ClusterView, EngineView, SparkView, WorkView
from ...data.run.model import PHASE_GLYPHS
from ..widgets.key_line import keys_of
from ..widgets.lists import ItemList
from ..widgets.rows import Row, Sheet, clip

Work = WorkView | AppView | EngineView

_PLACES = 4


class WorkList(ItemList[Work]):
    """A row for each run, then for each application of others, then for each engine."""

    def on_mount(self) -> None:
        """Set the text for an empty list."""
        self.empty = f"nothing is running: {keys_of(self, 'go.launch', 'f4')} goes to the launch screen"

    def show(self, view: ClusterView) -> None:
        """Show a newer view, with the cursor on the same run, application or engine."""
        self.replace_items((*view.work, *view.apps, *view.engines))
        waiting = sum(work.waiting is not None for work in view.work)
        others = [f"{fig.number(len(view.apps), 'other application')}"] if view.apps else []
        waits = [f"{waiting} waiting for slots"] if waiting else []
        runs = f"{fig.number(len(view.work), 'live run')}"
        parts = ("2 Runs and engines", runs, *waits, *others, fig.number(len(view.engines), "engine"))
        self.entitle(" · ".join(parts))

    def key(self, item: Work) -> Hashable:
        """The item's key."""
        return key_of(item)

    def next_waiting(self) -> bool:
        """Put the cursor on the next run that waits for slots; return whether there is one."""
        waits = [i for i, item in enumerate(self.items) if isinstance(item, WorkView) and item.waiting]
        if waits:
            self.action_move(next((i for i in waits if i > self.cursor), waits[0]) - self.cursor)
        return bool(waits)

    def head_row(self, width: int) -> Row:
        """The titles of the columns."""
        columns = f"   {'state':<10}{'name':<17}{'size':>5}  {'mode':<8}what it waits for, or where it is"
        return clip(((columns, "muted"),), width)

    def row(self, item: Work, _: int) -> Row:
        """A run, an application or an engine."""
        if isinstance(item, WorkView):
            return _work_row(item)
        return _app_row(item) if isinstance(item, AppView) else _engine_row(item)


def key_of(item: Work) -> str:
    """What identifies a run, an application or an engine."""
    if isinstance(item, WorkView):
        return item.run
    return f"application {item.number}" if isinstance(item, AppView) else f"engine {item.pid}"


def _work_row(work: WorkView) -> Row:
    glyph, style = PHASE_GLYPHS[work.phase]
    return (
        (f" {glyph} {work.phase:<10}", style),
        (f"{fig.shorten(work.name, 16):<17}", "bold"),
        (f"{work.size:>5}  ", ""),
        (f"{work.mode:<8}", "muted"),
        (" · ".join(_where(work)), "rank-behind" if work.waiting is not None else ""),
    )


def _where(work: WorkView) -> Iterator[str]:
    if work.waiting is not None:
        yield waits_text(work)
    if work.lost:
        lost = "an executor or a task" if len(work.lost) == 1 else f"{len(work.lost)} executors or tasks"
        yield f"lost {lost}, last: {fig.shorten(work.lost[-1], 60)}"
    if work.places:
        places = [f"{host} ×{ranks}" for host, ranks in list(work.places.items())[:_PLACES]]
        yield ", ".join(places) + _more(len(work.places))
    if work.spark is not None:
        yield f"{work.spark.application} on {work.spark.master}"
        if work.spark.ui:
            yield work.spark.ui


def waits_text(work: WorkView) -> str:
    """What a run waits for, how long it has waited, and the limit."""
    waiting = work.waiting
    assert waiting is not None
    limit = "" if waiting.limit_s is None else f" of {waiting.limit_s:.0f} s"
    since = "" if work.waited_s is None else f", waiting {work.waited_s} s{limit}"
    return f"slots {waiting.have}/{waiting.need}{since}" + (f": {waiting.reason}" if waiting.reason else "")


def _app_row(app: AppView) -> Row:
    glyph, style = ("○", "rank-behind") if app.waits else ("✗", "rank-failed")
    return (
        (f" {glyph} {'waiting' if app.waits else 'other':<10}", style),
        (f"{fig.shorten(app.name, 16):<17}", "bold"),
        (f"{app.cores:>5}  ", ""),
        (f"{'spark':<8}", "muted"),
        (" · ".join(_app_parts(app)), ""),
    )


def _app_parts(app: AppView) -> Iterator[str]:
    yield f"of {app.user}" if app.user else "of somebody"
    if app.waits:
        yield "waits for what it asked of Spark"
    else:
        yield f"holds {holds_text(app)}" + (f" on {_hosts(app.hosts)}" if app.hosts else "")
    yield app.number


def holds_text(app: AppView) -> str:
    """The cores and GPUs that an application holds."""
    gpus = "" if app.gpus is None else f", {fig.number(app.gpus, 'GPU')}"
    return f"{fig.number(app.cores, 'core')}{gpus}"


def _hosts(hosts: Sequence[str]) -> str:
    return ", ".join(hosts[:_PLACES]) + _more(len(hosts))


def _more(count: int) -> str:
    return f" and {count - _PLACES} more" if count > _PLACES else ""


def _engine_row(engine: EngineView) -> Row:
    glyph, style = ("?", "rank-stale") if engine.silent else ("●", "muted")
    return (
        (f" {glyph} {'engine':<10}", style),
        (f"{f'pid {engine.pid}':<17}", "bold"),
        (f"{engine.runs:>5}  ", ""),
        (f"{fig.shorten(engine.target, 24):<7} ", "muted"),
        (" · ".join(_engine_parts(engine)), ""),
    )


def _engine_parts(engine: EngineView) -> Iterator[str]:
    if engine.silent:
        yield f"no answer: {engine.silent}"
        return
    yield fig.number(engine.runs, "run")
    if engine.slots and engine.target == "local":
        yield f"slots {engine.slots}"
    if engine.session:
        yield f"session {engine.session}"
    if engine.ui:
        yield engine.ui
    yield f"version {engine.version}"


_MOST = 3


class ClusterHead(Sheet):
    """The lines at the top of the screen: the Sparks and the run that has waited longest; only a few."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.view = ClusterView()
        self.key = ""

    def show(self, view: ClusterView, key: str) -> None:
        """Show a newer view; `key` is the key that goes to a waiting run."""
        self.view, self.key = view, key
        self.refresh_rows()

    def rows(self, width: int) -> Sequence[Row]:
        """The Sparks, and the run that has waited longest; the screen's name if there is neither."""
        waiting = [work for work in self.view.work if work.waiting is not None]
        rows = [clip(spark_row(spark), width) for spark in self.view.sparks[:_MOST]]
        rows += _wait_rows(waiting[0], len(waiting), self.key, width) if waiting else []
        rows = rows or [((" cluster", "muted bold"),)]
        if self.styles.height is None or self.styles.height.value != len(rows):
            self.styles.height = len(rows)
        return rows


def spark_row(spark: SparkView) -> Row:
    """A Spark: its free resources, or why they are unknown and since when."""
    style = "rank-failed" if spark.problem else ""
    glyph = "✗" if spark.problem else "●" if spark.workers else "?"
    return (
        (f" {glyph} ", style or ("rank-ok" if spark.workers else "rank-stale")),
        (f"{spark.url}  ", "bold"),
        (" · ".join(_spark_parts(spark)), style),
    )


def _spark_parts(spark: SparkView) -> Iterator[str]:
    if spark.problem:
        since = "" if spark.since is None else f" since {fig.moment(spark.since)}"
        yield f"no answer{since}: {spark.problem}"
    if spark.note:
        yield spark.note
    if spark.workers is None:
        return
    if spark.problem:
        yield "before that:"
    lost = f", {spark.lost} lost" if spark.lost else ""
    yield f"{fig.number(spark.workers, 'worker')}{lost}"
    if spark.gpus:
        yield f"{spark.gpus_free} of {fig.number(spark.gpus, 'GPU')} free"
    yield f"{spark.cores_free} of {fig.number(spark.cores, 'core')} free"


def _wait_rows(work: WorkView, waiting: int, key: str, width: int) -> Iterator[Row]:
    """The reason why a run waits, on at most two rows."""
    assert work.waiting is not None
    more = f" (and {waiting - 1} more)" if waiting > 1 else ""
    reason = work.waiting.reason or f"{work.waiting.have} of {fig.number(work.waiting.need, 'slot')}"
    head, room = f" ○ {fig.shorten(work.name, 24)} waits{more}: ", max(width - 1, 20)
    first, *rest = textwrap.wrap(f"{reason} · {key} goes there", room, initial_indent=" " * len(head))
    yield clip(((head, "rank-behind bold"), (first.strip(), "rank-behind")), width)
    if rest:
        yield clip(((f"   {' '.join(rest)}", "rank-behind"),), width)
