"""Targets from Python: what can be said in words is written down exactly, the rest travels as a pickle."""

from __future__ import annotations

import ast
import functools
import math
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from launcher.distributor import pack
from launcher.errors import SpecError
from launcher.spec.job import Target, TargetKind

SOURCE = """
def train(lr, name="x", *, flag: bool = False, steps: int = 3, tag: str = "t"):
    return lr, name, flag, steps, tag

def nothing():
    pass

def anything(*args, **kwargs):
    pass
"""


@pytest.fixture
def workdir(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(SOURCE)
    return tmp_path


def named(workdir: Path, *args: Any, fn: str = "train", **kwargs: Any) -> tuple[Target, bytes | None]:
    return pack(f"train.py:{fn}", args, kwargs, workdir=workdir)


def told(target: Target) -> tuple[list[Any], dict[str, Any]]:
    """What a rank makes of the words."""
    return [ast.literal_eval(a) for a in target.args], {k: ast.literal_eval(v) for k, v in target.kwargs}


def call(packed: tuple[Target, bytes | None]) -> tuple[list[Any], Mapping[str, Any]]:
    """The arguments that a rank would call a named function with."""
    target, payload = packed
    if payload is None:
        return told(target)
    args, kwargs = pickle.loads(payload)
    return list(args), kwargs


# --- scripts


def test_a_script_gets_its_argv_as_text(workdir: Path) -> None:
    target, payload = pack("train.py", ["--lr", 0.1, 3], {}, workdir=workdir)
    expected = Target(TargetKind.SCRIPT, str(workdir / "train.py"), args=("--lr", "0.1", "3"))
    assert (expected, None) == (target, payload)


def test_a_script_takes_no_keywords(workdir: Path) -> None:
    with pytest.raises(SpecError, match="takes no keyword arguments"):
        pack("train.py", [], {"lr": 1}, workdir=workdir)


def test_a_folder_with_a_colon_is_no_function(tmp_path: Path) -> None:
    folder = tmp_path / "a:b"
    folder.mkdir()
    (folder / "train.py").write_text(SOURCE)
    assert TargetKind.SCRIPT is pack("a:b/train.py", [], {}, workdir=tmp_path)[0].kind


# --- functions by name


@pytest.mark.parametrize(
    "value",
    [
        "text",
        "1",
        "None",
        "'quoted'",
        "",
        1,
        -2.5,
        1e-300,
        True,
        None,
        (1, 2),
        [1, [2]],
        {"a": {1: 2}},
        b"x",
        {1, 2},
        set(),
        [[], ()],
        10**3000,
    ],
    ids=lambda v: repr(v)[:12],
)
def test_a_literal_arrives_exactly_as_it_was_given(workdir: Path, value: Any) -> None:
    packed = named(workdir, value, tag=value, steps=value, flag=value)
    args, kwargs = call(packed)
    assert ([value], {"tag": value, "steps": value, "flag": value}) == (args, kwargs)
    assert [type(value)] * 4 == [type(v) for v in (*args, *kwargs.values())]
    assert not packed[0].pickled


class Settings:
    def __init__(self, lr: float) -> None:
        self.lr = lr

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Settings) and other.lr == self.lr

    def __hash__(self) -> int:
        return hash(self.lr)


class Liar:
    """Its repr is a literal, and it claims to be equal to it."""

    def __repr__(self) -> str:
        return "5"

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 5


class Shouting(str):
    __slots__ = ()


def np_float() -> Any:
    """A number that is a float, prints like one in some versions, and is of another type."""
    return pytest.importorskip("numpy").float64(0.5)


@pytest.mark.parametrize(
    "value",
    [
        Settings(0.1),
        [Settings(0.1)],
        math.inf,
        Shouting("x"),
        Path("/a"),
        range(3),
        Liar(),
        [Liar()],
        1j,
        10**5000,
        np_float(),
    ],
    ids=lambda v: type(v).__name__,
)
def test_what_is_no_literal_is_pickled_and_arrives_as_it_is(workdir: Path, value: Any) -> None:
    packed = named(workdir, value, name="x")
    args, kwargs = call(packed)
    assert packed[0].pickled
    assert ([value], {"name": "x"}) == (args, kwargs)
    assert type(value) is type(args[0])


def test_not_a_number_is_pickled(workdir: Path) -> None:
    args, _ = call(named(workdir, math.nan))
    assert math.isnan(args[0])


