"""What people are shown of a return value: bounded, strict JSON, and unable to fail."""

from __future__ import annotations

import collections
import enum
import json
import math
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from launcher.agent.rank_pipe import DATA
from launcher.state.summary import MAX_NODES, MAX_TEXT, describe, preview, qualified_type

CALM = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a busy machine is no defect
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=10,
)


def shown(value: object) -> Any:
    """The summary, after the trip that every summary makes."""

    def refuse(constant: str) -> float:
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(json.dumps(describe(value)), parse_constant=refuse)


@CALM
@given(JSON)
def test_plain_values_are_shown_as_they_are(value: Any) -> None:
    summary = shown(value)
    assert (True, value) == (summary["json"], summary["value"])


class Colour(enum.IntEnum):
    RED = 3


class Point(NamedTuple):
    x: int
    y: int


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ((1, 2), [1, 2]),
        (Point(1, 2), [1, 2]),
        ({1: "a", 2: "b"}, {"1": "a", "2": "b"}),
        (collections.OrderedDict(a=1), {"a": 1}),
        (collections.defaultdict(list, a=[1]), {"a": [1]}),
        (Colour.RED, 3),
        (math.nan, "nan"),
        ([math.inf, -math.inf], ["inf", "-inf"]),
        ("\ud800", "\ud800"),
        ("", ""),
        ([], []),
        ({}, {}),
    ],
    ids=repr,
)
def test_what_is_nearly_plain_is_made_plain(value: object, expected: object) -> None:
    assert (True, expected) == (shown(value)["json"], shown(value)["value"])


def test_numpys_scalars_are_numbers_and_its_arrays_are_not() -> None:
    np = pytest.importorskip("numpy")
    values = {
        "a": np.float32(0.5),
        "b": np.int64(3),
        "c": np.bool_(True),
        "d": np.array(2.0),
        "e": np.float64("nan"),
    }
    assert {"a": 0.5, "b": 3, "c": True, "d": 2.0, "e": "nan"} == shown(values)["value"]
    array = shown(np.zeros((1000, 1000)))
    assert (False, "numpy.ndarray of shape (1000, 1000), float64") == (array["json"], array["preview"])
    assert not shown(np.complex64(1))["json"]
    assert not shown(np.datetime64("2026-01-01"))["json"]


def test_torchs_scalars_are_numbers_and_its_tensors_are_not() -> None:
    torch = pytest.importorskip("torch")
    assert {"loss": 0.5, "n": 3} == shown({"loss": torch.tensor(0.5), "n": torch.tensor(3)})["value"]
    tensor = shown(torch.zeros(2, 3))
    assert (False, "torch.Tensor of shape (2, 3), torch.float32") == (tensor["json"], tensor["preview"])
    assert not shown({"w": torch.zeros(3)})["json"]


# --- large values


class Many(NamedTuple):
    what: str
    value: Any


CYCLE: list[Any] = []
CYCLE.append(CYCLE)
CYCLIC_DICT: dict[str, Any] = {}
CYCLIC_DICT["self"] = CYCLIC_DICT
DEEP: list[Any] = []
for _ in range(1500):
    DEEP = [DEEP]
DOUBLING: list[Any] = [1]
for _ in range(60):
    DOUBLING = [DOUBLING, DOUBLING]


@pytest.mark.parametrize(
    "case",
    [
        Many("self-containing list", CYCLE),
        Many("self-containing dict", CYCLIC_DICT),
        Many("deep list", DEEP),
        Many("shared list that doubles", DOUBLING),
        Many("long list", [0] * (MAX_NODES + 1)),
        Many("long dict", dict.fromkeys(range(MAX_NODES + 1))),
        Many("long text", "x" * (MAX_TEXT + 1)),
        Many("long key", {"x" * 100_000: 1}),
        Many("many texts", ["x" * MAX_TEXT] * 100),
        Many("texts that JSON writes at length", ["\U0001f600" * 4000] * 3),
        Many("long number", 10**5000),
        Many("long number as a key", {10**5000: 1}),
        Many("keys that are no text", {(1, 2): 3}),
        Many("keys that would collide", {1: "a", "1": "b"}),
        Many("set", {1, 2}),
        Many("bytes", b"x" * 100_000),
        Many("object", object()),
        Many("function", test_plain_values_are_shown_as_they_are),
    ],
    ids=lambda case: case.what,
)
def test_what_json_should_not_hold_is_told_in_a_line_or_two(case: Many) -> None:
    summary = shown(case.value)
    assert not summary["json"]
    assert 0 < len(summary["preview"]) <= 500
    assert len(json.dumps(summary)) < DATA


