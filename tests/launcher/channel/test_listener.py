"""Where agents come in: they do, whatever strangers do meanwhile, and strangers do not."""

from __future__ import annotations

import contextlib
import os
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

import pytest

from launcher.channel import frames as wire
from launcher.channel import listener
from launcher.channel.certificates import issue
from launcher.channel.connection import UNPROVEN_BYTES, AgentConnection, ConnectionClosed
from launcher.channel.dial import dial
from launcher.channel.frames import Frame, Kind, encode
from launcher.channel.listener import Refusal
from launcher.channel.tls import context
from tests.commands import until
from tests.peers import Door, Joining, issued, wait

Doors = Callable[..., Door]


@pytest.fixture
def doors() -> Iterator[Doors]:
    made: list[Door] = []

    def make(host: str = "127.0.0.1", **options: Any) -> Door:
        made.append(Door(host, **options))
        return made[-1]

    threads = threading.active_count()
    yield make
    for door in made:
        door.close()
    assert threads == threading.active_count()


@pytest.fixture
def door(doors: Doors) -> Door:
    return doors()


def frames(link: AgentConnection, timeout_s: float = 5.0) -> list[Frame]:
    got: list[Frame] = []
    while not got and wait(link, timeout_s=timeout_s):
        got = link.receive()
    return got


# --- agents --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "127.0.0.5"])
def test_an_agent_is_let_in_and_both_can_speak(doors: Doors, host: str) -> None:
    door = doors(host)
    joining = Joining(door.address)
    joining.join(5, host="alpha")
    link = door.admitted()
    assert link.hello is not None
    assert (5, 5, "alpha") == (link.agent, link.hello.agent, link.hello.host)
    assert abs(link.hello.clock_offset) < 5
    joining.say(Kind.IDLE, {"a": 1})
    assert [Frame(Kind.IDLE, b'{"a":1}')] == frames(link)
    link.send(Kind.QUIT, {})
    assert Kind.QUIT is joining.hear().kind
    assert {} == door.listener.refused
    assert "" == door.listener.summary()
    joining.close()
    link.close()


