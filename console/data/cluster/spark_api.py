"""Reading the JSON pages of Spark's masters, workers and drivers, in threads.

A missing page, or one that never answers, does not delay the screen: the last known values stay, with the
time since when the page has not answered.
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
_MAX_TEXT = 200
_MAX_MILLISECONDS = 1 << 50


@dataclass(frozen=True, slots=True)
class Executor:
    """One executor on a worker: its application, and its GPUs of the worker."""

    number: str
    app: str
    gpus: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OwnExecutor:
    """An executor of one of our applications, by its driver's pages."""

    app: str
    number: str
    host: str
    cores: int
    tasks: int
    gpus: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Worker:
    """One worker and its resources, as Spark counts them. `executors` is None while unknown.

    `gpus` are the addresses of its GPUs, `free` those that no executor has; `heard` is the time of its last
    heartbeat, in seconds since the epoch.
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
        """Whether the master counts it as alive."""
        return self.state == ALIVE


@dataclass(frozen=True, slots=True)
class Application:
    """One application of a master: its user, its state and its resources."""

    number: str
    name: str
    user: str
    state: str
    cores: int = 0
    gpus_each: int = 0
    started: float | None = None

    @property
    def waits(self) -> bool:
        """Whether it waits for its first executor."""
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
        """Whether it is the leading master; others stand by."""
        return self.state == ALIVE


def read_master(body: object) -> Master | None:
    """Parse a master's page; None if it is not one."""
    if not isinstance(body, dict) or not isinstance(body.get("workers"), list):
        return None
    return Master(
        url=_text(body.get("url")),
        state=_text(body.get("status")) or ALIVE,
        workers=_newest(_worker(entry) for entry in _tables(body["workers"])),
        apps=tuple(_application(entry) for entry in _tables(body.get("activeapps"))),
    )


def read_executors(body: object) -> tuple[Executor, ...] | None:
    """The executors on a worker's page; None if it is not a worker's page."""
    if not isinstance(body, dict) or not isinstance(body.get("executors"), list):
        return None
    return tuple(
        Executor(_text(entry.get("id")), _text(entry.get("appid")), _gpus(entry.get("resources")))
        for entry in _tables(body["executors"])
    )


def read_own(app: str, body: object) -> Sequence[OwnExecutor]:
    """The live executors on a page of an application's driver; none if it is not such a page."""
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
    """The master, with the executors of its workers; `known` maps workers' numbers to executors."""
    workers = (replace(worker, executors=known.get(worker.number)) for worker in master.workers)
    return replace(master, workers=tuple(workers))


def _newest(workers: Iterable[Worker]) -> tuple[Worker, ...]:
    """The live workers, and of hosts without one the last dead worker: masters list all earlier ones too."""
    listed = list(workers)
    alive = {worker.host for worker in listed if worker.alive}
    dead = {w.host: w for w in sorted(listed, key=lambda w: w.number) if w.host not in alive}
    current = [worker for worker in listed if worker.alive] + list(dead.values())
    return tuple(sorted(current, key=lambda worker: (worker.host, worker.number)))


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
    """The addresses of the GPUs in a table of resources."""
    entry = resources.get("gpu") if isinstance(resources, dict) else None
    addresses = entry.get("addresses") if isinstance(entry, dict) else None
    return tuple(map(_text, addresses)) if isinstance(addresses, list) else ()


def _tables(entries: object) -> Sequence[Mapping[str, Any]]:
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _text(value: object) -> str:
    return str(value)[:_MAX_TEXT] if isinstance(value, str | int) else ""


def _seconds(milliseconds: object) -> float | None:
    return (
        milliseconds / 1000
        if isinstance(milliseconds, int) and 0 < milliseconds < _MAX_MILLISECONDS
        else None
    )


def _count(value: object) -> int:
    return value if isinstance(value, int) and value > 0 else 0


ASK_S = 3.0
_MAX_BYTES = 16 << 20
_THREADS = 8
_PIECE = 1 << 16


