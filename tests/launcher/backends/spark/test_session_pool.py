"""One Spark session for many runs: made once, kept while it is used, replaced when broken."""

from __future__ import annotations

import os
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

from launcher import runtime_dir
from launcher.backends.spark.session_pool import WarmSessions, idle_applications
from launcher.errors import CannotPlace
from launcher.spec.job import SparkSpec


class FakeSession:
    def __init__(self) -> None:
        self.master, self.application, self.version, self.ui = "local[64]", "app-1", "4", ""
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
        self.pool = WarmSessions(self.log, idle_s=10.0, clock=lambda: self.now, make=self.make)

    def make(self, spec: SparkSpec, **around: Any) -> Any:
        self.asked.append(around)
        self.says(f"session {len(self.made)}\n")
        if self.error:
            raise self.error
        self.made.append(FakeSession())
        return self.made[-1]

    def says(self, text: str) -> None:
        with open(self.log, "a") as file:
            file.write(text)

    def open(self, run: str, slots: int = 2) -> Any:
        return self.pool.open(
            SparkSpec(),
            log=self.folder / run,
            app_name="a",
            slots=slots,
            session=None,
            environ={},
            server=False,
            limit_s=1.0,
        )


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_runs_share_a_session_until_it_is_idle_for_long(place: Place) -> None:
    first, second = place.open("a"), place.open("b")
    assert first is second
    place.pool.let_go(first, place.folder / "a")
    place.now = 100.0
    place.pool.tend()
    assert 0 == first.closed  # the second run has it still
    place.pool.let_go(second, place.folder / "b")
    place.now = 109.0
    place.pool.tend()
    assert place.open("c") is first
    place.pool.let_go(first, place.folder / "c")
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
    place.pool.let_go(old, place.folder / "a")
    assert (1, 0) == (old.closed, new.closed)
    place.pool.close()
    assert 1 == new.closed


def test_a_broken_session_that_nobody_uses_is_closed_at_once(place: Place) -> None:
    old = place.open("a")
    place.pool.let_go(old, place.folder / "a")
    old.usable = False
    assert place.open("b") is not old
    assert 1 == old.closed


def test_each_run_has_what_spark_said_in_its_time(place: Place) -> None:
    session = place.open("a")
    place.says("during a\n")
    place.open("b")
    place.says("during both\n")
    place.pool.let_go(session, place.folder / "a")
    place.says("after a\n")
    place.pool.let_go(session, place.folder / "b")
    assert "session 0\nduring a\nduring both\n" == (place.folder / "a").read_text()
    assert "during both\nafter a\n" == (place.folder / "b").read_text()
    assert 0o600 == (place.folder / "a").stat().st_mode & 0o777


def test_a_refusal_names_the_runs_own_log_and_the_next_run_tries_again(place: Place) -> None:
    place.error = CannotPlace("no", hint=f"the log is {place.log}")
    with pytest.raises(CannotPlace) as refusal:
        place.open("a")
    assert f"the log is {place.folder / 'a'}" == refusal.value.hint
    assert "session 0\n" == (place.folder / "a").read_text()
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
    place.pool.let_go(session, place.folder / "a")
    place.pool.tend()
    assert 0 == place.log.stat().st_size
    assert (place.folder / "a").read_text().endswith("x" * 100)


def test_a_session_that_no_run_uses_is_known_to_other_processes(place: Place) -> None:
    session = place.open("a")
    assert idle_applications() == {}
    place.pool.let_go(session, place.folder / "a")
    assert idle_applications() == {"app-1": os.getpid()}
    place.open("b")
    assert idle_applications() == {}
    place.pool.let_go(session, place.folder / "b")
    place.now = 11.0
    place.pool.tend()
    assert idle_applications() == {}
    place.pool.let_go(place.open("c"), place.folder / "c")
    place.pool.close()
    assert idle_applications() == {}


def test_a_broken_session_is_not_said_to_be_idle(place: Place) -> None:
    session = place.open("a")
    place.pool.let_go(session, place.folder / "a")
    session.usable = False
    place.error = CannotPlace("no more")
    with pytest.raises(CannotPlace):
        place.open("b")
    assert idle_applications() == {}


@pytest.mark.parametrize(
    "record",
    [
        *("", "[]", "{", "null", '{"application": "app-1"}'),
        '{"application": "app-1", "start": null}',
        '{"application": 1, "start": 0}',
    ],
)
def test_a_record_of_a_process_that_is_gone_or_that_is_spoiled_counts_for_nothing(record: str) -> None:
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    for pid in (gone.pid, os.getpid(), 0):
        (runtime_dir.runtime_folder() / f"idle-{pid}.json").write_text(record)
    (runtime_dir.runtime_folder() / "idle-x.json").write_text(record)
    assert idle_applications() == {}
