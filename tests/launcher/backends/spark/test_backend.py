"""The backend's choice of a session: how much of it is reserved, and when another one takes its place."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from typing import Any

import pytest

from launcher.backends.spark import backend as backend_module
from launcher.backends.spark import executors
from launcher.backends.spark.backend import SparkBackend
from launcher.backends.spark.session import Session
from launcher.backends.spark.sizing import CoreDemand
from launcher.backends.spark.slot_wait import ReplaceSession, Slots
from launcher.spec.job import JobSpec, SparkSpec, Target, TargetKind
from launcher.spec.modes import Mode
from launcher.spec.request import Request
from launcher.state import events as ev

ALL = CoreDemand(4, 4)
SLOTS = Slots(4, None, find_gpus=False)
SPEC = JobSpec(
    Target(TargetKind.SCRIPT, "t.py"), 4, mode=Mode.CLUSTER, spark=SparkSpec(master="spark://m:7077")
)
REQUEST = Request(SPEC, environ={})


class Sessions:
    """A pool that notes what is asked of it."""

    shared = True

    def __init__(self, room: bool = True) -> None:
        self.room = room
        self.reserved: list[CoreDemand | None] = []
        self.opened: list[CoreDemand | None] = []
        self.ended = 0
        self.released = 0

    def reserve(self, run: object, demand: CoreDemand | None) -> bool:
        self.reserved.append(demand)
        return self.room

    def release(self, run: object) -> None:
        self.released += 1

    def open(self, spec: SparkSpec, *, demand: CoreDemand | None, **more: Any) -> Session:
        self.opened.append(demand)
        return Session(
            context=None,
            remote=False,
            owned=True,
            application=str(len(self.opened)),
            name="n",
            master="spark://m:7077",
            version="4",
            ui="",
            driver_host="h",
            bind_address="h",
            limit=demand.limit if demand else None,
        )

    def let_go(self, session: Session, log: Path) -> None:
        pass

    def end(self, session: Session, log: Path) -> bool:
        self.ended += 1
        return True


@pytest.fixture
def sessions() -> Sessions:
    return Sessions()


@pytest.fixture
def spark(sessions: Sessions, monkeypatch: pytest.MonkeyPatch) -> SparkBackend:
    monkeypatch.setattr(executors, "master_pages", lambda _: ())
    return SparkBackend(sessions)


def test_the_cores_of_a_run_are_reserved_until_it_is_closed(sessions: Sessions, spark: SparkBackend) -> None:
    assert spark.reserve(REQUEST, whole=False)
    assert spark.reserve(REQUEST, whole=True)
    assert [ALL, None] == sessions.reserved
    sessions.room = False
    assert not spark.reserve(REQUEST, whole=False)
    spark.close(0.0)
    assert 1 == sessions.released


def test_what_is_wrong_with_a_request_is_left_to_its_run(sessions: Sessions, spark: SparkBackend) -> None:
    assert SparkBackend(sessions, server=True).reserve(REQUEST, whole=False)
    assert [None] == sessions.reserved


def waited(
    spark: SparkBackend, folder: Path, monkeypatch: pytest.MonkeyPatch, *reasons: ReplaceSession
) -> tuple[list[Any], list[ev.Event]]:
    """How each wait of a run was asked for, where the first ones end for these reasons; and the facts."""
    asked: list[Any] = []

    def wait(session: Session, spec: JobSpec, **how: Any) -> Slots:
        asked.append(how["replacing"])
        if len(asked) <= len(reasons):
            assert how["replacing"].end()
            raise reasons[len(asked) - 1]
        return SLOTS

    monkeypatch.setattr(backend_module, "await_slots", wait)
    with contextlib.ExitStack() as cleanup:
        _, relay, slots = spark._open_and_wait(REQUEST, folder, 0, cleanup)
    assert (relay, slots) == (None, SLOTS)
    return asked, [news for news in spark.news() if isinstance(news, ev.Event)]


def test_a_session_that_serves_is_kept(
    sessions: Sessions, spark: SparkBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (asked,), facts = waited(spark, tmp_path, monkeypatch)
    assert asked.outgrown
    assert ([ALL], 0) == (sessions.opened, sessions.ended)
    assert [ev.SparkReady] == [type(fact) for fact in facts]


def test_one_that_is_outgrown_is_replaced_by_one_without_a_limit(
    sessions: Sessions, spark: SparkBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, facts = waited(spark, tmp_path, monkeypatch, ReplaceSession("small", unlimited=True))
    assert [True, False] == [each.outgrown for each in asked]
    assert ([ALL, None], 1) == (sessions.opened, sessions.ended)
    assert ["small"] == [fact.text for fact in facts if isinstance(fact, ev.NoteMade)]


def test_a_part_is_given_back_less_and_less_often(
    sessions: Sessions, spark: SparkBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = ReplaceSession("part", unlimited=False)
    asked, _ = waited(spark, tmp_path, monkeypatch, part, part)
    assert [5.0, 10.0, 20.0] == [each.partial_s for each in asked]
    assert ([ALL, ALL, ALL], 2) == (sessions.opened, sessions.ended)


def test_a_wait_that_is_told_is_on_record(
    spark: SparkBackend, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from launcher.backends.spark.records import waiting_runs

    seen: list[list[str]] = []

    def wait(session: Session, spec: JobSpec, *, tell: Any, aborted: threading.Event, **how: Any) -> Slots:
        tell(ev.SlotsAwaited(time=0.0, have=0, need=4))
        seen.append(waiting_runs("spark://m:7077", "another"))
        return SLOTS

    monkeypatch.setattr(backend_module, "await_slots", wait)
    with contextlib.ExitStack() as cleanup:
        spark._open_and_wait(REQUEST, tmp_path / "run-1", 0, cleanup)
    assert [["run-1"]] == seen
    assert [] == waiting_runs("spark://m:7077", "another")