@dataclass(frozen=True, slots=True)
class PageAnswer:
    """The JSON of a page; or `problem`, why there is none."""

    body: Any = None
    problem: str = ""


Ask = Callable[[str], PageAnswer]


def ask(url: str) -> PageAnswer:
    """Read one page, within `ASK_S` seconds for the connection and again for the body."""
    if not url.startswith(("http://", "https://")):
        return PageAnswer(problem="not a web address")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=ASK_S) as answer:
            return PageAnswer(json.loads(_read(answer, time.monotonic() + ASK_S)))
    except urllib.error.HTTPError as error:
        error.close()
        return PageAnswer(problem=f"HTTP {error.code}")
    except (OSError, ValueError, RecursionError) as error:
        return PageAnswer(problem=_reason(error))


def _read(answer: Any, deadline: float) -> bytes:
    body = bytearray()
    while piece := answer.read1(_PIECE):
        body += piece
        if len(body) > _MAX_BYTES:
            raise ValueError("the page is too large")
        if time.monotonic() > deadline:
            raise TimeoutError("it is too slow")
    return bytes(body)


def _reason(error: Exception) -> str:
    reason = getattr(error, "reason", error)
    if isinstance(reason, TimeoutError):
        return "it does not answer"
    if isinstance(reason, OSError) and reason.strerror:
        return reason.strerror
    return "it is not JSON" if isinstance(reason, json.JSONDecodeError) else str(reason)


