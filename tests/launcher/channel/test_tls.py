"""A secure stream behaves as a socket does: nothing lost, nothing hidden, strangers are errors."""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from launcher.channel import tls
from launcher.channel.certificates import DAY_S, Issued, issue
from launcher.channel.connection import Outbox
from launcher.channel.tls import Credentials, SecureStream, Untrusted, context
from tests.peers import ends, issued, secure_pair, wait


@pytest.fixture
def pair() -> Iterator[tuple[SecureStream, SecureStream]]:
    engine, agent = secure_pair()
    yield engine, agent
    engine.close()
    agent.close()


def received(stream: SecureStream, size: int = 1 << 16) -> bytes:
    """What has come and can be read without waiting."""
    data = bytearray()
    with contextlib.suppress(BlockingIOError):
        while piece := stream.recv(size):
            data += piece
    return bytes(data)


def test_both_ends_speak_tls_1_3(pair: tuple[SecureStream, SecureStream]) -> None:
    assert {"TLSv1.3"} == {end._tls.version() for end in pair}


def test_bytes_go_both_ways(pair: tuple[SecureStream, SecureStream]) -> None:
    engine, agent = pair
    assert 5 == agent.sendmsg([memoryview(b"he"), memoryview(b"llo")])
    assert 2 == engine.sendmsg([memoryview(b"hi")])
    assert (b"hello", b"hi") == (engine.recv(100), agent.recv(100))


def test_nothing_there_blocks_as_a_socket_does(pair: tuple[SecureStream, SecureStream]) -> None:
    with pytest.raises(BlockingIOError):
        pair[0].recv(100)


def test_nothing_of_it_can_be_read_on_the_way() -> None:
    (near, tap), (rest, far) = socket.socketpair(), socket.socketpair()
    engine, agent = ends(near, far)
    seen = bytearray()

    def pass_on() -> None:
        for source, sink in ((tap, rest), (rest, tap)):
            source.setblocking(False)
            with contextlib.suppress(BlockingIOError):
                seen.extend(data := source.recv(1 << 16))
                sink.sendall(data)

    while not all([agent.shake(), engine.shake()]):
        pass_on()
    agent.sendmsg([memoryview(b"the-token")])
    pass_on()
    assert b"the-token" == engine.recv(100)
    assert b"the-token" not in seen
    assert b"rankdeck agents" not in seen
    for end in (near, tap, rest, far):
        end.close()


@given(
    st.lists(st.lists(st.integers(0, 40_000), min_size=1, max_size=3), max_size=12),
    st.sampled_from([100, 1000, 20_000, 1 << 20]),
    st.sampled_from([None, 4096]),
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_byte_arrives_once_and_in_order(sizes: list[list[int]], piece: int, room: int | None) -> None:
    engine, agent = secure_pair()
    if room:
        agent._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, room)
    box, expected, got = Outbox(agent), bytearray(), bytearray()
    for number, parts in enumerate(sizes):
        frame = [bytes([65 + (number + i) % 26]) * size for i, size in enumerate(parts)]
        box.put(*frame)
        expected += b"".join(frame)
    while not box.flush():
        with contextlib.suppress(BlockingIOError):
            got += engine.recv(piece)
    got += received(engine, piece)
    assert expected == got
    assert 0 == box.pending
    engine.close()
    agent.close()


def test_no_byte_hides_from_the_selector(pair: tuple[SecureStream, SecureStream]) -> None:
    """As long as something can be read, the kernel says so: what is decrypted is handed out at once."""
    engine, agent = pair
    agent.settimeout(5)
    agent.sendall(bytes(150_000))
    total = 0
    while total < 150_000:
        assert wait(engine), f"{total} bytes came, and the rest hides"
        with contextlib.suppress(BlockingIOError):
            total += len(engine.recv(1000))
    with pytest.raises(BlockingIOError):
        engine.recv(1000)


def test_a_read_gives_a_record_more_than_was_asked_for_at_most(
    pair: tuple[SecureStream, SecureStream],
) -> None:
    engine, agent = pair
    agent.sendmsg([memoryview(bytes(100_000))])
    sizes: list[int] = []
    with contextlib.suppress(BlockingIOError):
        while len(sizes) < 1000:
            sizes.append(len(engine.recv(20_000)))
    assert 100_000 == sum(sizes)
    assert max(sizes) <= 20_000 + tls.RECORD_BYTES