def test_required_parameters_may_be_given_by_what_is_no_literal(workdir: Path) -> None:
    assert call(named(workdir, lr=Settings(1.0))) == ([], {"lr": Settings(1.0)})


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ([], {}),
        ([1, 2, 3], {}),
        ([1], {"lr": 2}),
        ([1], {"colour": 2}),
        ([Settings(1.0)], {"colour": 2}),
        ([Settings(1.0), 2, 3], {}),
        ([], {"name": Settings(1.0)}),
    ],
    ids=lambda v: repr(v)[:30],
)
def test_arguments_that_do_not_fit_are_told_before_anything_starts(
    workdir: Path, args: list[Any], kwargs: dict[str, Any]
) -> None:
    with pytest.raises(SpecError):
        named(workdir, *args, **kwargs)


def test_a_function_that_takes_nothing_gets_nothing(workdir: Path) -> None:
    target, payload = named(workdir, fn="nothing")
    assert ((), (), None, False) == (target.args, target.kwargs, payload, target.pickled)
    with pytest.raises(SpecError):
        named(workdir, Settings(1.0), fn="nothing")


def test_large_values_are_not_written_down_in_words(workdir: Path) -> None:
    large = list(range(300_000))
    packed = named(workdir, large, note="x" * 100_000, fn="anything")
    assert ([large], {"note": "x" * 100_000}) == call(packed)
    assert len(str(packed[0])) < 1000


# --- callables


def double(x: float, *, times: int = 2) -> float:
    return x * times


class Trainer:
    def fit(self, x: int) -> int:
        return x

    def __call__(self, x: int) -> int:
        return x + 1


def unpacked(payload: bytes | None) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """The last pickle of the payload is the call; what comes before it is where the caller imports from."""
    assert payload is not None
    loaded: Any = pickle.loads(payload)
    return loaded  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("function", "args", "expected"),
    [
        (double, [3.0], 6.0),
        (lambda x: x - 1, [3], 2),
        (functools.partial(double, times=5), [2.0], 10.0),
        (Trainer().fit, [4], 4),
        (Trainer(), [4], 5),
        (len, ["abc"], 3),
        (max, [1, 2], 2),
        (dict, [], {}),
    ],
    ids=["function", "lambda", "partial", "method", "object", "builtin", "without signature", "class"],
)
def test_any_callable_is_packed_and_can_be_called(
    workdir: Path, function: Any, args: list[Any], expected: Any
) -> None:
    target, payload = pack(function, args, {}, workdir=workdir)
    found, called_with, keywords = unpacked(payload)
    assert (TargetKind.CALLABLE, True) == (target.kind, target.pickled)
    assert expected == found(*called_with, **keywords)
    assert all(isinstance(text, str) for text in (target.source, target.name))


def test_a_callable_is_described_for_people(workdir: Path) -> None:
    target, _ = pack(double, [[1, 2]], {"times": Settings(1.0)}, workdir=workdir)
    assert (__file__, "double", ("[1, 2]",)) == (target.source, target.name, target.args)
    assert "Settings" in dict(target.kwargs)["times"]


def test_a_large_argument_is_described_briefly(workdir: Path) -> None:
    target, _ = pack(double, [list(range(1_000_000))], {}, workdir=workdir)
    assert all(len(text) <= 80 for text in target.args)


@pytest.mark.parametrize(
    ("args", "kwargs"), [([], {}), ([1, 2], {}), ([1], {"colour": 2}), ([1], {"x": 2})], ids=repr
)
def test_arguments_that_do_not_fit_a_callable_are_told(
    workdir: Path, args: list[Any], kwargs: dict[str, Any]
) -> None:
    with pytest.raises(SpecError, match="do not fit double"):
        pack(double, args, kwargs, workdir=workdir)


class Stuck:
    def __reduce__(self) -> Any:
        raise RuntimeError("it holds a socket")


@pytest.mark.parametrize("target", [lambda x: x, "train.py:train"], ids=["callable", "named"])
def test_what_cannot_be_pickled_is_told_before_anything_starts(workdir: Path, target: Any) -> None:
    with pytest.raises(SpecError, match=r"cannot be pickled.*it holds a socket"):
        pack(target, [Stuck()], {}, workdir=workdir)


@pytest.mark.parametrize("target", [None, 3, b"train.py", ["train.py"]])
def test_what_is_no_target_is_told(workdir: Path, target: Any) -> None:
    with pytest.raises(SpecError, match="a target is a function or a path"):
        pack(target, [], {}, workdir=workdir)
