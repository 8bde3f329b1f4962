"""Who uses which machine and which GPU, by the data of sensors, runs, engines and Spark. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from launcher.placement.inventory import GpuUse, Machine
from launcher.spec.places import Device
from launcher.state import events as ev
from launcher.state.ranks import Rank, RankPhase
from launcher.state.run_state import Host, Phase, RunState

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

_NO_MASTER_NOTE = "what else the cluster has is not known here"


def cluster_view(
    machine: Machine,
    runs: Sequence[RunState],
    engines: Iterable[Mapping[str, Any]],
    now: float,
    sparks: Sequence[SparkNow] = (),
) -> ClusterView:
    """The view of this machine and those of live runs and Spark; `now` in seconds since the epoch."""
    engines = list(engines)
    ordered = sorted(runs, key=lambda run: (run.phase is not Phase.WAITING, run.id))
    apps = _Apps(sparks, own_apps(runs, engines))
    return ClusterView(
        hosts=tuple(_host(place, machine, apps, now) for place in places(machine.host, runs, sparks)),
        work=tuple(_work(run, now) for run in ordered),
        engines=tuple(map(_engine, engines)),
        sparks=tuple(map(_spark, sparks)),
        apps=tuple(app for spark in sparks for app in apps.others(spark)),
    )


def own_apps(runs: Iterable[RunState], engines: Iterable[Mapping[str, Any]]) -> frozenset[str]:
    """The Spark applications of my runs and engines."""
    sessions = (engine.get("session") or {} for engine in engines)
    of_engines = {str(session["application"]) for session in sessions if session.get("application")}
    return frozenset(of_engines | {run.spark.application for run in runs if run.spark is not None})


def known_sparks(
    runs: Iterable[RunState], engines: Iterable[Mapping[str, Any]], named: str = ""
) -> tuple[KnownSpark, ...]:
    """The Sparks of runs and engines, and the master `named` by the environment."""
    sources: list[tuple[str, tuple[str, ...], str, str]] = [(named, (), "", "")] if named else []
    ready = (run.spark for run in runs if run.spark is not None)
    sources += [(spark.master, spark.pages, spark.application, spark.ui) for spark in ready]
    sessions = (engine.get("session") or {} for engine in engines)
    sources += [_session(session) for session in sessions if session.get("master")]
    by_url: dict[str, KnownSpark] = {}
    for url, pages, app, ui in sources:
        known = by_url.get(url, KnownSpark(url))
        apps = {**known.apps, app: ui} if app else known.apps
        by_url[url] = KnownSpark(url, tuple(dict.fromkeys((*known.pages, *pages))), apps)
    return tuple(by_url.values())


def _session(session: Mapping[str, Any]) -> tuple[str, tuple[str, ...], str, str]:
    app, ui = str(session.get("application") or ""), str(session.get("ui") or "")
    return str(session["master"]), tuple(map(str, session.get("pages") or ())), app, ui


class _Apps:
    """The applications of every Spark, by number."""

    def __init__(self, sparks: Sequence[SparkNow], own: Collection[str]) -> None:
        self._own = own
        masters = [spark.master for spark in sparks if spark.master is not None]
        self._names = {app.number: app.name for master in masters for app in master.apps}

    def executors(self, place: Place) -> tuple[ExecutorView, ...]:
        """The executors on a machine: workers report their GPUs, our own drivers their tasks."""
        own = {(executor.app, executor.number): executor for executor in place.own}
        listed = [self._view(e.number, e.app, e.gpus) for e in place.executors]
        known = {(executor.app, executor.number) for executor in listed}
        listed += [self._view(o.number, o.app, o.gpus) for key, o in own.items() if key not in known]
        return tuple(_with_tasks(executor, own) for executor in listed)

    def _view(self, number: str, app: str, gpus: tuple[str, ...]) -> ExecutorView:
        return ExecutorView(number, app, self._names.get(app, app), app in self._own, gpus=gpus)

    def others(self, spark: SparkNow) -> Iterator[AppView]:
        """The applications that are not mine; waiting ones come first."""
        master = spark.master
        others = [app for app in master.apps if app.number not in self._own] if master is not None else []
        for app in sorted(others, key=lambda app: (not app.waits, app.number)):
            yield _app(app, spark)


def _with_tasks(executor: ExecutorView, own: Mapping[tuple[str, str], OwnExecutor]) -> ExecutorView:
    known = own.get((executor.app, executor.number))
    return executor if known is None else replace(executor, cores=known.cores, tasks=known.tasks)


def _app(app: Application, spark: SparkNow) -> AppView:
    workers = spark.master.workers if spark.master is not None else ()
    held = [(w.host, e) for w in workers for e in w.executors or () if e.app == app.number]
    complete = all(worker.executors is not None for worker in workers if worker.alive)
    return AppView(
        number=app.number,
        name=app.name,
        user=app.user,
        waits=app.waits,
        cores=app.cores,
        gpus=sum(len(executor.gpus) for _, executor in held) if complete else None,
        hosts=tuple(dict.fromkeys(host for host, _ in held)),
        started=app.started,
        page=f"{spark.page}/app/?appId={app.number}" if spark.page else "",
    )


def _spark(spark: SparkNow) -> SparkView:
    if spark.master is None:
        note = "" if spark.standalone else _NO_MASTER_NOTE
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


def _host(place: Place, machine: Machine, apps: _Apps, now: float) -> HostView:
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


def _system(place: Place) -> ev.HostSample:
    """The newest host sample of the agents on a machine."""
    sampled = [host for _, host in place.agents if host.system is not None]
    newest = max(sampled, key=lambda host: host.sampled_at or 0.0, default=None)
    return newest.system if newest is not None and newest.system is not None else ev.HostSample()


def _silent(place: Place, now: float) -> int | None:
    """Seconds since the last sample of any agent on a machine, if that is long ago; else None."""
    last = max((host.sampled_at for _, host in place.agents if host.sampled_at is not None), default=None)
    return int(now - last) if last is not None and now - last > STALE_S else None


def _lost(place: Place) -> str:
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


def _engine(status: Mapping[str, Any]) -> EngineView:
    """An engine's status; that of an engine of another version may have fewer keys."""
    slots, session = status.get("slots") or {}, status.get("session") or {}
    return EngineView(
        pid=status["pid"],
        target=str(status.get("target", "")),
        version=str(status.get("version", "")),
        runs=len(status.get("runs") or ()),
        clients=int(status.get("clients") or 0),
        slots=f"{slots['local_runs']}/{slots['of']}" if {"local_runs", "of"} <= slots.keys() else "",
        session=f"{session['application']} on {session['master']}" if "application" in session else "",
        ui=str(session.get("ui") or ""),
        silent=str(status.get("silent", "")),
    )