def test_what_came_with_the_handshake_is_read_first() -> None:
    engine, agent = ends(*socket.socketpair())
    assert not agent.shake()
    assert not engine.shake()
    assert agent.shake()
    agent.sendmsg([memoryview(b"first words")])
    assert engine.shake()
    assert b"first words" == engine.recv(100)
    engine.close()
    agent.close()


def test_small_frames_share_a_record(pair: tuple[SecureStream, SecureStream]) -> None:
    engine, agent = pair
    assert 64 == agent.sendmsg([memoryview(b"x")] * 64)
    assert len(engine._sock.recv(1 << 16)) < 64 + 50


def test_a_full_kernel_is_waited_for_and_the_same_bytes_go_on(
    pair: tuple[SecureStream, SecureStream],
) -> None:
    engine, agent = pair
    agent._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    view = memoryview(b"a" * 100_000)
    with pytest.raises(BlockingIOError):
        agent.sendmsg([view])
    assert agent.blocked
    got = bytearray()
    taken = 0
    while not taken:
        got += received(engine)
        with contextlib.suppress(BlockingIOError):
            taken = agent.sendmsg([view, memoryview(b"later")])
    got += received(engine)
    assert (100_000, b"a" * 100_000) == (taken, bytes(got))


@pytest.mark.parametrize("size", [1, tls.SEND_BYTES, tls.SEND_BYTES + 1, 3 * tls.SEND_BYTES])
def test_blocking_streams_send_everything(size: int) -> None:
    engine, agent = secure_pair()
    box = Outbox(engine)
    box.put(bytes(size))
    agent.settimeout(5)
    got = 0
    while got < size:
        box.flush()
        got += len(agent.recv(1 << 16))
    agent.close()
    engine.close()
    assert size == got


def test_a_blocking_stream_times_out(pair: tuple[SecureStream, SecureStream]) -> None:
    pair[1].settimeout(0.05)
    with pytest.raises(TimeoutError):
        pair[1].recv(100)


def test_the_end_is_empty_once_all_is_read(pair: tuple[SecureStream, SecureStream]) -> None:
    engine, agent = pair
    agent.sendmsg([memoryview(b"last")])
    agent.close()
    assert -1 == agent.fileno()
    assert [b"last", b"", b""] == [engine.recv(100) for _ in range(3)]


def test_a_farewell_is_the_end_too(pair: tuple[SecureStream, SecureStream]) -> None:
    engine, agent = pair
    agent.sendmsg([memoryview(b"last")])
    with pytest.raises(ssl.SSLWantReadError):
        agent._tls.unwrap()
    agent._push()
    assert b"last" == engine.recv(5000)
    agent.close()
    assert b"" == engine.recv(100)


def test_writing_to_nobody_is_a_connection_error(pair: tuple[SecureStream, SecureStream]) -> None:
    engine, agent = pair
    engine.close()
    with pytest.raises(ConnectionError):
        agent.sendmsg([memoryview(b"x")])


@pytest.mark.parametrize("garbage", [b"\x17\x03\x03\x00\x20" + bytes(32), b"plain text", b"\xff" * 4000])
def test_bytes_that_are_not_the_peers_break_the_stream(
    pair: tuple[SecureStream, SecureStream], garbage: bytes
) -> None:
    engine, agent = pair
    agent._sock.sendall(garbage)
    with pytest.raises(Untrusted):
        engine.recv(1 << 16)


def test_a_record_that_was_changed_on_the_way_breaks_the_stream(
    pair: tuple[SecureStream, SecureStream],
) -> None:
    engine, agent = pair
    agent._tls.write(b"hello")
    record = bytearray(agent._out.read())
    record[-1] ^= 1
    agent._sock.sendall(record)
    with pytest.raises(Untrusted, match="the encrypted channel broke"):
        engine.recv(1 << 16)


# --- who is trusted ------------------------------------------------------------------------------------


def outcome(server: ssl.SSLContext, client: ssl.SSLContext, made: Issued) -> list[OSError]:
    """What goes wrong in a handshake of these two, at either end."""
    near, far = socket.socketpair()
    near.setblocking(False)
    far.setblocking(False)
    engine = SecureStream(near, server, made.engine.peer, server=True)
    agent = SecureStream(far, client, made.agents.peer, server=False)
    errors: list[OSError] = []
    open_ends = [agent, engine]
    for _ in range(4):
        for end in list(open_ends):
            try:
                end.shake()
            except OSError as error:
                errors.append(error)
                open_ends.remove(end)
    agent.close()
    engine.close()
    return errors


