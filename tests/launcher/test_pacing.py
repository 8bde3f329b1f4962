"""Fewer and larger turns for a busy loop, by a clock that the test moves."""

from __future__ import annotations

import os
import time

import pytest

from launcher.pacing import TurnPacer
from launcher.testing import FakeClock

MUCH = 1000


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(0.0)


@pytest.fixture
def pacer(clock: FakeClock) -> TurnPacer:
    return TurnPacer(0.1, 4, much=MUCH, busy_pause_s=0.01, clock=clock, sleep=clock.advance)


def turns(pacer: TurnPacer, clock: FakeClock, number: int, every_s: float, amount: int = 1) -> float:
    """Seconds that so many turns take which begin at least `every_s` seconds after each other."""
    began = clock.now
    for _ in range(number):
        clock.advance(every_s)
        pacer.gather()
        pacer.handled(amount)
    return clock.now - began


def test_some_turns_are_handled_at_once(pacer: TurnPacer, clock: FakeClock) -> None:
    assert turns(pacer, clock, 4, 0.001) == pytest.approx(0.004)


def test_few_are_never_delayed(pacer: TurnPacer, clock: FakeClock) -> None:
    assert turns(pacer, clock, 100, 0.11) == pytest.approx(11.0)


@pytest.mark.parametrize("every_s", [0.001, 0.06])
def test_more_begin_at_intervals(pacer: TurnPacer, clock: FakeClock, every_s: float) -> None:
    turns(pacer, clock, 20, every_s)

    assert turns(pacer, clock, 50, every_s) == pytest.approx(5.0)


def test_after_a_pause_some_are_handled_at_once_again(pacer: TurnPacer, clock: FakeClock) -> None:
    turns(pacer, clock, 20, 0.001)
    clock.advance(10.0)

    assert turns(pacer, clock, 4, 0.001) == pytest.approx(0.004)
    assert turns(pacer, clock, 2, 0.001) > 0.1


def test_those_that_handle_much_follow_each_other_closely(pacer: TurnPacer, clock: FakeClock) -> None:
    turns(pacer, clock, 20, 0.001, MUCH)

    assert turns(pacer, clock, 100, 0.001, MUCH) == pytest.approx(1.0)
    assert turns(pacer, clock, 20, 0.02, 0) > 1.5, "and then no more"


def test_a_stream_is_not_delayed_by_turns_that_find_nothing(pacer: TurnPacer, clock: FakeClock) -> None:
    began = clock.now
    for _ in range(100):
        turns(pacer, clock, 4, 0.001, MUCH)
        turns(pacer, clock, 1, 0.001, 0)

    assert clock.now - began < 5.2


def test_urgent_news_end_a_delay() -> None:
    reader, writer = os.pipe()
    pacer = TurnPacer(60.0, 1, much=MUCH, busy_pause_s=0.01, urgent=[reader])
    os.write(writer, b"x")
    began = time.monotonic()
    for _ in range(3):
        pacer.gather()

    assert time.monotonic() - began < 30
    os.close(reader)
    os.close(writer)
