"""Whether the console may use Textual's internals, or must do without.

Partial frames, borders that repaint alone and panes that fail alone need parts of Textual that its authors
may change in any release. Only the modules of this folder use them, and each checks `may_use` first. It is
false with ``RANKDECK_PLAIN_RENDERER=1``, or if this Textual lacks a needed part. The console then works as
any Textual app does: it sends more bytes, and a failure in a pane ends it.
"""

from __future__ import annotations

import inspect
import os
from functools import cache

from textual import _compositor
from textual.app import App
from textual.screen import Screen
from textual.widget import Widget

PLAIN = "RANKDECK_PLAIN_RENDERER"
_NEEDED: tuple[tuple[type, tuple[str, ...]], ...] = (
    (App, ("_handle_exception", "_register_child", "_process_messages_loop", "_check_action_state")),
    (Screen, ("_compositor_refresh",)),
    (
        Widget,
        ("_on_focus", "_on_blur", "_pre_process", "_process_messages_loop", "_post_mount", "_scroll_update"),
    ),
)
_COMPOSITOR = (
    "_regions_to_spans",
    "cuts",
    "visible_widgets",
    "reflow",
    "render_full_update",
    "render_partial_update",
)
_UPDATE = ("chops", "spans", "chop_ends")


@cache
def may_use() -> bool:
    """Whether Textual's internals are used; the answer holds for the whole life of this process."""
    return os.environ.get(PLAIN, "") in ("", "0") and not missing()


def missing() -> list[str]:
    """The needed parts that this Textual does not have."""
    found = [
        f"{owner.__name__}.{name}" for owner, names in _NEEDED for name in names if not hasattr(owner, name)
    ]
    compositor = getattr(_compositor, "Compositor", None)
    if compositor is None:
        return [*found, "Compositor"]
    found += [f"Compositor.{name}" for name in _COMPOSITOR if not hasattr(compositor, name)]
    if "_dirty_regions" not in vars(compositor()):
        found.append("Compositor._dirty_regions")
    update = getattr(_compositor, "ChopsUpdate", None)
    if update is None or tuple(inspect.signature(update).parameters)[:3] != _UPDATE:
        found.append("ChopsUpdate")
    return found


def compose_by_parts(screen: Screen[None]) -> None:
    """Let a screen repaint regions cell by cell, if Textual's internals may be used."""
    if may_use():
        from .compositor import CroppingCompositor

        screen._compositor = CroppingCompositor()
