"""Machines and their GPUs as rows. A glyph and a word show who uses each GPU, so that no colour is needed."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import replace
from typing import ClassVar

from textual.binding import Binding, BindingType

from launcher.placement.inventory import Holder
from launcher.spec.places import host_labels

from ... import formatting as fig
from ...data.cluster.model import ClusterView, ExecutorView, GpuView, Held, HostView, Use
from ...data.cluster.query import ORDERS, Item, MapQuery, arranged, charted_metrics, troubles
from ...data.run.metrics import HOST_CPU, HOST_MEMORY, MEMORY, TABLE, Metric, Source
from ..widgets.lists import ItemList
from ..widgets.rows import Row, Span

_SHORT_LABEL, _LONG_LABEL, _WIDE_MAP = 16, 32, 104


class MachineMap(ItemList[Item]):
    """A row for each machine, and below it one for each of its GPUs; many machines are folded to one row."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "fold", "Fold", show=False, id="machines.fold"),
        Binding("t", "fold_all", "Fold all", show=False, id="machines.fold_all"),
        Binding("m", "metric", "Metric", id="machines.metric"),
        Binding("s", "sort", "Sort", id="machines.sort"),
        Binding("S", "reverse", "Reverse the order", show=False, id="machines.reverse"),
    ]

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.view: ClusterView | None = None
        self.query_now = MapQuery()
        self.empty = "looking …"
        self._labels: tuple[dict[str, str], dict[str, str]] = {}, {}
        self._unfolded = True
        self._cells = 0
        self._problem = ""

    def show(self, view: ClusterView) -> None:
        """Show a newer view, with the cursor on the same machine or GPU."""
        self.view = view
        hosts = [host.host for host in view.hosts]
        self._labels = host_labels(hosts, _SHORT_LABEL), host_labels(hosts, _LONG_LABEL)
        self._cells = max((len(host.gpus) for host in view.hosts), default=0)
        self._arrange()

    def apply(self, query: MapQuery) -> None:
        """Show the machines by another filter, order, metric or folding."""
        self.query_now, self._problem = query, ""
        self._arrange()

    def complain(self, problem: str) -> None:
        """Show what is wrong with the filter; the list stays as it is."""
        self._problem = problem
        self._arrange()

    def _arrange(self) -> None:
        view, query = self.view, self.query_now
        if view is None:
            return
        self._unfolded = query.is_unfolded(view)
        self.empty = view.problem or (
            "nothing matches: / changes the filter, esc removes it"
            if view.hosts and query.filter.tests
            else "no machine is known"
        )
        self.replace_items(arranged(view, query))
        shown = len({item.host.host for item in self.items})
        self.entitle(f"1 Machines · {_tally(view)}", self._problem or _how(query, shown))

    def key(self, item: Item) -> Hashable:
        """The item's key."""
        return item.key

    def head_row(self, width: int) -> Row:
        """The titles of a GPU's columns."""
        return head_row(width, self.query_now.metric)

    def row(self, item: Item, width: int) -> Row:
        """A machine or a GPU."""
        if item.gpu is not None:
            return gpu_row(item.gpu, width, self.query_now.metric)
        labels = self._labels[width >= _WIDE_MAP]
        label = labels.get(item.host.host, item.host.host)
        room = max(map(len, labels.values()), default=0)
        return host_row(item, label.ljust(room), width, self.query_now.metric, self._cells)

    def action_metric(self) -> None:
        """Chart the next metric."""
        metrics = charted_metrics()
        at = metrics.index(self.query_now.metric)
        self.apply(replace(self.query_now, metric=metrics[(at + 1) % len(metrics)]))

    def action_sort(self) -> None:
        """Sort by the next order."""
        at = ORDERS.index(self.query_now.order)
        self.apply(replace(self.query_now, order=ORDERS[(at + 1) % len(ORDERS)], reverse=False))

    def action_reverse(self) -> None:
        """Reverse the order."""
        self.apply(replace(self.query_now, reverse=not self.query_now.reverse))

    def action_fold(self) -> None:
        """Show the GPUs of this machine as cells in its row, or each in a row."""
        item = self.chosen
        if item is None or not item.host.gpus:
            return
        self.apply(replace(self.query_now, toggled=self.query_now.toggled ^ {item.host.host}))
        index = next((i for i, other in enumerate(self.items) if other.host.host == item.host.host), 0)
        self.action_move((index if item.gpu is not None else self.cursor) - self.cursor)

    def action_fold_all(self) -> None:
        """Fold or unfold all machines."""
        self.apply(replace(self.query_now, unfolded=not self._unfolded, toggled=frozenset()))
        self.action_move(0)


def _how(query: MapQuery, shown: int) -> str:
    """The filter and the order, unless they are the default ones."""
    order = query.metric.title if query.order == "metric" else query.order
    filtered = f"filter: {query.filter.text} · {fig.number(shown, 'host')}" if query.filter.text else ""
    sort = f"{order}{', reversed' * query.reverse}" if query.order != ORDERS[0] or query.reverse else ""
    return " · ".join(filter(None, (filtered, sort and f"sorted by {sort}")))


