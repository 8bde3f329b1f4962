from __future__ import annotations

import pytest

from launcher.backends.spark.config import ListenAt, listen_addresses
from launcher.errors import SpecError

ANY = range(1)


@pytest.mark.parametrize(
    ("text", "host", "ports"),
    [
        ("", "", ANY),
        ("  ", "", ANY),
        ("head", "head", ANY),
        ("head.example.org:4000", "head.example.org", range(4000, 4001)),
        ("10.0.0.1:4000-4010", "10.0.0.1", range(4000, 4011)),
        (":4000", "", range(4000, 4001)),
        (":1-65535", "", range(1, 65536)),
        ("[fe80::1]", "fe80::1", ANY),
        ("[fe80::1%eth0]:4000", "fe80::1%eth0", range(4000, 4001)),
        ("[::]:4000-4001", "::", range(4000, 4002)),
        (" 0.0.0.0 ", "0.0.0.0", ANY),
    ],
)
def test_what_a_person_means(text: str, host: str, ports: range) -> None:
    assert ListenAt.parse(text) == ListenAt(host, ports)


@pytest.mark.parametrize(
    "text",
    [
        *("head:", "head:x", "head:-1", "head:0", "head:65536", "head:10-9", "head:4000-", "head:4000-70000"),
        *(
            "::1",
            "fe80::1:4000",
            "[::1",
            "::1]",
            "[]",
            "[::1]x",
            "[::1]4000",
            "tcp://head:4000",
            "a b",
            "[a b]",
        ),
        *("head:4000:5000", "head:1-99999999999999999999999999", "head\n:80"),
    ],
)
def test_anything_else_is_refused_with_what_was_said(text: str) -> None:
    with pytest.raises(SpecError, match="--listen takes") as caught:
        ListenAt.parse(text)
    assert repr(text) in caught.value.message


@pytest.mark.parametrize(
    ("wanted", "driver", "bind", "expected"),
    [
        (ListenAt(), "10.0.0.1", "", ("10.0.0.1", ("10.0.0.1",))),
        (ListenAt(), "203.0.113.5", "172.17.0.2", ("172.17.0.2", ("203.0.113.5",))),  # behind a translation
        (ListenAt("0.0.0.0"), "10.0.0.1", "127.0.0.1", ("0.0.0.0", ("10.0.0.1",))),
        (ListenAt("::"), "fe80::1", "", ("::", ("fe80::1",))),
        (ListenAt("192.168.0.7"), "10.0.0.1", "", ("192.168.0.7", ("192.168.0.7", "10.0.0.1"))),
        (ListenAt("10.0.0.1"), "10.0.0.1", "", ("10.0.0.1", ("10.0.0.1",))),
        (ListenAt(), "[fe80::1]", "[fe80::1]", ("fe80::1", ("fe80::1",))),
    ],
)
def test_where_to_listen_and_what_agents_are_told(
    wanted: ListenAt, driver: str, bind: str, expected: tuple[str, tuple[str, ...]]
) -> None:
    assert listen_addresses(wanted, driver=driver, bind=bind) == expected
