"""Facts and specs as JSON: nothing is lost, nothing is invented, and everything is strict JSON."""

from __future__ import annotations

import dataclasses
import json
import math
import typing
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from launcher import serialization
from launcher.agent.boot import Boot
from launcher.errors import SpecError
from launcher.runs.status import Owner, Status
from launcher.serialization import DecodeError
from launcher.spec.inherited import Inherited
from launcher.spec.job import JobSpec, SparkSpec, Target, TargetKind
from launcher.spec.modes import Mode
from launcher.spec.places import Assignment, Device, Offer
from launcher.state import events
from tests.strategies import JSON, instances

FACTS = sorted(events.kinds(), key=lambda cls: cls.tag)
PLAIN = (Target, SparkSpec, JobSpec, Device, Offer, Assignment, Status, Owner)


def refuse(constant: str) -> float:
    raise AssertionError(f"{constant} is not JSON")


def strict(data: bytes | str) -> Any:
    return json.loads(data, parse_constant=refuse)


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
        assert value == serialization.from_plain(cls, strict(json.dumps(serialization.to_plain(value))))

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
    fact = events.RankReturned(time=1.0, rank=0, type="dict", size=1, value=value, json=True)
    assert {"a": [1.0, {"b": ["nan", "inf"]}]} == strict(events.encode(fact, "r"))["value"]


def test_a_whole_number_becomes_a_float_where_a_float_is_due() -> None:
    fact = events.from_dict({"event": "rank_reported", "time": 3, "rank": 0, "metrics": {"loss": 2}})
    assert isinstance(fact, events.RankReported)
    assert (float, float) == (type(fact.time), type(fact.metrics["loss"]))


def test_unknown_keys_are_ignored_at_every_level() -> None:
    data = {"id": "x", "colour": "red", "owner": {"host": "h", "pid": 1, "start": 2, "shoe": 43}}
    assert Owner("h", 1, 2) == serialization.from_plain(Status, data).owner


def test_a_missing_field_is_an_error() -> None:
    with pytest.raises(DecodeError, match="Owner lacks pid, start"):
        serialization.from_plain(Owner, {"host": "h"})


def test_an_unknown_member_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="cloud"):
        serialization.from_plain(JobSpec, {"target": {"kind": "script", "source": "a.py"}, "mode": "cloud"})


@pytest.mark.parametrize("data", [[], "text", 3, None, True])
@pytest.mark.parametrize("cls", [Status, JobSpec, Owner])
def test_what_is_no_object_is_an_error(cls: type[Any], data: Any) -> None:
    with pytest.raises(DecodeError, match=f"{cls.__name__} is written as an object"):
        serialization.from_plain(cls, data)


@pytest.mark.parametrize("owner", [[], "text", 3])
def test_what_is_no_object_inside_is_an_error(owner: Any) -> None:
    with pytest.raises(DecodeError, match="owner: Owner is written as an object"):
        serialization.from_plain(Status, {"id": "x", "owner": owner})


def test_enums_are_written_as_their_values() -> None:
    spec = JobSpec(Target(TargetKind.SCRIPT, "a.py"), mode=Mode.CLUSTER)
    plain = serialization.to_plain(spec)
    assert ("cluster", "script") == (plain["mode"], plain["target"]["kind"])
    assert (str, str) == (type(plain["mode"]), type(plain["target"]["kind"]))


def test_mappings_keep_their_order() -> None:
    spec = JobSpec(Target(TargetKind.SCRIPT, "a.py"), env={"B": "1", "A": "2"})
    back: Mapping[str, str] = serialization.from_plain(JobSpec, serialization.to_plain(spec)).env
    assert ["B", "A"] == list(back)


@dataclasses.dataclass(frozen=True)
class Sample:
    """One field of every kind that a fact may have."""

    text: str = ""
    whole: int = 0
    number: float = 0.0
    flag: bool = False
    mode: Mode = Mode.LOCAL
    many: tuple[int, ...] = ()
    pair: tuple[str, int] = ("", 0)
    named: Mapping[str, float] = dataclasses.field(default_factory=dict)
    inner: Owner | None = None
    maybe: int | None = None
    index: serialization.Index = 0
    moment: serialization.Moment = 0.0
    any: Any = None


