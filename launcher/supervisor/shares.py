"""What the ranks' shares of a DataFrame have in common: told by every agent, and told to every agent.

Ranks begin while rows are still being dealt, and none knows how many the others have. So that all take the
same number of steps, each agent reports what its task has dealt; the least and the most of it go back.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from ..channel.frames import WireError
from ..data.shares import EXAMPLE_LIMIT
from ..data.steps import Held, agree
from ..errors import counted

TELL_S = 0.02
_EXAMPLE_LIMIT = 2 * EXAMPLE_LIMIT  # it travels as text


class GangShares:
    """The shares of all ranks.

    Args:
        tell: sends a document to every agent.
    """

    def __init__(
        self, tell: Callable[[Mapping[str, Any]], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._tell = tell
        self._clock = clock
        self.clear()

    def clear(self) -> None:
        """Forget the shares of agents that have left."""
        self._held: dict[int, Held] = {}
        self._example = ""
        self._told: dict[str, Any] = {}
        self._due = math.inf

    def on_shares(self, agent: int, document: Mapping[str, Any]) -> None:
        """Take what an agent reports.

        Raises:
            WireError: it is no such report.
        """
        rows, complete, example = document.get("rows"), document.get("complete"), document.get("example", "")
        if not isinstance(rows, list) or not all(type(each) is int and each >= 0 for each in rows):
            raise WireError(f"agent {agent} reported the rows {rows!r:.40}")
        if not isinstance(complete, bool) or not isinstance(example, str) or len(example) > _EXAMPLE_LIMIT:
            raise WireError(f"agent {agent} reported the row {example!r:.40}")
        self._held[agent] = Held(tuple(rows), complete)
        self._example = self._example or example
        self._due = min(self._due, self._clock() + TELL_S)

    def timeout(self) -> float | None:
        """Seconds until `advance` has something to do; None: never."""
        return None if self._due == math.inf else max(0.0, self._due - self._clock())

    def advance(self, agents: int) -> Held | None:
        """Tell `agents` agents what their shares have in common; all rows, once they are known."""
        if self._clock() < self._due:
            return None
        self._due = math.inf
        agreed = agree(self._held.get(agent) for agent in range(agents))
        if (told := asdict(agreed)) == self._told:
            return None
        lacks = any(each.complete and not all(each.rows) for each in self._held.values())
        self._tell({**told, "example": self._example} if lacks else told)
        self._told = told
        return self._all() if agreed.most_final else None

    def _all(self) -> Held:
        rows = [rows for agent in sorted(self._held) for rows in self._held[agent].rows]
        return Held(tuple(rows), complete=True)


def rows_note(rows: tuple[int, ...]) -> str:
    """How many rows each rank has, for people."""
    least, most = min(rows), max(rows)
    each = f"{least:,}" if least == most else f"{least:,} to {most:,}"
    return f"the DataFrame's {sum(rows):,} rows are shared by {counted(len(rows), 'rank')}: {each} each"
