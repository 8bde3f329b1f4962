"""What a person types sooner than it has an effect: kept, and handed on in order.

Over a slow line keys come in bursts, and a widget acts on a key after the app has handed on the next one:
without this the letters after a key that opens a search would be commands to what had the focus before.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, TypeGuard

from textual import events

if TYPE_CHECKING:
    from textual.app import App
    from textual.message_pump import MessagePump

_LIMIT_S = 1.0


def is_typed(event: events.Event) -> TypeGuard[events.Key | events.Paste]:
    """Whether a person wrote it."""
    return isinstance(event, (events.Key, events.Paste))


class TypeAhead:
    """Keeps keys and pastes until the one before had its effect, and all of them until there is a form.

    Args:
        app: whose events go by here, when it is ready for them.
        at_once: keys that never wait.
    """

    def __init__(self, app: App[Any], at_once: frozenset[str] = frozenset()) -> None:
        self._app = app
        self._at_once = at_once
        self._kept: deque[events.Key | events.Paste] = deque()
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
            self._follow()
            return False
        self._kept.append(event)
        return True

    def begin(self) -> None:
        """There is something to type into: hand on what was kept."""
        self._begun = True
        self._follow()

    def _follow(self) -> None:
        self._following = asyncio.create_task(self._hand_on())

    async def _hand_on(self) -> None:
        """Hand on one after the other, each when the one before had its effect, such as a tab."""
        try:
            await _taken(self._app)
            while self._kept:
                self._handed = self._kept.popleft()
                self._app.post_message(self._handed)
                await _taken(self._app)
        finally:
            self._handed = self._following = None


async def _taken(app: App[Any]) -> None:
    """Wait until an event has gone its way: app, focused widget, all around that, app."""
    try:
        async with asyncio.timeout(_LIMIT_S):  # a screen that is being removed answers no more
            await _passed(app)
            for node in (app.focused or app.screen).ancestors_with_self:
                await _passed(node)
            await _passed(app)
    except TimeoutError:
        return


async def _passed(node: MessagePump) -> None:
    """Wait until a node has done all that it was told so far."""
    done = asyncio.Event()
    if node.call_later(done.set):
        await done.wait()
