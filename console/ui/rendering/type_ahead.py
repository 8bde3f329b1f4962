"""Keys and clicks that arrive before the previous one has had its effect: queued, and delivered in order.

Over a slow line keys come in bursts, and a widget acts on a key after the app has dispatched the next one.
Without this queue, the letters after a key that opens a search would be commands for the widget that had the
focus before, and letters typed before a click would land in the clicked field.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeGuard

from textual import events
from textual.errors import NoWidget

if TYPE_CHECKING:
    from textual.app import App
    from textual.message_pump import MessagePump
    from textual.widget import Widget

_LIMIT_S = 1.0
_Awaited = events.Key | events.Paste | events.MouseDown | events.MouseUp
_Scrolled = events.MouseScrollDown | events.MouseScrollUp | events.MouseScrollLeft | events.MouseScrollRight
Typed = _Awaited | _Scrolled | events.MouseMove


def is_typed(event: events.Event) -> TypeGuard[Typed]:
    """Whether an event comes from the keyboard or the mouse."""
    return isinstance(event, Typed)


class TypeAhead:
    """Queues keys, pastes and clicks until the previous one has had its effect; and all until `begin`.

    Nothing waits for the effect of a wheel or mouse move, but these keep their place in the queue.

    Args:
        app: the app that offers its events to `keeps`, and receives them again in order.
        at_once: keys that never wait.
    """

    def __init__(self, app: App[Any], at_once: frozenset[str] = frozenset()) -> None:
        self._app = app
        self._at_once = at_once
        self._queue: deque[Typed] = deque()
        self._begun = False
        self._posted: events.Event | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def delivered(self) -> bool:
        """Whether everything that was typed has had its effect."""
        return self._begun and self._task is None

    def keeps(self, event: events.Event) -> bool:
        """Queue an event that came too early; return whether it was queued."""
        if event is self._posted or event.is_forwarded or not is_typed(event):
            return False
        if isinstance(event, events.Key) and event.key in self._at_once:
            return False
        if self.delivered:  # nothing is ahead of it
            if isinstance(event, _Awaited):
                self._start(event)
            return False
        if (
            self._queue
            and isinstance(event, events.MouseMove)
            and isinstance(self._queue[-1], events.MouseMove)
        ):
            self._queue.pop()
        self._queue.append(event)
        return True

    def begin(self) -> None:
        """Deliver what is queued: there is a form to type into now."""
        self._begun = True
        self._start(None)

    def _start(self, before: _Awaited | None) -> None:
        self._task = asyncio.create_task(self._deliver(before))

    async def _deliver(self, before: _Awaited | None) -> None:
        """Post the queued events, each after the previous one had its effect, such as moving the focus."""
        try:
            await _handled(self._app, before)
            while self._queue:
                self._posted = self._queue.popleft()
                self._app.post_message(self._posted)
                if isinstance(self._posted, _Awaited):
                    await _handled(self._app, self._posted)
                else:
                    await _idle(self._app)
        finally:
            self._posted = self._task = None


async def _handled(app: App[Any], event: Typed | None) -> None:
    """Wait until an event was handled by the app, its target widget, that widget's ancestors, and the app."""
    try:
        async with asyncio.timeout(_LIMIT_S):  # a screen that is being removed handles nothing more
            await _idle(app)
            for node in _target(app, event).ancestors_with_self:
                await _idle(node)
            await _idle(app)
    except TimeoutError:
        return


def _target(app: App[Any], event: Typed | None) -> Widget:
    """The widget that an event goes to: the clicked one, else the focused one."""
    if isinstance(event, events.MouseEvent):
        with suppress(NoWidget):
            return app.screen.get_widget_at(event.x, event.y)[0]
    return app.focused or app.screen


async def _idle(node: MessagePump) -> None:
    """Wait until a node has processed every message that it has received so far."""
    done = asyncio.Event()
    if node.call_later(done.set):
        await done.wait()
