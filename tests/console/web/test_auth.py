"""Who may reach the served console: the rules, without a server."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from console.web.auth import Admission, AdmissionAnswer, PageRequest

PORT = 7265
HERE = f"127.0.0.1:{PORT}"


@pytest.fixture
def admission() -> Admission:
    numbers = itertools.count(1)
    return Admission(PORT, secret=lambda: f"secret-{next(numbers)}")


def asked(path: str = "/", **told: object) -> PageRequest:
    return dataclasses.replace(PageRequest(path=path, hosts=(HERE,)), **told)  # type: ignore[arg-type]


def enter(admission: Admission) -> str:
    """Come in by an address, and return the cookie."""
    verdict = admission.judge(asked(token=admission.issue()))
    assert AdmissionAnswer.WELCOME is verdict.answer
    return verdict.text


def test_a_token_opens_once_and_leaves_a_cookie(admission: Admission) -> None:
    token = admission.issue()

    assert AdmissionAnswer.WELCOME is admission.judge(asked(token=token)).answer
    assert AdmissionAnswer.REFUSE is admission.judge(asked(token=token)).answer


def test_the_cookie_is_not_the_token(admission: Admission) -> None:
    token = admission.issue()
    cookie = admission.judge(asked(token=token)).text

    assert cookie not in ("", token)
    assert AdmissionAnswer.ENTER is admission.judge(asked("/ws", cookie=cookie)).answer
    assert AdmissionAnswer.REFUSE is admission.judge(asked(cookie=token)).answer


@pytest.mark.parametrize("token", ["", "secret-2", "secret-", "SECRET-1", "sécret", "\udcff", "secret-1 "])
def test_no_other_token_opens(admission: Admission, token: str) -> None:
    admission.issue()

    assert AdmissionAnswer.REFUSE is admission.judge(asked(token=token)).answer


@pytest.mark.parametrize("given", ["", "secret-1"])
def test_nothing_opens_before_a_token_was_made(admission: Admission, given: str) -> None:
    assert AdmissionAnswer.REFUSE is admission.judge(asked(token=given)).answer
    assert AdmissionAnswer.REFUSE is admission.judge(asked(cookie=given)).answer


def test_a_new_token_replaces_the_last_one_and_ends_no_session(admission: Admission) -> None:
    cookie = enter(admission)
    old, new = admission.issue(), admission.issue()

    assert AdmissionAnswer.REFUSE is admission.judge(asked(token=old)).answer
    assert AdmissionAnswer.WELCOME is admission.judge(asked(token=new)).answer
    assert AdmissionAnswer.ENTER is admission.judge(asked(cookie=cookie)).answer


def test_who_is_in_may_open_a_used_address_again(admission: Admission) -> None:
    token = admission.issue()
    cookie = admission.judge(asked(token=token)).text
    again = admission.judge(asked(token=token, cookie=cookie))

    assert (AdmissionAnswer.WELCOME, "") == (again.answer, again.text)


def test_only_going_to_the_address_uses_it_up(admission: Admission) -> None:
    token = admission.issue()
    for attempt in (
        asked(token=token, method="HEAD"),
        asked(token=token, method="POST"),
        asked("/ws", token=token),
        asked(token=token, hosts=("evil.example",)),
        asked(token=token, site="cross-site", fetch_mode="no-cors"),
        asked(token=token, origin="http://evil.example"),
    ):
        assert AdmissionAnswer.REFUSE is admission.judge(attempt).answer, attempt

    assert AdmissionAnswer.WELCOME is admission.judge(asked(token=token)).answer


@pytest.mark.parametrize(
    "hosts",
    [
        (),
        ("",),
        (HERE, HERE),
        ("127.0.0.1",),
        ("127.0.0.1:1",),
        ("127.0.0.2:7265",),
        ("localhost.evil.example:7265",),
        ("evil.example:7265",),
        ("::1:7265",),
        ("127.0.0.1:7265.",),
    ],
)
def test_another_host_is_refused_whatever_it_brings(admission: Admission, hosts: tuple[str, ...]) -> None:
    cookie = enter(admission)

    assert AdmissionAnswer.REFUSE is admission.judge(asked(hosts=hosts, cookie=cookie)).answer


@pytest.mark.parametrize("host", [HERE, "localhost:7265", "LOCALHOST:7265", "[::1]:7265"])
def test_names_of_loopback_are_ours(admission: Admission, host: str) -> None:
    cookie = enter(admission)
    origin = f"http://{host.lower()}"

    assert AdmissionAnswer.ENTER is admission.judge(asked(hosts=(host,), cookie=cookie)).answer
    there = asked("/ws", hosts=(host,), cookie=cookie, origin=origin, socket=True)
    assert AdmissionAnswer.ENTER is admission.judge(there).answer


@pytest.mark.parametrize(
    "origin",
    [
        "",
        "null",
        "http://evil.example",
        "https://127.0.0.1:7265",
        "http://127.0.0.1",
        "http://localhost:7265",
    ],
)
def test_a_websocket_is_for_our_own_page(admission: Admission, origin: str) -> None:
    cookie = enter(admission)

    assert (
        AdmissionAnswer.REFUSE
        is admission.judge(asked("/ws", cookie=cookie, origin=origin, socket=True)).answer
    )


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_other_pages_load_nothing_of_ours(admission: Admission, site: str) -> None:
    cookie = enter(admission)

    assert (
        AdmissionAnswer.REFUSE
        is admission.judge(asked("/x", cookie=cookie, site=site, fetch_mode="no-cors")).answer
    )
    assert (
        AdmissionAnswer.ENTER
        is admission.judge(asked("/x", cookie=cookie, site=site, fetch_mode="navigate")).answer
    )


def test_who_follows_a_link_is_sent_on_once_because_the_cookie_stays_behind(admission: Admission) -> None:
    enter(admission)

    assert AdmissionAnswer.RETRY is admission.judge(asked(site="cross-site", fetch_mode="navigate")).answer
    assert AdmissionAnswer.REFUSE is admission.judge(asked(site="same-origin", fetch_mode="navigate")).answer
    assert (
        AdmissionAnswer.REFUSE
        is admission.judge(asked("/page/page.js", site="cross-site", fetch_mode="navigate")).answer
    )


def test_sessions_do_not_grow_without_end(admission: Admission) -> None:
    first = enter(admission)
    last = [enter(admission) for _ in range(64)][-1]

    assert AdmissionAnswer.REFUSE is admission.judge(asked(cookie=first)).answer
    assert AdmissionAnswer.ENTER is admission.judge(asked(cookie=last)).answer


def test_secrets_are_long_and_differ() -> None:
    tokens = {Admission(PORT).issue() for _ in range(20)}

    assert 20 == len(tokens)
    assert all(len(token) >= 43 for token in tokens)
