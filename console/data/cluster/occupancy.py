"""Who uses which machine and which GPU: rules over what sensors, runs, engines and Spark say. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from launcher.placement.inventory import GpuUse, Machine
from launcher.spec.places import Device
from launcher.state import events as ev
from launcher.state.run_state import Host, Phase, Rank, RankPhase, RunState

from ..run.health import STALE_S
from .model import (
    AppView,
    ClusterView,
    EngineView,
    ExecutorView,
    GpuView,
    Held,
    HostView,
    SparkView,
    Use,
    WorkerView,
    WorkView,
)
from .spark_api import Application, Executor, KnownSpark, OwnExecutor, SparkNow, Worker

_NOT_TOLD = "what else the cluster has is not known here"


def cluster_view(
    machine: Machine,
    runs: Sequence[RunState],
    engines: Iterable[Mapping[str, Any]],
    now: float,
    sparks: Sequence[SparkNow] = (),
) -> ClusterView:
    """This machine and those that live runs or Spark have; `now` in seconds since the epoch."""
    told = list(engines)
    ordered = sorted(runs, key=lambda run: (run.phase is not Phase.WAITING, run.id))
    apps = _Apps(sparks, own_apps(runs, told))
    return ClusterView(
        hosts=tuple(_host(place, machine, apps, now) for place in places(machine.host, runs, sparks)),
        work=tuple(_work(run, now) for run in ordered),
        engines=tuple(map(_engine, told)),
        sparks=tuple(map(_spark, sparks)),
        apps=tuple(app for spark in sparks for app in apps.others(spark)),
    )


def own_apps(runs: Iterable[RunState], engines: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """The applications in which runs or engines of mine are."""
    sessions = (engine.get("session") or {} for engine in engines)
    named = {str(session["application"]) for session in sessions if session.get("application")}
    return frozenset(named | {run.spark.application for run in runs if run.spark is not None})


def known_sparks(
    runs: Iterable[RunState], engines: Iterable[Mapping[str, Any]], named: str = ""
) -> tuple[KnownSpark, ...]:
    """The Sparks to ask about: those of runs and engines, and the one that the environment names."""
    told: list[tuple[str, tuple[str, ...], str, str]] = [(named, (), "", "")] if named else []
    ready = (run.spark for run in runs if run.spark is not None)
    told += [(spark.master, spark.pages, spark.application, spark.ui) for spark in ready]
    sessions = (engine.get("session") or {} for engine in engines)
    told += [_session(session) for session in sessions if session.get("master")]
    found: dict[str, KnownSpark] = {}
    for url, pages, app, ui in told:
        known = found.get(url, KnownSpark(url))
        apps = {**known.apps, app: ui} if app else known.apps
        found[url] = KnownSpark(url, tuple(dict.fromkeys((*known.pages, *pages))), apps)
    return tuple(found.values())


def _session(session: Mapping[str, Any]) -> tuple[str, tuple[str, ...], str, str]:
    app, ui = str(session.get("application") or ""), str(session.get("ui") or "")
    return str(session["master"]), tuple(map(str, session.get("pages") or ())), app, ui


class _Apps:
    """The applications of every Spark, by number."""

    def __init__(self, sparks: Sequence[SparkNow], own: Collection[str]) -> None:
        self._own = own
        masters = [spark.master for spark in sparks if spark.master is not None]
        self._names = {app.number: app.name for master in masters for app in master.apps}

    def executors(self, place: MachineNames) -> tuple[ExecutorView, ...]:
        """Those on a machine: workers tell who has which GPUs, our own drivers how busy executors are."""
        busy = {(own.app, own.number): own for own in place.own}
        listed = [self._view(e.number, e.app, e.gpus) for e in place.executors]
        known = {(executor.app, executor.number) for executor in listed}
        listed += [self._view(o.number, o.app, o.gpus) for key, o in busy.items() if key not in known]
        return tuple(_with_tasks(executor, busy) for executor in listed)

    def _view(self, number: str, app: str, gpus: tuple[str, ...]) -> ExecutorView:
        return ExecutorView(number, app, self._names.get(app, app), app in self._own, gpus=gpus)

    def others(self, spark: SparkNow) -> Iterator[AppView]:
        """The applications that are not mine, those that wait first."""
        master = spark.master
        found = [app for app in master.apps if app.number not in self._own] if master is not None else []
        for app in sorted(found, key=lambda app: (not app.waits, app.number)):
            yield _app(app, spark)


def _with_tasks(executor: ExecutorView, busy: Mapping[tuple[str, str], Any]) -> ExecutorView:
    own = busy.get((executor.app, executor.number))
    return executor if own is None else replace(executor, cores=own.cores, tasks=own.tasks)


def _app(app: Application, spark: SparkNow) -> AppView:
    workers = spark.master.workers if spark.master is not None else ()
    held = [(w.host, e) for w in workers for e in w.executors or () if e.app == app.number]
    told = all(worker.executors is not None for worker in workers if worker.alive)
    return AppView(
        number=app.number,
        name=app.name,
        user=app.user,
        waits=app.waits,
        cores=app.cores,
        gpus=sum(len(executor.gpus) for _, executor in held) if told else None,
        hosts=tuple(dict.fromkeys(host for host, _ in held)),
        started=app.started,
        page=f"{spark.page}/app/?appId={app.number}" if spark.page else "",
    )


def _spark(spark: SparkNow) -> SparkView:
    if spark.master is None:
        note = "" if spark.standalone else _NOT_TOLD
        return SparkView(spark.url, spark.page, spark.problem, spark.since, note)
    alive = [worker for worker in spark.master.workers if worker.alive]
    return SparkView(
        url=spark.url,
        page=spark.page,
        problem=spark.problem,
        since=spark.since,
        workers=len(alive),
        lost=len(spark.master.workers) - len(alive),
        cores=sum(worker.cores for worker in alive),
        cores_free=sum(worker.cores_free for worker in alive),
        gpus=sum(len(worker.gpus) for worker in alive),
        gpus_free=sum(len(worker.free) for worker in alive),
    )


# --- machines --------------------------------------------------------------------------------------


def _host(place: MachineNames, machine: Machine, apps: _Apps, now: float) -> HostView:
    here = place.name == machine.host
    executors = apps.executors(place)
    return HostView(
        host=place.name,
        here=here,
        cores=machine.cores if here else None,
        system=machine.system if here else _system(place),
        gpus=tuple(gpus_of(place, machine.gpus if here else (), executors)),
        held=tuple(held_by(run, ranks) for run, ranks in place.ranks),
        reason=machine.reason if here else "",
        driver=machine.driver if here else "",
        workers=tuple(map(_worker, place.workers)),
        executors=executors,
        silent_s=None if here else _silent(place, now),
        lost=_lost(place),
    )


def _worker(worker: Worker) -> WorkerView:
    return WorkerView(
        state=worker.state,
        alive=worker.alive,
        cores=worker.cores,
        cores_free=worker.cores_free,
        gpus=len(worker.gpus),
        gpus_free=len(worker.free),
        heard=None if worker.alive else worker.heard,
    )


def _system(place: MachineNames) -> ev.HostSample:
    """The newest that an agent on that host said of it."""
    told = [host for _, host in place.agents if host.system is not None]
    newest = max(told, key=lambda host: host.sampled_at or 0.0, default=None)
    return newest.system if newest is not None and newest.system is not None else ev.HostSample()


def _silent(place: MachineNames, now: float) -> int | None:
    """Seconds since any agent there told of itself, if they have and it is long ago."""
    heard = max((host.sampled_at for _, host in place.agents if host.sampled_at is not None), default=None)
    return int(now - heard) if heard is not None and now - heard > STALE_S else None


def _lost(place: MachineNames) -> str:
    if place.workers and not any(worker.alive for worker in place.workers):
        return f"Spark's worker is {place.workers[0].state.lower() or 'lost'}"
    return "its agent is gone" if place.gone and not place.agents else ""


# --- runs and engines ------------------------------------------------------------------------------


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
        size=run.num_processes or run.requested,
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


_TAKEN_BYTES = 1 << 30
_TAKEN_UTIL = 5.0


@dataclass(frozen=True, slots=True)
class _Handed:
    """What Spark says of a GPU: the address it has there, its executor, whether that is unknown though there
    is one, and whether its worker lives.
    """

    address: str
    executor: ExecutorView | None
    taken: bool
    alive: bool

    def means(self, device: Device) -> bool:
        """Whether it is this one: Spark's names for GPUs are numbers or UUIDs, as a worker's script says."""
        return self.address in (str(device.index), device.uuid)


def gpus_of(
    place: MachineNames, own: Sequence[GpuUse], executors: Sequence[ExecutorView]
) -> Iterator[GpuView]:
    """Those that are measured, and those that only Spark tells of."""
    known = {gpu.device.uuid or f"{gpu.device.index}": gpu for gpu in own}
    told = {uuid: gpu for uuid, gpu in _sampled(place) if uuid not in known}
    handed = list(_handed(place, executors))
    found = []
    for gpu in (*known.values(), *told.values()):
        mark = next((mark for mark in handed if mark.means(gpu.device)), None)
        found.append(_gpu(gpu, place, mark))
        handed = [mark for mark in handed if not mark.means(gpu.device)]
    for number, mark in enumerate(handed):
        index = int(mark.address) if mark.address.isdecimal() else number
        device = Device(index, "" if mark.address.isdecimal() else mark.address)
        found.append(_gpu(GpuUse(device, ev.DeviceSample(uuid=device.uuid)), place, mark))
    yield from sorted(found, key=lambda gpu: gpu.device.index)


def _handed(place: MachineNames, executors: Sequence[ExecutorView]) -> Iterator[_Handed]:
    """The GPUs that Spark hands out there; without a master's page, those that our executors were given."""
    holders = {gpu: executor for executor in executors for gpu in executor.gpus}
    for worker in place.workers:
        for address in worker.gpus:
            executor = holders.pop(address, None)
            yield _Handed(address, executor, executor is None and address not in worker.free, worker.alive)
    for address, executor in holders.items():
        yield _Handed(address, executor, taken=False, alive=True)


