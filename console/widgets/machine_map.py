"""Machines and their GPUs: figures, and whose each GPU is. Glyph and word say it, so that no colour need."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import replace
from typing import ClassVar

from textual.binding import Binding, BindingType

from console.listing import host_labels
from console.messages import METRICS, ORDERS, ClusterView, Item, MapQuery, Use, arranged
from console.widgets.long_list import ItemList
from console.widgets.machine_rows import gpu_row, head_row, host_row
from console.widgets.sheet import Row
from console.widgets.work_list import number

_SHORT, _LONG, _WIDE = 16, 32, 104


class MachineMap(ItemList[Item]):
    """A row a machine, and below it a row for each of its GPUs; of many machines only their own rows."""

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
        """Show another moment, with the cursor on the same machine or GPU."""
        self.view = view
        hosts = [host.host for host in view.hosts]
        self._labels = host_labels(hosts, _SHORT), host_labels(hosts, _LONG)
        self._cells = max((len(host.gpus) for host in view.hosts), default=0)
        self._arrange()

    def ask(self, query: MapQuery) -> None:
        """Show other machines, or in another way."""
        self.query_now, self._problem = query, ""
        self._arrange()

    def complain(self, problem: str) -> None:
        """Say what is wrong with what is asked for; the list stays as it is."""
        self._problem = problem
        self._arrange()

    def _arrange(self) -> None:
        view, query = self.view, self.query_now
        if view is None:
            return
        self._unfolded = query.is_unfolded(view)
        self.empty = view.problem or (
            "nothing is like that: / changes the filter, esc takes it away"
            if view.hosts and query.sought.tests
            else "no machine is known"
        )
        self.replace_items(arranged(view, query))
        shown = len({item.host.host for item in self.items})
        self.entitle(f"1 Machines · {_tally(view)}", self._problem or _how(query, shown))

    def key(self, item: Item) -> Hashable:
        """A machine, or a GPU of it."""
        return item.key

    def head_row(self, width: int) -> Row:
        """What each column of a GPU is."""
        return head_row(width, self.query_now.metric)

    def row(self, item: Item, width: int) -> Row:
        """A machine or a GPU."""
        if item.gpu is not None:
            return gpu_row(item.gpu, width, self.query_now.metric)
        labels = self._labels[width >= _WIDE]
        label = labels.get(item.host.host, item.host.host)
        room = max(map(len, labels.values()), default=0)
        return host_row(item, label.ljust(room), width, self.query_now.metric, self._cells)

    def action_metric(self) -> None:
        """Chart another figure."""
        at = METRICS.index(self.query_now.metric)
        self.ask(replace(self.query_now, metric=METRICS[(at + 1) % len(METRICS)]))

    def action_sort(self) -> None:
        """Sort by something else."""
        at = ORDERS.index(self.query_now.order)
        self.ask(replace(self.query_now, order=ORDERS[(at + 1) % len(ORDERS)], reverse=False))

    def action_reverse(self) -> None:
        """The other way round."""
        self.ask(replace(self.query_now, reverse=not self.query_now.reverse))

    def action_fold(self) -> None:
        """Show the GPUs of this machine in its own row, or each in one of its own."""
        item = self.chosen
        if item is None or not item.host.gpus:
            return
        self.ask(replace(self.query_now, turned=self.query_now.turned ^ {item.host.host}))
        index = next((i for i, other in enumerate(self.items) if other.host.host == item.host.host), 0)
        self.action_move((index if item.gpu is not None else self.cursor) - self.cursor)

    def action_fold_all(self) -> None:
        """The same for all machines."""
        self.ask(replace(self.query_now, unfolded=not self._unfolded, turned=frozenset()))
        self.action_move(0)


def _how(query: MapQuery, shown: int) -> str:
    """What is sought, and the order, where they are not the usual ones."""
    order = query.metric.label if query.order == "metric" else query.order
    sought = f"filter: {query.sought.text} · {number(shown, 'host')}" if query.sought.text else ""
    sort = f"{order}{', reversed' * query.reverse}" if query.order != ORDERS[0] or query.reverse else ""
    return " · ".join(filter(None, (sought, sort and f"sorted by {sort}")))


def _tally(view: ClusterView) -> str:
    gpus = sum(len(host.gpus) for host in view.hosts)
    used = [f"{count} {use}" for use in Use if (count := view.count(use))]
    return " · ".join([number(len(view.hosts), "host"), number(gpus, "GPU"), *used, *_lost(view)])


def _lost(view: ClusterView) -> Iterator[str]:
    if lost := sum(bool(host.lost) for host in view.hosts):
        yield f"{number(lost, 'host')} lost"
