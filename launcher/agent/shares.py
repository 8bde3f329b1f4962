"""The agent's part in sharing rows.

It reports what its task has dealt and which of its ranks wait for rows, and notes what all ranks have.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..channel.frames import Kind, document
from ..data.shares import Agreed, ShareLedger
from ..state.events import Event, RowsAwaited

REPORT_S = 0.02
LOOK_S = 0.5
WAITS_S = 2.0
"""Seconds of a wait before it is told, and without one before that is told."""
_FRESH_S = 0.25  # whoever waits looks more often


class RowWaits:
    """Which shares' ranks wait for rows: told once a wait is long, and once there was none for as long."""

    def __init__(self) -> None:
        self._since: dict[int, float] = {}
        self.waiting: set[int] = set()

    def changes(self, share: int, looked: float, now: float) -> bool:
        """Whether a rank begins or ceases to wait.

        Args:
            share: its share.
            looked: when it last looked in vain for rows.
            now: the time.
        """
        if share in self.waiting:
            if over := now - looked >= WAITS_S:
                self.waiting.discard(share)
            return over
        if now - looked > _FRESH_S:
            self._since.pop(share, None)
            return False
        if begins := now - self._since.setdefault(share, now) >= WAITS_S:
            self.waiting.add(share)
            del self._since[share]
        return begins


class TaskShares:
    """The shares of this agent's ranks, in the ledger of its task.

    Args:
        ledger: the task's.
        put: sends a frame to the engine.
        tell: sends a fact to the engine.
    """

    def __init__(
        self,
        ledger: ShareLedger,
        put: Callable[[bytes], None],
        tell: Callable[[Event], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ledger = ledger
        self._put = put
        self._tell = tell
        self._clock = clock
        self._due = self._look_due = clock()
        self._told: dict[str, Any] = {}
        self._settled = False
        self._has_example = False
        self.begin(())

    def begin(self, ranks: Sequence[int]) -> None:
        """Watch these ranks, each with the share of its place, from now on."""
        self._ranks = list(ranks)
        self._waits = RowWaits()

    @property
    def _complete(self) -> bool:
        """Whether it was reported that the task has dealt all its rows."""
        return bool(self._told.get("complete"))

    def timeout(self) -> float | None:
        """Seconds until `advance` has something to do; None once no rank can wait for rows any more."""
        dues = [self._due] * (not self._complete) + [self._look_due] * (not self._settled)
        return max(0.0, min(dues) - self._clock()) if dues else None

    def advance(self) -> None:
        """Report how many rows each rank has, and which ranks wait for more, if that has changed."""
        now = self._clock()
        if now >= self._due and not self._complete:
            self._due = now + REPORT_S
            self._report()
        if now >= self._look_due and not self._settled:
            self._look_due = now + LOOK_S
            self._look(now)

    def _look(self, now: float) -> None:
        """Tell of ranks that begin or cease to wait for rows."""
        for share, rank in enumerate(self._ranks):
            if self._waits.changes(share, self._ledger.looked(share), now):
                over = share not in self._waits.waiting
                rows = self._ledger.rows(share)
                self._tell(RowsAwaited(time=time.time(), rank=rank, rows=rows, over=over))
        agreed = self._ledger.agreed
        final = self._complete and agreed.least_final and agreed.most_final
        self._settled = final and not self._waits.waiting

    def _report(self) -> None:
        complete = self._ledger.complete  # before the rows, which may grow until then
        rows = [self._ledger.rows(share) for share in range(self._ledger.count)]
        if (told := {"rows": rows, "complete": complete}) == self._told:
            return
        self._told = told
        self._put(document(Kind.SHARES, {**told, **self._example()}))

    def _example(self) -> dict[str, str]:
        """The task's first row, once."""
        if self._has_example or not (row := self._ledger.own_example):
            return {}
        self._has_example = True
        return {"example": base64.b64encode(row).decode()}

    def on_agreed(self, agreed: Mapping[str, Any]) -> None:
        """Write what all ranks have; the example first, since ranks may need it at once."""
        if example := agreed.get("example"):
            self._ledger.set_example(base64.b64decode(example))
        self._ledger.agree(
            Agreed(agreed["least"], agreed["least_final"], agreed["most"], agreed["most_final"])
        )
