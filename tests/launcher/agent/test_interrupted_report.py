"""A signal's handler that raises while a rank reports its failure: what it raised is reported."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from functools import partial
from types import SimpleNamespace
from typing import Any, cast

import pytest

from launcher.agent import exceptions, rank_main
from launcher.agent.program import Naming, Program
from launcher.agent.rank_pipe import RankPipe

WORKER = "DataLoader worker (pid 7) is killed by signal: Killed. "


class Line:
    def __init__(self) -> None:
        self.facts: list[dict[str, Any]] = []

    def send_fact(self, tag: str, fields: dict[str, Any]) -> None:
        if tag == "rank_raised":
            self.facts.append(fields)


@pytest.fixture
def raising_handler() -> Iterator[None]:
    def handler(number: int, frame: object) -> None:
        raise RuntimeError(WORKER)

    before = signal.signal(signal.SIGUSR1, handler)
    yield
    signal.signal(signal.SIGUSR1, before)


@pytest.mark.usefixtures("raising_handler")
def test_what_a_handler_raises_meanwhile_is_reported_and_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pending, whole = [signal.SIGUSR1], exceptions.user_frames

    def user_frames(tb: Any) -> list[tuple[str, int, str]]:
        if pending:
            os.kill(os.getpid(), pending.pop())
        return whole(tb)

    monkeypatch.setattr(exceptions, "user_frames", user_frames)
    monkeypatch.setattr(rank_main, "load_target", lambda _: failing)
    line, target = Line(), SimpleNamespace(name="", naming=Naming())
    describe = partial(exceptions.description, naming=Naming())
    try:
        code = rank_main._run(cast("RankPipe", line), cast("Program", target), cast("Any", None), describe)
    except RuntimeError as late:
        code = rank_main._failed_late(cast("RankPipe", line), late, describe)

    assert 1 == code
    [fact] = line.facts
    assert ("RuntimeError", WORKER) == (fact["kind"], fact["message"])
    assert "ConnectionResetError: the worker's end" in fact["traceback"]
    assert "failing" == fact["frames"][-1][2]
    assert WORKER in capsys.readouterr().err


def failing() -> None:
    raise ConnectionResetError("the worker's end")
