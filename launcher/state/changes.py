"""Values of a run's state with some fields changed."""

from __future__ import annotations

from typing import Any, TypeVar

T = TypeVar("T")


def changed(value: T, **fields: Any) -> T:
    """As `dataclasses.replace`, for a dataclass without slots and `__post_init__`: ten times faster.

    A large gang tells thousands of facts a second, and each makes a state and a rank of some 40 fields anew.

    Raises:
        TypeError: it has no such field.
    """
    before: dict[str, Any] = value.__dict__
    if not fields.keys() <= before.keys():
        raise TypeError(f"{type(value).__name__} has no {', '.join(fields.keys() - before.keys())}")
    made = object.__new__(type(value))
    made.__dict__.update(before, **fields)
    return made