def _sampled(place: MachineNames) -> Iterator[tuple[str, GpuUse]]:
    """The GPUs that agents on a host told of; those that none has measured yet by their ranks."""
    known = {d.uuid: d for _, ranks in place.ranks for r in ranks for d in r.devices}
    for uuid, device in known.items():
        yield uuid, GpuUse(device, ev.DeviceSample(uuid=uuid, index=device.index))
    for _, host in place.agents:
        for uuid, sample in host.devices.items():
            yield uuid, GpuUse(known.get(uuid) or Device(sample.index or 0, uuid), sample)


def _gpu(gpu: GpuUse, place: MachineNames, mark: _Handed | None) -> GpuView:
    pids = {rank.pid for _, ranks in place.ranks for rank in ranks if rank.pid is not None}
    mine = tuple(h for h in gpu.holders if not pids.isdisjoint((h.pid, *h.ancestors)))
    theirs = {pid for holder in mine for pid in (holder.pid, *holder.ancestors)}
    held = tuple(
        held_by(run, on_it)
        for run, ranks in place.ranks
        if (on_it := [rank for rank in ranks if rank.pid in theirs or _was_given(rank, gpu.device)])
    )
    view = GpuView(
        gpu.device,
        gpu.sample,
        Use.UNKNOWN,
        held,
        tuple(holder for holder in gpu.holders if holder not in mine),
        mine,
        gpu.error,
        address=mark.address if mark is not None else "",
        executor=mark.executor if mark is not None else None,
        lent=mark is not None and mark.taken,
        whole=gpu.whole,
        health=gpu.health,
    )
    return replace(view, use=_use(view, mark))


