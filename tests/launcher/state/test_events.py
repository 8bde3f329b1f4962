"""One line a fact: what is written, and what a reader makes of lines it does not understand."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest

from launcher.agent import rank_pipe
from launcher.serialization import DecodeError
from launcher.state import events
from launcher.state import events as ev

RAISED = ev.RankRaised(
    time=1.0, rank=0, kind="E", message="m", traceback="t", frames=(("a.py", 3, "f"),),
    excerpts=(ev.SourceExcerpt(file="a.py", line=3, function="f", first=2, lines=("def f():", "    g()")),),
    variables=(ev.Variable(name="x", type="int", text="1"), ev.Variable(name="t", type="T", about="(2)")),
    collectives=(ev.CollectiveCall(group="default_pg", number=3, operation="all_reduce", sizes="[[4]]"),),
)  # fmt: skip


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


def test_every_fact_of_the_module_has_its_own_tag_or_is_never_recorded() -> None:
    facts = {cls for cls in vars(ev).values() if isinstance(cls, type) and issubclass(cls, ev.Event)}
    assert facts - {ev.Event, ev.Unrecognised, ev.PartUnreadable} == set(ev.kinds())
    assert [(kind, kind.tag) for kind in ev.kinds()] == [
        (ev.known(kind.tag), kind.tag) for kind in ev.kinds()
    ]
    assert ev.known("event") is None


def test_what_ranks_and_agents_may_tell() -> None:
    """Everything else is the engine's own; each line here is something that a broken agent could claim."""
    ranks = {
        "rank_entered", "rank_reported", "rank_raised", "rank_raising", "rank_recovered", "group_joined",
        "frameworks_used", "tracker_linked", "message_logged", "rank_paused",
    }  # fmt: skip
    agents = {
        "rank_started", "rank_exited", "cleanup_proven", "sampled", "note_made", "task_lost", "stacks_taken",
            "service_started", "service_ready", "service_lost", "rows_awaited", "log_awaited", "xid_logged",
    }  # fmt: skip
    assert ranks == {kind.tag for kind in ev.kinds() if kind.from_rank}
    assert ranks | agents == {kind.tag for kind in ev.kinds() if kind.from_agent}


def test_ranks_name_facts_that_they_may_tell() -> None:
    """They do so by tag, because importing the facts would delay their start."""
    sources = [path.read_text() for path in Path(rank_pipe.__file__).parent.glob("*.py")]
    tags = {tag for text in sources for tag in re.findall(r'\b(?:send|offer)_fact\("(\w+)"', text)}
    assert tags == {kind.tag for kind in ev.kinds() if kind.from_rank}


def test_two_facts_of_one_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_kinds", dict(events._kinds))
    with pytest.raises(TypeError, match="another fact by the name rank_started"):
        ev.event()(type("RankStarted", (ev.Event,), {}))


@pytest.mark.parametrize(
    ("sender", "data"),
    [
        ("agent", {"event": "run_ended", "state": "succeeded", "exit_code": 0, "why": ""}),
        ("agent", {"event": "rank_levitated", "schema": 2}),
        ("agent", {"event": ["rank_exited"]}),
        ("agent", {}),
        ("agent", {"event": "rank_exited", "exit_code": 0, "rank": "3"}),
        ("rank", {"event": "rank_exited", "exit_code": 0}),
        ("rank", {"event": "task_lost", "reason": "none"}),
        ("rank", {"event": "rank_entered", "time": "noon"}),
        ("rank", {**ev.to_wire(RAISED), "excerpts": [{"file": "a.py", "line": "3"}]}),
        ("rank", {**ev.to_wire(RAISED), "excerpts": [{"file": "a.py", "line": 3, "lines": [7]}]}),
        ("rank", {**ev.to_wire(RAISED), "variables": [{"name": "x"}]}),
        ("rank", {**ev.to_wire(RAISED), "variables": {"x": "int"}}),
    ],
)
def test_what_a_sender_may_not_tell_or_tells_wrongly_is_refused(
    sender: ev.Sender, data: dict[str, object]
) -> None:
    with pytest.raises(DecodeError):
        ev.from_wire({"time": 1.0, "rank": 3, **data}, sender, {})


def test_the_receiver_of_a_fact_knows_better() -> None:
    sent = ev.to_wire(ev.RankEntered(time=1.0, rank=3))
    assert ev.RankEntered(time=2.0, rank=7) == ev.from_wire(sent, "rank", {"time": 2.0, "rank": 7})


def test_facts_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        RAISED.rank = 1  # type: ignore[misc]


def test_frames_come_back_as_tuples() -> None:
    assert RAISED == ev.decode(ev.encode(RAISED, "r"))


def test_an_exception_of_an_older_version_has_neither_source_nor_variables() -> None:
    fact = ev.decode(
        b'{"event":"rank_raised","time":1,"rank":0,"kind":"E","message":"m","traceback":"t","frames":[]}'
    )
    assert isinstance(fact, ev.RankRaised)
    assert ((), ()) == (fact.excerpts, fact.variables)


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
