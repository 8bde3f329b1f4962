"""Drawing into a browser's page: Textual's own driver for that, which also notices the page's end."""

from __future__ import annotations

import os
import signal
import threading
from typing import TYPE_CHECKING, Any

from textual.drivers.web_driver import WebDriver

from .insides import may_use

if TYPE_CHECKING:
    from textual.app import App


class PageDriver(WebDriver):
    """Draws to a pipe, and takes keys from another; the end of that one ends the console as SIGTERM does."""

    def __init__(
        self, app: App[Any], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._turn = threading.Lock()
        if may_use():
            self._write = self._write_whole  # type: ignore[assignment]  # theirs may write a part

    def start_application_mode(self) -> None:
        """Begin to draw. Theirs asks for the mouse whether it is wanted or not."""
        super().start_application_mode()
        if may_use() and not self._mouse:
            self._disable_mouse_support()

    def run_input_thread(self) -> None:
        """Take keys until the page has gone."""
        super().run_input_thread()
        if not self.exit_event.is_set():
            os.kill(os.getpid(), signal.SIGTERM)

    def _write_whole(self, data: bytes) -> None:
        rest = memoryview(data)
        with self._turn:  # packets come from the thread of the keys too
            try:
                while rest:
                    rest = rest[os.write(self.fileno, rest) :]
            except BrokenPipeError:
                return  # nobody sees it; the keys' end comes next, and ends us
