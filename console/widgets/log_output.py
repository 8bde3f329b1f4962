"""Rows of a log on their way out of the console: to a file that a person names, or to a pager."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import ClassVar

from textual import on, work
from textual.app import SuspendNotSupported
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message

from console.messages import Rows, copy_rows, new_file
from console.widgets import figures as fig
from console.widgets.titled import Titled

TERMINAL = "/dev/tty"


class LogOutput(Titled, Vertical):
    """Saving and paging, beside which everything goes on. One at a time."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s", "save", "Save to a file", show=False, id="log.save"),
        Binding("p", "page", "Open in $PAGER", show=False, id="log.pager"),
    ]

    class Copied(Message):
        """So much has been written; all of it, or none, if there are words for the end."""

        def __init__(self, share: float, ended: str = "", *, page: Path | None = None) -> None:
            super().__init__()
            self.share, self.ended, self.page = share, ended, page

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self.copied: float | None = None
        self._enough = threading.Event()

    def on_unmount(self) -> None:
        """Write no more."""
        self._enough.set()

    def retitle(self) -> None:
        """Say what is shown, and how."""
        raise NotImplementedError

    def stop_copying(self) -> None:
        """Give up what is being written."""
        self._enough.set()

    def save_rows(self, rows: Rows, rank: int | None, path: Path, *, times: bool, replace: bool) -> None:
        """Write rows to a file."""
        if self._begins():
            self._save(rows, rank, path, times=times, replace=replace)

    def page_rows(self, rows: Rows, rank: int | None, *, times: bool) -> None:
        """Write rows to a file that is deleted again, and open it in the pager."""
        if self._begins():
            self._save(rows, rank, None, times=times, replace=True)

    def open_pager(self, path: str) -> None:
        """Leave the terminal to the pager until it ends."""
        command = [*shlex.split(os.environ.get("PAGER") or "less"), path]
        try:
            with self.app.suspend(), open(TERMINAL, "r+b", buffering=0) as terminal:
                subprocess.run(command, stdin=terminal, stdout=terminal, stderr=terminal, check=False)
        except SuspendNotSupported:
            self.notify("a pager needs a terminal of its own", severity="warning", markup=False)
        except OSError as error:
            self.notify(f"cannot start {command[0]}: {error.strerror}", severity="error", markup=False)

    def _begins(self) -> bool:
        if self.copied is not None:
            self.notify("still writing; escape gives up", severity="warning", markup=False)
            return False
        self.copied, self._enough = 0.0, threading.Event()
        self.retitle()
        return True

    @work(thread=True, group="copy")
    def _save(self, rows: Rows, rank: int | None, path: Path | None, *, times: bool, replace: bool) -> None:
        try:
            where = path or _temporary()
            with new_file(where, replace=replace) as file:
                count = copy_rows(rows, rank, file, stop=self._enough, told=self._told, times=times)
        except OSError as error:
            self.post_message(self.Copied(1.0, f"not saved: {error.strerror or error}"))
            return
        told = "given up; nothing was saved" if count is None else f"saved {_lines(count)} to {where}"
        shown = self.post_message(self.Copied(1.0, told, page=None if path or count is None else where))
        if count is None or not (path or shown):
            where.unlink(missing_ok=True)

    def _told(self, share: float) -> None:
        if int(share * 100) != int((self.copied or 0.0) * 100):
            self.post_message(self.Copied(share))

    @on(Copied)
    def _show_copied(self, message: Copied) -> None:
        self.copied = None if message.ended else message.share
        if message.page is not None:
            self.open_pager(str(message.page))
            message.page.unlink(missing_ok=True)
        elif message.ended:
            self.notify(message.ended, markup=False)
        self.retitle()


def _lines(count: int) -> str:
    return f"{fig.count(count)} line{'s' * (count != 1)}"


def _temporary() -> Path:
    descriptor, name = tempfile.mkstemp(prefix="rankdeck-", suffix=".log")
    os.close(descriptor)
    return Path(name)
