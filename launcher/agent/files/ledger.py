"""Which file is to come home next: those that are complete and that home does not have as they are now. Pure.

A file is complete once a program has closed it, or when nobody has written to it for `QUIET_S`.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Mapping

from .scan import Stamp

QUIET_S = 2.0
SETTLE_S = 0.1
"""Seconds after a file is closed; two writes within one tick of the kernel's clock look like one."""

_SHARE = 4.0  # a file that is rewritten all the time takes a fifth of the channel at most


class Ledger:
    """What home has, and what waits to be sent. Times are monotonic, in seconds.

    Args:
        before: the files that were there before any rank started; home needs none of them.
    """

    def __init__(self, before: Mapping[str, Stamp]) -> None:
        self._home = dict(before)
        self._sent: set[str] = set()
        self._closed: list[tuple[float, str]] = []
        self._seen: dict[str, tuple[Stamp, float]] = {}
        self._ready: list[tuple[int, str]] = []
        self._wanted: dict[str, Stamp] = {}
        self._not_before: dict[str, float] = {}
        self._refused: dict[str, Stamp] = {}
        self._hurried = False

    @property
    def waiting(self) -> Mapping[str, Stamp]:
        """The files that can be sent now."""
        return self._wanted

    def changed(self, found: Mapping[str, Stamp]) -> list[str]:
        """The files that home does not have as they are now."""
        return [path for path, stamp in found.items() if self._home.get(path) != stamp]

    def on_closed(self, path: str, now: float) -> None:
        """A program has closed a file that it had opened for writing."""
        heapq.heappush(self._closed, (max(now + SETTLE_S, self._not_before.get(path, 0.0)), path))

    def due(self, now: float) -> list[str]:
        """The closed files whose stamp is to be read now."""
        due: dict[str, None] = {}
        while self._closed and self._closed[0][0] <= now:
            due[heapq.heappop(self._closed)[1]] = None
        return list(due)

    def next_due(self) -> float | None:
        """When `due` has something; None for never."""
        return self._closed[0][0] if self._closed else None

    def offer(self, path: str, stamp: Stamp, now: float) -> None:
        """A file is complete."""
        if stamp in (self._home.get(path), self._refused.get(path), self._wanted.get(path)):
            return None
        if not self._hurried and now < self._not_before.get(path, 0.0):
            return self.on_closed(path, now)
        self._wanted[path] = stamp
        heapq.heappush(self._ready, (stamp.size, path))
        return None

    def on_scan(self, found: Mapping[str, Stamp], now: float) -> None:
        """Offer the files that have not changed for `QUIET_S`."""
        seen, self._seen = self._seen, {}
        for path, stamp in found.items():
            if self._home.get(path) == stamp:
                continue
            before, since = seen.get(path, (None, now))
            self._seen[path] = (stamp, since) if before == stamp else (stamp, now)
            if now - self._seen[path][1] >= QUIET_S:
                self.offer(path, stamp, now)

    def missing(self, found: Collection[str]) -> list[str]:
        """The files that home has and that a scan did not find."""
        return [path for path in self._sent if path not in found]

    def forget(self, paths: Iterable[str]) -> None:
        """Files were deleted."""
        for path in paths:
            self._home.pop(path, None)
            self._wanted.pop(path, None)
            self._sent.discard(path)

    def hurry(self, found: Mapping[str, Stamp], now: float) -> None:
        """Offer all that home does not have: no rank is left that could write."""
        self._hurried = True
        self._refused.clear()
        self._wanted.clear()
        for path, stamp in found.items():
            self.offer(path, stamp, now)

    def take(self) -> tuple[str, Stamp] | None:
        """The file to send next, the smallest first; None if there is none."""
        while self._ready:
            _, path = heapq.heappop(self._ready)
            stamp = self._wanted.pop(path, None)
            if stamp is not None and self._home.get(path) != stamp:
                return path, stamp
        return None

    def on_sent(self, path: str, stamp: Stamp, *, took_s: float, now: float) -> None:
        """Home has a file as it was then."""
        self._home[path] = stamp
        self._sent.add(path)
        self._not_before[path] = now + max(QUIET_S, _SHARE * took_s)

    def on_changed(self, path: str, now: float) -> None:
        """A file was written to, or deleted, while it was sent."""
        self._not_before[path] = now + QUIET_S
        self.on_closed(path, now)

    def on_refused(self, path: str, stamp: Stamp) -> None:
        """Home does not take a file, which was sent or is being sent."""
        if self._home.get(path) == stamp:
            del self._home[path]
        self._refused[path] = stamp
