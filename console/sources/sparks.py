"""The Sparks that runs and engines use, by their own pages, asked in a thread so that nobody waits for them.

A page that is not there, or answers never, costs the screen nothing: what was known before stays, with the
time since when nothing new is known.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from console.sources import pages
from console.sources.pages import Answer, Ask
from console.sources.spark_json import (
    Executor,
    Master,
    OwnExecutor,
    Worker,
    read_executors,
    read_master,
    read_own,
    with_executors,
)
from console.sources.watch import Watch

LOOK_S = 3.0
_AGAIN_S = 30.0
_PAGE_PORT = 8080
_STANDALONE = "spark://"
_HTTP = "http://"


@dataclass(frozen=True, slots=True)
class Known:
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


class Sparks:
    """Asks again and again, while there is anything to ask. `want` and `seen` are for another thread.

    `changed` is called in this object's thread when something is different.
    """

    def __init__(
        self, changed: Callable[[], None], *, ask: Ask = pages.ask, clock: Callable[[], float] = time.time
    ) -> None:
        self._changed, self._ask, self._clock = changed, ask, clock
        self._wanted: tuple[Known, ...] = ()
        self._inside: dict[str, _Inside] = {}
        self.seen: tuple[SparkNow, ...] = ()
        self.watch = Watch(self.look, LOOK_S, name="rankdeck-sparks")

    def want(self, known: tuple[Known, ...]) -> None:
        """Ask about these from now on; at once if they are others."""
        if known != self._wanted:
            self._wanted = known
            self.watch.nudge()

    def look(self) -> None:
        """Ask every page once."""
        before = {spark.url: spark for spark in self.seen}
        found = tuple(self._now(known, before.get(known.url)) for known in self._wanted)
        if found != self.seen:
            self.seen = found
            self._changed()

    def _now(self, known: Known, before: SparkNow | None) -> SparkNow:
        spark = before or SparkNow(known.url)
        if spark.standalone:
            spark = self._ask_master(known, spark)
        return replace(spark, own=self._own(known))

    def _ask_master(self, known: Known, spark: SparkNow) -> SparkNow:
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

    def _own(self, known: Known) -> tuple[OwnExecutor, ...]:
        if known.url.startswith("local["):
            return ()
        urls = {app: f"{ui}/api/v1/applications/{app}/executors" for app, ui in known.apps.items() if ui}
        answers = self._all(urls.values())
        found = (read_own(app, answers[url].body) for app, url in urls.items() if url in answers)
        return tuple(executor for executors in found for executor in executors)

    def _all(self, urls: Iterable[str]) -> dict[str, Answer]:
        return pages.ask_all(urls, self._ask)


@dataclass(frozen=True, slots=True)
class _Inside:
    """What a worker's page said, and how things stood when it was asked."""

    usage: tuple[object, ...]
    apps: tuple[str, ...]
    asked: float
    executors: tuple[Executor, ...] | None


def _usage(worker: Worker) -> tuple[object, ...]:
    return (worker.cores_free, worker.memory_free, worker.free)


def guesses(known: Known) -> list[str]:
    """Where a master's page is usually, if nobody has said where it is."""
    hosts = [part.rpartition(":")[0] for part in known.url.removeprefix(_STANDALONE).split(",")]
    return [] if known.pages else [f"{_HTTP}{host}:{_PAGE_PORT}" for host in hosts if host]


def ruling(known: Known, answers: Mapping[str, Answer]) -> tuple[tuple[str, Master] | None, str]:
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
