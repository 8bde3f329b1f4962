"""Signs of life: when to send one, and when the other end has been silent for too long."""

from __future__ import annotations

BEATS = 5


class Pulse:
    """The rhythm of one end of a channel. Pure: what time it is, on a monotonic clock, is an argument.

    It is asked as often as `timeout` says. A longer pause means that this process itself did not run, so
    it could not have heard anything either: such a pause counts as one interval of silence, not more.

    Args:
        limit_s: seconds of silence after which the other end is dead; a beat is due every fifth of it.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit = limit_s
        self._every = limit_s / BEATS
        self._sent: float | None = None
        self._heard = self._asked = 0.0

    def sent(self, now: float) -> None:
        """Something was sent, or is on its way: no beat is needed for an interval."""
        self._notice(now)
        self._sent = now

    def heard(self, now: float) -> None:
        """Something came from the other end."""
        self._notice(now)
        self._heard = now

    def due(self, now: float) -> bool:
        """Whether a beat should be sent."""
        return now - self._notice(now) >= self._every

    def dead(self, now: float) -> bool:
        """Whether the other end has been silent for too long."""
        return self.silence(now) >= self._limit

    def silence(self, now: float) -> float:
        """Seconds since the other end was heard."""
        self._notice(now)
        return now - self._heard

    def timeout(self, now: float) -> float:
        """Seconds until a beat is due or the other end is dead."""
        sent = self._notice(now)
        return max(0.0, min(sent + self._every, self._heard + self._limit) - now)

    def _notice(self, now: float) -> float:
        """When something was last sent. The first question of all starts the clock."""
        if self._sent is None:
            self._sent = self._heard = now
        elif now - self._asked > 2 * self._every:
            self._heard = max(self._heard, now - self._every - (self._asked - self._heard))
        self._asked = now
        return self._sent