def test_many_agents_come_at_once(door: Door) -> None:
    count = 60
    joined: list[Joining] = []

    def join(agent: int) -> None:
        joining = Joining(door.address, timeout_s=30)
        joining.join(agent)
        joined.append(joining)

    threads = [threading.Thread(target=join, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    links = [door.admitted(30) for _ in range(count)]
    for thread in threads:
        thread.join()
    assert [*range(count)] == sorted(link.agent for link in links)
    assert {} == door.listener.refused
    for link in links:
        link.close()
    for joining in joined:
        joining.close()


def test_what_comes_with_the_hello_is_not_lost(door: Door) -> None:
    joining = Joining(door.address)
    joining.ready(2)
    large = Frame(Kind.OUTPUT, b"x" * 300_000, 2, 1, 5)
    joining.stream.sendall(joining.hello(2) + encode(Frame(Kind.IDLE)) + encode(large))
    link = door.admitted()
    got = link.take_early()
    while len(got) < 2:
        more = frames(link)
        assert more
        got += more
    assert [Frame(Kind.IDLE), large] == got
    link.close()
    joining.close()


def test_a_hello_byte_by_byte_is_a_hello(door: Door) -> None:
    joining = Joining(door.address)
    joining.ready(2)
    for byte in joining.hello(2):
        joining.stream.sendall(bytes([byte]))
    assert 2 == door.admitted().agent
    joining.close()


def test_links_have_the_pulse_that_was_asked_for(doors: Doors) -> None:
    door = doors(lost_after_s=10.0)
    joining = Joining(door.address)
    joining.join(0)
    link = door.admitted()
    assert 2.0 == link.deadline(0.0)
    link.keep_alive(2.0)
    assert Kind.BEAT is joining.hear().kind
    link.close()
    joining.close()


def test_a_second_agent_of_one_number_is_refused_while_the_first_is_here(door: Door) -> None:
    first, second, third = (Joining(door.address) for _ in range(3))
    first.join(4)
    link = door.admitted()
    second.join(4)
    assert second.closed()
    assert {Refusal.TAKEN: 1} == door.listener.refused
    link.close()
    third.join(4)
    assert 4 == door.admitted().agent
    for joining in (first, second, third):
        joining.close()


def test_of_two_that_come_at_once_the_first_to_prove_itself_is_let_in(door: Door) -> None:
    first, second = Joining(door.address), Joining(door.address)
    first.ready(4)
    second.join(4)
    link = door.admitted()
    first.stream.sendall(first.hello(4))
    assert first.closed()
    second.say(Kind.IDLE, {})
    assert [Kind.IDLE] == [f.kind for f in frames(link)]
    for end in (link, first, second):
        end.close()


# --- those who know the certificate and are none -------------------------------------------------------


def test_a_number_that_no_agent_has_is_refused(doors: Doors) -> None:
    door = doors(agents=4)
    joining = Joining(door.address)
    joining.join(4)
    assert joining.closed()
    assert {Refusal.UNKNOWN: 1} == door.listener.refused
    joining.close()
    door.is_open(3)


@pytest.mark.parametrize("number", [-1, 1 << 70, "0", None, True])
def test_a_number_that_is_none_is_refused(door: Door, number: Any) -> None:
    joining = Joining(door.address)
    with pytest.raises(ConnectionError):
        joining.ready(number)
    assert {Refusal.UNPROVEN: 1} == door.listener.refused
    joining.close()


def test_another_token_is_refused(door: Door) -> None:
    joining = Joining(door.address)
    joining.join(0, token="another")
    assert joining.closed()
    assert {Refusal.UNPROVEN: 1} == door.listener.refused
    joining.close()


def test_one_agents_ready_is_of_no_use_to_another(door: Door) -> None:
    joining = Joining(door.address)
    joining.ready(1)
    joining.stream.sendall(joining.hello(2))
    assert joining.closed()
    assert {Refusal.UNPROVEN: 1} == door.listener.refused
    joining.close()


def test_a_hello_cannot_be_said_again(door: Door) -> None:
    first, second = Joining(door.address), Joining(door.address)
    first.ready(1)
    hello = first.hello(1)
    first.stream.sendall(hello)
    door.admitted().close()
    second.nonce = first.nonce
    second.ready(1)
    second.stream.sendall(hello)
    assert second.closed()
    assert {Refusal.UNPROVEN: 1} == door.listener.refused
    first.close()
    second.close()


@pytest.mark.parametrize(
    "words",
    [
        b"\xff" * 100,
        wire.header(Kind.READY, UNPROVEN_BYTES + 1),
        wire.header(Kind.READY, 1 << 31),
        wire.document(Kind.HELLO, {}),
        wire.document(Kind.BEAT, {}),
        encode(Frame(Kind.READY, b"[" * 50_000)),
        wire.document(Kind.READY, {"nonce": "n", "agent": 1, "protocol": 99}),
    ],
    ids=["garbage", "large", "huge", "hello first", "beat", "no JSON", "another version"],
)
def test_the_wrong_words_are_refused(door: Door, words: bytes) -> None:
    joining = Joining(door.address)
    joining.stream.sendall(words)
    assert joining.closed()
    assert {Refusal.UNPROVEN: 1} == door.listener.refused
    joining.close()
    door.is_open()


def test_an_oversized_frame_after_the_hello_ends_that_link(door: Door) -> None:
    joining = Joining(door.address)
    joining.join(0)
    link = door.admitted()
    joining.stream.sendall(wire.header(Kind.OUTPUT, wire.MAX_PAYLOAD + 1))
    assert wait(link)
    with pytest.raises(ConnectionClosed, match="the limit is"):
        frames(link)
    link.close()
    joining.close()
    door.is_open()


@pytest.mark.parametrize("words", [b"", b"\x01", wire.header(Kind.READY, 100)], ids=["none", "one", "header"])
def test_half_a_handshake_ends_in_time(doors: Doors, words: bytes) -> None:
    door = doors(handshake_s=0.3)
    joining = Joining(door.address)
    joining.stream.sendall(words)
    assert joining.closed()
    assert {Refusal.LATE: 1} == door.listener.refused
    joining.close()


def test_who_leaves_before_the_hello_has_left(door: Door) -> None:
    joining = Joining(door.address)
    joining.ready(0)
    joining.close()
    door.refuses(Refusal.LEFT)
    door.is_open()


# --- strangers -----------------------------------------------------------------------------------------


def client_hello() -> bytes:
    """What a true agent says first."""
    out = ssl.MemoryBIO()
    tls = context(issued().agents, server=False).wrap_bio(ssl.MemoryBIO(), out)
    with contextlib.suppress(ssl.SSLWantReadError):
        tls.do_handshake()
    return out.read()


@pytest.mark.parametrize(
    "words",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"SSH-2.0-x\r\n",
        b"\0" * 5000,
        b"\x16\x03\x01\xff\xff" + b"\xff" * 70_000,
        client_hello()[:-1] + b"\xff" + b"\xff" * 100,
        wire.header(Kind.READY, 5),
    ],
    ids=["http", "ssh", "zeros", "large hello", "broken hello", "plain agent"],
)
def test_who_speaks_no_tls_is_refused(door: Door, words: bytes) -> None:
    with door.plain() as sock, contextlib.suppress(ConnectionError):
        sock.sendall(words)
        while sock.recv(1000):
            pass
    door.refuses(Refusal.FOREIGN)
    door.is_open()


def test_who_has_no_certificate_is_refused(door: Door) -> None:
    bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    bare.check_hostname = False
    bare.verify_mode = ssl.CERT_NONE
    with door.plain() as sock, bare.wrap_socket(sock) as tls, pytest.raises((ssl.SSLError, ConnectionError)):
        assert tls.recv(100)
    door.refuses(Refusal.FOREIGN)
    door.is_open()


def test_who_has_another_runs_certificate_is_refused(door: Door) -> None:
    stranger = {**asdict(issue().agents), "peer": issued().engine.certificate}
    stream = dial([door.address], stranger, 5.0)
    stream.settimeout(5)
    with pytest.raises(ConnectionError):
        assert stream.recv(100)
    stream.close()
    door.refuses(Refusal.FOREIGN)
    door.is_open()


@pytest.mark.parametrize("words", [b"", b"\x16", client_hello()[:50], client_hello()], ids=len)
def test_half_a_tls_hello_ends_in_time(doors: Doors, words: bytes) -> None:
    door = doors(handshake_s=0.3)
    with door.plain() as sock:
        sock.sendall(words)
        with contextlib.suppress(ConnectionError):
            while sock.recv(1000):
                pass
    assert {Refusal.LATE: 1} == door.listener.refused


@pytest.mark.parametrize("words", [b"", b"\x16\x03\x01\x02", client_hello()], ids=len)
def test_connect_and_close_is_nothing(door: Door, words: bytes) -> None:
    for _ in range(300):
        with door.plain() as sock:
            sock.sendall(words)
    until(lambda: sum(door.listener.refused.values()) == 300, 20.0)
    assert set(door.listener.refused) <= {Refusal.LEFT, Refusal.CROWDED}
    door.is_open()


def test_the_refusals_are_one_sentence(door: Door) -> None:
    for words in (b"x" * 600, b"x" * 600, b""):
        with door.plain() as sock:
            sock.sendall(words)
    door.refuses(Refusal.LEFT)
    door.refuses(Refusal.FOREIGN, 2)
    assert (
        "refused 3 connections: 2 had no certificate of this run, 1 left before they identified themselves"
        == door.listener.summary()
    )


def test_a_crowd_that_says_nothing_makes_room(door: Door) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(listener.CROWD + 50):
            stack.enter_context(door.plain())
        began = time.monotonic()
        door.is_open()
        assert time.monotonic() - began < 8
        door.refuses(Refusal.CROWDED, 50)


def test_a_crowd_that_says_half_a_tls_hello_makes_room(door: Door) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(listener.CROWD + 50):
            stack.enter_context(door.plain()).sendall(client_hello()[:100])
        door.is_open()


def test_a_crowd_that_says_a_whole_tls_hello_makes_room(door: Door) -> None:
    """They hold no certificate, but who holds one says the same words first: room is made after a moment."""
    with contextlib.ExitStack() as stack:
        for _ in range(listener.CROWD + 50):
            stack.enter_context(door.plain()).sendall(client_hello())
        began = time.monotonic()
        door.is_open()
        assert time.monotonic() - began < 8
    assert Refusal.LATE not in door.listener.refused


# --- the end -------------------------------------------------------------------------------------------


def test_close_ends_the_thread_and_every_stranger(doors: Doors) -> None:
    before = len(os.listdir("/proc/self/fd"))
    door = doors()
    with door.plain() as silent, door.plain() as speaking:
        speaking.sendall(client_hello())
        joining = Joining(door.address)
        joining.ready(0)
        door.listener.close()
        assert joining.closed()
        with contextlib.suppress(ConnectionError):
            assert b"" == silent.recv(10)
        joining.close()
        with pytest.raises(OSError, match="refused"):
            door.plain()
    door.listener.close()
    assert before == len(os.listdir("/proc/self/fd"))


def test_close_leaves_the_agents_that_were_let_in(door: Door) -> None:
    joining = Joining(door.address)
    joining.join(0)
    link = door.admitted()
    door.listener.close()
    joining.say(Kind.IDLE, {})
    assert [Kind.IDLE] == [f.kind for f in frames(link)]
    link.close()
    joining.close()
