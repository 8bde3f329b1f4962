"""Who may begin now: a bounded number at once, and the others in the order in which they came."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable


class Turns:
    """A fair semaphore whose waiters are called back instead of being held up. For any thread."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._lock = threading.Lock()
        self._held: set[Turn] = set()
        self._waiting: deque[Turn] = deque()

    def take(self, granted: Callable[[], None]) -> Turn:
        """Ask for a turn; `granted` is called when it comes, perhaps at once, on whatever thread."""
        turn = Turn(self, granted)
        with self._lock:
            now = len(self._held) < self.limit
            if now:
                self._held.add(turn)
            else:
                self._waiting.append(turn)
        if now:
            granted()
        return turn

    @property
    def held(self) -> int:
        """How many have theirs."""
        return len(self._held)

    def give_back(self, turn: Turn) -> None:
        """End a turn, or the wait for it; the next one begins. Doing so again has no effect."""
        following = None
        with self._lock:
            if turn in self._held:
                self._held.remove(turn)
                if self._waiting:
                    following = self._waiting.popleft()
                    self._held.add(following)
            elif turn in self._waiting:
                self._waiting.remove(turn)
        if following:
            following.granted()


class Turn:
    """One place among those that may be at it, or in the queue for it."""

    def __init__(self, turns: Turns, granted: Callable[[], None]) -> None:
        self.granted = granted
        self._turns = turns

    def give_back(self) -> None:
        """See `Turns.give_back`."""
        self._turns.give_back(self)
