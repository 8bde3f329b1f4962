"""The same number of steps on every rank, whatever arrives when."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.data.shares import Agreed
from launcher.data.steps import MEANINGS, Held, Uneven, agree, rows_from

SIZE = 4
GANG_WIDE = [Uneven.DROP, Uneven.PAD, Uneven.REPEAT]


@st.composite
def histories(draw: st.DrawFn) -> list[list[Held]]:
    """What two tasks of two ranks each say, in some order: rows only grow, and end with complete."""
    totals = draw(st.lists(st.tuples(*[st.integers(0, 12)] * 2), min_size=2, max_size=2))
    now = [Held((0, 0), complete=False) for _ in totals]
    seen = [list(now)]
    for task, first, second in draw(st.lists(st.tuples(*[st.integers(0, 1)] * 3), max_size=12)):
        a, b = now[task].rows
        grown = (min(a + 4 * first, totals[task][0]), min(b + 5 * second, totals[task][1]))
        now[task] = Held(grown, complete=now[task].complete or (grown == totals[task] and first != second))
        seen.append(list(now))
    for task, rows in enumerate(totals):
        now[task] = Held(rows, complete=True)
        seen.append(list(now))
    return seen


def answer(uneven: Uneven, held: list[Held], rank: tuple[int, int], start: int) -> int | None:
    task, share = rank
    own = held[task]
    return rows_from(start, SIZE, uneven, agree(held), own.rows[share], complete=own.complete)


@given(histories(), st.sampled_from(GANG_WIDE), st.integers(0, 4))
def test_all_ranks_give_a_step_the_same_rows_whenever_they_ask(
    seen: list[list[Held]], uneven: Uneven, step: int
) -> None:
    ranks = [(task, share) for task in range(len(seen[0])) for share in range(2)]
    answers = [answer(uneven, held, rank, step * SIZE) for held in seen for rank in ranks]
    last = {answer(uneven, seen[-1], rank, step * SIZE) for rank in ranks}

    assert 1 == len(last)
    assert None not in last, "at the end everything is known"
    assert set(answers) <= last | {None}


@given(histories())
def test_what_is_agreed_only_grows_and_is_right_at_the_end(seen: list[list[Held]]) -> None:
    agreed = [agree(held) for held in seen]
    rows = [rows for held in seen[-1] for rows in held.rows]

    for before, after in pairwise(agreed):
        assert before.least <= after.least
        assert before.most <= after.most
        assert not before.least_final or (after.least_final and before.least == after.least)
        assert not before.most_final or (after.most_final and before.most == after.most)
    assert Agreed(min(rows), True, max(rows), True) == agreed[-1]


@given(st.lists(st.integers(0, 50), min_size=1, max_size=5))
def test_how_many_rows_each_policy_gives(rows: list[int]) -> None:
    held = [Held((each,), complete=True) for each in rows]

    def given_rows(uneven: Uneven, rank: int) -> int:
        steps = range(0, 60, SIZE)
        return sum(answer(uneven, held, (rank, 0), start) or 0 for start in steps)

    for rank, own in enumerate(rows):
        assert min(rows) == given_rows(Uneven.DROP, rank)
        assert max(rows) == given_rows(Uneven.PAD, rank)
        assert max(rows) == given_rows(Uneven.REPEAT, rank)
        assert own == given_rows(Uneven.OWN, rank)


def test_a_rank_with_rows_waits_for_nobody_where_all_rows_are_used() -> None:
    agreed = agree([Held((8,), complete=False), None])

    assert Agreed(0, False, 8, False) == agreed
    assert SIZE == rows_from(4, SIZE, Uneven.PAD, agreed, 8, complete=False)
    assert rows_from(8, SIZE, Uneven.PAD, agreed, 8, complete=False) is None
    assert rows_from(0, SIZE, Uneven.DROP, agreed, 8, complete=False) is None


def test_an_empty_share_ends_the_steps_of_all_at_once_where_rows_are_dropped() -> None:
    agreed = agree([Held((8,), complete=False), Held((0,), complete=True)])

    assert 0 == rows_from(0, SIZE, Uneven.DROP, agreed, 8, complete=False)


@pytest.mark.parametrize("uneven", Uneven)
def test_each_policy_is_explained(uneven: Uneven) -> None:
    assert MEANINGS[uneven]
