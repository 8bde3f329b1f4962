"""The values that the cluster screen shows: machines, GPUs, runs, engines and Spark at one moment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from launcher.agent.nvml import Health
from launcher.placement.inventory import Holder
from launcher.spec.places import Device
from launcher.state import events as ev
from launcher.state.run_state import Phase

from ..run.metrics import MEMORY, Metric


class Use(StrEnum):
    """Who uses a GPU. `TAKEN`: it works or holds memory, but no process on it is visible."""

    MINE = "mine"
    OTHER = "other"
    TAKEN = "taken"
    FREE = "free"
    LOST = "lost"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Held:
    """Ranks of one of my runs on a machine or GPU; `pids` are theirs, in the same order."""

    run: str
    name: str
    ranks: tuple[int, ...]
    pids: tuple[int | None, ...] = ()


@dataclass(frozen=True, slots=True)
class ExecutorView:
    """An executor, its application, and whether the application is mine.

    `tasks` is the number of tasks that run on it, `gpus` the addresses that Spark gave it; None is unknown.
    """

    number: str
    app: str
    name: str
    mine: bool = False
    cores: int | None = None
    tasks: int | None = None
    gpus: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkerView:
    """A standalone worker on a machine, by its master's report; `heard` is a dead one's last heartbeat."""

    state: str
    alive: bool
    cores: int
    cores_free: int
    gpus: int
    gpus_free: int
    heard: float | None = None


@dataclass(frozen=True, slots=True)
class GpuView:
    """One GPU: its figures, the ranks of mine on it, the processes on it, and its use by Spark.

    `mine` are the processes of my ranks, `foreign` all others. `address` is Spark's name for the GPU if Spark
    schedules it, and `executor` the executor that has it; `lent` means that an unknown executor has it.
    `whole` is the GPU that a MIG instance is a part of.
    """

    device: Device
    sample: ev.DeviceSample
    use: Use
    held: tuple[Held, ...] = ()
    foreign: tuple[Holder, ...] = ()
    mine: tuple[Holder, ...] = ()
    error: str = ""
    address: str = ""
    executor: ExecutorView | None = None
    lent: bool = False
    whole: Device | None = None
    health: Health = field(default_factory=Health)

    def figure(self, metric: Metric) -> float | None:
        """One of its figures, on the scale on which it is charted."""
        return metric.figure(self.amount(metric), self.total(metric))

    def amount(self, metric: Metric) -> float | None:
        """A metric's amount, in the unit of the sensor."""
        return metric.amount((self.sample,))

    def total(self, metric: Metric) -> float | None:
        """A metric's total; that of memory also from the device, if no sample has it."""
        return metric.total((self.sample,)) or (self.device.memory if metric is MEMORY else None)

    def amount_text(self, metric: Metric) -> str:
        """A metric's amount as text, with its total if it has one."""
        return metric.amount_text(self.amount(metric), self.total(metric))


@dataclass(frozen=True, slots=True)
class HostView:
    """One machine; `here` marks the one that the console runs on. `reason`: why its GPUs have no figures.

    `silent_s` is the number of seconds since its agents' last sample, None while that is short; `lost` is why
    it counts as lost.
    """

    host: str
    here: bool = False
    cores: int | None = None
    system: ev.HostSample = field(default_factory=ev.HostSample)
    gpus: tuple[GpuView, ...] = ()
    held: tuple[Held, ...] = ()
    reason: str = ""
    driver: str = ""
    workers: tuple[WorkerView, ...] = ()
    executors: tuple[ExecutorView, ...] = ()
    silent_s: int | None = None
    lost: str = ""


@dataclass(frozen=True, slots=True)
class WorkView:
    """A run that goes on: its Spark, the slots that it waits for, and the number of its ranks on each host.

    `waited_s` is how long it has waited for slots, in whole seconds.
    """

    run: str
    name: str
    phase: Phase
    mode: str
    size: int
    waiting: ev.SlotsAwaited | None = None
    waited_s: int | None = None
    spark: ev.SparkReady | None = None
    places: Mapping[str, int] = field(default_factory=dict)
    lost: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EngineView:
    """An engine, as it reports itself; `silent` is why it does not answer."""

    pid: int
    target: str
    version: str = ""
    runs: int = 0
    clients: int = 0
    slots: str = ""
    session: str = ""
    ui: str = ""
    silent: str = ""


@dataclass(frozen=True, slots=True)
class AppView:
    """Another user's application on a Spark of ours, with its cores, GPUs and hosts.

    `gpus` is None if workers do not report their executors.
    """

    number: str
    name: str
    user: str
    waits: bool
    cores: int
    gpus: int | None
    hosts: tuple[str, ...] = ()
    started: float | None = None
    page: str = ""


@dataclass(frozen=True, slots=True)
class SparkView:
    """A Spark that our runs or engines use; `workers` is None if its manager does not report them.

    `problem` is why its page has not answered since the time `since`; the figures are then older.
    """

    url: str
    page: str = ""
    problem: str = ""
    since: float | None = None
    note: str = ""
    workers: int | None = None
    lost: int = 0
    cores: int = 0
    cores_free: int = 0
    gpus: int = 0
    gpus_free: int = 0


@dataclass(frozen=True, slots=True)
class ClusterView:
    """Everything that the cluster screen shows; `problem` is why the runs cannot be read."""

    hosts: tuple[HostView, ...] = ()
    work: tuple[WorkView, ...] = ()
    engines: tuple[EngineView, ...] = ()
    sparks: tuple[SparkView, ...] = ()
    apps: tuple[AppView, ...] = ()
    problem: str = ""

    def count(self, use: Use) -> int:
        """The number of GPUs with this use."""
        return sum(gpu.use is use for host in self.hosts for gpu in host.gpus)
