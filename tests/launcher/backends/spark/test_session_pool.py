"""One Spark session for many runs: made once, kept while it is used, replaced when broken."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from launcher.backends.spark import records
from launcher.backends.spark.records import SessionRecord
from launcher.backends.spark.session_pool import WarmSessions
from launcher.backends.spark.sizing import CoreDemand
from launcher.errors import CannotPlace
from launcher.spec.job import SparkSpec
from tests.commands import until


class FakeSession:
    def __init__(self, limit: int | None = None) -> None:
        self.master, self.application, self.version, self.ui = "local[64]", "app-1", "4", ""
        self.limit = limit
        self.usable, self.closed, self.pages = True, 0, None

    def close(self) -> None:
        self.closed += 1


class Place:
    """A pool with a clock of its own, whose sessions say something when they are made."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.now = folder, 0.0
        self.made: list[FakeSession] = []
        self.asked: list[dict[str, Any]] = []
        self.log = folder / "engine" / "spark.log"
        self.error: Exception | None = None
        self.waiting = ""
        self.pool = WarmSessions(
            self.log, idle_s=10.0, clock=lambda: self.now, make=self.make, who_waits=lambda _: self.waiting
        )

    def make(self, spec: SparkSpec, **around: Any) -> Any:
        self.asked.append(around)
        self.says(f"session {len(self.made)}\n")
        if self.error:
            raise self.error
        self.made.append(FakeSession(around["cores"]))
        return self.made[-1]

    def says(self, text: str) -> None:
        with open(self.log, "a") as file:
            file.write(text)

    def open(self, run: str, slots: int = 2, cores: int = 0, least: int = 0) -> Any:
        (self.folder / run).mkdir(exist_ok=True)
        return self.pool.open(
            SparkSpec(),
            log=self.log_of(run),
            demand=CoreDemand(cores, cores, least) if cores else None,
            app_name="a",
            slots=slots,
            session=None,
            environ={},
            server=False,
            limit_s=1.0,
        )

    def log_of(self, run: str) -> Path:
        return self.folder / run / "spark.log"

    def let_go(self, session: Any, run: str) -> None:
        self.pool.let_go(session, self.log_of(run))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_runs_share_a_session_until_it_is_idle_for_long(place: Place) -> None:
    first, second = place.open("a"), place.open("b")
    assert first is second
    place.let_go(first, "a")
    place.now = 100.0
    place.pool.tend()
    assert 0 == first.closed  # the second run has it still
    place.let_go(second, "b")
    place.now = 109.0
    place.pool.tend()
    assert place.open("c") is first
    place.let_go(first, "c")
    place.now = 119.0
    place.pool.tend()
    assert 1 == first.closed
    assert None is place.pool.describe()
    assert place.open("d") is not first


def test_a_broken_session_is_replaced_and_ends_with_its_last_run(place: Place) -> None:
    old = place.open("a")
    old.usable = False
    new = place.open("b")
    assert new is not old
    assert 0 == old.closed
    place.let_go(old, "a")
    assert (1, 0) == (old.closed, new.closed)
    place.pool.close()
    assert 1 == new.closed


def test_a_broken_session_that_nobody_uses_is_closed_at_once(place: Place) -> None:
    old = place.open("a")
    place.let_go(old, "a")
    old.usable = False
    assert place.open("b") is not old
    assert 1 == old.closed


def test_each_run_has_what_spark_said_in_its_time(place: Place) -> None:
    session = place.open("a")
    place.says("during a\n")
    place.open("b")
    place.says("during both\n")
    place.let_go(session, "a")
    place.says("after a\n")
    place.let_go(session, "b")
    assert "session 0\nduring a\nduring both\n" == (place.log_of("a")).read_text()
    assert "during both\nafter a\n" == (place.log_of("b")).read_text()
    assert 0o600 == (place.log_of("a")).stat().st_mode & 0o777


def test_a_refusal_names_the_runs_own_log_and_the_next_run_tries_again(place: Place) -> None:
    place.error = CannotPlace("no", hint=f"the log is {place.log}")
    with pytest.raises(CannotPlace) as refusal:
        place.open("a")
    assert f"the log is {place.log_of('a')}" == refusal.value.hint
    assert "session 0\n" == (place.log_of("a")).read_text()
    place.error = None
    assert place.open("b") is place.made[0]


def test_a_session_of_ours_is_no_callers_and_has_room(place: Place) -> None:
    place.open("a", slots=2)
    assert [(None, 64, place.log)] == [(a["session"], a["slots"], a["log"]) for a in place.asked]


