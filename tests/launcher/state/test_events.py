"""One line a fact: what is written, and what a reader makes of lines it does not understand."""

from __future__ import annotations

import dataclasses
import json

import pytest

from launcher.state import events
from launcher.state import events as ev

RAISED = ev.RankRaised(time=1.0, rank=0, kind="E", message="m", traceback="t", frames=(("a.py", 3, "f"),))


def test_a_line_says_schema_event_run_time_and_attempt() -> None:
    line = json.loads(ev.encode(ev.RankStarted(time=2.5, attempt=1, rank=3, pid=7), "r1"))
    expected = {
        "schema": 1,
        "event": "rank_started",
        "run": "r1",
        "time": 2.5,
        "attempt": 1,
        "rank": 3,
        "pid": 7,
    }
    assert expected == line


def test_unknown_is_left_out_rather_than_written_as_zero() -> None:
    line = json.loads(ev.encode(ev.Sampled(time=1.0, agent=0, host="h", system=ev.HostSample()), "r"))
    assert {} == line["system"]


def test_every_fact_has_its_own_tag() -> None:
    tags = [cls.tag for cls in events._registry.values()]
    assert sorted(set(tags)) == sorted(tags)
    assert "event" not in tags


def test_every_fact_of_the_module_is_registered() -> None:
    facts = {cls for cls in vars(ev).values() if isinstance(cls, type) and issubclass(cls, ev.Event)} - {
        ev.Event,
        ev.Unrecognised,
        ev.PartUnreadable,
    }
    assert facts == set(events._registry.values())


def test_facts_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        RAISED.rank = 1  # type: ignore[misc]


def test_frames_come_back_as_tuples() -> None:
    assert RAISED == ev.decode(ev.encode(RAISED, "r"))


def test_a_fact_of_a_newer_version_is_kept_as_unrecognised() -> None:
    line = b'{"schema":2,"event":"rank_levitated","time":4.0,"height":3}\n'
    fact = ev.decode(line)
    assert isinstance(fact, ev.Unrecognised)
    assert ("rank_levitated", 4.0, 3) == (fact.name, fact.time, fact.data["height"])


def test_a_field_of_a_newer_version_is_ignored() -> None:
    fact = ev.decode(b'{"event":"rank_started","time":1,"rank":0,"pid":2,"mood":"calm"}')
    assert ev.RankStarted(time=1.0, rank=0, pid=2) == fact


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"[]",
        b"3",
        b"null",
        b'"text"',
        b"{",
        b'{"event":"rank_started"',
        b"\xff\xfe",
        b"\0" * 40,
        b'{"event":["a"],"time":1}',
        b'{"event":"rank_started","time":1}',
        b'{"event":"rank_started","time":"soon","rank":0,"pid":1}',
        b'{"event":"gang_placed","time":1,"ranks":[3]}',
        b'{"event":"gang_placed","time":1,"ranks":7}',
        b"[" * 100_000,
    ],
)
def test_what_is_no_fact_is_a_value_error(line: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  the message is the parser's
        ev.decode(line)


def test_any_text_stays_on_one_line() -> None:
    text = "a\nb\r\u2028c\x00d\ud800"
    line = ev.encode(dataclasses.replace(RAISED, message=text), "r")
    back = ev.decode(line)
    assert isinstance(back, ev.RankRaised)
    assert (text, 1) == (back.message, line.count(b"\n"))
    assert line.isascii()
