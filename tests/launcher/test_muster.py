"""Agents that have come are held until all have, and sent to the others if those do not come."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from launcher.backends import muster
from launcher.backends.muster import Muster
from launcher.channel.link import Link
from launcher.channel.listener import Listener
from launcher.testing import FakeClock
from launcher.worker.wire import Kind
from tests.commands import until
from tests.peers import TOKEN, Joining, issued


class Yard:
    """A muster of `expected` agents behind a real door."""

    def __init__(self, expected: int) -> None:
        self.clock = FakeClock(100.0)
        self.all_here: list[Link] = []
        self.muster = Muster(expected, self._complete, clock=self.clock)
        self._listener = Listener(
            "127.0.0.1", range(1), issued().engine, TOKEN, admit=self.muster.admit, lost_after_s=20.0
        )
        self._agents: list[Joining] = []

    def join(self, agent: int) -> Joining:
        joining = Joining(self._listener.address)
        joining.join(agent)
        self._agents.append(joining)
        until(lambda: agent in self.muster.came)
        return joining

    def _complete(self, links: Sequence[Link]) -> None:
        self.all_here += links

    def close(self) -> None:
        self._listener.close()
        self.muster.close()
        for link in self.all_here:
            link.close()
        for agent in self._agents:
            agent.close()


@pytest.fixture
def yard() -> Iterator[Yard]:
    made = Yard(2)
    yield made
    made.close()


def test_all_are_told_of_at_once_when_the_last_has_come(yard: Yard) -> None:
    yard.join(1)
    assert [] == yard.all_here
    yard.join(0)
    until(lambda: len(yard.all_here) == 2)
    assert {0, 1} == {link.agent for link in yard.all_here}


def test_who_came_is_sent_to_who_did_not(yard: Yard) -> None:
    agent = yard.join(1)
    yard.clock.advance(muster.REGROUP_S)
    yard.muster.tend()

    assert Kind.REGROUP is agent.hear().kind
    assert [] == yard.all_here


def test_nobody_is_sent_away_before_the_others_can_know(yard: Yard) -> None:
    agent = yard.join(1)
    yard.clock.advance(muster.REGROUP_S - 0.1)
    yard.muster.tend()
    yard.join(0)
    until(lambda: len(yard.all_here) == 2)
    yard.clock.advance(100.0)
    yard.muster.tend()
    yard.all_here[0].send(Kind.QUIT, {})
    assert Kind.QUIT is agent.hear().kind


def test_who_comes_after_that_is_sent_after_them(yard: Yard) -> None:
    yard.join(1)
    yard.clock.advance(muster.REGROUP_S)
    yard.muster.tend()

    assert Kind.REGROUP is yard.join(0).hear().kind
    assert [] == yard.all_here


def test_who_leaves_meanwhile_is_forgotten(yard: Yard) -> None:
    yard.join(1).close()
    until(lambda: not _tended(yard).leave())


def _tended(yard: Yard) -> Muster:
    yard.muster.tend()
    return yard.muster


def test_a_run_that_is_called_off_lets_all_leave_together(yard: Yard) -> None:
    assert not yard.muster.leave()
    first = yard.join(1)
    assert yard.muster.leave()
    assert {"leave": True} == first.hear().document()
    assert {"leave": True} == yard.join(0).hear().document()


def test_those_that_wait_hear_that_we_live(yard: Yard) -> None:
    agent = yard.join(1)
    yard.muster.tend()
    yard.clock.advance(4.5)
    yard.muster.tend()
    assert Kind.BEAT is agent.hear().kind