def contexts(made: Issued) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    return context(made.engine, server=True), context(made.agents, server=False)


def test_the_two_ends_of_one_run_trust_each_other() -> None:
    assert [] == outcome(*contexts(issued()), issued())


def test_an_agent_of_another_run_is_refused_by_the_engine() -> None:
    ours, theirs = issued(), issue()
    mixed = Credentials(theirs.agents.certificate, theirs.agents.key, ours.engine.certificate)
    errors = outcome(context(ours.engine, server=True), context(mixed, server=False), ours)
    assert isinstance(errors[0], Untrusted)
    assert "its certificate" in str(errors[0])


def test_an_engine_of_another_run_is_refused_by_the_agent() -> None:
    ours, theirs = issued(), issue()
    mixed = Credentials(theirs.engine.certificate, theirs.engine.key, ours.agents.certificate)
    errors = outcome(context(mixed, server=True), context(ours.agents, server=False), ours)
    assert isinstance(errors[0], Untrusted)
    assert "its certificate" in str(errors[0])


def test_an_agent_without_a_certificate_is_refused() -> None:
    bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    bare.check_hostname = False
    bare.verify_mode = ssl.CERT_NONE
    errors = outcome(context(issued().engine, server=True), bare, issued())
    assert isinstance(errors[-1], Untrusted)
    assert "peer did not return a certificate" in str(errors[-1])


def test_an_agent_cannot_pass_for_the_engine() -> None:
    made = issued()
    turned = Credentials(made.agents.certificate, made.agents.key, made.agents.certificate)
    assert outcome(context(turned, server=True), context(made.agents, server=False), made)


@pytest.mark.parametrize("off_s", [-25 * 3600, 25 * 3600])
def test_certificates_do_not_hold_for_ever(off_s: float) -> None:
    made = issue(lifetime_s=0.0, now=time.time() + off_s)
    errors = outcome(*contexts(made), made)
    assert "its certificate" in str(errors[0])


@pytest.mark.parametrize("off_s", [-23 * 3600, 23 * 3600])
def test_clocks_may_be_off_by_hours(off_s: float) -> None:
    made = issue(lifetime_s=DAY_S, now=time.time() + off_s)
    assert [] == outcome(*contexts(made), made)


def test_older_tls_is_refused() -> None:
    old = context(issued().agents, server=False)
    old.minimum_version = ssl.TLSVersion.TLSv1_2
    old.maximum_version = ssl.TLSVersion.TLSv1_2
    errors = outcome(context(issued().engine, server=True), old, issued())
    assert errors
    assert all(isinstance(e, Untrusted) for e in errors)


@pytest.mark.parametrize(
    "broken",
    [
        Credentials("", "", ""),
        Credentials(issued().engine.certificate, "", issued().engine.peer),
        Credentials(issued().engine.certificate, issued().agents.key, issued().engine.peer),
        Credentials(issued().engine.certificate, issued().engine.key, "no PEM"),
        Credentials(issued().engine.certificate, issued().engine.key, "é"),
    ],
    ids=["empty", "no key", "another key", "no peer", "not even text"],
)
def test_credentials_that_are_none_are_said_to_be(broken: Credentials) -> None:
    with pytest.raises(Untrusted, match="certificates cannot be used"):
        context(broken, server=True)


@pytest.mark.parametrize("words", [b"", b"GET / HTTP/1.0\r\n\r\n", b"\x16\x03\x01", b"\0" * 600])
def test_a_stranger_that_leaves_is_an_error_and_nothing_else(words: bytes) -> None:
    near, far = socket.socketpair()
    near.setblocking(False)
    far.sendall(words)
    far.close()
    stranger = SecureStream(near, context(issued().engine, server=True), issued().engine.peer, server=True)
    with pytest.raises(ConnectionError):
        stranger.shake()
    assert not stranger.answered
    stranger.close()


@given(st.binary(max_size=400))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_garbage_is_a_connection_error_or_waits(garbage: bytes) -> None:
    near, far = socket.socketpair()
    near.setblocking(False)
    stranger = SecureStream(near, context(issued().engine, server=True), issued().engine.peer, server=True)
    far.sendall(garbage)
    try:
        assert not stranger.shake()
    except ConnectionError:
        pass
    finally:
        stranger.close()
        far.close()
