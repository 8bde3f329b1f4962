"""What is known of machines, GPUs, runs and Spark at one moment: the values that the cluster screen shows."""

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
    """Whose a GPU is. `TAKEN` is one that works or holds memory, though no process of it is seen."""

    MINE = "mine"
    OTHER = "other"
    TAKEN = "taken"
    FREE = "free"
    LOST = "lost"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Held:
    """Ranks of one run, in one place; `pids` are theirs, in the same order."""

    run: str
    name: str
    ranks: tuple[int, ...]
    pids: tuple[int | None, ...] = ()


@dataclass(frozen=True, slots=True)
class ExecutorView:
    """An executor: of which application, and whether that is one of mine.

    `tasks` run on it now, and `gpus` are the addresses that Spark gave it; None is unknown.
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
    """A standalone worker on a machine, by its master's counting; `heard` is when it last gave a sign."""

    state: str
    alive: bool
    cores: int
    cores_free: int
    gpus: int
    gpus_free: int
    heard: float | None = None


@dataclass(frozen=True, slots=True)
class GpuView:
    """One GPU: its figures, the ranks of mine on it, the processes on it that are not mine, and Spark's word.

    `address` is Spark's name for it where Spark hands it out, and `executor` the one that it was given to;
    `lent` says that Spark gave it to one of which no more is known.
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
        """How much it has of something, in the unit of the sensor."""
        return metric.amount((self.sample,))

    def total(self, metric: Metric) -> float | None:
        """How much there can be; of memory also where only the device itself tells it."""
        return metric.total((self.sample,)) or (self.device.memory if metric is MEMORY else None)

    def amount_text(self, metric: Metric) -> str:
        """How much it has of something as text, and of how much."""
        return metric.amount_text(self.amount(metric), self.total(metric))


@dataclass(frozen=True, slots=True)
class HostView:
    """One machine; `here` is the one that the console runs on. `reason`: why GPUs have no figures.

    `silent_s` says for how many seconds its agents have told nothing, once that is long; `lost` why it
    counts as lost.
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
    """A run that goes on: where it is, what it waits for, and its executors by host.

    `waited_s` is for how long it has waited for slots, in whole seconds.
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
    """A process that owns runs, in its own words; `silent` is why it says nothing."""

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
    """An application of somebody else on a Spark of ours: what it holds where, and since when it is there.

    `gpus` is None where the workers do not tell.
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
    """A Spark that runs or engines of ours use; figures are None where its manager does not tell.

    `problem` is why its page says nothing, since the time `since`; figures are then those of before.
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
        """How many GPUs are used so."""
        return sum(gpu.use is use for host in self.hosts for gpu in host.gpus)
