"""Which files a rank may have been writing when it ended."""

from __future__ import annotations

import pytest

from launcher.agent.files.endings import Close, Endings, is_torn
from launcher.agent.files.writers import Look

DEATH = 1000.0


@pytest.mark.parametrize(
    ("written", "closed", "torn"),
    [
        (DEATH - 60, None, False),  # quiet for a minute
        (DEATH - 60, DEATH, False),  # the kernel closed it
        (DEATH - 1, DEATH - 1, False),  # its program closed it well before
        (DEATH - 0.01, DEATH, True),  # the kernel closed it while it was written
        (DEATH - 1, DEATH + 0.01, True),
        (DEATH - 0.1, DEATH - 0.1, True),  # too near to tell
        (DEATH - 1, None, True),  # nobody saw it being closed
        (DEATH - 0.5, DEATH - 5, True),  # written again since it was closed
        (DEATH + 30, DEATH + 30, False),  # another rank's, much later
    ],
)
def test_a_file_is_torn_if_its_writer_may_have_been_killed(
    written: float, closed: float | None, torn: bool
) -> None:
    close = None if closed is None else Close(closed)
    assert is_torn(written, close, [DEATH]) is torn
    assert not is_torn(written, close, [])


def test_a_close_while_all_ranks_were_alive_is_the_programs_own() -> None:
    assert not is_torn(DEATH - 0.01, Close(DEATH - 0.01, certain=True), [DEATH])
    assert is_torn(DEATH - 0.01, Close(DEATH - 0.5, certain=True), [DEATH])  # written since


def test_any_of_several_deaths_tears() -> None:
    assert is_torn(20.0, Close(20.0), [1.0, 20.1])


def look(*alive: int, size: int = 2) -> Look:
    return Look(frozenset(alive), size)


def test_while_all_are_alive_nothing_is_torn() -> None:
    endings = Endings()
    for now in (1.0, 2.0, 9.0):
        endings.look(look(0, 1), now)
    assert endings.all_alive
    assert not endings.may_have_torn(9.0, None)


def test_what_was_written_just_before_a_rank_ended_may_be_torn() -> None:
    endings = Endings()
    endings.look(look(0, 1), 10.0)
    endings.look(look(1), 11.0)
    assert not endings.all_alive
    assert endings.may_have_torn(10.5, None)
    assert endings.may_have_torn(10.5, Close(10.9))  # by the kernel, perhaps
    assert not endings.may_have_torn(10.5, Close(10.6, certain=True))
    assert not endings.may_have_torn(5.0, None)
    endings.look(look(1), 100.0)
    assert not endings.may_have_torn(90.0, None)  # the other one has gone on


def test_ranks_that_have_yet_to_start_have_not_ended() -> None:
    endings = Endings()
    endings.look(look(size=0), 0.5)
    endings.look(look(0), 1.0)
    endings.look(look(0, 1), 1.5)
    assert endings.seen == []
    assert endings.all_alive


def test_a_rank_that_is_never_seen_has_ended() -> None:
    endings = Endings()
    for now in (1.0, 4.0, 7.0):
        endings.look(look(0), now)
    assert endings.may_have_torn(1.5, None)
