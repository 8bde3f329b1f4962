"""Agents as they come: by which way each did, and what is needed no more once all are here.

Whichever way it is, it leads to the engine's listener and carries the same bytes; so nothing else asks
for it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from ...channel.connection import AgentConnection
from ...channel.spool import Spool
from ...state import events as ev
from .relay import Relay

LIVE, RELAY, SPOOL = "live", "relay", "spool"
_WAYS = (SPOOL, RELAY, LIVE)
_REASONS = {RELAY: "through a relay beside the Connect server", SPOOL: "by the spool folder"}


class Arrivals:
    """One launch's.

    Args:
        tasks: how many agents there are.
        addresses: where they look for this machine, for people.
        relay: the way through the Connect server, if there is one.
        spool: the way by a shared folder, if there is one.
        tell: takes news.
    """

    def __init__(
        self,
        tasks: int,
        addresses: str,
        *,
        relay: Relay | None,
        spool: Spool | None,
        tell: Callable[..., None],
    ) -> None:
        self._tasks, self._addresses = tasks, addresses
        self._relay, self._spool, self._tell = relay, spool, tell
        self._came: dict[int, tuple[str, str]] = {}

    @property
    def complete(self) -> bool:
        """Whether all agents have come."""
        return len(self._came) >= self._tasks

    def admit(self, link: AgentConnection) -> None:
        """An agent has come, and proven that it is one; on the listener's thread."""
        before = self.complete
        self._came[link.agent] = self._way_of(link), link.hello.host if link.hello else ""
        if self.complete and not before:
            self._tell(self._chosen())
            threading.Thread(target=self._let_go, name="rankdeck-arrivals", daemon=True).start()
        self._tell(link)

    def _way_of(self, link: AgentConnection) -> str:
        peer = link.peer
        if self._relay is not None and self._relay.brings(peer):
            return RELAY
        return SPOOL if self._spool is not None and self._spool.brings(peer) else LIVE

    def _chosen(self) -> ev.DeliveryChosen:
        """The way of those that have the longest."""
        way = next(way for way in _WAYS if any(way == own for own, _ in self._came.values()))
        if way == LIVE:
            reason = "all agents have reached this machine"
        else:
            hosts = [host for own, host in self._came.values() if own != LIVE]
            some = "the agent" if self._tasks == 1 else f"{len(hosts)} of {self._tasks} agents, such as that"
            reason = f"{some} on {hosts[0]} cannot reach this machine at {self._addresses}: {_REASONS[way]}"
        return ev.DeliveryChosen(time=time.time(), way=way, reason=reason)

    def _let_go(self) -> None:
        """Nobody else is to come, and what nobody came by ends."""
        used = {way for way, _ in self._came.values()}
        if self._relay is not None:
            self._relay.shut() if RELAY in used else self._relay.close()
        if self._spool is not None and SPOOL not in used:
            self._spool.close()
