"""Who uses which machine and which GPU: rules over what sensors, runs and engines say. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from launcher import events as ev
from launcher.inventory import GpuUse, Holder, Machine
from launcher.spec import Device
from launcher.state import Host, Phase, Rank, RunState

_TAKEN_BYTES = 1 << 30
_TAKEN_UTIL = 5.0


class Use(StrEnum):
    """Whose a GPU is. `TAKEN` is one that works or holds memory, though no process of it is seen."""

    MINE = "mine"
    OTHER = "other"
    TAKEN = "taken"
    FREE = "free"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Held:
    """Ranks of one run, in one place."""

    run: str
    name: str
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class GpuView:
    """One GPU: its figures, the ranks of mine on it, and the processes on it that are not mine."""

    device: Device
    sample: ev.DeviceSample
    use: Use
    held: tuple[Held, ...] = ()
    foreign: tuple[Holder, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class HostView:
    """One machine; `here` is the one that the console runs on. `reason`: why GPUs have no figures."""

    host: str
    here: bool = False
    cores: int | None = None
    system: ev.HostSample = field(default_factory=ev.HostSample)
    gpus: tuple[GpuView, ...] = ()
    held: tuple[Held, ...] = ()
    reason: str = ""


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
class ClusterView:
    """Everything that the cluster screen shows; `problem` is why the runs cannot be read."""

    hosts: tuple[HostView, ...] = ()
    work: tuple[WorkView, ...] = ()
    engines: tuple[EngineView, ...] = ()
    problem: str = ""

    def count(self, use: Use) -> int:
        """How many GPUs are used so."""
        return sum(gpu.use is use for host in self.hosts for gpu in host.gpus)


def cluster_view(
    machine: Machine, runs: Sequence[RunState], engines: Iterable[Mapping[str, Any]], now: float
) -> ClusterView:
    """The whole, of this machine and of those that live runs are on; `now` in seconds since the epoch."""
    names = dict.fromkeys([machine.host, *(host.host for run in runs for host in _present(run))])
    ordered = sorted(runs, key=lambda run: (run.phase is not Phase.WAITING, run.id))
    return ClusterView(
        hosts=tuple(_host(name, machine, runs) for name in names),
        work=tuple(_work(run, now) for run in ordered),
        engines=tuple(map(_engine, engines)),
    )


def _host(name: str, machine: Machine, runs: Sequence[RunState]) -> HostView:
    here = name == machine.host
    alive = [(run, _alive(run, name)) for run in runs]
    held = tuple(_held(run, ranks) for run, ranks in alive if ranks)
    own = {gpu.device.uuid or f"{gpu.device.index}": gpu for gpu in machine.gpus} if here else {}
    told = {uuid: gpu for uuid, gpu in _sampled(name, runs) if uuid not in own}
    pids = frozenset(rank.pid for _, ranks in alive for rank in ranks if rank.pid is not None)
    gpus = (_gpu(gpu, alive, pids) for gpu in (*own.values(), *told.values()))
    return HostView(
        host=name,
        here=here,
        cores=machine.cores if here else None,
        system=machine.system if here else _system(name, runs),
        gpus=tuple(sorted(gpus, key=lambda gpu: gpu.device.index)),
        held=held,
        reason=machine.reason if here else "",
    )


def _present(run: RunState) -> list[Host]:
    return [host for host in run.hosts.values() if host.present]


def _alive(run: RunState, host: str) -> list[Rank]:
    return [rank for rank in run.ranks if rank.host == host and not rank.phase.ended]


def _held(run: RunState, ranks: Sequence[Rank]) -> Held:
    return Held(run.id, run.name or run.id, tuple(rank.rank for rank in ranks))


def _system(name: str, runs: Sequence[RunState]) -> ev.HostSample:
    """The newest that an agent on that host said of it."""
    told = [h for run in runs for h in _present(run) if h.host == name and h.system is not None]
    newest = max(told, key=lambda host: host.sampled_at or 0.0, default=None)
    return newest.system if newest is not None and newest.system is not None else ev.HostSample()


def _sampled(name: str, runs: Sequence[RunState]) -> Iterator[tuple[str, GpuUse]]:
    """The GPUs that agents on a host told of; those that none has measured yet by their ranks."""
    known = {d.uuid: d for run in runs for r in _alive(run, name) for d in r.devices}
    for uuid, device in known.items():
        yield uuid, GpuUse(device, ev.DeviceSample(uuid=uuid, index=device.index))
    for run in runs:
        for host in _present(run):
            for uuid, sample in host.devices.items() if host.host == name else ():
                yield uuid, GpuUse(known.get(uuid) or Device(sample.index or 0, uuid), sample)


def _gpu(gpu: GpuUse, alive: Sequence[tuple[RunState, list[Rank]]], pids: frozenset[int]) -> GpuView:
    mine = [h for h in gpu.holders if not pids.isdisjoint((h.pid, *h.ancestors))]
    theirs = {pid for holder in mine for pid in (holder.pid, *holder.ancestors)}
    held = tuple(
        _held(run, on_it)
        for run, ranks in alive
        if (on_it := [r for r in ranks if r.pid in theirs or gpu.device.uuid in {d.uuid for d in r.devices}])
    )
    foreign = tuple(holder for holder in gpu.holders if holder not in mine)
    return GpuView(gpu.device, gpu.sample, _use(gpu, held, foreign), held, foreign, gpu.error)


def _use(gpu: GpuUse, held: Sequence[Held], foreign: Sequence[Holder]) -> Use:
    if held:
        return Use.MINE
    if foreign:
        return Use.OTHER
    used, util = gpu.sample.memory_used, gpu.sample.util
    if used is None and util is None:
        return Use.UNKNOWN
    return Use.TAKEN if (used or 0) > _TAKEN_BYTES or (util or 0) > _TAKEN_UTIL else Use.FREE


def _work(run: RunState, now: float) -> WorkView:
    waits = run.phase is Phase.WAITING
    since = run.since[-1][1] if waits and run.since else None
    places: dict[str, int] = {}
    for rank in run.ranks:
        if not rank.phase.ended:
            places[rank.host] = places.get(rank.host, 0) + 1
    return WorkView(
        run=run.id,
        name=run.name or run.id,
        phase=run.phase,
        mode=run.mode,
        size=run.num_processes or run.asked,
        waiting=run.waiting if waits else None,
        waited_s=None if since is None else max(0, int(now - since)),
        spark=run.spark,
        places=places,
        lost=tuple(loss.reason for loss in run.losses),
    )


def _engine(known: Mapping[str, Any]) -> EngineView:
    """What it says of itself; an engine of another version may say less."""
    slots, session = known.get("slots") or {}, known.get("session") or {}
    return EngineView(
        pid=known["pid"],
        target=str(known.get("target", "")),
        version=str(known.get("version", "")),
        runs=len(known.get("runs") or ()),
        clients=int(known.get("clients") or 0),
        slots=f"{slots['local_runs']}/{slots['of']}" if {"local_runs", "of"} <= slots.keys() else "",
        session=f"{session['application']} on {session['master']}" if "application" in session else "",
        ui=str(session.get("ui") or ""),
        silent=str(known.get("silent", "")),
    )
