"""Spark's own pages, asked in a thread so that nobody waits for them: masters, workers, drivers as values.

A page that is not there, or answers never, costs the screen nothing: what was known before stays, with the
time since when nothing new is known.
"""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..polling import Poller

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


ASK_S = 3.0
_MOST = 16 << 20
_AT_ONCE = 8
_PIECE = 1 << 16


@dataclass(frozen=True, slots=True)
class PageAnswer:
    """What a page said; `problem` is why it said nothing."""

    body: Any = None
    problem: str = ""


Ask = Callable[[str], PageAnswer]


def ask(url: str) -> PageAnswer:
    """One page; it has a few seconds for all of it."""
    if not url.startswith(("http://", "https://")):
        return PageAnswer(problem="no web address")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=ASK_S) as answer:
            return PageAnswer(json.loads(_read(answer, time.monotonic() + ASK_S)))
    except urllib.error.HTTPError as error:
        error.close()
        return PageAnswer(problem=f"HTTP {error.code}")
    except (OSError, ValueError, RecursionError) as error:
        return PageAnswer(problem=_words(error))


def _read(answer: Any, deadline: float) -> bytes:
    body = bytearray()
    while piece := answer.read1(_PIECE):
        body += piece
        if len(body) > _MOST:
            raise ValueError("it says too much")
        if time.monotonic() > deadline:
            raise TimeoutError("it is too slow")
    return bytes(body)


def _words(error: Exception) -> str:
    reason = getattr(error, "reason", error)
    if isinstance(reason, TimeoutError):
        return "it does not answer"
    if isinstance(reason, OSError) and reason.strerror:
        return reason.strerror
    return "it speaks no JSON" if isinstance(reason, json.JSONDecodeError) else str(reason)