def _tally(view: ClusterView) -> str:
    gpus = sum(len(host.gpus) for host in view.hosts)
    used = [f"{count} {use}" for use in Use if (count := view.count(use))]
    return " · ".join([fig.number(len(view.hosts), "host"), fig.number(gpus, "GPU"), *used, *_lost(view)])


def _lost(view: ClusterView) -> Iterator[str]:
    if lost := sum(bool(host.lost) for host in view.hosts):
        yield f"{fig.number(lost, 'host')} lost"


GLYPHS = {
    Use.MINE: ("●", "rank-ok"),
    Use.OTHER: ("✗", "rank-failed"),
    Use.TAKEN: ("▼", "rank-behind"),
    Use.FREE: ("○", "rank-done"),
    Use.LOST: ("-", "rank-lost"),
    Use.UNKNOWN: ("?", "rank-stale"),
}
_BAR, _MODEL, _WIDE, _ROOMY = 10, 18, 104, 140
_NAMES, _HOLDERS, _CELLS = 3, 2, 16
_SHARE, _NARROW_KEEP, _BOTH = 4, 5, 12


def head_row(width: int, metric: Metric) -> Row:
    """The titles of a GPU's columns; the bar shows the metric."""
    bar = metric.name.ljust(_bar(width) + 1 + _room(metric))
    cells = f"{'':4}{'gpu':<4}{_model('model', width)}{'whose':<10}{bar}"
    columns = "".join(f" {title}" for title, _ in _figures(None, width, metric))
    return ((f"{cells}{columns}  used by", "muted"),)


def host_row(item: Item, label: str, width: int, metric: Metric, cells: int) -> Row:
    """A machine; if folded, with a cell for the use of each GPU and one for its metric."""
    host = item.host
    mark = "▸" if item.folded else "▾" if host.gpus else " "
    return (
        (f"{mark}{label}", "bold"),
        (" (here)" if host.here else "", "muted"),
        *(_cells(host, metric, min(cells, _CELLS)) if item.folded else ()),
        *_states(host),
        (f"  {_system(host, width)}", ""),
        *((f"  {text}", style) for text, style in _notes(host)),
    )


def _cells(host: HostView, metric: Metric, room: int) -> Iterator[Span]:
    shown = host.gpus[:_CELLS]
    yield "  ", ""
    for gpu in shown:
        yield GLYPHS[gpu.use]
    yield " " * (room - len(shown) + 2), ""
    yield fig.strip([gpu.figure(metric) for gpu in shown], len(shown), top=metric.top), "bar"
    more = f" +{len(host.gpus) - _CELLS}" if len(host.gpus) > _CELLS else ""
    yield " " * (room - len(shown)) + more, "muted"


def _states(host: HostView) -> Iterator[Span]:
    """Whether a machine is lost or silent."""
    if host.lost:
        heard = max((w.heard for w in host.workers if w.heard is not None), default=None)
        yield f"  - lost: {host.lost}{f' since {fig.moment(heard)}' if heard else ''}", "rank-lost"
    elif host.silent_s is not None:
        yield f"  ? no figures for {fig.age(host.silent_s)}", "rank-stale"


def _system(host: HostView, width: int) -> str:
    """The figures of the machine; unknown ones are left out, except CPU and memory."""
    system = (host.system,)
    known = any(metric.amount(system) is not None for metric in (HOST_CPU, HOST_MEMORY)) or host.here
    figures = (_system_figure(host, metric) for metric in TABLE.shown(Source.HOST) if _fits(metric, width))
    return "  ".join(filter(None, figures)) if known else ""


def _system_figure(host: HostView, metric: Metric) -> str:
    system = (host.system,)
    amount = metric.amount(system)
    if metric is HOST_MEMORY:
        return f"{metric.key} {_amounts(amount, metric.total(system))}"
    if metric is HOST_CPU:
        return f"{metric.key} {metric.written(amount):>4}{f' of {host.cores}' if host.cores else ''}"
    return "" if amount is None else f"{metric.key} {metric.amount_text(amount, metric.total(system))}"


def _fits(metric: Metric, width: int) -> bool:
    """Whether a metric is shown at this width."""
    return width >= _WIDE or metric.keep >= _NARROW_KEEP


def _amounts(used: float | None, total: float | None) -> str:
    """Used and total memory, in one unit."""
    if used is None or total is None or total < 1 << 30:
        return f"{fig.memory(used)}/{fig.memory(total)}"
    return f"{used / (1 << 30):.1f}/{total / (1 << 30):.0f}G"


def _notes(host: HostView) -> Iterator[Span]:
    """Spark's resources on the machine, the ranks there, and why GPUs have no figures."""
    alive = [worker for worker in host.workers if worker.alive]
    if alive:
        free, cores = sum(w.cores_free for w in alive), sum(w.cores for w in alive)
        gpus, free_gpus = sum(w.gpus for w in alive), sum(w.gpus_free for w in alive)
        of_gpus = f", {free_gpus}/{fig.number(gpus, 'GPU')}" if gpus else ""
        yield f"spark: {free}/{fig.number(cores, 'core')}{of_gpus} free", "muted"
    elif host.executors:
        yield executors_text(host.executors), "muted"
    if host.held:
        yield by_text(host.held), "rank-ok"
    if host.reason and not any(gpu.address for gpu in host.gpus):
        yield f"no GPU figures: {host.reason}", "rank-stale"


