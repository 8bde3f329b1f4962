"""A failure in one pane takes that pane and nothing else; its traceback goes into a file that stays small.

Whatever a handler, a timer, a watcher, a worker or drawing itself raises reaches one method of Textual's,
which ends the app; and the loop of the widget that failed ends with it. Here, that method covers the pane
that failed, and the loop goes on. Nothing of it is on the way of a key.
"""

from __future__ import annotations

import os
import threading
import time
import traceback
from collections.abc import Callable
from functools import cached_property, partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from textual.app import App
from textual.screen import Screen
from textual.widget import Widget
from textual.worker import WorkerFailed

from launcher.runs import paths

from ...formatting import tilde

if TYPE_CHECKING:
    from collections.abc import Iterator

    from textual.dom import DOMNode
    from textual.message_pump import MessagePump

    from ..widgets.rows import Titled

_Hook = Callable[[threading.ExceptHookArgs], object]
_THREADS = "rankdeck"
_LONGEST = 300
_TOLD_S = 15.0
_DRAWING = frozenset({"render_line", "render_lines"})


class Contained(App[int]):
    """An app whose panes fail alone, if `survives`; else the first failure ends it, as tests want it."""

    survives = False

    @cached_property
    def _failures(self) -> FailureLog:
        return FailureLog(failure_log())

    def hear_threads(self) -> None:
        """Be told what fails in threads, from now on."""
        if self.survives:
            threading.excepthook = partial(self._thread_failed, threading.excepthook)

    def _thread_failed(self, usual: _Hook, args: threading.ExceptHookArgs) -> None:
        ours = args.thread is not None and args.thread.name.startswith(_THREADS)
        if ours and isinstance(args.exc_value, Exception):
            self.call_later(self._handle_exception, args.exc_value)
        else:  # such as Textual's own, when the terminal goes away
            usual(args)

    def _handle_exception(self, error: Exception) -> None:
        """Contain a failure; before there is a screen to go on with, end."""
        from ..navigation import NavigableScreen  # there is none before the first frame

        if (
            not self.survives
            or self._exit
            or not any(isinstance(s, NavigableScreen) for s in self.screen_stack)
        ):
            super()._handle_exception(error)
            return
        try:
            self._contain(error)
        except Exception as other:  # noqa: BLE001  there is nothing left that could say so
            super()._handle_exception(other)

    def _contain(self, error: Exception) -> None:
        from ..widgets.failed_pane import FailedPane  # the first frame does without these
        from ..widgets.fields import harmless
        from ..widgets.key_line import keys_of

        cause = error.error if isinstance(error, WorkerFailed) else error
        fresh, written = self._failures.note(cause)
        said = harmless(said_of(cause))[:_LONGEST]
        where = f"traceback: {tilde(self._failures.path)}" if written else "no traceback could be written"
        pane = failed_pane(cause)
        if pane is not None:
            key = keys_of(pane, "pane.again", "r") if pane.reachable else "a click"
            lines = (f"✗ this pane failed: {said}", f"{key} tries again; the rest goes on", where)
            if not pane.covered:
                pane.cover(FailedPane(pane, lines, drawing=_was_drawing(cause)))
        elif fresh:
            self.notify(
                f"✗ failed: {said}; the rest goes on · {where}",
                severity="error",
                markup=False,
                timeout=_TOLD_S,
            )

    def _register_child(self, parent: DOMNode, child: Widget, before: int | None, after: int | None) -> None:
        if self.survives:
            outlive(child)
        super()._register_child(parent, child, before, after)

    async def _process_messages_loop(self) -> None:
        await super()._process_messages_loop()
        while self.survives and not self._closed:
            await super()._process_messages_loop()


def outlive(widget: Widget) -> None:
    """Let a widget hear what comes after a message that it failed at; Textual would remove it."""
    begin, hear = widget._pre_process, widget._process_messages_loop

    async def begin_anyway() -> bool:
        if not await begin():
            widget._post_mount()  # type: ignore[no-untyped-call]
        return True

    async def hear_on() -> None:
        while not widget._closed:
            await hear()

    widget._pre_process = begin_anyway  # type: ignore[method-assign]
    widget._process_messages_loop = hear_on  # type: ignore[method-assign]


def failed_pane(error: BaseException) -> Titled | None:
    """The pane that an exception came out of: around the innermost widget that it passed."""
    from ..widgets.rows import Titled

    for frame in _frames(error):
        node = frame.f_locals.get("self")
        if isinstance(node, Widget) and node.is_attached:
            return next((around for around in _around(node) if isinstance(around, Titled)), None)
    return None


def _around(node: Widget) -> Iterator[DOMNode | MessagePump]:
    for each in node.ancestors_with_self:
        if isinstance(each, Screen):
            return
        yield each


def _was_drawing(error: BaseException) -> bool:
    return any(frame.f_code.co_name in _DRAWING for frame in _frames(error))


def _frames(error: BaseException) -> Iterator[FrameType]:
    """Where an exception passed, the innermost first."""
    found, trace = [], error.__traceback__
    while trace is not None:
        found.append(trace.tb_frame)
        trace = trace.tb_next
    return reversed(found)


_MOST_BYTES = 1 << 20
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def failure_log() -> Path:
    """Where it lies."""
    return paths.home() / "console.log"


class FailureLog:
    """Remembers what was written, so that what fails again and again is told once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._told: dict[tuple[type[BaseException], str, int], bool] = {}

    def note(self, error: BaseException) -> tuple[bool, bool]:
        """Whether it is the first of its kind at its place, and whether its traceback could be written."""
        frames = traceback.extract_tb(error.__traceback__)
        last = frames[-1] if frames else None
        kind = (type(error), last.filename if last else "", (last.lineno or 0) if last else 0)
        fresh = kind not in self._told
        if fresh:
            self._told[kind] = self._write(error)
        return fresh, self._told[kind]

    def _write(self, error: BaseException) -> bool:
        when = time.strftime("%Y-%m-%d %H:%M:%S")
        text = f"{when} pid {os.getpid()}\n{''.join(traceback.format_exception(error))}\n"
        data = "".join(c if c.isprintable() or c == "\n" else "?" for c in text).encode(errors="replace")
        try:
            self.path.parent.mkdir(mode=paths.FOLDER_MODE, parents=True, exist_ok=True)
            descriptor = os.open(self.path, _FLAGS, paths.FILE_MODE)
            try:
                if os.fstat(descriptor).st_size > _MOST_BYTES:
                    os.ftruncate(descriptor, 0)
                os.write(descriptor, data)
            finally:
                os.close(descriptor)
        except OSError:  # a disk that is full is no reason to fail a second time
            return False
        return True


def said_of(error: BaseException) -> str:
    """An exception in a line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