def ask_all(urls: Iterable[str], ask: Ask = ask, *, limit_s: float = 3 * ASK_S) -> dict[str, PageAnswer]:
    """Read several pages, a few at a time; pages that were not read within the limit are absent.

    The threads are daemons, so that a program that ends does not wait for the pages.
    """
    pending = deque(dict.fromkeys(urls))
    answers: dict[str, PageAnswer] = {}
    deadline = time.monotonic() + limit_s

    def work() -> None:
        while pending and time.monotonic() < deadline:
            try:
                url = pending.popleft()
            except IndexError:
                return
            answers[url] = ask(url)

    threads = [
        threading.Thread(target=work, name="rankdeck-pages", daemon=True)
        for _ in range(min(len(pending), _THREADS))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return dict(answers)


LOOK_S = 3.0
_AGAIN_S = 30.0
_PAGE_PORT = 8080
_STANDALONE = "spark://"
_HTTP = "http://"


@dataclass(frozen=True, slots=True)
class KnownSpark:
    """A Spark that is in use or configured: its master's URL and pages, and its applications' pages by id."""

    url: str
    pages: tuple[str, ...] = ()
    apps: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SparkNow:
    """The last data of a Spark's pages. `problem`: why its master has not answered since the time `since`."""

    url: str
    page: str = ""
    master: Master | None = None
    own: tuple[OwnExecutor, ...] = ()
    problem: str = ""
    since: float | None = None

    @property
    def standalone(self) -> bool:
        """Whether it is a standalone cluster, whose master's page lists all workers and applications."""
        return self.url.startswith(_STANDALONE)


class SparkPoller:
    """Polls the pages of the watched Sparks. `watch` and `seen` are for another thread.

    `changed` is called in the poller's thread when something has changed.
    """

    def __init__(
        self, changed: Callable[[], None], *, ask: Ask = ask, clock: Callable[[], float] = time.time
    ) -> None:
        self._changed, self._ask, self._clock = changed, ask, clock
        self._watched: tuple[KnownSpark, ...] = ()
        self._worker_pages: dict[str, _WorkerPage] = {}
        self.seen: tuple[SparkNow, ...] = ()
        self.poller = Poller[tuple[SparkNow, ...]](
            self.read, self._publish, LOOK_S, name="rankdeck-sparks", last=()
        )

    def watch(self, known: tuple[KnownSpark, ...]) -> None:
        """Poll these Sparks from now on; at once if they have changed."""
        if known != self._watched:
            self._watched = known
            self.poller.nudge()

    def read(self) -> Iterable[tuple[SparkNow, ...]]:
        """Read the pages of every watched Spark once."""
        before = {spark.url: spark for spark in self.seen}
        return (tuple(self._now(known, before.get(known.url)) for known in self._watched),)

    def _publish(self, sparks: tuple[SparkNow, ...]) -> None:
        self.seen = sparks
        self._changed()

    def _now(self, known: KnownSpark, before: SparkNow | None) -> SparkNow:
        spark = before or SparkNow(known.url)
        if spark.standalone:
            spark = self._ask_master(known, spark)
        return replace(spark, own=self._own(known))

    def _ask_master(self, known: KnownSpark, spark: SparkNow) -> SparkNow:
        answers = self._all(f"{page}/json/" for page in (*known.pages, *default_pages(known)))
        leading, problem = leading_master(known, answers)
        if leading is None:
            since = spark.since if spark.problem else self._clock()
            return replace(spark, problem=problem, since=since)
        page, master = leading
        return replace(spark, page=page, master=self._ask_workers(master), problem="", since=None)

    def _ask_workers(self, master: Master) -> Master:
        """Add the executors of its workers; only the pages of workers that have changed are read."""
        now, apps = self._clock(), tuple(app.number for app in master.apps)
        due = {w.number: w for w in master.workers if w.alive and w.page and self._is_due(w, apps, now)}
        answers = self._all(f"{worker.page}/json/" for worker in due.values())
        for number, worker in due.items():
            answer = answers.get(f"{worker.page}/json/")
            executors = read_executors(answer.body) if answer is not None else None
            self._worker_pages[number] = _WorkerPage(_usage(worker), apps, now, executors)
        pages = self._worker_pages.items()
        return with_executors(master, {n: page.executors for n, page in pages if page.executors is not None})

    def _is_due(self, worker: Worker, apps: tuple[str, ...], now: float) -> bool:
        last = self._worker_pages.get(worker.number)
        if last is None or (last.usage, last.apps) != (_usage(worker), apps):
            return True
        return last.executors is None and now - last.asked >= _AGAIN_S

    def _own(self, known: KnownSpark) -> tuple[OwnExecutor, ...]:
        if known.url.startswith("local["):
            return ()
        urls = {app: f"{ui}/api/v1/applications/{app}/executors" for app, ui in known.apps.items() if ui}
        answers = self._all(urls.values())
        own = (read_own(app, answers[url].body) for app, url in urls.items() if url in answers)
        return tuple(executor for executors in own for executor in executors)

    def _all(self, urls: Iterable[str]) -> dict[str, PageAnswer]:
        return ask_all(urls, self._ask)


@dataclass(frozen=True, slots=True)
class _WorkerPage:
    """The executors on a worker's page, and the worker's usage and the applications when it was read."""

    usage: tuple[object, ...]
    apps: tuple[str, ...]
    asked: float
    executors: tuple[Executor, ...] | None


def _usage(worker: Worker) -> tuple[object, ...]:
    return (worker.cores_free, worker.memory_free, worker.free)


def default_pages(known: KnownSpark) -> list[str]:
    """The default addresses of a master's page, if no page is known."""
    hosts = [part.rpartition(":")[0] for part in known.url.removeprefix(_STANDALONE).split(",")]
    return [] if known.pages else [f"{_HTTP}{host}:{_PAGE_PORT}" for host in hosts if host]


def leading_master(
    known: KnownSpark, answers: Mapping[str, PageAnswer]
) -> tuple[tuple[str, Master] | None, str]:
    """The page and data of the leading master; or None and the reason."""
    problems, standby = [], False
    for url, answer in answers.items():
        page = url.removesuffix("/json/")
        master = read_master(answer.body)
        if master is None:
            problems.append(f"{page}: {answer.problem or 'it is not a master'}")
        elif page not in known.pages and master.url not in known.url:
            problems.append(f"{page} is of {master.url}")
        elif master.alive:
            return (page, master), ""
        else:
            standby = True
    if standby:
        return None, "no master is active: those that answer are standby"
    return None, "; ".join(problems) or "no page is known"
