"""What all facts have in common, and how one is found by its name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar

from launcher.codec import Index, Moment


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What all facts have: when, in which attempt, and the agent's own clock if it came from one."""

    tag: ClassVar[str] = "event"

    time: Moment
    attempt: Index = 0
    agent_time: float | None = None


_registry: dict[str, type[Event]] = {}


def register(cls: type[Event]) -> type[Event]:
    """Make a kind of fact known by its class's name, in lower case and with underscores."""
    cls.tag = re.sub(r"(?<!^)(?=[A-Z])", "_", cls.__name__).lower()
    _registry[cls.tag] = cls
    return cls


def known(tag: str) -> type[Event] | None:
    """The kind of fact of this name, or None."""
    return _registry.get(tag)
