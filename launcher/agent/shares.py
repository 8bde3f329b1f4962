"""The agent's part in sharing rows: it reports what its task has dealt, and notes what all ranks have."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Mapping
from typing import Any

from ..channel.frames import Kind, document
from ..data.shares import Agreed, ShareLedger

REPORT_S = 0.02


class TaskShares:
    """The shares of this agent's ranks, in the ledger of its task.

    Args:
        ledger: the task's.
        put: sends a frame to the engine.
    """

    def __init__(
        self, ledger: ShareLedger, put: Callable[[bytes], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._ledger = ledger
        self._put = put
        self._clock = clock
        self._due = clock()
        self._told: dict[str, Any] = {}
        self._has_example = False

    def timeout(self) -> float | None:
        """Seconds until `advance` has something to do; None once the task has dealt all its rows."""
        return None if self._told.get("complete") else max(0.0, self._due - self._clock())

    def advance(self) -> None:
        """Report how many rows each rank has, if that has changed."""
        if self._told.get("complete") or self._clock() < self._due:
            return
        self._due = self._clock() + REPORT_S
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
