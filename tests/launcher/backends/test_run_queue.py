"""A bounded number at once, the others in order, and no turn lost whoever gives up when."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.backends.local import RunPermit, RunQueue


def test_turns_come_in_order() -> None:
    turns, begun = RunQueue(2), list[int]()
    taken = [turns.take(lambda number=number: begun.append(number)) for number in range(5)]  # type: ignore[misc]

    assert ([0, 1], 2) == (begun, turns.held)
    taken[1].give_back()
    assert [0, 1, 2] == begun
    taken[3].give_back()  # it waits no longer
    taken[0].give_back()
    assert [0, 1, 2, 4] == begun
    for turn in taken * 2:
        turn.give_back()
    assert 0 == turns.held


@given(st.integers(1, 3), st.lists(st.tuples(st.booleans(), st.integers(0, 9)), max_size=60))
def test_as_many_as_may_are_at_it_and_everybody_else_waits(limit: int, steps: list[tuple[bool, int]]) -> None:
    turns = RunQueue(limit)
    asked: list[tuple[int, RunPermit]] = []
    begun: list[int] = []
    for number, (comes, which) in enumerate(steps):
        if comes:
            asked.append((number, turns.take(lambda number=number: begun.append(number))))  # type: ignore[misc]
        elif asked:
            asked.pop(which % len(asked))[1].give_back()
        assert min(limit, len(asked)) == turns.held
        assert {each for each, _ in asked[:limit]} <= set(begun)
        assert begun == sorted(begun)


@pytest.mark.parametrize("limit", [1, 3])
def test_many_threads_lose_no_turn(limit: int) -> None:
    turns, at_it, most = RunQueue(limit), list[int](), list[int]()

    def work(number: int) -> None:
        for _ in range(100):
            come = threading.Event()
            turn = turns.take(come.set)
            assert come.wait(60)
            at_it.append(number)
            most.append(len(at_it))
            at_it.remove(number)
            turn.give_back()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert 800 == len(most)
    assert max(most) <= limit
    assert 0 == turns.held
