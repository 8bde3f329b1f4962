"""Which file comes home next, and which is only half of what its writer meant."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.agent.files.ledger import QUIET_S, SETTLE_S, Close, Ledger, is_torn
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


DEATH = 1000.0


@pytest.mark.parametrize(
    ("written", "closed", "torn"),
    [
        (DEATH - 60, None, False),  # quiet for a minute
        (DEATH - 60, DEATH, False),  # the kernel closed it
        (DEATH - 1, DEATH - 1, False),  # its program closed it well before
        (DEATH - 0.01, DEATH, True),  # the kernel closed it while it was written
        (DEATH - 1, DEATH + 0.01, True),
        (DEATH - 0.1, DEATH - 0.1, True),  # too near to tell
        (DEATH - 1, None, True),  # nobody saw it being closed
        (DEATH - 0.5, DEATH - 5, True),  # written again since it was closed
        (DEATH + 30, DEATH + 30, False),  # another rank's, much later
    ],
)
def test_a_file_is_torn_if_its_writer_may_have_been_killed(
    written: float, closed: float | None, torn: bool
) -> None:
    close = None if closed is None else Close(closed)
    assert is_torn(written, close, [DEATH]) is torn
    assert not is_torn(written, close, [])


def test_a_close_while_all_ranks_were_alive_is_the_programs_own() -> None:
    assert not is_torn(DEATH - 0.01, Close(DEATH - 0.01, certain=True), [DEATH])
    assert is_torn(DEATH - 0.01, Close(DEATH - 0.5, certain=True), [DEATH])  # written since


def test_any_of_several_deaths_tears() -> None:
    assert is_torn(20.0, Close(20.0), [1.0, 20.1])
