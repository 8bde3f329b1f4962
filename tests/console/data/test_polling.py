"""A poller publishes what has changed, looks when it is asked to, and survives what it reads."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from console.data.polling import Poller

LONG = 3600.0


class Source:
    """Answers with the next of its values, in the poller's thread, and notes what was published."""

    def __init__(self, *answers: tuple[int, ...] | Exception) -> None:
        self.left, self.published = list(answers), list[int]()
        self.asked = threading.Semaphore(0)
        self.poller = Poller(self.read, self.published.append, LONG, name="test")

    def read(self) -> Iterator[int]:
        answer = self.left.pop(0) if self.left else ()
        if isinstance(answer, Exception):
            self.asked.release()
            raise answer
        yield from answer
        self.asked.release()


@pytest.mark.parametrize(
    ("answers", "published"),
    [
        (((1,), (1,), (2,), (1,)), [1, 2, 1]),
        (((1, 2), (1, 2)), [1, 2, 1, 2]),
        (((), (3,), (), (3,)), [3]),
    ],
)
def test_only_what_changes_is_published(answers: tuple[tuple[int, ...], ...], published: list[int]) -> None:
    source = Source(*answers)
    for _ in answers:
        source.poller.look()

    assert published == source.published


def test_what_was_forgotten_is_published_again_and_what_comes_after_the_end_is_not() -> None:
    source = Source((1,), (1,), (2,))
    source.poller.look()
    source.poller.forget()
    source.poller.look()
    source.poller.close()
    source.poller.look()

    assert [1, 1] == source.published


def test_a_thread_looks_at_once_when_asked_and_rests_while_nobody_does() -> None:
    source = Source((1,), (2,), (3,), (4,))
    source.poller.start()
    assert source.asked.acquire(timeout=60)
    source.poller.nudge()
    assert source.asked.acquire(timeout=60)
    source.poller.rest()
    source.poller.nudge()
    source.poller.resume()
    assert source.asked.acquire(timeout=60)
    source.poller.close(wait_s=60)

    assert [1, 2, 3] == source.published[:3]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_read_that_fails_is_reported_and_the_next_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[object] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: reported.append(args.exc_value))
    wrong = RuntimeError("no such driver")
    source = Source(wrong, (5,))
    source.poller.start()
    assert source.asked.acquire(timeout=60)
    source.poller.nudge()
    assert source.asked.acquire(timeout=60)
    source.poller.close(wait_s=60)

    assert [wrong] == reported
    assert [5] == source.published


def test_the_pause_follows_from_what_a_look_has_cost_and_the_end_is_told() -> None:
    costs, finished = list[float](), threading.Event()

    def interval(spent: float) -> float:
        costs.append(spent)
        poller.close()
        return LONG

    poller = Poller(tuple[int, ...], print, interval, name="test", finish=finished.set)
    poller.start()

    assert finished.wait(60)
    assert 0 <= costs[0] < LONG
