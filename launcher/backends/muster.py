"""Agents that have come, held back until all are here: then the run is carried live, or none of it is.

An agent that cannot reach us waits with the others for what they agree on among themselves. So if some have
come and others have not, those that have are sent to the others.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from launcher.channel.link import Link, LinkClosed
from launcher.worker.wire import Kind

# Longer than an agent needs to find out that there is no way here: who is late by more is not on its way.
REGROUP_S = 15.0


class Muster:
    """The links of one stage. `admit` is for the listener's thread, the rest for one other.

    Args:
        expected: how many agents there are.
        complete: told of all links at once, when the last has come.
        clock: a monotonic clock.
    """

    def __init__(
        self,
        expected: int,
        complete: Callable[[Sequence[Link]], None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._expected = expected
        self._complete = complete
        self._clock = clock
        self._lock = threading.Lock()
        self._held: list[Link] = []
        self._came: set[int] = set()
        self._first: float | None = None
        self._sent_away: dict[str, object] | None = None

    @property
    def came(self) -> frozenset[int]:
        """The numbers of the agents that have come so far."""
        with self._lock:
            return frozenset(self._came)

    def admit(self, link: Link) -> None:
        """Take in an agent that has joined."""
        with self._lock:
            if self._first is None:
                self._first = self._clock()
            self._came.add(link.agent)
            self._held.append(link)
            if self._sent_away is not None:
                self._send_away(self._sent_away)
                return
            if len(self._held) < self._expected:
                return
            all_here, self._held = self._held, []
            self._complete(all_here)

    def tend(self) -> None:
        """Keep those that wait in touch; after a while, send them away. Call it several times a second."""
        now = self._clock()
        with self._lock:
            for link in list(self._held):
                try:
                    link.join()
                    link.tend(now)
                except LinkClosed:
                    link.close()
                    self._held.remove(link)
            if self._sent_away is None and self._first is not None and now >= self._first + REGROUP_S:
                missing = self._expected - len(self._came)
                if missing and self._held:
                    self._send_away({"reason": f"{missing} other agents cannot reach the engine"})

    def leave(self) -> bool:
        """Have all agents end that have come, and those that wait for them; whether any were here.

        They meet once more for that. A task that is cancelled while it waits for another takes its whole
        executor with it.
        """
        with self._lock:
            some = bool(self._held)
            if some:
                self._send_away({"leave": True})
            return some

    def close(self) -> None:
        """Close the links that are still held."""
        with self._lock:
            for link in self._held:
                link.close()
            self._held.clear()

    def _send_away(self, words: dict[str, object]) -> None:
        self._sent_away = words
        for link in self._held:
            link.send(Kind.REGROUP, words)
