"""Requests in, news out: nothing is lost between threads, and the end wakes everybody."""

from __future__ import annotations

import select
import threading
from collections.abc import Iterator

import pytest

from launcher.state.events import StopRequested
from launcher.supervisor.mailbox import Mailbox


def request(i: int = 0) -> StopRequested:
    return StopRequested(time=float(i), by="person", reason="r")


@pytest.fixture
def mailbox() -> Iterator[Mailbox]:
    made = Mailbox()
    yield made
    if not made.done.is_set():
        made.close()


def readable(mailbox: Mailbox) -> bool:
    return bool(select.select([mailbox], [], [], 0)[0])


def test_a_request_wakes_the_loop_until_it_is_taken(mailbox: Mailbox) -> None:
    assert not readable(mailbox)
    mailbox.post(request())
    assert readable(mailbox)
    assert [request()] == mailbox.take()
    assert not readable(mailbox)
    assert [] == mailbox.take()


def test_requests_are_taken_in_order_and_once(mailbox: Mailbox) -> None:
    for i in range(3):
        mailbox.post(request(i))
    assert [request(i) for i in range(3)] == mailbox.take()


def test_news_that_is_there_is_not_waited_for(mailbox: Mailbox) -> None:
    seen = mailbox.wait_for_news(-1)
    mailbox.notify()
    assert seen + 1 == mailbox.wait_for_news(seen)


def test_without_news_the_wait_ends_with_its_time(mailbox: Mailbox) -> None:
    seen = mailbox.wait_for_news(-1)
    assert seen == mailbox.wait_for_news(seen, timeout=0.01)


@pytest.mark.parametrize("end", [Mailbox.notify, Mailbox.close])
def test_everybody_who_waits_is_woken(mailbox: Mailbox, end: object) -> None:
    seen, woken = mailbox.wait_for_news(-1), []
    threads = [
        threading.Thread(target=lambda: woken.append(mailbox.wait_for_news(seen, timeout=20)))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    end(mailbox)  # type: ignore[operator]
    for thread in threads:
        thread.join(60)
    assert [seen + 1] * 3 == woken


def test_after_the_end_nobody_waits_and_requests_have_no_effect(mailbox: Mailbox) -> None:
    mailbox.close()
    mailbox.post(request())
    seen = mailbox.wait_for_news(-1)
    assert seen == mailbox.wait_for_news(seen)
    assert mailbox.done.is_set()
