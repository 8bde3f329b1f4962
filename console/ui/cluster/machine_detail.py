"""What is under the cursor, in full: a machine, a GPU with its processes, a run, an application."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from launcher.placement.inventory import Holder

from ... import formatting as fig
from ...data.cluster.model import AppView, EngineView, GpuView, HostView, WorkView
from ...data.cluster.query import Item, troubles
from ...data.run.metrics import HOST_CPU, TABLE, Source
from ..widgets.rows import Row, ScrollingSheet, Span, clip
from .machines import GLYPHS, by_text, executors_text
from .work import Work, holds_text, waits_text

_LABEL, _GAUGE = 10, 16
_ELSEWHERE = "processes, ECC and the like are known only of the machine that this console runs on"


class MachineDetail(ScrollingSheet):
    """One thing in full."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes="pane")
        self.item: Item | Work | None = None

    def show(self, item: Item | Work | None) -> None:
        """Show an item, or a newer view of it."""
        before, self.item = self.item, item
        self.entitle(f"3 {_title(item)}")
        self.refresh_rows()
        if _title(before) != _title(item):
            self.scroll_home(animate=False)

    def rows(self, width: int) -> Sequence[Row]:
        """The facts of the item; long texts take several rows."""
        rows = [row for row in _rows(self.item, width) if row]
        return [clip(row, width) for row in rows or [((" nothing is chosen", "muted"),)]]


def _title(item: Item | Work | None) -> str:
    if isinstance(item, Item):
        return f"GPU {item.gpu.device.index} of {item.host.host}" if item.gpu else f"Machine {item.host.host}"
    if isinstance(item, WorkView):
        return f"Run {item.name}"
    if isinstance(item, AppView):
        return f"Application {item.name}"
    return f"Engine {item.pid}" if isinstance(item, EngineView) else "In full"


def _rows(item: Item | Work | None, width: int) -> Iterator[Row]:
    if isinstance(item, Item):
        yield from host_rows(item.host, width) if item.gpu is None else gpu_rows(item.host, item.gpu, width)
    elif isinstance(item, WorkView):
        yield from _work_rows(item, width)
    elif isinstance(item, AppView):
        yield from _app_rows(item)
    elif isinstance(item, EngineView):
        yield from _engine_rows(item, width)


# --- GPUs ------------------------------------------------------------------------------------------


def gpu_rows(host: HostView, gpu: GpuView, width: int) -> Iterator[Row]:
    """Everything known of one GPU; an unknown figure is a dash, never zero."""
    glyph, style = GLYPHS[gpu.use]
    yield _fact("whose", (f"{glyph} {gpu.use}", style), (f"  {by_text(gpu.held)}", "rank-ok"))
    yield _fact("model", (gpu.device.name or fig.UNKNOWN, ""))
    yield _fact("UUID", (gpu.device.uuid or fig.UNKNOWN, ""))
    if gpu.whole is not None:
        yield _fact("MIG", (f"instance of GPU {gpu.whole.index} ({gpu.whole.uuid})", ""))
    if gpu.error:
        yield _fact("trouble", (gpu.error, "rank-failed"))
    if gpu.executor is not None:
        yield _fact("Spark", (executors_text((gpu.executor,)), ""), (f"  {gpu.executor.app}", "muted"))
    elif gpu.address:
        holder = ", held by an application" * gpu.lent
        yield _fact("Spark", (f"offers it as {gpu.address}{holder}", ""))
    yield from _figure_rows(gpu, width)
    yield from _process_rows(host, gpu)


def _figure_rows(gpu: GpuView, width: int) -> Iterator[Row]:
    sample = gpu.sample
    for metric in TABLE.shown(Source.DEVICE):
        text = gpu.amount_text(metric)
        if metric.is_share:
            yield _gauge(metric.name, gpu.figure(metric), text, width)
        else:
            yield _fact(metric.name, (text, ""))
    yield _fact("clocks", (f"SM {_mhz(sample.sm_clock_mhz)}  memory {_mhz(sample.memory_clock_mhz)}", ""))
    slowed = sample.throttle
    text = fig.UNKNOWN if slowed is None else ", ".join(slowed) or "by nothing"
    yield _fact("slowed", (text, "rank-behind" if slowed else ""))
    yield _fact("PCIe", (f"in {_rate(sample.pcie_rx_kbs)} out {_rate(sample.pcie_tx_kbs)}", ""))
    links = f"{fig.count(sample.nvlink_active)} up  "
    links += f"in {_rate(sample.nvlink_rx_kbs)} out {_rate(sample.nvlink_tx_kbs)}"
    yield _fact("NVLink", (links, ""))
    health = gpu.health
    yield _fact(
        "ECC", (f"corrected {fig.count(health.corrected)}  uncorrected {fig.count(health.uncorrected)}", "")
    )
    for text in troubles(gpu):
        yield _fact("trouble", (text, "rank-failed"))


def _process_rows(host: HostView, gpu: GpuView) -> Iterator[Row]:
    for holder in gpu.mine:
        yield from _holder_rows(holder, "mine", "rank-ok")
    for holder in gpu.foreign:
        yield from _holder_rows(holder, "other", "rank-failed")
    if not host.here:
        for held in gpu.held:
            pairs = zip(held.ranks, held.pids, strict=False)
            text = ", ".join(f"rank {rank} pid {pid or fig.UNKNOWN}" for rank, pid in pairs)
            yield _fact("processes", (f"{held.name}: {text}", ""))
        yield _fact("", (_ELSEWHERE, "muted"))
    elif not gpu.mine and not gpu.foreign:
        yield _fact("processes", ("none is seen", "muted"))