_TAKEN_BYTES = 1 << 30
_TAKEN_UTIL = 5.0


@dataclass(frozen=True, slots=True)
class _SparkGpu:
    """A GPU as Spark reports it: its address and the executor that has it.

    `taken`: an executor has it, but it is unknown which; `alive`: its worker is alive.
    """

    address: str
    executor: ExecutorView | None
    taken: bool
    alive: bool

    def matches(self, device: Device) -> bool:
        """Whether it is this device: a worker's discovery script names GPUs by index or UUID."""
        return self.address in (str(device.index), device.uuid)


def gpus_of(place: Place, own: Sequence[GpuUse], executors: Sequence[ExecutorView]) -> Iterator[GpuView]:
    """The GPUs of a machine: those that are measured, and those that only Spark reports."""
    measured = {gpu.device.uuid or f"{gpu.device.index}": gpu for gpu in own}
    sampled = {uuid: gpu for uuid, gpu in _sampled(place) if uuid not in measured}
    unmatched = list(_spark_gpus(place, executors))
    views = []
    for gpu in (*measured.values(), *sampled.values()):
        by_spark = next((each for each in unmatched if each.matches(gpu.device)), None)
        views.append(_gpu(gpu, place, by_spark))
        unmatched = [each for each in unmatched if not each.matches(gpu.device)]
    for number, each in enumerate(unmatched):
        index = int(each.address) if each.address.isdecimal() else number
        device = Device(index, "" if each.address.isdecimal() else each.address)
        views.append(_gpu(GpuUse(device, ev.DeviceSample(uuid=device.uuid)), place, each))
    yield from sorted(views, key=lambda gpu: gpu.device.index)


def _spark_gpus(place: Place, executors: Sequence[ExecutorView]) -> Iterator[_SparkGpu]:
    """The GPUs that Spark schedules on a machine; without a master's page, those of our executors."""
    holders = {gpu: executor for executor in executors for gpu in executor.gpus}
    for worker in place.workers:
        for address in worker.gpus:
            executor = holders.pop(address, None)
            yield _SparkGpu(address, executor, executor is None and address not in worker.free, worker.alive)
    for address, executor in holders.items():
        yield _SparkGpu(address, executor, taken=False, alive=True)


def _sampled(place: Place) -> Iterator[tuple[str, GpuUse]]:
    """The GPUs of a machine's ranks, without figures, then those that its agents have sampled."""
    placed = {d.uuid: d for _, ranks in place.ranks for r in ranks for d in r.devices}
    for uuid, device in placed.items():
        yield uuid, GpuUse(device, ev.DeviceSample(uuid=uuid, index=device.index))
    for _, host in place.agents:
        for uuid, sample in host.devices.items():
            yield uuid, GpuUse(placed.get(uuid) or Device(sample.index or 0, uuid), sample)


