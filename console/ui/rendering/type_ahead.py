"""What a person types and clicks sooner than it has an effect: kept, and handed on in order.

Over a slow line keys come in bursts, and a widget acts on a key after the app has handed on the next one:
without this the letters after a key that opens a search would be commands to what had the focus before, and
the letters before a click would land in the field that is clicked.
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
_Meant = events.Key | events.Paste | events.MouseDown | events.MouseUp
_Scrolled = events.MouseScrollDown | events.MouseScrollUp | events.MouseScrollLeft | events.MouseScrollRight
Typed = _Meant | _Scrolled | events.MouseMove


def is_typed(event: events.Event) -> TypeGuard[Typed]:
    """Whether it comes from a person's hands."""
    return isinstance(event, Typed)


class TypeAhead:
    """Keeps keys, pastes and clicks until the one before had its effect, and all until there is a form.

    Nobody waits for a wheel or a move of the mouse to have its effect; they keep their place all the same.

    Args:
        app: whose events go by here, when it is ready for them.
        at_once: keys that never wait.
    """

    def __init__(self, app: App[Any], at_once: frozenset[str] = frozenset()) -> None:
        self._app = app
        self._at_once = at_once
        self._kept: deque[Typed] = deque()
        self._begun = False
        self._handed: events.Event | None = None
        self._following: asyncio.Task[None] | None = None

    @property
    def delivered(self) -> bool:
        """Whether everything that was typed has had its effect."""
        return self._begun and self._following is None

    def keeps(self, event: events.Event) -> bool:
        """Keep an event that came too early; whether that was so."""
        if event is self._handed or event.is_forwarded or not is_typed(event):
            return False
        if isinstance(event, events.Key) and event.key in self._at_once:
            return False
        if self.delivered:  # nothing is before it
            if isinstance(event, _Meant):
                self._follow(event)
            return False
        if (
            self._kept
            and isinstance(event, events.MouseMove)
            and isinstance(self._kept[-1], events.MouseMove)
        ):
            self._kept.pop()
        self._kept.append(event)
        return True

    def begin(self) -> None:
        """There is something to type into: hand on what was kept."""
        self._begun = True
        self._follow(None)

    def _follow(self, before: _Meant | None) -> None:
        self._following = asyncio.create_task(self._hand_on(before))

    async def _hand_on(self, before: _Meant | None) -> None:
        """Hand on one after the other, each when the one before had its effect, such as a tab."""
        try:
            await _taken(self._app, before)
            while self._kept:
                self._handed = self._kept.popleft()
                self._app.post_message(self._handed)
                if isinstance(self._handed, _Meant):
                    await _taken(self._app, self._handed)
                else:
                    await _passed(self._app)
        finally:
            self._handed = self._following = None


async def _taken(app: App[Any], event: Typed | None) -> None:
    """Wait until an event has gone its way: app, focused or clicked widget, all around that, app."""
    try:
        async with asyncio.timeout(_LIMIT_S):  # a screen that is being removed answers no more
            await _passed(app)
            for node in _met(app, event).ancestors_with_self:
                await _passed(node)
            await _passed(app)
    except TimeoutError:
        return


def _met(app: App[Any], event: Typed | None) -> Widget:
    """The widget that an event goes to."""
    if isinstance(event, events.MouseEvent):
        with suppress(NoWidget):
            return app.screen.get_widget_at(event.x, event.y)[0]
    return app.focused or app.screen


async def _passed(node: MessagePump) -> None:
    """Wait until a node has done all that it was told so far."""
    done = asyncio.Event()
    if node.call_later(done.set):
        await done.wait()