def _holder_rows(holder: Holder, whose: str, style: str) -> Iterator[Row]:
    began = "" if holder.since is None else f"  since {fig.date(holder.since)}"
    yield _fact(
        f"pid {holder.pid}",
        (f"{whose}  {holder.user or fig.UNKNOWN}  {fig.memory(holder.memory)}{began}", style),
    )
    if command := holder.command or holder.name:
        yield _fact("", (command, "muted"))


# --- machines --------------------------------------------------------------------------------------


def host_rows(host: HostView, width: int) -> Iterator[Row]:
    """Everything known of one machine."""
    system = (host.system,)
    if host.lost:
        yield _fact("state", (f"- lost: {host.lost}", "rank-lost"))
    elif host.silent_s is not None:
        yield _fact("state", (f"? its agents have sent nothing for {fig.age(host.silent_s)}", "rank-stale"))
    for metric in TABLE.shown(Source.HOST):
        amount, total = metric.amount(system), metric.total(system)
        text = metric.amount_text(amount, total)
        if not metric.is_share:
            yield _fact(metric.name, (text, ""))
            continue
        cores = f" of {fig.number(host.cores, 'core')}" if metric is HOST_CPU and host.cores else ""
        yield _gauge(metric.name, metric.figure(amount, total), f"{text}{cores}", width)
    yield _fact(
        "GPUs", (f"{len(host.gpus)}", ""), (f"  driver {host.driver}" if host.driver else "", "muted")
    )
    if host.reason:
        yield _fact("no figures", (host.reason, "rank-stale"))
    for worker in host.workers:
        gpus = f", {worker.gpus_free} of {fig.number(worker.gpus, 'GPU')}" if worker.gpus else ""
        free = f"{worker.cores_free} of {fig.number(worker.cores, 'core')}{gpus} free"
        heard = f", last heard of at {fig.moment(worker.heard)}" if worker.heard else ""
        style = "" if worker.alive else "rank-lost"
        yield _fact("worker", (free if worker.alive else f"{worker.state.lower()}{heard}", style))
    for executor in host.executors:
        gpus = f"  GPU {','.join(executor.gpus)}" if executor.gpus else ""
        style = "rank-ok" if executor.mine else "rank-failed"
        whose = "mine" if executor.mine else "other"
        yield _fact("executor", (f"{whose}  {executors_text((executor,))}{gpus}", style))
    for held in host.held:
        yield _fact("run", (by_text((held,)), "rank-ok"), (f"  {held.run}", "muted"))


# --- runs, applications and engines ----------------------------------------------------------------


def _work_rows(work: WorkView, width: int) -> Iterator[Row]:
    yield _fact("run", (work.run, ""))
    yield _fact("state", (f"{work.phase}", ""), (f"  {fig.number(work.size, 'rank')}, {work.mode}", "muted"))
    if work.waiting is not None:
        yield from _wrapped("waits", waits_text(work), "rank-behind", width)
    for host, ranks in work.places.items():
        yield _fact("on", (f"{host}  {fig.number(ranks, 'rank')}", ""))
    if work.spark is not None:
        yield _fact("Spark", (f"{work.spark.application} on {work.spark.master}", ""))
        yield _fact("pages", (work.spark.ui or fig.UNKNOWN, ""))
    for reason in work.lost:
        yield from _wrapped("lost", reason, "rank-lost", width)


def _app_rows(app: AppView) -> Iterator[Row]:
    yield _fact("id", (app.number, ""))
    yield _fact("of", (app.user or fig.UNKNOWN, ""))
    state = "waits for what it asked of Spark" if app.waits else f"holds {holds_text(app)}"
    yield _fact("state", (state, "rank-behind" if app.waits else ""))
    yield _fact("since", (fig.date(app.started), ""))
    for host in app.hosts:
        yield _fact("on", (host, ""))
    yield _fact("pages", (app.page or fig.UNKNOWN, ""))


def _engine_rows(engine: EngineView, width: int) -> Iterator[Row]:
    yield _fact("for", (engine.target or fig.UNKNOWN, ""), (f"  version {engine.version}", "muted"))
    if engine.silent:
        yield from _wrapped("silent", engine.silent, "rank-stale", width)
    yield _fact("runs", (f"{engine.runs}", ""), (f"  {fig.number(engine.clients, 'client')}", "muted"))
    yield _fact("session", (engine.session or "none", ""))
    yield _fact("pages", (engine.ui or fig.UNKNOWN, ""))
    yield _fact("end it", (f"rankdeck engine stop --pid {engine.pid}", "muted"))


def _wrapped(label: str, text: str, style: str, width: int) -> Iterator[Row]:
    room, line = max(width - _LABEL - 2, 10), ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > room:
            yield _fact(label, (line, style))
            label, line = "", ""
        line = f"{line} {word}".strip()
    yield _fact(label, (line, style))


def _fact(label: str, *spans: Span) -> Row:
    return ((f" {label:<{_LABEL}} ", "muted"), *spans)


def _gauge(label: str, percent: float | None, text: str, width: int) -> Row:
    filled, rest = fig.bar(None if percent is None else percent / 100, min(max(width - 40, 0), _GAUGE))
    return _fact(label, (filled, "bar"), (rest, "bar-track"), (f" {text}", ""))


def _mhz(value: int | None) -> str:
    return fig.UNKNOWN if value is None else f"{value} MHz"


def _rate(kilobytes: int | None) -> str:
    return fig.UNKNOWN if kilobytes is None else f"{kilobytes / 1000:,.0f} MB/s"
