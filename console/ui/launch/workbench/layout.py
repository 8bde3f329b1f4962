"""The places of the launch screen's panes, by the size of the terminal and by which of them are shown.

The form takes the height that its fields need. What is left is divided between the past runs and what the
workbench shows beside them: to the right of the form from `WIDE` columns on, else below it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from textual.containers import Container
from textual.geometry import Offset, Region, Size, Spacing
from textual.layout import Layout, WidgetPlacement

if TYPE_CHECKING:
    from textual.widget import Widget

WIDE = 150
"""The least number of columns at which past runs are beside the form."""
LOW = 22
"""With fewer lines, the form gets half of the room only."""
PAIRED = 80
"""The least number of columns at which past runs and the workbench are beside each other."""
TALL = 34
"""The least number of lines at which a preview is below both, where it cannot be beside them."""

FORM, RECENT, FOUND, PREVIEW, PLAN = "form", "recent", "found", "preview", "plan"
TITLE_FOUND, TITLE_PLAN = "3 Trainings here", "3 Before the launch"
_LEAST = 4


def shown(size: Size, *, seeking: bool, recent_first: bool) -> frozenset[str]:
    """The panes that are shown in a terminal of that size.

    Args:
        size: the terminal's.
        seeking: whether a target is looked for; else one is filled in.
        recent_first: where there is room for one pane only, whether it is that of past runs.
    """
    other = FOUND if seeking else PLAN
    if size.width < PAIRED:
        return frozenset({FORM, RECENT if recent_first else other})
    preview = {PREVIEW} if seeking and (size.width >= WIDE or size.height >= TALL) else set()
    return frozenset({FORM, RECENT, other, *preview})


def places(room: Size, terminal: Size, form: int, panes: Collection[str]) -> dict[str, Region]:
    """The region of each pane in the container; `form` is the height that the form's fields take."""
    other = next((name for name in (FOUND, PLAN) if name in panes), None)
    if terminal.width >= WIDE:
        return _beside(room, form, panes, other)
    most = room.height * 55 // 100 if terminal.height < LOW else room.height * 78 // 100
    top = max(min(form, most, room.height - _LEAST), min(3, room.height))
    below = max(room.height - top, 0)
    found = {FORM: Region(0, 0, room.width, top)}
    lower = max(below * 2 // 5, min(8, below // 2)) if PREVIEW in panes else below
    split = room.width * 9 // 20 if other and RECENT in panes else room.width if RECENT in panes else 0
    if RECENT in panes:
        found[RECENT] = Region(0, top, split, lower)
    if other:
        found[other] = Region(split, top, room.width - split, lower)
    if PREVIEW in panes:
        found[PREVIEW] = Region(0, top + lower, room.width, below - lower)
    return found


def _beside(room: Size, form: int, panes: Collection[str], other: str | None) -> dict[str, Region]:
    left = room.width * 3 // 5
    right = room.width - left
    top = room.height if other is None else max(min(form, room.height * 65 // 100), min(3, room.height))
    found = {FORM: Region(0, 0, left, top)}
    if other:
        found[other] = Region(0, top, left, room.height - top)
    if RECENT in panes:
        found[RECENT] = Region(left, 0, right, top if PREVIEW in panes else room.height)
    if PREVIEW in panes:
        found[PREVIEW] = Region(left, top, right, room.height - top)
    return found


class LaunchLayout(Layout):
    """Arranges the panes by `places`."""

    name = "launch"

    def arrange(
        self, parent: Widget, children: list[Widget], size: Size, greedy: bool = True
    ) -> list[WidgetPlacement]:
        """A placement for each pane."""
        del greedy
        by_id = {child.id or "": child for child in children}
        form, terminal = by_id.get(FORM), parent.app.size
        width = size.width * 3 // 5 if terminal.width >= WIDE else size.width
        height = 0
        if form is not None:
            gutter = form.styles.gutter
            height = form.get_content_height(size, terminal, width - gutter.width) + gutter.height
        regions = places(size, terminal, height, by_id)
        return [
            WidgetPlacement(region, Offset(0, 0), Spacing(), by_id[name])
            for name, region in regions.items()
            if name in by_id
        ]


_LAYOUT = LaunchLayout()


class LaunchPanes(Container):
    """The container of the panes; in it they have the places of `LaunchLayout`."""

    @property
    def layout(self) -> Layout:
        """Ours, which no style sheet can name."""
        return _LAYOUT
