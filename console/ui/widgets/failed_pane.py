"""What stands in a pane that failed, until it has something to show; the rest of the console goes on."""

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
    """Let what fails in here be told as a failure of its own, and the rest of a handler go on."""
    try:
        yield
    except Exception as error:  # noqa: BLE001  it is raised again, by itself
        node.call_later(_fail, error)


def _fail(error: Exception) -> None:
    raise error


class FailedPane(Widget):
    """Covers a pane, and says what happened to it.

    Args:
        pane: what it covers.
        lines: what is said.
        drawing: it failed while it was drawn. What is drawn is made late, so whether it can be drawn now is
            known only by trying, which is done seldom: each time both have to be laid out.
        clock: seconds, for how long ago that was.
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
        """A sentence a line; where there is one line, all in it."""
        return Content(("\n" if self.size.height >= len(self._lines) else " · ").join(self._lines))

    def well(self) -> None:
        """The pane has taken what it is to show: let it be seen, at once or when it is time to try."""
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
