"""Which files may be half of what their writer meant, because a rank ended while it wrote. Pure.

The kernel closes the files of a process that it kills. So a close is the program's own if all ranks were
alive afterwards, and a file that was quiet when a rank ended was complete. Times are seconds since the epoch
on the clock of the host.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from .ledger import QUIET_S
from .writers import Look

_CLOSE_S = 0.25  # between the kernel's closing a file and our reading of the news of it
_LATE_S = 1.0
_STARTED_S = 5.0


@dataclass(frozen=True, slots=True)
class Close:
    """A file was closed after writing.

    Attributes:
        time: when the news of it was read.
        certain: whether every rank was alive then: its program has closed it, not the kernel.
    """

    time: float
    certain: bool = False

    def covers(self, written: float) -> bool:
        """Whether the file was complete after a write at this time."""
        return self.certain and written <= self.time


class Endings:
    """When ranks of this host ended, as far as looks at them now and then can tell.

    How they ended is not known here: what they may have torn is left alone until the engine says.

    Attributes:
        seen: the times between which some rank ended, each as the last look before and the first after it.
        all_alive: whether all ranks were alive at the last look.
    """

    def __init__(self) -> None:
        self.seen: list[tuple[float, float]] = []
        self.all_alive = False
        self._known: frozenset[int] = frozenset()
        self._last = Look(frozenset(), 0)
        self._looked = self._began = 0.0

    def look(self, look: Look, now: float) -> None:
        """Note which ranks are alive now."""
        if not look.size:
            return
        self._began = self._began or now
        if self._last.alive - look.alive:
            self.seen.append((self._looked, now))
        elif len(self._known) < look.size and self._began < now - _STARTED_S:
            self.seen.append((self._began, now))  # a rank has ended before anybody looked
            self._began = now
        self._known |= look.alive
        self._last, self._looked, self.all_alive = look, now, len(look.alive) == look.size

    def may_have_torn(self, written: float, closed: Close | None) -> bool:
        """Whether a rank may have ended while it wrote a file that was written last at this time."""
        if closed is not None and closed.covers(written):
            return False
        return any(after - QUIET_S <= written <= before + _LATE_S for after, before in self.seen)


def is_torn(written: float, closed: Close | None, deaths: Iterable[float]) -> bool:
    """Whether a file may be half of what its writer meant.

    Args:
        written: when the file was written last.
        closed: its last close; None if that was not seen.
        deaths: when ranks of this host were killed by signals.
    """
    if closed is not None and closed.covers(written):
        return False
    for death in deaths:
        if written < death - QUIET_S or written > death + _LATE_S:
            continue
        if closed is None or closed.time < written - _CLOSE_S or closed.time > death - _CLOSE_S:
            return True
    return False