def held_by(run: RunState, ranks: Sequence[Rank]) -> Held:
    """Some ranks of a run, in one place."""
    numbers, pids = tuple(rank.rank for rank in ranks), tuple(rank.pid for rank in ranks)
    return Held(run.id, run.name or run.id, numbers, pids)


def _was_given(rank: Rank, device: Device) -> bool:
    return any(
        given.uuid == device.uuid if given.uuid and device.uuid else given.index == device.index
        for given in rank.devices
    )


def _use(gpu: GpuView, mark: _Handed | None) -> Use:
    if gpu.held:
        return Use.MINE
    if gpu.foreign:
        return Use.OTHER
    used, util = gpu.sample.memory_used, gpu.sample.util
    unknown = used is None and util is None
    if mark is not None and not mark.alive and unknown:
        return Use.LOST
    if gpu.executor is not None:
        return Use.MINE if gpu.executor.mine else Use.OTHER
    if (mark is not None and mark.taken) or (used or 0) > _TAKEN_BYTES or (util or 0) > _TAKEN_UTIL:
        return Use.TAKEN
    return Use.UNKNOWN if unknown and mark is None else Use.FREE


_HERE = ("localhost", "127.0.0.1", "::1")


@dataclass(slots=True)
class MachineNames:
    """One machine, and everything that is known to be there."""

    name: str
    agents: list[tuple[RunState, Host]] = field(default_factory=list)
    ranks: list[tuple[RunState, list[Rank]]] = field(default_factory=list)
    workers: list[Worker] = field(default_factory=list)
    own: list[OwnExecutor] = field(default_factory=list)
    gone: bool = False

    @property
    def executors(self) -> list[Executor]:
        """Those of its live workers."""
        return [executor for worker in self.workers if worker.alive for executor in worker.executors or ()]


