"""Names of torch's process groups in facts: alike, whether a record or a printed line told of one."""

from __future__ import annotations

DEFAULT = "default_pg"
"""The description of the group of all ranks."""

_NAMELESS = ("", "undefined")
"""What torch has where a group was made without a description."""


def group_label(name: str, description: str) -> str:
    """A group as people know it, and apart from others of that description, as along a mesh's dimension."""
    if description == DEFAULT:
        return description
    return name if description in _NAMELESS else f"{description} ({name})"