def _gpu(gpu: GpuUse, place: Place, by_spark: _SparkGpu | None) -> GpuView:
    pids = {rank.pid for _, ranks in place.ranks for rank in ranks if rank.pid is not None}
    mine = tuple(h for h in gpu.holders if not pids.isdisjoint((h.pid, *h.ancestors)))
    pids_on_it = {pid for holder in mine for pid in (holder.pid, *holder.ancestors)}
    held = tuple(
        held_by(run, on_it)
        for run, ranks in place.ranks
        if (on_it := [rank for rank in ranks if rank.pid in pids_on_it or _has(rank, gpu.device)])
    )
    view = GpuView(
        gpu.device,
        gpu.sample,
        Use.UNKNOWN,
        held,
        tuple(holder for holder in gpu.holders if holder not in mine),
        mine,
        gpu.error,
        address=by_spark.address if by_spark is not None else "",
        executor=by_spark.executor if by_spark is not None else None,
        lent=by_spark is not None and by_spark.taken,
        whole=gpu.whole,
        health=gpu.health,
    )
    return replace(view, use=_use(view, by_spark))


def held_by(run: RunState, ranks: Sequence[Rank]) -> Held:
    """Some ranks of a run, on one machine or GPU."""
    numbers, pids = tuple(rank.rank for rank in ranks), tuple(rank.pid for rank in ranks)
    return Held(run.id, run.name or run.id, numbers, pids)


def _has(rank: Rank, device: Device) -> bool:
    return any(
        own.uuid == device.uuid if own.uuid and device.uuid else own.index == device.index
        for own in rank.devices
    )


def _use(gpu: GpuView, by_spark: _SparkGpu | None) -> Use:
    if gpu.held:
        return Use.MINE
    if gpu.foreign:
        return Use.OTHER
    used, util = gpu.sample.memory_used, gpu.sample.util
    unknown = used is None and util is None
    if by_spark is not None and not by_spark.alive and unknown:
        return Use.LOST
    if gpu.executor is not None:
        return Use.MINE if gpu.executor.mine else Use.OTHER
    lent = by_spark is not None and by_spark.taken
    if lent or (used or 0) > _TAKEN_BYTES or (util or 0) > _TAKEN_UTIL:
        return Use.TAKEN
    return Use.UNKNOWN if unknown and by_spark is None else Use.FREE


_HERE = ("localhost", "127.0.0.1", "::1")


@dataclass(slots=True)
class Place:
    """One machine with its agents, ranks, Spark workers and executors.

    `own` are executors of our own applications; `gone`: ranks there were lost.
    """

    name: str
    agents: list[tuple[RunState, Host]] = field(default_factory=list)
    ranks: list[tuple[RunState, list[Rank]]] = field(default_factory=list)
    workers: list[Worker] = field(default_factory=list)
    own: list[OwnExecutor] = field(default_factory=list)
    gone: bool = False

    @property
    def executors(self) -> list[Executor]:
        """The executors of its live workers."""
        return [executor for worker in self.workers if worker.alive for executor in worker.executors or ()]


def places(here: str, runs: Sequence[RunState], sparks: Sequence[SparkNow]) -> list[Place]:
    """This machine, then those of live runs' agents, then those that only Spark reports."""
    by_name = {here: Place(here)}
    for run in runs:
        _add_run(by_name, run)
    names = _Names(here, runs)
    for spark in sparks:
        for worker in spark.master.workers if spark.master is not None else ():
            _at(by_name, names.of(worker.host or worker.number)).workers.append(worker)
        for executor in spark.own:
            _at(by_name, names.of(executor.host or executor.number)).own.append(executor)
    return list(by_name.values())


def _at(by_name: dict[str, Place], name: str) -> Place:
    return by_name.setdefault(name, Place(name))


def _add_run(by_name: dict[str, Place], run: RunState) -> None:
    for host in run.hosts.values():
        if host.present:
            _at(by_name, host.host).agents.append((run, host))
    alive: dict[str, list[Rank]] = {}
    for rank in run.ranks:
        if not rank.phase.ended:
            alive.setdefault(rank.host, []).append(rank)
        elif rank.phase is RankPhase.LOST and rank.host:
            _at(by_name, rank.host).gone = True
    for name, ranks in alive.items():
        if name in by_name:
            by_name[name].ranks.append((run, ranks))


class _Names:
    """Maps Spark's names of machines to those of runs and this machine."""

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
    """A host name without its domain; an address as it is."""
    return name if name.replace(".", "").isdecimal() or ":" in name else name.partition(".")[0]


def _unique(short: Mapping[str, str]) -> dict[str, str]:
    """From short names to full ones; ambiguous short names are left out."""
    names = list(short.values())
    return {brief: name for name, brief in short.items() if names.count(brief) == 1}