def ask_all(urls: Iterable[str], ask: Ask = ask, *, limit_s: float = 3 * ASK_S) -> dict[str, PageAnswer]:
    """Several pages, a few at a time; those that were not read within the limit are missing.

    The threads are daemons: a program that ends does not wait for the pages of others.
    """
    left = deque(dict.fromkeys(urls))
    found: dict[str, PageAnswer] = {}
    deadline = time.monotonic() + limit_s

    def work() -> None:
        while left and time.monotonic() < deadline:
            try:
                url = left.popleft()
            except IndexError:
                return
            found[url] = ask(url)

    threads = [
        threading.Thread(target=work, name="rankdeck-pages", daemon=True)
        for _ in range(min(len(left), _AT_ONCE))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return dict(found)


LOOK_S = 3.0
_AGAIN_S = 30.0
_PAGE_PORT = 8080
_STANDALONE = "spark://"
_HTTP = "http://"


@dataclass(frozen=True, slots=True)
class KnownSpark:
    """A Spark that is in use or named: its master, that one's pages, and the pages of its applications."""

    url: str
    pages: tuple[str, ...] = ()
    apps: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SparkNow:
    """What a Spark's pages said last. `problem`: why its master's says nothing, since the time `since`."""

    url: str
    page: str = ""
    master: Master | None = None
    own: tuple[OwnExecutor, ...] = ()
    problem: str = ""
    since: float | None = None

    @property
    def standalone(self) -> bool:
        """Whether its master has a page that tells of everybody."""
        return self.url.startswith(_STANDALONE)


class SparkPoller:
    """Asks again and again, while there is anything to ask. `want` and `seen` are for another thread.

    `changed` is called in the thread of the poller when something is different.
    """

    def __init__(
        self, changed: Callable[[], None], *, ask: Ask = ask, clock: Callable[[], float] = time.time
    ) -> None:
        self._changed, self._ask, self._clock = changed, ask, clock
        self._wanted: tuple[KnownSpark, ...] = ()
        self._inside: dict[str, _Inside] = {}
        self.seen: tuple[SparkNow, ...] = ()
        self.poller = Poller[tuple[SparkNow, ...]](
            self.read, self._publish, LOOK_S, name="rankdeck-sparks", last=()
        )

    def want(self, known: tuple[KnownSpark, ...]) -> None:
        """Ask about these from now on; at once if they are others."""
        if known != self._wanted:
            self._wanted = known
            self.poller.nudge()

    def read(self) -> Iterable[tuple[SparkNow, ...]]:
        """What every page says now: each is asked once."""
        before = {spark.url: spark for spark in self.seen}
        return (tuple(self._now(known, before.get(known.url)) for known in self._wanted),)

    def _publish(self, found: tuple[SparkNow, ...]) -> None:
        self.seen = found
        self._changed()

    def _now(self, known: KnownSpark, before: SparkNow | None) -> SparkNow:
        spark = before or SparkNow(known.url)
        if spark.standalone:
            spark = self._ask_master(known, spark)
        return replace(spark, own=self._own(known))

    def _ask_master(self, known: KnownSpark, spark: SparkNow) -> SparkNow:
        answers = self._all(f"{page}/json/" for page in (*known.pages, *guesses(known)))
        rules, problem = ruling(known, answers)
        if rules is None:
            since = spark.since if spark.problem else self._clock()
            return replace(spark, problem=problem, since=since)
        page, master = rules
        return replace(spark, page=page, master=self._look_inside(master), problem="", since=None)

    def _look_inside(self, master: Master) -> Master:
        """Ask the workers for their executors, where something about them has changed."""
        now, apps = self._clock(), tuple(app.number for app in master.apps)
        due = {w.number: w for w in master.workers if w.alive and w.page and self._is_due(w, apps, now)}
        answers = self._all(f"{worker.page}/json/" for worker in due.values())
        for number, worker in due.items():
            answer = answers.get(f"{worker.page}/json/")
            told = read_executors(answer.body) if answer is not None else None
            self._inside[number] = _Inside(_usage(worker), apps, now, told)
        known = {number: i.executors for number, i in self._inside.items() if i.executors is not None}
        return with_executors(master, known)

    def _is_due(self, worker: Worker, apps: tuple[str, ...], now: float) -> bool:
        known = self._inside.get(worker.number)
        if known is None or (known.usage, known.apps) != (_usage(worker), apps):
            return True
        return known.executors is None and now - known.asked >= _AGAIN_S

    def _own(self, known: KnownSpark) -> tuple[OwnExecutor, ...]:
        if known.url.startswith("local["):
            return ()
        urls = {app: f"{ui}/api/v1/applications/{app}/executors" for app, ui in known.apps.items() if ui}
        answers = self._all(urls.values())
        found = (read_own(app, answers[url].body) for app, url in urls.items() if url in answers)
        return tuple(executor for executors in found for executor in executors)

    def _all(self, urls: Iterable[str]) -> dict[str, PageAnswer]:
        return ask_all(urls, self._ask)


@dataclass(frozen=True, slots=True)
class _Inside:
    """What a worker's page said, and how things stood when it was asked."""

    usage: tuple[object, ...]
    apps: tuple[str, ...]
    asked: float
    executors: tuple[Executor, ...] | None


def _usage(worker: Worker) -> tuple[object, ...]:
    return (worker.cores_free, worker.memory_free, worker.free)


def guesses(known: KnownSpark) -> list[str]:
    """Where a master's page is usually, if nobody has said where it is."""
    hosts = [part.rpartition(":")[0] for part in known.url.removeprefix(_STANDALONE).split(",")]
    return [] if known.pages else [f"{_HTTP}{host}:{_PAGE_PORT}" for host in hosts if host]


def ruling(known: KnownSpark, answers: Mapping[str, PageAnswer]) -> tuple[tuple[str, Master] | None, str]:
    """The page of the master that rules, and what it says; or why there is none."""
    problems, stands_by = [], False
    for url, answer in answers.items():
        page = url.removesuffix("/json/")
        master = read_master(answer.body)
        if master is None:
            problems.append(f"{page}: {answer.problem or 'it is no master'}")
        elif page not in known.pages and master.url not in known.url:
            problems.append(f"{page} is of {master.url}")
        elif master.alive:
            return (page, master), ""
        else:
            stands_by = True
    if stands_by:
        return None, "no master rules: those that answer stand by"
    return None, "; ".join(problems) or "no page is known"