def places(here: str, runs: Sequence[RunState], sparks: Sequence[SparkNow]) -> list[MachineNames]:
    """This machine, then those of live runs' agents, then those that only Spark knows."""
    found = {here: MachineNames(here)}
    for run in runs:
        _add_run(found, run)
    names = _Names(here, runs)
    for spark in sparks:
        for worker in spark.master.workers if spark.master is not None else ():
            _at(found, names.of(worker.host or worker.number)).workers.append(worker)
        for executor in spark.own:
            _at(found, names.of(executor.host or executor.number)).own.append(executor)
    return list(found.values())


def _at(found: dict[str, MachineNames], name: str) -> MachineNames:
    return found.setdefault(name, MachineNames(name))


def _add_run(found: dict[str, MachineNames], run: RunState) -> None:
    for host in run.hosts.values():
        if host.present:
            _at(found, host.host).agents.append((run, host))
    alive: dict[str, list[Rank]] = {}
    for rank in run.ranks:
        if not rank.phase.ended:
            alive.setdefault(rank.host, []).append(rank)
        elif rank.phase is RankPhase.LOST and rank.host:
            _at(found, rank.host).gone = True
    for name, ranks in alive.items():
        if name in found:
            found[name].ranks.append((run, ranks))


class _Names:
    """From what Spark calls a machine to what it is called here."""

    def __init__(self, here: str, runs: Sequence[RunState]) -> None:
        hosts = [host for run in runs for host in run.hosts.values() if host.present]
        self._known = {host.host for host in hosts} | {here}
        self._by_address: dict[str, str] = {h.address: h.host for h in hosts if h.address not in ("", *_HERE)}
        self._by_address |= dict.fromkeys((name for name in _HERE if name not in self._known), here)
        self._by_short = _unique({name: _short(name) for name in self._known})

    def of(self, name: str) -> str:
        if name in self._known:
            return name
        return self._by_address.get(name) or self._by_short.get(_short(name), name)


def _short(name: str) -> str:
    """A name without its domain; an address has none."""
    return name if name.replace(".", "").isdecimal() or ":" in name else name.partition(".")[0]


def _unique(short: Mapping[str, str]) -> dict[str, str]:
    """From short names to whole ones, where only one is meant."""
    names = list(short.values())
    return {brief: name for name, brief in short.items() if names.count(brief) == 1}
