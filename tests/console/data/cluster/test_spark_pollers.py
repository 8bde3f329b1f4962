"""Spark's pages are asked, briefly and seldom; what is silent is said, with the time since when."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from console.data.cluster import spark_api
from console.data.cluster.spark_api import KnownSpark, PageAnswer, SparkPoller, ask_all, default_pages
from tests.console.data.cluster.test_spark_json import APP, PAGE, resources, worker

MASTER = "spark://m:7077"
KNOWN = KnownSpark(MASTER, ("http://m:1",))


@dataclass
class Web:
    """Pages that a test changes, and how often each was asked for."""

    pages: dict[str, Any] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)
    now: float = 100.0

    def ask(self, url: str) -> PageAnswer:
        self.asked[url] += 1
        return PageAnswer(self.pages[url]) if url in self.pages else PageAnswer(problem="refused")

    def clock(self) -> float:
        return self.now


def sparks(web: Web, *known: KnownSpark) -> SparkPoller:
    made = SparkPoller(lambda: None, ask=web.ask, clock=web.clock)
    made.watch(known)
    return made


def test_a_master_and_its_workers_tell_who_has_what() -> None:
    inside = {"executors": [{"id": 0, "appid": "app-1", "resources": resources("0")}]}
    web = Web({"http://m:1/json/": PAGE, "http://gpu-1:8081/json/": inside})
    asked = sparks(web, KNOWN)
    asked.poller.look()
    (spark,) = asked.seen

    assert spark.master is not None
    assert ("http://m:1", "", None) == (spark.page, spark.problem, spark.since)
    assert ("app-1", ("0",)) == ((e := spark.master.workers[0].executors or ())[0].app, e[0].gpus)


def test_workers_are_asked_only_when_something_about_them_has_changed() -> None:
    url = "http://gpu-1:8081/json/"
    web = Web({"http://m:1/json/": PAGE, url: {"executors": []}})
    asked = sparks(web, KNOWN)
    for _ in range(5):
        asked.poller.look()
    assert (5, 1) == (web.asked["http://m:1/json/"], web.asked[url])

    web.pages["http://m:1/json/"] = {**PAGE, "workers": [worker(coresfree=1)]}
    asked.poller.look()
    asked.poller.look()
    web.pages["http://m:1/json/"] = {
        **PAGE,
        "workers": [worker(coresfree=1)],
        "activeapps": [{**APP, "id": "app-2"}],
    }
    asked.poller.look()
    assert 3 == web.asked[url]


def test_a_worker_that_does_not_answer_is_asked_again_only_after_a_while() -> None:
    web = Web({"http://m:1/json/": PAGE})
    asked = sparks(web, KNOWN)
    for second in range(40):
        web.now = 100.0 + second
        asked.poller.look()

    assert 2 == web.asked["http://gpu-1:8081/json/"]
    assert asked.seen[0].master is not None
    assert asked.seen[0].master.workers[0].executors is None


def test_a_silent_master_is_said_with_the_time_and_what_was_known_stays() -> None:
    web = Web({"http://m:1/json/": PAGE})
    asked = sparks(web, KNOWN)
    asked.poller.look()
    web.pages.clear()
    for second in (7.0, 9.0):
        web.now = second
        asked.poller.look()
    (silent,) = asked.seen
    assert ("http://m:1: refused", 7.0) == (silent.problem, silent.since)
    assert silent.master is not None

    web.pages["http://m:1/json/"] = PAGE
    asked.poller.look()
    assert ("", None) == (asked.seen[0].problem, asked.seen[0].since)


def test_of_several_masters_the_one_that_rules_is_believed() -> None:
    standby = {**PAGE, "status": "STANDBY", "workers": []}
    web = Web({"http://a:1/json/": standby, "http://b:1/json/": PAGE})
    known = KnownSpark("spark://a:7077,b:7077", ("http://a:1", "http://b:1"))
    asked = sparks(web, known)
    asked.poller.look()
    assert "http://b:1" == asked.seen[0].page

    del web.pages["http://b:1/json/"]
    asked.poller.look()
    assert "no master is active" in asked.seen[0].problem


def test_a_page_that_is_only_guessed_must_be_of_that_master() -> None:
    known = KnownSpark(MASTER)
    assert ["http://m:8080"] == default_pages(known)
    web = Web({"http://m:8080/json/": {**PAGE, "url": "spark://another:7077"}})
    asked = sparks(web, known)
    asked.poller.look()
    assert "http://m:8080 is of spark://another:7077" == asked.seen[0].problem

    web.pages["http://m:8080/json/"] = PAGE
    asked.poller.look()
    assert "" == asked.seen[0].problem


def test_executors_of_ours_come_from_their_drivers_where_there_is_no_master() -> None:
    entry = {"id": "1", "hostPort": "h:4", "isActive": True, "totalCores": 2, "activeTasks": 2}
    web = Web({"http://d:4040/api/v1/applications/app-9/executors": [entry]})
    asked = sparks(web, KnownSpark("yarn", (), {"app-9": "http://d:4040", "app-8": ""}))
    asked.poller.look()

    assert [("app-9", "h", 2)] == [(own.app, own.host, own.tasks) for own in asked.seen[0].own]
    assert "" == asked.seen[0].problem


def test_only_what_differs_is_told() -> None:
    told: list[None] = []
    web = Web({"http://m:1/json/": PAGE})
    asked = SparkPoller(lambda: told.append(None), ask=web.ask, clock=web.clock)
    asked.watch((KNOWN,))
    for _ in range(3):
        asked.poller.look()
    assert 1 == len(told)

    asked.watch(())
    asked.poller.look()
    assert (2, ()) == (len(told), asked.seen)


# --- the web itself --------------------------------------------------------------------------------


class Naughty(BaseHTTPRequestHandler):
    """Answers in ways that a page should not."""

    def do_GET(self) -> None:
        name = self.path.strip("/")
        if name == "gone":
            self.send_error(404)
            return
        self.send_response(302 if name == "away" else 200)
        if name == "away":
            self.send_header("Location", "file:///etc/passwd")
        self.end_headers()
        if name == "good":
            self.wfile.write(b'{"a": 1}')
        elif name == "text":
            self.wfile.write(b"<html>")
        elif name == "deep":
            self.wfile.write(b"[" * 200_000)
        elif name == "endless":
            self._drip(b"1" * (1 << 20))
        elif name == "slow":
            self.server.stopping.wait(30)  # type: ignore[attr-defined]

    def _drip(self, piece: bytes) -> None:
        try:
            while True:
                self.wfile.write(piece)
        except OSError:
            return

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setattr(spark_api, "ASK_S", 1.0)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Naughty)
    server.stopping = threading.Event()  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.stopping.set()  # type: ignore[attr-defined]
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_page_is_read(site: str) -> None:
    assert PageAnswer({"a": 1}) == spark_api.ask(f"{site}/good")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("gone", "HTTP 404"),
        ("text", "not JSON"),
        ("deep", ""),
        ("endless", ""),
        ("slow", "does not answer"),
        ("away", ""),
    ],
)
def test_a_page_that_misbehaves_says_nothing_and_holds_nobody_up(site: str, name: str, why: str) -> None:
    answer = spark_api.ask(f"{site}/{name}")

    assert answer.body is None
    assert answer.problem
    assert why in answer.problem


@pytest.mark.parametrize("url", ["file:///etc/hostname", "ftp://h/x", "", "http://127.0.0.1:1/", "http://[/"])
def test_where_there_is_no_page_that_is_said(url: str) -> None:
    assert spark_api.ask(url).problem


def test_one_page_that_never_answers_does_not_hold_back_the_others() -> None:
    never = threading.Event()

    def ask(url: str) -> PageAnswer:
        if url == "never":
            never.wait(60)
        return PageAnswer(url)

    urls = ["never", *map(str, range(40))]
    found = ask_all(urls, ask, limit_s=2.0)
    never.set()

    assert set(urls) - {"never"} == found.keys()
