"""A failure in one pane takes that pane and nothing else: a training is not lost from sight because some
figure of it could not be drawn.

Whatever a handler, a timer, a watcher, a worker or drawing itself raises reaches one method of Textual's,
which ends the app; and the loop of the widget that failed ends with it. Here, that method covers the pane
that failed, and the loop goes on. Nothing of it is on the way of a key.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import cached_property, partial
from types import FrameType
from typing import TYPE_CHECKING

from textual.app import App
from textual.screen import Screen
from textual.widget import Widget
from textual.worker import WorkerFailed

from console.failure_log import FailureLog, failure_log, said_of
from console.sources.homes import tilde

if TYPE_CHECKING:
    from collections.abc import Iterator

    from textual.dom import DOMNode
    from textual.message_pump import MessagePump

    from console.widgets.titled import Titled

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
        from console.screens.place import Place  # there is none before the first frame

        if not self.survives or self._exit or not any(isinstance(s, Place) for s in self.screen_stack):
            super()._handle_exception(error)
            return
        try:
            self._contain(error)
        except Exception as other:  # noqa: BLE001  there is nothing left that could say so
            super()._handle_exception(other)

    def _contain(self, error: Exception) -> None:
        from console.widgets.failed_pane import FailedPane  # the first frame does without these
        from console.widgets.form_row import harmless
        from console.widgets.hints import keys_of

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
    from console.widgets.titled import Titled

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
