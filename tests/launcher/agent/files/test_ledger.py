"""Which file comes home next."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.agent.files.ledger import QUIET_S, SETTLE_S, Ledger
from launcher.agent.files.scan import Stamp


def stamp(size: int = 1, at: int = 0) -> Stamp:
    return Stamp(size, at, 7)


def test_what_was_there_before_the_ranks_is_not_sent() -> None:
    ledger = Ledger({"conf.yaml": stamp()})
    ledger.offer("conf.yaml", stamp(), 0.0)
    ledger.on_scan({"conf.yaml": stamp()}, 100.0)
    assert ledger.take() is None


def test_a_file_that_was_there_and_changed_is_sent() -> None:
    ledger = Ledger({"conf.yaml": stamp()})
    ledger.offer("conf.yaml", stamp(2), 0.0)
    assert ledger.take() == ("conf.yaml", stamp(2))


def test_a_closed_file_is_due_after_it_has_settled_and_once() -> None:
    ledger = Ledger({})
    ledger.on_closed("a", 10.0)
    ledger.on_closed("a", 10.01)
    assert ledger.due(10.0 + SETTLE_S / 2) == []
    assert ledger.next_due() == pytest.approx(10.0 + SETTLE_S)
    assert ledger.due(11.0) == ["a"]
    assert ledger.next_due() is None


def test_an_open_file_is_offered_once_nobody_wrote_to_it_for_long_enough() -> None:
    ledger = Ledger({})
    ledger.on_scan({"log": stamp(1)}, 0.0)
    ledger.on_scan({"log": stamp(2)}, QUIET_S)  # it grew
    assert ledger.take() is None
    ledger.on_scan({"log": stamp(2)}, 2 * QUIET_S)
    assert ledger.take() == ("log", stamp(2))


def test_the_smallest_file_goes_first_and_in_its_last_version() -> None:
    ledger = Ledger({})
    for path, size in (("big", 10), ("small", 1), ("middle", 5), ("big", 3)):
        ledger.offer(path, stamp(size), 0.0)
    assert [ledger.take() for _ in range(4)] == [
        ("small", stamp(1)),
        ("big", stamp(3)),
        ("middle", stamp(5)),
        None,
    ]


def test_a_file_that_is_rewritten_all_the_time_is_sent_now_and_then() -> None:
    ledger = Ledger({})
    ledger.offer("model", stamp(1), 0.0)
    path, sent = ledger.take() or ("", stamp())
    ledger.on_sent(path, sent, took_s=1.0, now=1.0)
    ledger.offer("model", stamp(2), 1.5)
    assert ledger.take() is None
    assert ledger.next_due() == pytest.approx(5.0)  # after four times as long as it took


def test_after_the_ranks_end_everything_is_offered_at_once_but_what_home_has() -> None:
    ledger = Ledger({"old": stamp()})
    ledger.offer("sent", stamp(1), 0.0)
    ledger.on_sent(*(ledger.take() or ("", stamp())), took_s=9.0, now=1.0)
    ledger.on_refused("large", stamp(99))
    found = {"old": stamp(), "sent": stamp(2), "large": stamp(99), "new": stamp(4)}
    ledger.hurry(found, 1.0)
    assert {path for path, _ in iter(ledger.take, None)} == {"sent", "large", "new"}


def test_what_home_refused_is_not_offered_again_until_it_changes() -> None:
    ledger = Ledger({})
    ledger.on_refused("large", stamp(99))
    ledger.offer("large", stamp(99), 0.0)
    assert ledger.take() is None
    ledger.offer("large", stamp(5), 0.0)
    assert ledger.take() == ("large", stamp(5))


def test_a_file_that_comes_home_while_the_sweep_begins_is_not_sent_twice() -> None:
    ledger = Ledger({})
    ledger.offer("model", stamp(1), 0.0)
    path, sent = ledger.take() or ("", stamp())
    ledger.hurry({"model": sent}, 0.5)
    ledger.on_sent(path, sent, took_s=0.5, now=0.6)
    assert ledger.take() is None


def test_only_what_home_has_can_be_missing() -> None:
    ledger = Ledger({"conf.yaml": stamp()})
    ledger.offer("model", stamp(), 0.0)
    ledger.on_sent(*(ledger.take() or ("", stamp())), took_s=0.0, now=0.0)
    assert ledger.missing({}) == ["model"]
    ledger.forget(["model"])
    assert ledger.missing({}) == []


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3), st.integers(0, 60))))
def test_every_last_version_is_sent_in_the_end(writes: list[tuple[str, int, int]]) -> None:
    ledger, files, home, now = Ledger({}), {}, {}, 0.0
    for path, size, wait in writes:
        now += wait / 10
        files[path] = stamp(size, int(now * 10))
        ledger.on_closed(path, now)
        for each in ledger.due(now):
            ledger.offer(each, files[each], now)
        if (taken := ledger.take()) is not None:
            home[taken[0]] = taken[1]
            ledger.on_sent(*taken, took_s=0.1, now=now)
    ledger.hurry(files, now)
    home.update(dict(iter(ledger.take, None)))
    assert home == files
