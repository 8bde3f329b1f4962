"""Keys that are named in a sentence: those that hold, for a person may have changed them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from textual.binding import Binding

if TYPE_CHECKING:
    from textual.dom import DOMNode


def keys_of(node: DOMNode, name: str, usual: str) -> str:
    """The first key that a person gave to the binding of that id, as it is shown; else the usual one."""
    own: Mapping[str, str] = getattr(node.app, "own_keys", {})
    if name not in own:
        return usual
    return node.app.get_key_display(Binding(own[name].partition(",")[0], ""))
