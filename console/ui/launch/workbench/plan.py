"""Before the launch: what differs from the target's last run, and where each rank would go."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from .... import formatting as fig
from ....data.run.model import PHASE_GLYPHS
from ...widgets.rows import Row, ScrollingSheet, clip, safe
from .layout import TITLE_PLAN

if TYPE_CHECKING:
    from ....data.launch.changes import Change, SinceLast
    from ....data.launch.places import PlacementMap

_NAME = 20
_LOW = 8
_MOST = 12


class LaunchPlan(ScrollingSheet):
    """The changes, a line each, and the map of hosts and GPUs below them."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        super().__init__(id="plan", classes="pane")
        self.border_title = TITLE_PLAN
        self._clock = clock
        self._since: SinceLast | None = None
        self._places: PlacementMap | None = None
        self.known = False

    def show(self, places: PlacementMap | None, since: SinceLast | None) -> None:
        """Show these places, and what has changed; `places` is None while the machine is not known."""
        changed = not self.known or (places, since) != (self._places, self._since)
        self._places, self._since, self.known = places, since, True
        if changed:
            self.refresh_rows()

    @property
    def complete(self) -> bool:
        """Whether the places are known too."""
        return self._places is not None

    def rows(self, width: int) -> Sequence[Row]:
        """The changes and the map; in a low pane a line for each of both."""
        if not self.known:
            return []
        height = self.size.height
        told = [self._in_short(width)] if height < _LOW else list(self._changes(width))
        if self._places is None:
            return told
        from .placement import map_rows  # no map is drawn before the first frames

        between: list[Row] = [] if height < _LOW else [()]
        drawn = map_rows(self._places, width, height - len(told) - len(between))
        return [*told, *between, *drawn]

    def _changes(self, width: int) -> Iterator[Row]:
        since = self._since
        if since is None:
            yield ((" no earlier run of it", "muted"),)
            return
        if not since.changes:
            yield self._same(since, width)
            return
        yield clip((*self._head(since, "since"), (f"  {len(since.changes)} differ", "")), width)
        for change in since.changes[:_MOST]:
            yield clip(safe(_change_row(change)), width)
        if (more := len(since.changes) - _MOST) > 0:
            yield ((f"   and {more} more", "muted"),)

    def _in_short(self, width: int) -> Row:
        since = self._since
        if since is None:
            return ((" no earlier run of it", "muted"),)
        if not since.changes:
            return self._same(since, width)
        first = _change_row(since.changes[0], padded=False)
        more = f" and {len(since.changes) - 1} more" if len(since.changes) > 1 else ""
        row = (*first, (more, "muted"), ("  since", "muted"), *self._run(since))
        return clip(safe(row), width)

    def _same(self, since: SinceLast, width: int) -> Row:
        return clip((*self._head(since, "same as"), ("", "")), width)

    def _head(self, since: SinceLast, word: str) -> Row:
        return safe(((f" {word} {since.run.id}", "muted"), *self._run(since)))

    def _run(self, since: SinceLast) -> Row:
        run = since.run
        glyph, style = PHASE_GLYPHS[run.state]
        return (f" {glyph} {run.state}", style), (f" {fig.ago(run.started, self._clock())}", "muted")


def _change_row(change: Change, *, padded: bool = True) -> Row:
    name = f"{fig.shorten(change.name, _NAME):<{_NAME if padded else 0}}"
    if not change.before and change.now.startswith("edited "):
        return (f" {name} ", "muted"), (change.now, "rank-behind")
    before, now = (_value(text) for text in (change.before, change.now))
    return (f" {name} ", "muted"), (before, ""), (" → ", "muted"), (now, "bold rank-behind")


def _value(text: str) -> str:
    return fig.one_line(text, 60) if text else fig.UNKNOWN
