"""Ranks as one frozen value: like a tuple of them, whatever changes, and always with the right standing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.state import events as ev
from launcher.state.ranks import Rank, RankPhase, Ranks

RAISED = ev.RankRaised(time=1.0, rank=0, kind="ValueError", message="no", traceback="")
RANK = st.builds(
    lambda phase, raised, failing: {"phase": phase, "raised": raised, "failing": failing},
    st.sampled_from(RankPhase),
    st.sampled_from([None, RAISED]),
    st.booleans(),
)


def gang(size: int) -> tuple[Rank, ...]:
    return tuple(Rank(number, agent=number // 8) for number in range(size))


@given(st.integers(1, 200), st.lists(st.lists(st.tuples(st.integers(0, 199), RANK), max_size=5), max_size=20))
def test_it_is_what_a_tuple_of_ranks_is(
    size: int, turns: Sequence[Sequence[tuple[int, dict[str, object]]]]
) -> None:
    plain = list(gang(size))
    ranks = Ranks.of(plain)
    for turn in turns:
        changed = {n % size: replace(plain[n % size], **fields) for n, fields in turn}  # type: ignore[arg-type]
        for number, rank in changed.items():
            plain[number] = rank
        ranks = ranks.changed(changed.values())

    assert plain == list(ranks)
    assert size == len(ranks)
    assert Ranks.of(plain) == ranks
    assert sum(rank.phase.ended for rank in plain) == ranks.standing.ended
    assert sum(rank.phase is RankPhase.LOST for rank in plain) == ranks.standing.lost
    assert sum(not r.phase.ended and r.raised is None for r in plain) == ranks.standing.undecided
    assert {rank.rank for rank in plain if rank.has_failed} == {rank.rank for rank in ranks.failing}


def test_a_change_makes_another_value() -> None:
    before = Ranks.of(gang(3))
    after = before.changed([replace(before[1], phase=RankPhase.LOST)])

    assert (0, 1) == (before.standing.lost, after.standing.lost)
    assert before != after
    assert before.changed([]) == before


def test_it_is_indexed_like_a_tuple() -> None:
    plain = gang(130)
    ranks = Ranks.of(plain)

    assert plain[129] is ranks[-1]
    assert plain[60:70] == ranks[60:70]
    assert plain[64] in ranks
    assert not Ranks()
    for index in (130, -131):
        with pytest.raises(IndexError, match="of 130"):
            ranks[index]


def test_the_ranks_of_an_agent_are_found_after_changes() -> None:
    ranks = Ranks.of(gang(20)).changed([Rank(9, RankPhase.RUNNING, agent=1)])

    assert [8, *range(9, 16)] == [rank.rank for rank in ranks.of_agent(1)]
    assert RankPhase.RUNNING is ranks.of_agent(1)[1].phase
    assert () == ranks.of_agent(7) == ranks.of_agent(None)
    assert {0, 1, 2} == ranks.agents
