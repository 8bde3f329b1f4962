"""Which names a cell needs of its notebook, and what of them can travel."""

from __future__ import annotations

import concurrent.futures
import concurrent.futures.thread
import os
import threading
import types
from typing import Any

import pytest

from launcher.agent.cell import Shown
from launcher.notebook.capture import capture, names_read, submodules_read
from launcher.spec import pickles


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("x", {"x"}),
        ("x = 1\nx", set()),
        ("x = x + 1", {"x"}),
        ("x += 1", {"x"}),
        ("x: int = y", {"int", "y"}),
        ("del x", {"x"}),
        ("a, (b, *c) = d\na, b, c", {"d"}),
        ("x.y = 1\nz[0] = 2", {"x", "z"}),
        ("import os.path\nos", set()),
        ("from a import b as c\nb, c", {"b"}),
        ("def f(x, y=z):\n    t = x\n    return t + g\nf", {"z", "g"}),
        ("def f():\n    return later\nlater = 1", {"later"}),
        ("def f():\n    global n\n    n += 1", {"n"}),
        ("class A(B):\n    c = d\n    def m(self): return e", {"B", "d", "e"}),
        ("[i * k for i in xs]", {"k", "xs"}),
        ("f'{a!r:{b}}'", {"a", "b"}),
        ("if p:\n    x = 1\nx", {"p", "x"}),
        ("with a as b:\n    b", {"a", "b"}),
        ("try:\n    a\nexcept E as e:\n    e", {"a", "E", "e"}),
        ("lambda q: q + r", {"r"}),
        ("@deco\ndef f(): pass", {"deco"}),
        ("async def f():\n    await a", {"a"}),
        ("match v:\n    case P(w=0): w", {"v", "P", "w"}),
        ("", set()),
        ("# only words", set()),
    ],
)
def test_names_that_may_be_read_before_they_are_set(source: str, names: set[str]) -> None:
    assert names == names_read(source)


def test_submodules_that_a_cell_reaches_are_imported_too() -> None:
    modules = {"concurrent": "concurrent", "o": "os", "f": "concurrent.futures"}
    source = "concurrent.futures.ThreadPoolExecutor; o.path.join; f.thread; other.thing; x().futures"

    assert {"concurrent.futures", "os.path", "concurrent.futures.thread"} == set(
        submodules_read(source, modules)
    )


def captured_of(source: str, notebook: dict[str, Any], **hidden: Any) -> Any:
    """The values that travel with a cell, and why others do not."""
    notebook = {"__name__": "__main__", **notebook}
    captured = capture(source, notebook, hidden)
    _, values = pickles.loads(captured.values)
    return values, captured.left


def test_only_what_is_read_travels() -> None:
    values, left = captured_of("x = 1\ny + len(z)", {"x": [1], "y": [2], "z": [3], "w": [4]})

    assert {"y": [2], "z": [3]} == values
    assert {"display", "get_ipython"} == left.keys()


def test_objects_that_share_a_part_share_it_still() -> None:
    part: list[int] = []
    values, _ = captured_of("a, b", {"a": [part], "b": (part,)})

    assert values["a"][0] is values["b"][0]


def test_what_cannot_be_pickled_stays_and_the_rest_travels() -> None:
    values, left = captured_of("a, b", {"a": threading.Lock(), "b": 2})

    assert {"b": 2} == values
    assert left["a"].startswith("it cannot be pickled (TypeError: cannot pickle")
    assert len(left["a"]) <= 200


def test_what_is_the_notebooks_own_stays_unless_it_was_replaced() -> None:
    values, left = captured_of("Out, In", {"Out": {}, "In": "mine"}, Out={}, In=["x"])
    assert {"Out": {}, "In": "mine"} == values  # equal, but not the notebook's own object

    own: dict[str, Any] = {}
    values, left = captured_of("Out", {"Out": own}, Out=own)
    assert ({}, "it is the notebook's own") == (values, left["Out"])


def test_modules_travel_by_name() -> None:
    values, _ = captured_of("o.path, c.futures", {"o": os, "c": concurrent})

    assert {"o": os, "c": concurrent} == values


def test_functions_of_a_notebook_share_its_globals() -> None:
    space: dict[str, Any] = {"__name__": "__main__", "factor": 2}
    exec("def double(x): return x * factor\ndef count(): return factor", space)
    captured = capture("double, count", space, {})
    function, values = pickles.loads(captured.values)

    assert isinstance(function, types.FunctionType)
    assert function.__globals__ is values["double"].__globals__ is values["count"].__globals__
    values["double"].__globals__["factor"] = 5
    assert 5 == values["count"]()


class Odd:
    def __repr__(self) -> str:
        raise ValueError("no")


def test_a_value_is_shown_by_its_repr_in_bounds() -> None:
    assert "[1, 2]" == repr(Shown([1, 2]))
    assert 10_000 == len(repr(Shown("x" * 10**6)))
    assert "<Odd, whose repr raised ValueError>" == repr(Shown(Odd()))
