"""Facts and specs as JSON: nothing is lost, nothing is invented, and everything is strict JSON."""

from __future__ import annotations

import dataclasses
import json
import math
import types
import typing
from collections.abc import Mapping
from enum import Enum
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from launcher import codec, events, fact
from launcher.runs.status import Owner, Status
from launcher.spec import Assignment, Device, JobSpec, Mode, Offer, SparkSpec, Target, TargetKind

FACTS = sorted(fact._registry.values(), key=lambda cls: cls.tag)
PLAIN = (Target, SparkSpec, JobSpec, Device, Offer, Assignment, Status, Owner)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def refuse(constant: str) -> float:
    raise AssertionError(f"{constant} is not JSON")


def strict(data: bytes | str) -> Any:
    return json.loads(data, parse_constant=refuse)


def values(hint: Any, *, name: str = "") -> st.SearchStrategy[Any]:
    """Values of an annotation, without those that a dataclass would refuse."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return st.one_of(*(st.none() if a is type(None) else values(a) for a in args))
    if origin is tuple:
        if args[-1] is ...:
            return st.lists(values(args[0]), max_size=3).map(tuple)
        return st.tuples(*map(values, args))
    if origin is not None:
        return st.dictionaries(values(args[0]), values(args[1]), max_size=3)
    if hint is Any:
        return JSON
    if isinstance(hint, type) and issubclass(hint, Enum):
        return st.sampled_from(list(hint))
    if dataclasses.is_dataclass(hint):
        return instances(hint)  # type: ignore[arg-type]
    return {
        int: st.integers(-(2**63), 2**63),
        float: st.floats(allow_nan=False),
        bool: st.booleans(),
        str: st.text(max_size=12),
    }[hint]


def instances(cls: type[Any]) -> st.SearchStrategy[Any]:
    hints = typing.get_type_hints(cls)
    fields = {f.name: values(hints[f.name]) for f in dataclasses.fields(cls)}
    if cls is JobSpec:
        name = st.text(st.characters(codec="ascii", categories=("L", "N")), min_size=1, max_size=6)
        text = st.text(st.characters(exclude_characters="\0"), max_size=8)
        fields |= {
            "num_processes": st.integers(1, 9999).map(lambda n: 2 * n),
            "min_processes": st.none() | st.integers(1, 2),
            "gpus_per_rank": st.integers(1, 8),
            "gpus_per_task": st.none(),
            "max_restarts": st.integers(0, 9),
            "start_timeout_s": st.floats(0, 1e6),
            "env": st.dictionaries(name, text, max_size=3),
            "grace_s": st.floats(0, 1e6),
            "timeout_s": st.none() | st.floats(0, 1e6),
            "no_progress_timeout_s": st.none() | st.floats(0, 1e6),
            "sample_s": st.floats(0.01, 100),
        }
    if cls is SparkSpec:
        fields |= {"master": st.just(""), "remote": st.just(""), "lost_after_s": st.floats(0.01, 1e6)}
    return st.builds(cls, **fields)


@pytest.mark.parametrize("cls", FACTS, ids=lambda cls: cls.tag)
def test_every_fact_survives_its_line(cls: type[events.Event]) -> None:
    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
    @given(instances(cls))
    def check(fact: events.Event) -> None:
        line = events.encode(fact, "r")
        strict(line)
        assert fact == events.decode(line)
        assert b"\n" == line[-1:]
        assert 1 == line.count(b"\n")

    check()


@pytest.mark.parametrize("cls", PLAIN, ids=lambda cls: cls.__name__)
def test_every_plain_value_survives_json(cls: type[Any]) -> None:
    @settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
    @given(instances(cls))
    def check(value: Any) -> None:
        assert value == codec.from_plain(cls, strict(json.dumps(codec.to_plain(value))))

    check()


@pytest.mark.parametrize("cls", [*FACTS, *PLAIN], ids=lambda cls: cls.__name__)
def test_a_field_that_may_be_none_defaults_to_none(cls: type[Any]) -> None:
    """None is left out when written, so it must be what a reader fills in."""
    hints = typing.get_type_hints(cls)
    nullable = [f for f in dataclasses.fields(cls) if type(None) in typing.get_args(hints[f.name])]
    assert [f.name for f in nullable] == [f.name for f in nullable if f.default is None]


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_that_json_has_not_survives_as_strict_json(number: float) -> None:
    fact = events.RankReported(time=1.0, rank=0, metrics={"loss": number})
    line = events.encode(fact, "r")
    back = events.decode(line)

    assert strict(line)["metrics"] == {"loss": str(number)}
    assert isinstance(back, events.RankReported)
    assert str(number) == str(back.metrics["loss"])
    assert isinstance(back.metrics["loss"], float)


def test_a_number_that_json_has_not_is_found_at_any_depth() -> None:
    value = {"a": [1.0, {"b": (math.nan, math.inf)}]}
    fact = events.RankReturned(time=math.inf, rank=0, type="dict", size=1, value=value, json=True)
    assert {"a": [1.0, {"b": ["nan", "inf"]}]} == strict(events.encode(fact, "r"))["value"]


def test_a_whole_number_becomes_a_float_where_a_float_is_due() -> None:
    fact = events.from_dict({"event": "rank_reported", "time": 3, "rank": 0, "metrics": {"loss": 2}})
    assert isinstance(fact, events.RankReported)
    assert (float, float) == (type(fact.time), type(fact.metrics["loss"]))


def test_unknown_keys_are_ignored_at_every_level() -> None:
    data = {"id": "x", "colour": "red", "owner": {"host": "h", "pid": 1, "start": 2, "shoe": 43}}
    assert Owner("h", 1, 2) == codec.from_plain(Status, data).owner


def test_a_missing_field_is_a_type_error() -> None:
    with pytest.raises(TypeError):
        codec.from_plain(Owner, {"host": "h"})


def test_an_unknown_member_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="cloud"):
        codec.from_plain(JobSpec, {"target": {"kind": "script", "source": "a.py"}, "mode": "cloud"})


@pytest.mark.parametrize("data", [[], "text", 3, None, True])
@pytest.mark.parametrize("cls", [Status, JobSpec, Owner])
def test_what_is_no_object_is_a_type_error(cls: type[Any], data: Any) -> None:
    with pytest.raises(TypeError):
        codec.from_plain(cls, data)


@pytest.mark.parametrize("owner", [[], "text", 3])
def test_what_is_no_object_inside_is_a_type_error(owner: Any) -> None:
    with pytest.raises(TypeError):
        codec.from_plain(Status, {"id": "x", "owner": owner})


def test_enums_are_written_as_their_values() -> None:
    spec = JobSpec(Target(TargetKind.SCRIPT, "a.py"), mode=Mode.CLUSTER)
    plain = codec.to_plain(spec)
    assert ("cluster", "script") == (plain["mode"], plain["target"]["kind"])
    assert (str, str) == (type(plain["mode"]), type(plain["target"]["kind"]))


def test_mappings_keep_their_order() -> None:
    spec = JobSpec(Target(TargetKind.SCRIPT, "a.py"), env={"B": "1", "A": "2"})
    back: Mapping[str, str] = codec.from_plain(JobSpec, codec.to_plain(spec)).env
    assert ["B", "A"] == list(back)
