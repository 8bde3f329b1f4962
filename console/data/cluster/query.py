"""The rows of the cluster screen's map: filtering, sorting and folding machines and GPUs. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from ..filtering import Figure, Filter, parse_filter
from ..run.metrics import TABLE, UTIL, Metric, Source
from .model import ClusterView, GpuView, Held, HostView, Use

ORDERS = ("name", "free first", "metric", "trouble first")
"""The orders of machines; `metric` sorts by the charted figure, the greatest first."""

_UNITS = "%cw"
"""Letters that may follow a number in the filter: per cent, degrees Celsius, watts."""
_FOLD_ROWS = 60
_STEPS = 8


@dataclass(frozen=True, slots=True)
class Item:
    """A row: a machine, or one of its GPUs. A `folded` machine shows its GPUs in its own row."""

    host: HostView
    gpu: GpuView | None = None
    folded: bool = False

    @property
    def held(self) -> tuple[Held, ...]:
        """The ranks of my runs on it."""
        return self.host.held if self.gpu is None else self.gpu.held

    @property
    def key(self) -> tuple[str, str, int]:
        """The row's identity: host, and the GPU's UUID and index."""
        gpu = self.gpu
        return (self.host.host, gpu.device.uuid, gpu.device.index) if gpu else (self.host.host, "", -1)


class MachineCandidate(NamedTuple):
    """A subject of the filter: its texts in lower case, and the GPU if it is one."""

    texts: str
    gpu: GpuView | None = None


def figures() -> tuple[Figure[MachineCandidate], ...]:
    """The GPU figures that the filter compares: utilization and memory in per cent, otherwise amounts."""
    metrics = TABLE.of(Source.DEVICE)
    return tuple(Figure(metric.key, partial(_compared, metric=metric), _UNITS) for metric in metrics)


def _compared(candidate: MachineCandidate, metric: Metric) -> float | None:
    gpu = candidate.gpu
    if gpu is None:
        return None
    return gpu.figure(metric) if metric.filters_by_figure else gpu.amount(metric)


def charted_metrics() -> tuple[Metric, ...]:
    """The metrics of GPUs that can be shown as bars."""
    return tuple(metric for metric in TABLE.charted if metric.source is Source.DEVICE)


def parse_machine_filter(text: str) -> Filter[MachineCandidate]:
    """Parse the cluster screen's filter as it is typed.

    Raises:
        SpecError: a figure is compared with something that is not a number.
    """
    return parse_filter(text, lambda candidate: candidate.texts, figures=figures())


@dataclass(frozen=True, slots=True)
class MapQuery:
    """How machines are listed.

    `unfolded` is whether GPUs have their own rows, None to decide by the number of rows; `toggled` are the
    hosts for which the opposite holds.
    """

    filter: Filter[MachineCandidate] = field(default_factory=Filter)
    order: str = ORDERS[0]
    reverse: bool = False
    metric: Metric = UTIL
    unfolded: bool | None = None
    toggled: frozenset[str] = frozenset()

    def is_unfolded(self, view: ClusterView) -> bool:
        """Whether GPUs have their own rows, except those of toggled hosts."""
        if self.unfolded is not None:
            return self.unfolded
        return sum(1 + len(host.gpus) for host in view.hosts) <= _FOLD_ROWS


def arranged(view: ClusterView, query: MapQuery) -> tuple[Item, ...]:
    """The rows, in order."""
    unfolded = query.is_unfolded(view)
    items: list[Item] = []
    for host, gpus in _ordered(_filtered(view.hosts, query.filter), query):
        folds = bool(host.gpus) and unfolded == (host.host in query.toggled)
        items.append(Item(host, folded=folds))
        items += () if folds else (Item(host, gpu) for gpu in gpus)
    return tuple(items)


_Part = tuple[HostView, tuple[GpuView, ...]]


def _filtered(hosts: Iterable[HostView], machine_filter: Filter[MachineCandidate]) -> Iterator[_Part]:
    """Machines with those of their GPUs that pass the filter; a machine without GPUs must pass itself."""
    for host in hosts:
        if not machine_filter.tests:
            yield host, host.gpus
            continue
        name = _lowered(host.host, host.lost and Use.LOST)
        accepts = machine_filter.accepts
        gpus = tuple(gpu for gpu in host.gpus if accepts(MachineCandidate(f"{name}\n{gpu_texts(gpu)}", gpu)))
        if gpus or (not host.gpus and accepts(MachineCandidate(f"{name}\n{_host_texts(host)}"))):
            yield host, gpus


def _host_texts(host: HostView) -> str:
    return _lowered(
        *("here" if host.here else "", host.reason, host.lost),
        *(text for held in host.held for text in (held.name, held.run)),
        *(text for executor in host.executors for text in (executor.name, executor.app)),
    )


def gpu_texts(gpu: GpuView) -> str:
    """The texts of a GPU that the filter searches, in lower case."""
    executor = gpu.executor
    return _lowered(
        *(gpu.use, gpu.device.name, gpu.device.uuid, gpu.error, gpu.whole.uuid if gpu.whole else ""),
        *(text for held in gpu.held for text in (held.name, held.run)),
        *(text for h in (*gpu.foreign, *gpu.mine) for text in (h.user, h.name, h.command, str(h.pid))),
        *((executor.name, executor.app) if executor is not None else ()),
        *(gpu.sample.throttle or ()),
    )


def _lowered(*texts: str) -> str:
    return "\n".join(filter(None, texts)).lower()


def _ordered(parts: Iterable[_Part], query: MapQuery) -> list[_Part]:
    """The machines in the query's order; by name, this machine comes first."""
    listed = list(parts)
    if query.order == "name":
        listed.sort(key=lambda part: (not part[0].here, _natural(part[0].host)), reverse=query.reverse)
        return listed
    listed.sort(key=lambda part: _natural(part[0].host))
    rank = {
        "free first": lambda part: -sum(gpu.use is Use.FREE for gpu in part[0].gpus),
        "metric": lambda part: -_most(part[0], query.metric),
        "trouble first": lambda part: -_trouble(part[0]),
    }[query.order]
    return sorted(listed, key=rank, reverse=query.reverse)


def _natural(name: str) -> list[tuple[int, str]]:
    """A sort key that puts gpu-9 before gpu-10."""
    return [(int(digits or 0), text) for text, digits in re.findall(r"(\D*)(\d{0,12})", name)]


def _most(host: HostView, metric: Metric) -> int:
    """The greatest figure of the host's GPUs, in coarse steps, so that rows seldom swap places."""
    known = [value for gpu in host.gpus if (value := gpu.figure(metric)) is not None]
    return int(max(known) / metric.top * _STEPS) if known else -1


def _trouble(host: HostView) -> int:
    """How urgently a machine needs attention."""
    lost = 100 * bool(host.lost) + 50 * (host.silent_s is not None)
    return lost + sum(
        8 * bool(gpu.error) + 4 * (gpu.use is Use.TAKEN) + 2 * bool(gpu.sample.throttle) + bool(troubles(gpu))
        for gpu in host.gpus
    )


def troubles(gpu: GpuView) -> tuple[str, ...]:
    """What is wrong with a GPU's memory, in words."""
    health = gpu.health
    return tuple(
        text
        for text, so in (
            (f"{health.uncorrected} uncorrected ECC errors", health.uncorrected),
            ("rows wait for a reset to be replaced", health.pending),
            ("rows could not be replaced", health.broken),
        )
        if so
    )
