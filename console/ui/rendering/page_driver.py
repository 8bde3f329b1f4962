"""Drawing into a browser's page: Textual's own driver for that, which here also notices a closed page."""

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
    """Draws to a pipe and reads keys from another; when that closes, the console ends as by SIGTERM."""

    def __init__(
        self, app: App[Any], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._lock = threading.Lock()
        if may_use():
            self._write = self._write_whole  # type: ignore[assignment]  # Textual's may write only a part

    def start_application_mode(self) -> None:
        """Begin to draw. Textual's own method enables the mouse even if it is switched off."""
        super().start_application_mode()
        if may_use() and not self._mouse:
            self._disable_mouse_support()

    def run_input_thread(self) -> None:
        """Read keys until the page is closed."""
        super().run_input_thread()
        if not self.exit_event.is_set():
            os.kill(os.getpid(), signal.SIGTERM)

    def _write_whole(self, data: bytes) -> None:
        rest = memoryview(data)
        with self._lock:  # the input thread writes packets, too
            try:
                while rest:
                    rest = rest[os.write(self.fileno, rest) :]
            except BrokenPipeError:
                return  # the page is closed: the input thread notices next, and ends the console
