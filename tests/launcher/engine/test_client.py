"""A client's part in the talk with an engine, which a thread plays here."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from launcher.engine import client
from launcher.engine.address import EngineKey, key_for
from launcher.engine.client import Attachment, start_detached, submit
from launcher.engine.protocol import Conversation, Message, error_document, unpack_request
from launcher.errors import CannotPlace, InternalError
from launcher.spec.job import JobSpec, Target, TargetKind
from launcher.spec.request import Request

REQUEST = Request(JobSpec(Target(TargetKind.SCRIPT, "/t.py"), workdir="/"), payload=b"much")
RUN = {"run": "r", "folder": "/runs/r"}


@contextmanager
def engine(monkeypatch: pytest.MonkeyPatch, play: Callable[[Conversation, Message], None]) -> Iterator[None]:
    near, far = map(Conversation, socket.socketpair())
    monkeypatch.setattr(client, "engine_for", lambda _: near)

    def act() -> None:
        play(far, far.receive())
        far.close()

    thread = threading.Thread(target=act)
    thread.start()
    yield
    near.close()
    thread.join(60)
    assert not thread.is_alive()


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What owners of runs were asked for."""
    asked: list[dict[str, Any]] = []
    monkeypatch.setattr(client, "request_stop", lambda run, **words: asked.append({"run": run, **words}))
    return asked


def test_a_run_is_followed_to_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    def play(talk: Conversation, asked: Message) -> None:
        assert REQUEST == unpack_request(asked)
        assert ("submit", True, "stop") == tuple(asked.document[k] for k in ("op", "hold", "on_disconnect"))
        talk.send(RUN)
        for _ in range(3):
            talk.send({"news": 1})
            assert {"op": "next"} == talk.receive().document
        talk.send({"ended": "failed", "exit_code": 7, "why": "w"})

    with engine(monkeypatch, play):
        run = submit(REQUEST, on_disconnect="stop")
        turns = 0
        while not run.done:
            run.wait_for_news()
            turns += 1

    assert ("r", Path("/runs/r"), 4, False) == (run.id, run.folder, turns, run.lost)
    assert {"ended": "failed", "exit_code": 7, "why": "w"} == run.ended


def test_an_engine_that_goes_is_a_lost_run(monkeypatch: pytest.MonkeyPatch) -> None:
    with engine(monkeypatch, lambda talk, _: talk.send(RUN)):
        run = submit(REQUEST, on_disconnect="stop")
        run.wait_for_news()
    assert (True, None) == (run.lost, run.ended)


def test_a_refusal_is_raised_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    error = CannotPlace("no room", hint="wait")
    with (
        engine(monkeypatch, lambda talk, _: talk.send(error_document(error))),
        pytest.raises(CannotPlace, match=r"no room \(wait\)"),
    ):
        start_detached(REQUEST)


def test_an_engine_that_goes_before_it_answers_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        engine(monkeypatch, lambda *_: None),
        pytest.raises(InternalError, match="did not take the run: the other end is gone"),
    ):
        start_detached(REQUEST)


def interrupt() -> None:
    signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def test_ctrl_c_while_a_run_is_being_started_stops_it(
    monkeypatch: pytest.MonkeyPatch, stopped: list[dict[str, Any]]
) -> None:
    """It must not go on behind the back of a person who has changed their mind."""

    def play(talk: Conversation, _: Message) -> None:
        interrupt()
        talk.send(RUN)
        talk.send({"news": 1})
        assert {"op": "next"} == talk.receive().document
        talk.send({"ended": "stopped", "exit_code": 130, "why": "interrupted"})

    with engine(monkeypatch, play), pytest.raises(KeyboardInterrupt):
        submit(REQUEST, on_disconnect="detach")

    expected = {"run": Path("/runs/r"), "reason": "interrupted", "exit_code": 130, "force": False}
    assert [expected] == stopped
    assert signal.default_int_handler is signal.getsignal(signal.SIGINT)


def test_a_second_ctrl_c_does_not_wait_for_the_answer() -> None:
    noted: list[int] = []

    def twice() -> None:
        with client._interrupts_noted() as noted_there:
            signal.raise_signal(signal.SIGINT)
            noted.extend(noted_there)
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        twice()
    assert [signal.SIGINT] == noted
    assert signal.default_int_handler is signal.getsignal(signal.SIGINT)


def test_ctrl_c_before_a_refusal_is_the_refusal(
    monkeypatch: pytest.MonkeyPatch, stopped: list[dict[str, Any]]
) -> None:
    def play(talk: Conversation, _: Message) -> None:
        interrupt()
        talk.send(error_document(CannotPlace("no room")))

    with engine(monkeypatch, play), pytest.raises(CannotPlace):
        submit(REQUEST, on_disconnect="detach")
    assert [] == stopped


def test_a_run_goes_to_the_first_engine_that_has_room(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, bool]] = []

    def offer(key: EngineKey, message: Message, *, whole: bool) -> Attachment | None:
        asked.append((key.digest, whole))
        return None if len(asked) < room else attachment

    attachment: Any = object()
    monkeypatch.setattr(client, "_submit_to", offer)
    room = 3
    assert submit(REQUEST, on_disconnect="stop") is attachment
    assert [False] * 3 == [whole for _, whole in asked]
    assert 3 == len(set(asked))
    asked, room = [], client.LANES
    assert submit(REQUEST, on_disconnect="stop") is attachment
    assert [False] * (client.LANES - 1) + [True] == [whole for _, whole in asked]


def test_an_engine_without_room_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    def play(talk: Conversation, asked: Message) -> None:
        assert asked.document["whole"] is False
        talk.send({"full": True})
        with pytest.raises(ConnectionError):
            talk.receive()

    with engine(monkeypatch, play):
        message = Message({"op": "submit"}, ())
        assert client._submit_to(key_for(REQUEST), message, whole=False) is None