def gpu_row(gpu: GpuView, width: int, metric: Metric) -> Row:
    """A GPU: its use, its figures, and who is on it."""
    glyph, style = GLYPHS[gpu.use]
    value = gpu.figure(metric)
    filled, track = fig.bar(None if value is None else value / metric.top, _bar(width))
    shown = metric.figure_text(value).rjust(_room(metric))
    return (
        (f"    {gpu.device.index:<4}", ""),
        (_model(gpu.device.name, width), "muted"),
        (f"{glyph} {gpu.use:<8}", style),
        (filled, "bar"),
        (track, "bar-track"),
        (f" {shown}", ""),
        ("".join(f" {text}" for _, text in _figures(gpu, width, metric)), ""),
        ("  ", ""),
        *_owners(gpu),
    )


def _figures(gpu: GpuView | None, width: int, metric: Metric) -> Iterator[tuple[str, str]]:
    """The title and the text of each column after the bar, which shows the metric."""
    for shown in TABLE.shown(Source.DEVICE):
        if shown is MEMORY:
            yield f"{MEMORY.key:>{_BOTH}}", _memory(gpu).rjust(_BOTH)
        elif (shown is not metric or shown.whole) and _fits(shown, width):
            text = fig.UNKNOWN if gpu is None else shown.written(gpu.amount(shown))
            yield f"{shown.key:>{shown.width}}", text.rjust(shown.width)


def _memory(gpu: GpuView | None) -> str:
    used, total = (None, None) if gpu is None else (gpu.amount(MEMORY), gpu.total(MEMORY))
    return fig.UNKNOWN if used is None and total is None else _amounts(used, total)


def _room(metric: Metric) -> int:
    """The width of a metric's figure beside the bar."""
    return _SHARE if metric.is_share else metric.width


def _owners(gpu: GpuView) -> Iterator[Span]:
    """Who is on a GPU: my ranks, processes of others; its error, what slows it down, and its troubles."""
    if gpu.held:
        yield by_text(gpu.held), "rank-ok"
    elif gpu.executor is not None:
        yield f"{executors_text((gpu.executor,))}  ", "rank-ok" if gpu.executor.mine else "rank-failed"
    for holder in gpu.foreign[:_HOLDERS]:
        yield (
            f"{' · ' * bool(gpu.held)}{holder_text(holder)}  ",
            "rank-failed" if gpu.use is Use.OTHER else "rank-behind",
        )
    if len(gpu.foreign) > _HOLDERS:
        yield f"and {len(gpu.foreign) - _HOLDERS} more", "muted"
    if gpu.use is Use.TAKEN:
        unseen = "held by a Spark application" if gpu.lent else "in use, by no process that is seen here"
        yield unseen, "rank-behind"
    if gpu.error:
        yield gpu.error, "rank-stale"
    if gpu.sample.throttle:
        yield f"  slowed: {', '.join(gpu.sample.throttle)}", "rank-behind"
    for text in troubles(gpu):
        yield f"  {text}", "rank-failed"


def by_text(held: Sequence[Held]) -> str:
    """The runs and their ranks, as text."""
    return " · ".join(f"{fig.shorten(h.name, 20)} {_ranks(h.ranks)}" for h in held)


def _ranks(ranks: Sequence[int]) -> str:
    named = ",".join(map(str, ranks[:_NAMES]))
    if len(ranks) > _NAMES:
        named = f"{min(ranks)}-{max(ranks)}" if max(ranks) - min(ranks) == len(ranks) - 1 else f"{named},…"
    return f"rank{'s' * (len(ranks) != 1)} {named}"


def holder_text(holder: Holder) -> str:
    """A process: its user, name, pid and memory, as far as known."""
    known = [fig.shorten(text, 16) for text in (holder.user, holder.name) if text]
    size = [] if holder.memory is None else [fig.memory(holder.memory)]
    return " ".join([*known, str(holder.pid), *size])


def executors_text(executors: Sequence[ExecutorView]) -> str:
    """The applications of some executors, and the number of tasks on each if it is known."""
    return " · ".join(f"{fig.shorten(e.name, 24)} executor {e.number}{_tasks(e)}" for e in executors)


def _tasks(executor: ExecutorView) -> str:
    if executor.tasks is None:
        return ""
    return f", {fig.number(executor.tasks, 'task')}" if executor.tasks else ", idle"


def _model(name: str, width: int) -> str:
    return f"{fig.shorten(fig.device_model(name), _MODEL):<{_MODEL}} " if width >= _WIDE else ""


def _bar(width: int) -> int:
    return 2 * _BAR if width >= _ROOMY else _BAR
