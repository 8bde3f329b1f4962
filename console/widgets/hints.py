"""Keys that are named in a sentence: those that hold, for a person may have changed them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from textual.dom import DOMNode


def keys_of(node: DOMNode, name: str, usual: str) -> str:
    """The keys that a person gave to the binding of that id, else the usual ones."""
    own: Mapping[str, str] = getattr(node.app, "own_keys", {})
    return own.get(name, usual)
