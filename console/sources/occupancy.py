"""Who uses which machine and which GPU: rules over what sensors, runs, engines and Spark say. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from console.sources.cluster import (
    AppView,
    ClusterView,
    EngineView,
    ExecutorView,
    HostView,
    SparkView,
    WorkerView,
    WorkView,
)
from console.sources.condition import STALE_S
from console.sources.gpu_owners import gpus_of, held_by
from console.sources.places import Place, places
from console.sources.spark_json import Application, Worker
from console.sources.sparks import Known, SparkNow
from launcher import events as ev
from launcher.inventory import Machine
from launcher.state import Phase, RunState

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
) -> tuple[Known, ...]:
    """The Sparks to ask about: those of runs and engines, and the one that the environment names."""
    told: list[tuple[str, tuple[str, ...], str, str]] = [(named, (), "", "")] if named else []
    ready = (run.spark for run in runs if run.spark is not None)
    told += [(spark.master, spark.pages, spark.application, spark.ui) for spark in ready]
    sessions = (engine.get("session") or {} for engine in engines)
    told += [_session(session) for session in sessions if session.get("master")]
    found: dict[str, Known] = {}
    for url, pages, app, ui in told:
        known = found.get(url, Known(url))
        apps = {**known.apps, app: ui} if app else known.apps
        found[url] = Known(url, tuple(dict.fromkeys((*known.pages, *pages))), apps)
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

    def executors(self, place: Place) -> tuple[ExecutorView, ...]:
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
    """The newest that an agent on that host said of it."""
    told = [host for _, host in place.agents if host.system is not None]
    newest = max(told, key=lambda host: host.sampled_at or 0.0, default=None)
    return newest.system if newest is not None and newest.system is not None else ev.HostSample()


def _silent(place: Place, now: float) -> int | None:
    """Seconds since any agent there told of itself, if they have and it is long ago."""
    heard = max((host.sampled_at for _, host in place.agents if host.sampled_at is not None), default=None)
    return int(now - heard) if heard is not None and now - heard > STALE_S else None


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