WRONG: list[tuple[str, Any, str]] = [
    ("text", 5, "a text is expected, not 5"),
    ("text", None, "a text is expected, not null"),
    ("text", ["a"], "a text is expected, not a list"),
    ("whole", "5", "a whole number is expected, not a text"),
    ("whole", True, "a whole number is expected, not True"),
    ("whole", 1.0, "a whole number is expected, not 1.0"),
    ("whole", None, "a whole number is expected, not null"),
    ("whole", 2**63, "a whole number of at most 64 bits is expected, not so large a number"),
    ("number", True, "a number is expected, not True"),
    ("number", "1.5", "a number is expected, not a text"),
    ("number", {}, "a number is expected, not an object"),
    ("number", 10**400, "a number is expected, not so large a number"),
    ("flag", 0, "true or false is expected, not 0"),
    ("flag", "true", "true or false is expected, not a text"),
    ("mode", "cloud", "'cloud' is no Mode"),
    ("mode", ["local"], "a list is no Mode"),
    ("mode", None, "null is no Mode"),
    ("many", 3, "a list is expected, not 3"),
    ("many", "345", "a list is expected, not a text"),
    ("many", {"0": 1}, "a list is expected, not an object"),
    ("many[1]", [1, "q", 3], "a whole number is expected, not a text"),
    ("pair", ["a"], "a list of 2 is expected, not of 1"),
    ("pair", ["a", 1, 2], "a list of 2 is expected, not of 3"),
    ("pair[1]", ["a", []], "a whole number is expected, not a list"),
    ("named", [1], "an object is expected, not a list"),
    ("named['loss']", {"loss": [1]}, "a number is expected, not a list"),
    ("named['loss']", {"loss": True}, "a number is expected, not True"),
    ("inner", 3, "Owner is written as an object, not as 3"),
    ("inner", {"host": "h"}, "Owner lacks pid, start"),
    ("inner.pid", {"host": "h", "pid": "p", "start": 0}, "a whole number is expected, not a text"),
    ("maybe", "x", "a whole number is expected, not a text"),
    ("index", -1, "-1 is not between 0 and "),
    ("index", 10**18, "so large a number is not between 0 and "),
    ("index", 0.0, "a whole number is expected, not 0.0"),
    ("moment", math.nan, "nan is not between 0 and "),
    ("moment", "inf", "inf is not between 0 and "),
    ("moment", -1, "-1.0 is not between 0 and "),
    ("moment", 1e12, "1000000000000.0 is not between 0 and "),
]


@pytest.mark.parametrize(("path", "value", "why"), WRONG)
def test_a_value_that_its_field_cannot_hold_is_refused_by_name(path: str, value: Any, why: str) -> None:
    name = path.partition(".")[0].partition("[")[0]
    with pytest.raises(DecodeError) as caught:
        serialization.from_plain(Sample, {name: value})
    assert (path, True) == (caught.value.path, str(caught.value).startswith(f"{path}: {why}"))


@pytest.mark.parametrize(
    ("name", "value", "made"),
    [
        ("number", 3, 3.0),
        ("number", "-inf", -math.inf),
        ("named", {"loss": 2}, {"loss": 2.0}),
        ("maybe", None, None),
        ("inner", None, None),
        ("many", [1, 2], (1, 2)),
        ("moment", 7, 7.0),
        ("any", {"a": [None]}, {"a": [None]}),
    ],
)
def test_a_value_that_its_field_can_hold_is_taken(name: str, value: Any, made: Any) -> None:
    found = getattr(serialization.from_plain(Sample, {name: value}), name)
    assert (made, type(made)) == (found, type(found))


@pytest.mark.parametrize("cls", [*FACTS, *PLAIN, Boot, Inherited], ids=lambda cls: cls.__name__)
def test_all_that_is_read_can_be(cls: type[Any]) -> None:
    """A field of a kind that the codec does not know is found here, and not when somebody's data come."""
    known: Any = serialization._fields
    assert {f.name for f in dataclasses.fields(cls)} == known(cls).keys()


@pytest.mark.parametrize("cls", [*FACTS, *PLAIN], ids=lambda cls: cls.__name__)
def test_whatever_is_read_is_refused_or_has_the_types_that_are_declared(cls: type[Any]) -> None:
    @settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.fixed_dictionaries({}, optional={f.name: JSON for f in dataclasses.fields(cls)}))
    def check(data: dict[str, Any]) -> None:
        try:
            made = serialization.from_plain(cls, data)
        except (DecodeError, SpecError):
            return
        assert made == serialization.from_plain(cls, strict(json.dumps(serialization.to_plain(made))))

    check()


def test_what_can_be_read_is_read_although_something_cannot() -> None:
    data = {"id": "x", "user": 5, "state": "levitating", "owner": {"host": []}, "mode": "local", "shoe": 43}
    status, errors = serialization.readable_part(Status, data)
    assert ("x", "", "local", Owner("", 0, 0)) == (status.id, status.user, status.mode, status.owner)
    assert {"user", "state", "owner.host"} == {error.path for error in errors}


def test_what_is_known_beforehand_is_not_read() -> None:
    status, errors = serialization.readable_part(Status, {"id": 5}, id="y")
    assert ("y", ()) == (status.id, errors)


@pytest.mark.parametrize("data", [[], {}, {"id": 5}])
def test_without_what_must_be_there_nothing_is_read(data: Any) -> None:
    with pytest.raises(DecodeError):
        serialization.readable_part(Status, data)
