"""What a failed pane shows until it has content again; the rest of the console goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from textual.content import Content
from textual.widget import Widget

if TYPE_CHECKING:
    from textual import events

    from .rows import Titled

_DRAWN_AGAIN_S = 5.0


@contextmanager
def contained(node: Widget) -> Iterator[None]:
    """Raise an exception of this block later, on its own, so that the rest of the handler goes on."""
    try:
        yield
    except Exception as error:  # noqa: BLE001  `_fail` raises it again
        node.call_later(_fail, error)


def _fail(error: Exception) -> None:
    raise error


class FailedPane(Widget):
    """Covers a pane that failed, with a message.

    Args:
        pane: the pane that it covers.
        lines: the message.
        drawing: whether the pane failed while it was drawn. Whether it can be drawn again is known only by
            trying, which is done after a delay because both have to be laid out each time.
        clock: gives the time in seconds, to measure that delay.
    """

    DEFAULT_CSS = """
    FailedPane { width: 1fr; height: 1fr; padding: 0 1; color: $rank-behind; }
    """

    def __init__(
        self,
        pane: Titled,
        lines: tuple[str, ...],
        *,
        drawing: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._pane, self._lines, self._drawing, self._clock = pane, lines, drawing, clock
        self._since = clock()
        self._lifting = False
        if not pane.is_container and pane.styles.border.spacing.top:
            self.styles.border = pane.styles.border.top
            self.border_title = pane.border_title

    def render(self) -> Content:
        """A sentence on each line; all on one line if there is too little room."""
        return Content(("\n" if self.size.height >= len(self._lines) else " · ").join(self._lines))

    def recovered(self) -> None:
        """The pane has accepted new content: show it again, at once or after the delay."""
        if self._lifting:
            return
        self._lifting = True
        wait = self._since + _DRAWN_AGAIN_S - self._clock() if self._drawing else 0.0
        if wait > 0:
            self.set_timer(wait, self._pane.uncover)
        else:
            self._pane.uncover()

    def on_click(self, event: events.Click) -> None:
        """Try again."""
        event.stop()
        self._pane.action_try_again()
