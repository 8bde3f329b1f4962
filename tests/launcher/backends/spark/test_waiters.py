"""Who waits for what an idle session holds, as a master's pages and the user's records say."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from launcher.backends.spark import pages, records
from launcher.backends.spark.records import Wait
from launcher.backends.spark.waiters import Waiters, submitted_before, waiting_applications

PAGE = "http://m:8080"
MASTER = "spark://m:7077"
OURS = "app-0"


def app(
    number: int, cores: int = 0, state: str = "RUNNING", memory: int = 512, name: str = "nb"
) -> dict[str, Any]:
    return {
        "id": f"app-{number}",
        "name": name,
        "cores": cores,
        "state": state,
        "memoryperexecutor": memory,
        "starttime": number,
    }


def page(*apps: dict[str, Any], memory: int = 2048) -> dict[str, Any]:
    worker = {"state": "ALIVE", "memory": memory}
    return {
        "status": "ALIVE",
        "workers": [worker, {"state": "DEAD", "memory": 9999}],
        "activeapps": list(apps),
    }


@pytest.mark.parametrize(
    ("other", "limit", "waits"),
    [
        (app(1, 0, "WAITING"), None, True),
        (app(1, 2), None, False),  # it takes what it gets
        (app(1, 2), 4, True),
        (app(1, 4), 4, False),
        (app(1, 2, name="rankdeck 2:8"), 8, False),  # it is elastic
        (app(1, 1, name="rankdeck 2:8"), 8, True),
        (app(1, 0), None, False),  # it has had executors, and asks for none
        (app(1, 0, "WAITING", memory=4096), None, False),  # no worker is large enough
        (app(0, 0, "WAITING"), None, False),  # it is the session itself
    ],
)
def test_who_waits(other: dict[str, Any], limit: int | None, waits: bool) -> None:
    assert waits == bool(waiting_applications(page(other), {OURS}, {"app-1": limit}))


def test_without_workers_nobody_can_be_helped() -> None:
    assert waiting_applications({"activeapps": [app(1, 0, "WAITING")]}, set(), {}) == []


def test_whoever_came_before_has_waited_for_longer() -> None:
    early, ours, late = app(1), app(2), app(3)
    state = page(early, ours, late)
    assert submitted_before(state, "app-2", [late, early]) == early
    assert submitted_before(state, "app-2", [late]) is None
    assert submitted_before(state, "app-2", []) is None
    assert submitted_before(page(early), "app-2", [early]) is None  # the master does not know us


@dataclass
class Idle:
    """An idle session."""

    master: str = MASTER
    application: str = OURS
    pages: tuple[str, ...] | None = (PAGE,)
    remote: bool = False
    local: bool = False


class Master:
    """The pages of a master."""

    def __init__(self) -> None:
        self.state: dict[str, Any] | None = page()
        self.limits: dict[str, str] = {}
        self.asked: list[str] = []

    def read(self, url: str) -> str:
        if url == f"{PAGE}/json/":
            return json.dumps(self.state) if self.state else ""
        self.asked.append(url)
        return self.limits.get(url.rpartition("=")[2], "")


@pytest.fixture
def master(monkeypatch: pytest.MonkeyPatch) -> Master:
    made = Master()
    monkeypatch.setattr(pages, "read_text", made.read)
    return made


def cores(text: str, executors: str = "Unlimited (2 granted)") -> str:
    return (
        f"<li><strong>Cores:</strong>\n {text}\n</li><li><strong>Executor Limit: </strong>\n {executors}</li>"
    )


def asked(session: Idle) -> str:
    who: Any = Waiters()
    return str(who(session))


def test_an_application_that_waits_is_named(master: Master) -> None:
    master.state = page(app(0, 4), app(1, 0, "WAITING"))
    assert asked(Idle()) == "application nb (app-1)"
    master.state = page(app(0, 4))
    assert asked(Idle()) == ""


def test_each_applications_limit_is_read_once(master: Master) -> None:
    master.limits = {"app-1": cores("4 (2 granted, 2 left)"), "app-2": cores("Unlimited (2 granted)")}
    who: Any = Waiters()
    master.state = page(app(0, 4), app(1, 4), app(2, 2))
    assert who(Idle()) == ""
    master.state = page(app(0, 4), app(1, 3), app(2, 0))
    assert who(Idle()) == "application nb (app-1)"
    assert [f"{PAGE}/app/?appId=app-{number}" for number in range(3)] == master.asked


@pytest.mark.parametrize(
    "text", ["", "nothing", cores("many (2 granted)"), cores("4 (2 granted, 2 left)", "2 (2 granted)")]
)
def test_a_page_that_shows_no_limit_or_a_dynamic_one_counts_as_none(master: Master, text: str) -> None:
    master.limits = {"app-1": text}
    assert pages.core_limit(PAGE, "app-1") is None


@pytest.mark.parametrize("idle", [Idle(remote=True), Idle(local=True)])
def test_what_holds_no_cores_of_others_stays(master: Master, idle: Idle) -> None:
    master.state = page(app(1, 0, "WAITING"))
    with Wait("run-1", MASTER, "app-1") as wait:
        wait.write()
        assert asked(idle) == ""


def test_a_run_of_the_same_user_is_known_without_pages(master: Master) -> None:
    master.state = None
    assert asked(Idle()) == ""
    with Wait("run-1", MASTER, "app-1") as wait:
        wait.write()
        assert asked(Idle()) == asked(Idle(pages=None)) == "run run-1"


def test_another_idle_session_of_the_same_user_does_not_wait(master: Master) -> None:
    master.state = page(app(0, 2), app(1, 2))
    master.limits = {"app-1": cores("4 (2 granted, 2 left)")}
    records.write_session("app-1", ("run-1",))
    assert asked(Idle()) == "application nb (app-1)"
    records.write_session("app-1", ())
    assert asked(Idle()) == ""
    records.remove_session()


def test_who_has_waited_for_longer(master: Master) -> None:
    master.state = page(app(1, 2), app(2, 2))
    master.limits = {"app-1": cores("4 (2 granted, 2 left)"), "app-2": cores("4 (2 granted, 2 left)")}
    late: Any = Idle(application="app-2")
    early: Any = Idle(application="app-1")
    assert Waiters().older(late) == "application nb (app-1)"
    assert Waiters().older(early) == ""
    master.state = None
    assert Waiters().older(late) == ""
