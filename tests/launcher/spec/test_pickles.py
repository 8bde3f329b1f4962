"""Which part of a value has no pickle."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Any

import pytest

from launcher.agent.report import can_pickle
from launcher.spec.pickles import unpicklable_part


class Model:
    def __init__(self, **parts: object) -> None:
        self.__dict__.update(parts)


class Slotted:
    __slots__ = ("lock",)

    def __init__(self) -> None:
        self.lock = threading.Lock()


class Careful:
    """Leaves its lock out of its pickle, and not its file."""

    def __init__(self) -> None:
        self.lock, self.handle = threading.Lock(), threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {"handle": self.handle}


class Unnameable:
    """A key whose text cannot be had."""

    def __repr__(self) -> str:
        raise RuntimeError


class Unlike:
    """Something whose attributes cannot be looked at."""

    @property
    def __closure__(self) -> object:
        raise RuntimeError

    def __reduce_ex__(self, _: object) -> Any:
        raise RuntimeError


class Stubborn:
    def __reduce_ex__(self, _: object) -> Any:
        raise ZeroDivisionError


def capturing(lock: object) -> Callable[[], object]:
    return lambda: lock


def nested(depth: int) -> list[Any]:
    value: list[Any] = [threading.Lock()]
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "part"),
    [
        (threading.Lock(), ""),
        ({"best": Model(layers=[1, Model(lock=threading.Lock())])}, "['best'].layers[1].lock"),
        ((1, {2: threading.Lock()}), "[1][2]"),
        ({"f": capturing(threading.Lock())}, "['f']'s lock"),
        (Slotted(), ".lock"),
        ([Careful()], "[0].handle"),
        ([Stubborn()], "[0]"),
        ({Unnameable(): threading.Lock()}, "[a Unnameable]"),
        ([Unlike()], "[0]"),
        ({"x" * 500: threading.Lock()}, f"['{'x' * 59}]"),
    ],
)
def test_the_innermost_part_is_named(value: object, part: str) -> None:
    assert part == unpicklable_part(value, can_pickle)


def test_the_search_takes_no_longer_than_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count()
    monkeypatch.setattr("launcher.spec.pickles.time.monotonic", lambda: next(clock))
    asked: list[object] = []

    def never(part: object) -> bool:
        asked.append(part)
        return False

    assert unpicklable_part(nested(50), never) == "[0]"
    assert len(asked) == 1


def test_the_search_ends_in_a_value_that_holds_itself_or_much() -> None:
    loop: list[Any] = [threading.Lock()]
    loop.insert(0, loop)

    assert unpicklable_part(loop, lambda part: part is not loop and can_pickle(part)).startswith("[0][0]")
    assert unpicklable_part(nested(50), can_pickle).startswith("[0][0]")