@pytest.mark.parametrize("n", [MAX_NODES - 1, 10])
def test_a_list_within_the_bound_is_shown(n: int) -> None:
    assert [0] * n == shown([0] * n)["value"]


@dataclass
class Held:
    loss: float = 0.5
    weights: list[int] = field(default_factory=lambda: list(range(1_000_000)))


@pytest.mark.parametrize(
    "value",
    [list(range(1_000_000)), {"w": list(range(1_000_000))}, "x" * 10_000_000, Held()],
    ids=["list", "nested", "text", "dataclass"],
)
def test_a_large_value_costs_next_to_nothing(value: object) -> None:
    tracemalloc.start()
    describe(value)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2 << 20


def test_a_dataclass_is_told_by_its_fields() -> None:
    assert preview(Held(0.25, [])).endswith("Held(loss=0.25, weights: list)")


# --- hostile values


class LengthRaises(list[int]):
    def __len__(self) -> int:
        raise RuntimeError("no length")


class ReprRaises:
    def __repr__(self) -> str:
        raise ValueError("no repr")


class PropertiesRaise:
    @property
    def shape(self) -> tuple[int, ...]:
        raise KeyError("no shape")

    @property
    def __len__(self) -> Any:
        raise KeyError("no length")


class ClassRaises:
    @property
    def __class__(self) -> Any:
        raise RuntimeError("no class")

    @__class__.setter
    def __class__(self, value: Any) -> None: ...


class Endless(dict[str, int]):
    def __len__(self) -> int:
        return 0

    def items(self) -> Any:
        return (("k%d" % i, i) for i in iter(int, 1))  # noqa: UP031

    def __iter__(self) -> Iterator[str]:
        return iter(str, "never")


class EndlessList(list[int]):
    def __iter__(self) -> Iterator[int]:
        return iter(int, 1)


class ScalarRaises:
    shape = ()

    def item(self) -> float:
        raise RuntimeError("on a device that is gone")


class ShapeIsANumber:
    shape = 5


class LongRepr:
    def __repr__(self) -> str:
        return "x" * 100_000


class NegativeLength:
    def __len__(self) -> int:
        return -1


class EqualityRaises:
    shape = property(lambda self: self)

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no comparison")

    __hash__ = None  # type: ignore[assignment]


HOSTILE: dict[str, Callable[[], object]] = {
    "length raises": lambda: LengthRaises([1]),
    "repr raises": ReprRaises,
    "properties raise": PropertiesRaise,
    "class raises": ClassRaises,
    "endless mapping": Endless,
    "endless list": EndlessList,
    "scalar raises": ScalarRaises,
    "shape is a number": ShapeIsANumber,
    "long repr": LongRepr,
    "negative length": NegativeLength,
    "equality raises": EqualityRaises,
    "long name": type("N" * 100_000, (), {}),
    "module is a number": type("M", (), {"__module__": 3}),
}


@pytest.mark.timeout(10)
@pytest.mark.parametrize("make", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize("inside", [False, True])
def test_a_value_that_fights_back_is_told_all_the_same(make: Callable[[], object], inside: bool) -> None:
    summary = shown([make()] if inside else make())
    assert isinstance(summary["type"], str)
    assert len(json.dumps(summary)) < DATA


def test_what_a_value_raised_is_named() -> None:
    assert "raised ValueError" in preview(ReprRaises())


@pytest.mark.parametrize(
    ("value", "expected"),
    [(1, "int"), (Colour.RED, f"{__name__}.Colour"), (collections.Counter(), "collections.Counter")],
)
def test_types_are_named_as_one_would_write_them(value: object, expected: str) -> None:
    assert expected == qualified_type(value)
