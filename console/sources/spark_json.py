"""What Spark says on the pages of masters, workers and drivers, as values. Pure, and wary of all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

ALIVE = "ALIVE"
_LONG = 200
_FAR = 1 << 50


@dataclass(frozen=True, slots=True)
class Executor:
    """One executor on a worker: of which application, and with which of the worker's GPUs."""

    number: str
    app: str
    gpus: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OwnExecutor:
    """An executor of an application of ours, by the pages of its driver."""

    app: str
    number: str
    host: str
    cores: int
    tasks: int
    gpus: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Worker:
    """One worker: what it has to give, by Spark's own counting. `executors` is None while that is not known.

    `gpus` are the addresses that it was given to hand out, `free` those that nobody holds; `heard` is when
    the master last heard from it, in seconds since the epoch.
    """

    number: str
    host: str
    state: str
    cores: int = 0
    cores_free: int = 0
    memory: int = 0
    memory_free: int = 0
    gpus: tuple[str, ...] = ()
    free: tuple[str, ...] = ()
    page: str = ""
    heard: float | None = None
    executors: tuple[Executor, ...] | None = None

    @property
    def alive(self) -> bool:
        """Whether the master hears from it."""
        return self.state == ALIVE


@dataclass(frozen=True, slots=True)
class Application:
    """One application that a master has: whose, in which state, and what it holds."""

    number: str
    name: str
    user: str
    state: str
    cores: int = 0
    gpus_each: int = 0
    started: float | None = None

    @property
    def waits(self) -> bool:
        """Whether it has got nothing yet."""
        return self.state == "WAITING"


@dataclass(frozen=True, slots=True)
class Master:
    """A master's page at one moment."""

    url: str
    state: str
    workers: tuple[Worker, ...] = ()
    apps: tuple[Application, ...] = ()

    @property
    def alive(self) -> bool:
        """Whether it is the one that rules; others stand by."""
        return self.state == ALIVE


def read_master(body: object) -> Master | None:
    """What a master's page says; None if it is no master's."""
    if not isinstance(body, dict) or not isinstance(body.get("workers"), list):
        return None
    return Master(
        url=_text(body.get("url")),
        state=_text(body.get("status")) or ALIVE,
        workers=_newest(_worker(entry) for entry in _tables(body["workers"])),
        apps=tuple(_application(entry) for entry in _tables(body.get("activeapps"))),
    )


def read_executors(body: object) -> tuple[Executor, ...] | None:
    """The executors on a worker's page; None if it is no worker's."""
    if not isinstance(body, dict) or not isinstance(body.get("executors"), list):
        return None
    return tuple(
        Executor(_text(entry.get("id")), _text(entry.get("appid")), _gpus(entry.get("resources")))
        for entry in _tables(body["executors"])
    )


def read_own(app: str, body: object) -> Sequence[OwnExecutor]:
    """The live executors on the pages of an application's driver; none if it is no such page."""
    entries = body if isinstance(body, list) else []
    live = (e for e in entries if isinstance(e, dict) and e.get("isActive") and e.get("id") != "driver")
    return [
        OwnExecutor(
            app,
            _text(entry.get("id")),
            _text(entry.get("hostPort")).rpartition(":")[0].strip("[]"),
            _count(entry.get("totalCores")),
            _count(entry.get("activeTasks")),
            _gpus(entry.get("resources")),
        )
        for entry in live
    ]


def with_executors(master: Master, known: Mapping[str, tuple[Executor, ...]]) -> Master:
    """The master, with what its workers said of their executors."""
    workers = (replace(worker, executors=known.get(worker.number)) for worker in master.workers)
    return replace(master, workers=tuple(workers))


def _newest(workers: Iterable[Worker]) -> tuple[Worker, ...]:
    """One a host and address, for a master remembers the dead beside those that took their place."""
    listed = list(workers)
    alive = {worker.host for worker in listed if worker.alive}
    dead = {w.host: w for w in sorted(listed, key=lambda w: w.number) if w.host not in alive}
    kept = [worker for worker in listed if worker.alive] + list(dead.values())
    return tuple(sorted(kept, key=lambda worker: (worker.host, worker.number)))


def _worker(entry: Mapping[str, Any]) -> Worker:
    return Worker(
        number=_text(entry.get("id")),
        host=_text(entry.get("host")),
        state=_text(entry.get("state")),
        cores=_count(entry.get("cores")),
        cores_free=_count(entry.get("coresfree")),
        memory=_count(entry.get("memory")),
        memory_free=_count(entry.get("memoryfree")),
        gpus=_gpus(entry.get("resources")),
        free=_gpus(entry.get("resourcesfree")),
        page=_text(entry.get("webuiaddress")),
        heard=_seconds(entry.get("lastheartbeat")),
    )


def _application(entry: Mapping[str, Any]) -> Application:
    each = [e for e in _tables(entry.get("resourcesperexecutor")) if e.get("name") == "gpu"]
    return Application(
        number=_text(entry.get("id")),
        name=_text(entry.get("name")),
        user=_text(entry.get("user")),
        state=_text(entry.get("state")),
        cores=_count(entry.get("cores")),
        gpus_each=_count(each[0].get("amount")) if each else 0,
        started=_seconds(entry.get("starttime")),
    )


def _gpus(resources: object) -> tuple[str, ...]:
    """The addresses of GPUs in a table of resources, which maps a name to what has it."""
    entry = resources.get("gpu") if isinstance(resources, dict) else None
    found = entry.get("addresses") if isinstance(entry, dict) else None
    return tuple(map(_text, found)) if isinstance(found, list) else ()


def _tables(entries: object) -> Sequence[Mapping[str, Any]]:
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _text(value: object) -> str:
    return str(value)[:_LONG] if isinstance(value, str | int) else ""


def _seconds(milliseconds: object) -> float | None:
    return milliseconds / 1000 if isinstance(milliseconds, int) and 0 < milliseconds < _FAR else None


def _count(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0
