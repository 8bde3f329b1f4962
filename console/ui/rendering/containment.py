"""A failure in one pane disables only that pane; its traceback is written to a file of limited size.

An exception of a handler, timer, watcher, worker or of drawing reaches `App._handle_exception`, with which
Textual ends the app; the message loop of the widget that failed ends too. Here, that method covers the
failed pane with a message, and the loop continues. None of this runs while a key is handled normally.
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
_NOTIFIED_S = 15.0
_DRAWING = frozenset({"render_line", "render_lines"})


class Contained(App[int]):
    """An app that survives a failing pane, if `survives`; else the first failure ends it, as tests need."""

    survives = False

    @cached_property
    def _failures(self) -> FailureLog:
        return FailureLog(failure_log())

    def watch_threads(self) -> None:
        """Contain exceptions of the console's own threads, too, from now on."""
        if self.survives:
            threading.excepthook = partial(self._thread_failed, threading.excepthook)

    def _thread_failed(self, usual: _Hook, args: threading.ExceptHookArgs) -> None:
        own = args.thread is not None and args.thread.name.startswith(_THREADS)
        if own and isinstance(args.exc_value, Exception):
            self.call_later(self._handle_exception, args.exc_value)
        else:  # such as Textual's threads, when the terminal goes away
            usual(args)

    def _handle_exception(self, error: Exception) -> None:
        """Contain a failure; end the app if it happens before there is a screen to show."""
        from ..navigation import NavigableScreen  # not needed for the first frame

        if (
            not self.survives
            or self._exit
            or not any(isinstance(s, NavigableScreen) for s in self.screen_stack)
        ):
            super()._handle_exception(error)
            return
        try:
            self._contain(error)
        except Exception as other:  # noqa: BLE001  nothing else could report it
            super()._handle_exception(other)

    def _contain(self, error: Exception) -> None:
        from ..widgets.failed_pane import FailedPane  # not needed for the first frame
        from ..widgets.fields import harmless
        from ..widgets.key_line import keys_of

        cause = error.error if isinstance(error, WorkerFailed) else error
        fresh, written = self._failures.note(cause)
        summary = harmless(summary_of(cause))[:_LONGEST]
        where = f"traceback: {tilde(self._failures.path)}" if written else "no traceback could be written"
        pane = failed_pane(cause)
        if pane is not None:
            key = keys_of(pane, "pane.again", "r") if pane.reachable else "a click"
            lines = (f"✗ this pane failed: {summary}", f"{key} tries again; the rest goes on", where)
            if not pane.covered:
                pane.cover(FailedPane(pane, lines, drawing=_was_drawing(cause)))
        elif fresh:
            self.notify(
                f"✗ failed: {summary}; the rest goes on · {where}",
                severity="error",
                markup=False,
                timeout=_NOTIFIED_S,
            )

    def _register_child(self, parent: DOMNode, child: Widget, before: int | None, after: int | None) -> None:
        if self.survives:
            survive_failures(child)
        super()._register_child(parent, child, before, after)

    async def _process_messages_loop(self) -> None:
        await super()._process_messages_loop()
        while self.survives and not self._closed:
            await super()._process_messages_loop()


def survive_failures(widget: Widget) -> None:
    """Let a widget process further messages after one at which it failed; Textual would remove it."""
    begin, process = widget._pre_process, widget._process_messages_loop

    async def begin_anyway() -> bool:
        if not await begin():
            widget._post_mount()  # type: ignore[no-untyped-call]
        return True

    async def process_on() -> None:
        while not widget._closed:
            await process()

    widget._pre_process = begin_anyway  # type: ignore[method-assign]
    widget._process_messages_loop = process_on  # type: ignore[method-assign]


def failed_pane(error: BaseException) -> Titled | None:
    """The pane around the innermost widget in an exception's traceback."""
    from ..widgets.rows import Titled

    for frame in _frames(error):
        node = frame.f_locals.get("self")
        if isinstance(node, Widget) and node.is_attached:
            return next((each for each in _ancestors(node) if isinstance(each, Titled)), None)
    return None


def _ancestors(node: Widget) -> Iterator[DOMNode | MessagePump]:
    """The widget itself and its ancestors, up to the screen."""
    for each in node.ancestors_with_self:
        if isinstance(each, Screen):
            return
        yield each


def _was_drawing(error: BaseException) -> bool:
    return any(frame.f_code.co_name in _DRAWING for frame in _frames(error))


def _frames(error: BaseException) -> Iterator[FrameType]:
    """The frames of an exception's traceback, the innermost first."""
    frames, trace = [], error.__traceback__
    while trace is not None:
        frames.append(trace.tb_frame)
        trace = trace.tb_next
    return reversed(frames)


_MOST_BYTES = 1 << 20
_FLAGS = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def failure_log() -> Path:
    """The file that tracebacks are written to."""
    return paths.home() / "console.log"


class FailureLog:
    """Writes tracebacks; remembers them, so that a failure that repeats is written only once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._written: dict[tuple[type[BaseException], str, int], bool] = {}

    def note(self, error: BaseException) -> tuple[bool, bool]:
        """Write a failure; return whether it is new for its type and line, and whether it was written."""
        frames = traceback.extract_tb(error.__traceback__)
        last = frames[-1] if frames else None
        kind = (type(error), last.filename if last else "", (last.lineno or 0) if last else 0)
        fresh = kind not in self._written
        if fresh:
            self._written[kind] = self._write(error)
        return fresh, self._written[kind]

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
        except OSError:  # a full disk must not cause a second failure
            return False
        return True


def summary_of(error: BaseException) -> str:
    """An exception in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
