"""Machines and their GPUs: figures, and whose each GPU is. Glyph and word say it, so that no colour need."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from console.listing import host_labels
from console.messages import ClusterView, GpuView, Held, HostView, Use
from console.widgets import figures as fig
from console.widgets.long_list import LongList
from console.widgets.sheet import Row, Span, clip
from launcher.inventory import Holder

GLYPHS = {
    Use.MINE: ("●", "rank-ok"),
    Use.OTHER: ("✗", "rank-failed"),
    Use.TAKEN: ("▼", "rank-behind"),
    Use.FREE: ("○", "rank-done"),
    Use.UNKNOWN: ("?", "rank-stale"),
}
_BAR, _MODEL, _WIDE, _ROOMY = 10, 18, 104, 140
_NAMES, _HOLDERS = 3, 2
_SHORT, _LONG = 24, 40


@dataclass(frozen=True, slots=True)
class Item:
    """A row: a machine, or one of its GPUs."""

    host: HostView
    gpu: GpuView | None = None

    @property
    def held(self) -> tuple[Held, ...]:
        """The ranks of mine there."""
        return self.host.held if self.gpu is None else self.gpu.held

    @property
    def key(self) -> tuple[str, str, int]:
        """What tells it from the others."""
        gpu = self.gpu
        return (
            (self.host.host, "", -1) if gpu is None else (self.host.host, gpu.device.uuid, gpu.device.index)
        )


class MachineMap(LongList):
    """A row a machine, and below it a row for each of its GPUs."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes="pane")
        self.items: tuple[Item, ...] = ()
        self._labels: tuple[dict[str, str], dict[str, str]] = {}, {}
        self.empty = "looking …"

    def show(self, view: ClusterView) -> None:
        """Show another moment, with the cursor on the same machine or GPU."""
        here = self.chosen
        self.items = tuple(_items(view.hosts))
        hosts = [host.host for host in view.hosts]
        self._labels = host_labels(hosts, _SHORT), host_labels(hosts, _LONG)
        self.empty = view.problem or "no machine is known"
        keys = [item.key for item in self.items]
        self.cursor = keys.index(here.key) if here is not None and here.key in keys else 0
        self.entitle(f"1 Machines · {_tally(view)}")
        self.refresh_rows()

    @property
    def chosen(self) -> Item | None:
        """What is under the cursor."""
        return self.items[self.cursor] if self.cursor < len(self.items) else None

    @property
    def length(self) -> int:
        """How many machines and GPUs."""
        return len(self.items)

    def head_row(self, width: int) -> Row:
        """What each column of a GPU is."""
        cells = (
            f"{'':4}{'gpu':<4}{_model('model', width)}whose    {'util':<{_bar(width) + 5}} {'mem':>12} ",
        )
        rest = f"{'power':>6} " if width >= _WIDE else ""
        return clip((("".join((*cells, rest, f"{'temp':>5}  by")), "muted"),), width)

    def empty_row(self) -> Row:
        """Before the first look."""
        return ((f" {self.empty}", "muted"),)

    def item_row(self, index: int, width: int, ground: str) -> Row:
        """A machine or a GPU."""
        item = self.items[index]
        row = self._host_row(item.host, width) if item.gpu is None else _gpu_row(item.gpu, width)
        return clip(tuple((text, style + ground) for text, style in row), width)

    def _host_row(self, host: HostView, width: int) -> Row:
        label = self._labels[width >= _WIDE].get(host.host, host.host)
        system = host.system
        cores = f" of {host.cores}" if host.cores else ""
        memory = f"{fig.memory(system.memory_used)}/{fig.memory(system.memory_total)}"
        load = "" if system.load1 is None else f"  load {system.load1:.1f}"
        return (
            (f" {label}", "bold"),
            (" (here)" if host.here else "", "muted"),
            (f"  cpu {fig.percent(system.cpu):>4}{cores}  mem {memory}{load}", ""),
            (f"  {by_text(host.held)}" if host.held else "", "rank-ok"),
            (f"  no GPU figures: {host.reason}" if host.reason else "", "rank-stale"),
        )


def _items(hosts: Sequence[HostView]) -> Iterator[Item]:
    for host in hosts:
        yield Item(host)
        yield from (Item(host, gpu) for gpu in host.gpus)


def _tally(view: ClusterView) -> str:
    gpus = sum(len(host.gpus) for host in view.hosts)
    used = [f"{count} {use}" for use in Use if (count := view.count(use))]
    return " · ".join([_number(len(view.hosts), "host"), _number(gpus, "GPU"), *used])


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def _gpu_row(gpu: GpuView, width: int) -> Row:
    glyph, style = GLYPHS[gpu.use]
    sample = gpu.sample
    filled, track = fig.bar(None if sample.util is None else sample.util / 100, _bar(width))
    memory = f"{fig.memory(sample.memory_used)}/{fig.memory(sample.memory_total or gpu.device.memory)}"
    return (
        (f"    {gpu.device.index:<4}", ""),
        (_model(gpu.device.name, width), "muted"),
        (f"{glyph} {gpu.use:<7}", style),
        (filled, "bar"),
        (track, "bar-track"),
        (f" {fig.percent(sample.util):>4} {memory:>12} ", ""),
        (f"{fig.watts(sample.power_w):>6} " if width >= _WIDE else "", ""),
        (f"{fig.celsius(sample.temperature_c):>5}  ", ""),
        *_owners(gpu),
    )


def _owners(gpu: GpuView) -> Iterator[Span]:
    """Who is on it: ranks of mine, then processes of others; why it says nothing; what slows it down."""
    if gpu.held:
        yield by_text(gpu.held), "rank-ok"
    for holder in gpu.foreign[:_HOLDERS]:
        yield (
            f"{' · ' * bool(gpu.held)}{holder_text(holder)}  ",
            "rank-failed" if gpu.use is Use.OTHER else "rank-behind",
        )
    if len(gpu.foreign) > _HOLDERS:
        yield f"and {len(gpu.foreign) - _HOLDERS} more", "muted"
    if gpu.use is Use.TAKEN:
        yield "in use, by no process that is seen here", "rank-behind"
    if gpu.error:
        yield gpu.error, "rank-stale"
    if gpu.sample.throttle:
        yield f"  slowed: {', '.join(gpu.sample.throttle)}", "rank-behind"


def by_text(held: Sequence[Held]) -> str:
    """Which ranks of which runs."""
    return " · ".join(f"{fig.shorten(h.name, 20)} {_ranks(h.ranks)}" for h in held)


def _ranks(ranks: Sequence[int]) -> str:
    named = ",".join(map(str, ranks[:_NAMES]))
    if len(ranks) > _NAMES:
        named = f"{min(ranks)}-{max(ranks)}" if max(ranks) - min(ranks) == len(ranks) - 1 else f"{named},…"
    return f"rank{'s' * (len(ranks) != 1)} {named}"


def holder_text(holder: Holder) -> str:
    """A process of somebody else: whose, which, and how much it holds."""
    known = [fig.shorten(text, 16) for text in (holder.user, holder.name) if text]
    size = [] if holder.memory is None else [fig.memory(holder.memory)]
    return " ".join([*known, str(holder.pid), *size])


def _model(name: str, width: int) -> str:
    return f"{fig.shorten(name.removeprefix('NVIDIA '), _MODEL):<{_MODEL}} " if width >= _WIDE else ""


def _bar(width: int) -> int:
    return 2 * _BAR if width >= _ROOMY else _BAR
