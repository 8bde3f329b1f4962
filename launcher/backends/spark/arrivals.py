"""Records by which way each agent has connected, and closes unused ways once all agents have.

All ways lead to the engine's listener and carry the same bytes, so no other module distinguishes them.
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
    """The agents of one launch that have connected.

    Args:
        tasks: how many agents there are.
        addresses: the engine's addresses that agents try, as text for people.
        relay: the relay beside the Connect server, if there is one.
        spool: the spool folder, if there is one.
        report: called with each agent's connection, and with a fact once all have connected.
    """

    def __init__(
        self,
        tasks: int,
        addresses: str,
        *,
        relay: Relay | None,
        spool: Spool | None,
        report: Callable[..., None],
    ) -> None:
        self._tasks, self._addresses = tasks, addresses
        self._relay, self._spool, self._report = relay, spool, report
        self._joined: dict[int, tuple[str, str]] = {}

    @property
    def complete(self) -> bool:
        """Whether all agents have connected."""
        return len(self._joined) >= self._tasks

    def admit(self, link: AgentConnection) -> None:
        """Record an agent that the listener has admitted. Called on the listener's thread."""
        before = self.complete
        self._joined[link.agent] = self._way_of(link), link.hello.host if link.hello else ""
        if self.complete and not before:
            self._report(self._delivery())
            threading.Thread(target=self._close_unused, name="rankdeck-arrivals", daemon=True).start()
        self._report(link)

    def _way_of(self, link: AgentConnection) -> str:
        peer = link.peer
        if self._relay is not None and self._relay.brings(peer):
            return RELAY
        return SPOOL if self._spool is not None and self._spool.brings(peer) else LIVE

    def _delivery(self) -> ev.DeliveryChosen:
        """The first of `_WAYS` that an agent used, and why."""
        way = next(way for way in _WAYS if any(way == used for used, _ in self._joined.values()))
        if way == LIVE:
            reason = "all agents have reached this machine"
        else:
            hosts = [host for used, host in self._joined.values() if used != LIVE]
            some = "the agent" if self._tasks == 1 else f"{len(hosts)} of {self._tasks} agents, such as that"
            reason = f"{some} on {hosts[0]} cannot reach this machine at {self._addresses}: {_REASONS[way]}"
        return ev.DeliveryChosen(time=time.time(), way=way, reason=reason)

    def _close_unused(self) -> None:
        """Close the ways that no agent used, and the relay to further agents."""
        used = {way for way, _ in self._joined.values()}
        if self._relay is not None:
            self._relay.shut() if RELAY in used else self._relay.close()
        if self._spool is not None and SPOOL not in used:
            self._spool.close()
