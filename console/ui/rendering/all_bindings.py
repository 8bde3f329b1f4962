"""Every binding between the focus and the app, also those whose keys a text field would take as letters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .insides import may_use

if TYPE_CHECKING:
    from textual.binding import Binding
    from textual.dom import DOMNode
    from textual.screen import Screen


def all_bindings(screen: Screen[Any]) -> Iterator[tuple[DOMNode, Binding]]:
    """The bindings whose actions are possible now, and the node of each, the nearest to the focus first.

    Of two with one key the nearer one counts, as when that key is pressed. Textual tells only those whose
    keys act now; without its internals, those are all.
    """
    if not may_use():
        for node, binding, enabled, _ in screen.active_bindings.values():
            if enabled:
                yield node, binding
        return
    taken: set[str] = set()
    for node in (screen.focused or screen).ancestors_with_self:
        bindings = node._bindings.copy()
        bindings.apply_keymap(screen.app._keymap)
        for key, binding in bindings:
            free = binding.priority or key not in taken
            if free and screen.app._check_action_state(binding.action, node):
                taken.add(key)
                yield node, binding
