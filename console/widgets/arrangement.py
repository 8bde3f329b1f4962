"""Which panes of the run screen are shown, and how tall, for a terminal of a given size. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from textual.geometry import Size

WIDE, WIDEST, TALL = 110, 160, 34
_LEAST_LOG = 8
_DETAIL_ROWS, _CHART_ROWS = 12, 18


@dataclass(frozen=True, slots=True)
class Arrangement:
    """The panes on the screen. A height of None takes what is left."""

    panes: tuple[str, ...]
    upper_height: int | None = None
    result_height: int | None = None

    @property
    def has_upper(self) -> bool:
        """Whether a pane about ranks is shown."""
        return not {"ranks", "detail", "charts"}.isdisjoint(self.panes)

    @property
    def has_lower(self) -> bool:
        """Whether the output or the result is shown."""
        return "logs" in self.panes or "result" in self.panes


def arrange(
    terminal: Size,
    room: int,
    *,
    lines: int,
    upper: str,
    lower: str,
    zoomed: str | None,
    folded: bool = False,
) -> Arrangement:
    """The panes for `room` lines of a terminal.

    `lines` show all ranks; `upper` and `lower` say which of two panes is wanted. `folded` says that
    there is no result yet: where it has a pane beside the output, that is its border.
    """
    if zoomed is not None:
        return Arrangement((zoomed,))
    tall = terminal.height >= TALL
    above = _above(terminal.width, upper, tall=tall)
    below = ("logs", "result") if tall else (lower,)
    wanted = lines + 2
    if len(above) > 1:
        wanted = max(wanted, (_CHART_ROWS if len(above) > 2 else _DETAIL_ROWS) + 2)
    upper_height = max(min(wanted, room - _LEAST_LOG, room * 3 // 5), 4)
    result_height = (2 if folded else min(max(room // 5, 5), 12)) if len(below) > 1 else None
    return Arrangement((*above, *below), upper_height, result_height)


def _above(width: int, upper: str, *, tall: bool) -> tuple[str, ...]:
    """The panes side by side about ranks."""
    if width >= WIDEST and tall:
        return ("ranks", "detail", "charts")
    if width >= WIDE:
        return ("ranks", "charts" if upper == "charts" else "detail")
    return (upper,)
