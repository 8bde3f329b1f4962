"""What agents report of their rows, and what goes back to all of them."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from launcher.agent.shares import LOOK_S, REPORT_S, WAITS_S, RowWaits, TaskShares
from launcher.channel.frames import Decoder, Kind, WireError
from launcher.data.shares import Agreed
from launcher.data.steps import Held
from launcher.state.events import Event
from launcher.supervisor.shares import TELL_S, GangShares, rows_note
from tests.launcher.data.shares import numbered, task


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


class Engine:
    """The engine's part, with what it has told."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.told: list[Mapping[str, Any]] = []
        self.shares = GangShares(self.told.append, self.clock)

    def hears(self, agent: int, rows: list[int], *, complete: bool = False, **more: Any) -> Held | None:
        """An agent reports, and what is due is told."""
        self.shares.on_shares(agent, {"rows": rows, "complete": complete, **more})
        self.clock.now += TELL_S
        return self.shares.advance(2)


def test_agents_are_told_what_all_have() -> None:
    engine = Engine()

    assert engine.hears(0, [5, 4]) is None
    assert engine.hears(1, [3, 3]) is None
    assert engine.hears(0, [8, 8], complete=True) is None
    assert Held((8, 8, 3, 3), complete=True) == engine.hears(1, [3, 3], complete=True)
    keys = ("least", "least_final", "most", "most_final")
    assert [(0, False, 5, False), (3, False, 5, False), (3, False, 8, False), (3, True, 8, True)] == [
        tuple(told[key] for key in keys) for told in engine.told
    ]


def test_nothing_is_told_twice_or_too_soon() -> None:
    engine = Engine()
    assert engine.shares.timeout() is None

    engine.shares.on_shares(0, {"rows": [1], "complete": False})
    assert engine.shares.timeout() == pytest.approx(TELL_S)
    assert engine.shares.advance(2) is None
    assert [] == engine.told
    engine.clock.now += TELL_S
    engine.shares.advance(2)
    engine.hears(0, [1])
    assert 1 == len(engine.told)


def test_a_row_is_passed_on_where_a_rank_has_none() -> None:
    engine = Engine()
    engine.hears(0, [2], example="row of 0")
    engine.hears(1, [0], complete=True)

    assert "example" not in engine.told[0]
    assert "row of 0" == engine.told[1]["example"]


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"rows": 3, "complete": True},
        {"rows": [-1], "complete": True},
        {"rows": [True], "complete": True},
        {"rows": [1], "complete": 1},
        {"rows": [1], "complete": True, "example": 3},
        {"rows": [1], "complete": True, "example": "x" * (1 << 20)},
    ],
)
def test_an_agent_cannot_report_anything_else(wrong: dict[str, Any]) -> None:
    with pytest.raises(WireError, match="agent 0 reported"):
        Engine().shares.on_shares(0, wrong)


def test_an_agent_reports_what_has_changed(tmp_path: Path) -> None:
    sent: list[dict[str, Any]] = []
    told: list[Event] = []
    clock, decoder = Clock(), Decoder()

    def put(data: bytes) -> None:
        for frame in decoder.feed(data):
            assert frame.kind is Kind.SHARES
            sent.append(frame.document())

    def after(writer: Any) -> None:
        clock.now += REPORT_S
        shares.advance()

    with task(tmp_path, 2) as writer:
        shares = TaskShares(writer.ledger, put, told.append, clock)
        after(writer)
        writer.write(numbered(5, 3))
        after(writer)
        after(writer)
        writer.write(numbered(8, 2))
        shares.advance()
        assert 2 == len(sent), "not before the next report is due"
        writer.finish()
        after(writer)
        row = writer.ledger.own_example

    assert [[0, 0], [2, 1], [3, 2]] == [each["rows"] for each in sent]
    assert [False, False, True] == [each["complete"] for each in sent]
    assert [base64.b64encode(row).decode()] == [each["example"] for each in sent if "example" in each]
    assert [] == told


def test_an_agent_notes_what_all_have(tmp_path: Path) -> None:
    sent: list[object] = []
    with task(tmp_path) as writer:
        shares = TaskShares(writer.ledger, sent.append, sent.append)
        example = base64.b64encode(b"a row").decode()
        shares.on_agreed(
            {"least": 0, "least_final": True, "most": 9, "most_final": False, "example": example}
        )

        assert Agreed(0, True, 9, False) == writer.ledger.agreed
        assert b"a row" == writer.ledger.example


@pytest.mark.parametrize(
    ("looks", "told"),
    [
        ([(0, 4)], [(2.0, True), (5.9, False)]),
        ([(0, 1.5)], []),
        ([(0, 3), (4, 6)], [(2.0, True), (7.9, False)]),
        ([(0, 3), (6, 9)], [(2.0, True), (4.9, False), (8.0, True)]),
        ([(0, 1), (2, 3), (4, 5), (6, 7)], []),
    ],
    ids=["long", "short", "paused", "twice", "often"],
)
def test_a_wait_for_rows_is_told_once_it_is_long(
    looks: list[tuple[float, float]], told: list[tuple[float, bool]]
) -> None:
    waits, looked, found = RowWaits(), 0.0, []
    for tick in range(100, 200):
        now = tick * 0.1
        if any(begin <= now - 10 < end for begin, end in looks):
            looked = now
        if waits.changes(0, looked, now):
            found.append((round(now - 10, 1), 0 in waits.waiting))

    assert told == found


def test_ranks_that_wait_are_told_until_none_can_wait(tmp_path: Path) -> None:
    told: list[Any] = []
    clock = Clock()
    with task(tmp_path, 2) as writer:
        shares = TaskShares(writer.ledger, lambda _: None, told.append, clock)
        shares.begin([4, 6])
        writer.write(numbered(5, 3))
        for _ in range(6):
            writer.ledger.set_looked(1, clock.now)
            shares.advance()
            clock.now += LOOK_S
        clock.now += WAITS_S
        writer.finish()
        shares.advance()
        assert shares.timeout() is not None, "other tasks may have more"
        writer.ledger.agree(Agreed(1, True, 3, True))
        clock.now += LOOK_S
        shares.advance()

        assert [(6, 1, False), (6, 1, True)] == [(each.rank, each.rows, each.over) for each in told]
        assert shares.timeout() is None


def test_rows_for_people() -> None:
    assert "the DataFrame's 10,000 rows are shared by 2 ranks: 5,000 each" == rows_note((5000, 5000))
    assert "the DataFrame's 3 rows are shared by 2 ranks: 0 to 3 each" == rows_note((3, 0))
    assert "the DataFrame's 3 rows are shared by 1 rank: 3 each" == rows_note((3,))