def test_runs_that_come_at_once_get_one_session(place: Place) -> None:
    got: list[Any] = []
    threads = [threading.Thread(target=lambda i=i: got.append(place.open(f"r{i}"))) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 1 == len(place.made)
    assert {id(place.made[0])} == {id(each) for each in got}
    told = place.pool.describe()
    assert told is not None
    assert (8, "app-1", 0.0) == (told["runs"], told["application"], told["idle_s"])


def test_the_log_of_an_idle_session_is_kept_small(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("launcher.backends.spark.session_pool._LOG_LIMIT", 20)
    session = place.open("a")
    place.says("x" * 100)
    place.pool.tend()
    assert place.log.stat().st_size > 100  # a run wants it
    place.let_go(session, "a")
    place.pool.tend()
    assert 0 == place.log.stat().st_size
    assert (place.log_of("a")).read_text().endswith("x" * 100)


def known() -> list[SessionRecord]:
    return list(records.sessions().values())


def test_other_processes_know_the_session_and_its_runs(place: Place) -> None:
    session = place.open("a")
    assert known() == [SessionRecord("app-1", os.getpid(), ("a",))]
    place.let_go(session, "a")
    assert known() == [SessionRecord("app-1", os.getpid())]
    place.open("b")
    assert known() == [SessionRecord("app-1", os.getpid(), ("b",))]
    place.let_go(session, "b")
    place.now = 11.0
    place.pool.tend()
    assert known() == []
    place.let_go(place.open("c"), "c")
    place.pool.close()
    assert known() == []


def test_a_broken_session_is_not_said_to_be_idle(place: Place) -> None:
    session = place.open("a")
    place.let_go(session, "a")
    session.usable = False
    place.error = CannotPlace("no more")
    with pytest.raises(CannotPlace):
        place.open("b")
    assert known() == []


def test_a_session_is_ended_by_its_only_run(place: Place) -> None:
    session = place.open("a")
    place.says("during a\n")
    place.open("b")
    assert not place.pool.end(session, place.log_of("a"))
    place.let_go(session, "b")
    assert 0 == session.closed
    assert place.pool.end(session, place.log_of("a"))
    assert (1, None) == (session.closed, place.pool.describe())
    assert "session 0\nduring a\n" == place.log_of("a").read_text()
    assert not place.pool.end(session, place.log_of("a"))


# --- who waits


def test_an_idle_session_ends_for_whoever_waits(place: Place) -> None:
    session = place.open("a")
    place.waiting = "application notebook (app-9)"
    assert not place.pool.yield_to_waiting()  # a run uses it
    assert 0 == session.closed
    place.waiting = ""
    place.let_go(session, "a")
    assert place.pool.yield_to_waiting()  # it is idle, and nobody waits
    place.waiting = "application notebook (app-9)"
    assert not place.pool.yield_to_waiting()
    assert (1, None, []) == (session.closed, place.pool.describe(), known())
    assert place.open("b") is not session


def test_a_run_that_comes_while_the_pages_are_read_keeps_the_session(place: Place) -> None:
    session = place.open("a")
    place.let_go(session, "a")

    def meanwhile(_: Any) -> str:
        place.open("b")
        return "application notebook (app-9)"

    place.pool._who_waits = meanwhile
    assert not place.pool.yield_to_waiting()
    assert 0 == session.closed


def test_it_looks_as_soon_as_the_last_run_has_ended(place: Place) -> None:
    session = place.open("a")
    place.waiting = "run x"
    place.let_go(session, "a")
    until(lambda: session.closed == 1)


# --- how large it is


def test_a_session_is_as_large_as_its_first_run_and_serves_smaller_ones(place: Place) -> None:
    first = place.open("a", cores=4)
    place.let_go(first, "a")
    assert place.open("b", cores=2) is first
    assert 4 == first.limit


def test_a_larger_run_gets_a_larger_session(place: Place) -> None:
    first = place.open("a", cores=2)
    place.let_go(first, "a")
    second = place.open("b", cores=4)
    assert (1, 4) == (first.closed, second.limit)
    place.let_go(second, "b")
    assert (None, 1) == (place.open("c").limit, second.closed)


def test_an_elastic_session_serves_runs_that_need_no_more_than_it_must_have(place: Place) -> None:
    """Its name says to others how many cores are enough."""
    first = place.open("a", cores=8, least=2)
    assert "rankdeck 2:8" == place.asked[0]["app_name"]
    place.let_go(first, "a")
    assert place.open("b", cores=2) is first
    place.let_go(first, "b")
    assert place.open("c", cores=4, least=1) is first
    place.let_go(first, "c")
    assert place.open("d", cores=4) is not first
    assert "rankdeck" == place.asked[1]["app_name"]


def test_a_session_that_a_run_uses_is_not_replaced(place: Place) -> None:
    first = place.open("a", cores=2)
    assert place.open("b", cores=4) is first


def test_a_session_is_made_for_the_runs_that_are_expected(place: Place) -> None:
    """Two that fit in the idle session of four, which ends before they open it."""
    first = place.open("a", cores=4)
    assert place.pool.reserve("first", CoreDemand(4, 4))
    place.let_go(first, "a")
    place.pool.release("first")
    assert place.pool.reserve("second", CoreDemand(2, 2))
    assert place.pool.reserve("third", CoreDemand(2, 2))
    first.usable = False
    assert 4 == place.open("b", cores=2).limit


def test_without_a_session_it_is_barren_until_one_is_made(place: Place) -> None:
    assert not place.pool.barren
    place.error = CannotPlace("no")
    with pytest.raises(CannotPlace):
        place.open("a")
    assert place.pool.barren
    place.error = None
    place.let_go(place.open("b"), "b")
    place.pool.close()
    assert not place.pool.barren
