"""The engine's end of a channel: strangers, liars and peers that vanish end the link and nothing else."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from launcher.channel import frames, handshake
from launcher.channel import frames as wire
from launcher.channel.connection import UNPROVEN_BYTES, AgentConnection, ConnectionClosed
from launcher.channel.frames import Decoder, Frame, Kind, encode
from launcher.channel.handshake import Hello
from launcher.spec.places import Device
from launcher.testing import FakeClock

TOKEN = "secret" * 8
HELLO = {"time": 0.0, "host": "alpha", "pid": 7, "python": "3.11.0", "port": 4000}


class Peer:
    """What pretends to be an agent, and the link that it talks to."""

    def __init__(self, token: str = TOKEN, *, agent: int | None = 3, **options: Any) -> None:
        near, self.sock = socket.socketpair()
        self.sock.settimeout(5)
        self.clock = FakeClock(100.0)
        self.link = AgentConnection(near, agent, TOKEN, clock=self.clock, **options)
        self.token = token
        self._decoder = Decoder()

    def close(self) -> None:
        self.link.close()
        self.sock.close()

    def say(self, kind: Kind, value: Any) -> list[Frame]:
        self.sock.sendall(frames.document(kind, value))
        return self.link.receive()

    def raw(self, data: bytes) -> list[Frame]:
        self.sock.sendall(data)
        return self.link.receive()

    def hear(self) -> Frame:
        frames: list[Frame] = []
        while not frames:
            frames = list(self._decoder.feed(self.sock.recv(1 << 16)))
        (frame,) = frames
        return frame

    def join(self, *, wait_s: float = 0.0, **changes: Any) -> list[Frame]:
        assert [] == self.say(Kind.READY, {"nonce": "n", "agent": 3, "protocol": frames.PROTOCOL})
        theirs = self.hear().document()["nonce"]
        self.clock.advance(wait_s)
        proof = handshake.proof(self.token, "agent", "n", theirs)
        return self.say(Kind.HELLO, {"proof": proof, **HELLO, **changes})


@pytest.fixture
def peer() -> Iterator[Peer]:
    made = Peer()
    yield made
    made.close()


def test_an_agent_is_admitted_after_both_have_proven_themselves(peer: Peer) -> None:
    peer.say(Kind.READY, {"nonce": "mine", "agent": 3, "protocol": frames.PROTOCOL})
    challenge = peer.hear().document()
    assert handshake.proof(TOKEN, "engine", "mine", challenge["nonce"]) == challenge["proof"]
    assert peer.link.hello is None
    proof = handshake.proof(TOKEN, "agent", "mine", challenge["nonce"])
    assert [] == peer.say(Kind.HELLO, {**HELLO, "proof": proof, "time": 160.0})
    assert Hello(3, "alpha", 7, "3.11.0", 4000, 60.0) == peer.link.hello


def test_the_clocks_are_related_at_the_middle_of_the_round_trip(peer: Peer) -> None:
    peer.join(wait_s=4.0, time=112.0)
    assert peer.link.hello is not None
    assert (10.0, 2.0) == (peer.link.hello.clock_offset, peer.link.hello.clock_error)


def test_the_token_does_not_travel(peer: Peer) -> None:
    peer.say(Kind.READY, {"nonce": "n", "agent": 3, "protocol": frames.PROTOCOL})
    assert TOKEN.encode() not in peer.hear().payload


def test_frames_after_the_handshake_are_handed_on(peer: Peer) -> None:
    peer.join()
    assert [Frame(Kind.IDLE, b"{}")] == peer.say(Kind.IDLE, {})


def test_frames_that_come_with_the_hello_are_handed_on(peer: Peer) -> None:
    peer.say(Kind.READY, {"nonce": "n", "agent": 3, "protocol": wire.PROTOCOL})
    proof = handshake.proof(TOKEN, "agent", "n", peer.hear().document()["nonce"])
    hello = wire.document(Kind.HELLO, {**HELLO, "proof": proof})
    frames = peer.raw(hello + encode(Frame(Kind.OUTPUT, b"hi", 2, 1, 5)))
    assert [Frame(Kind.OUTPUT, b"hi", 2, 1, 5)] == frames


@pytest.mark.parametrize("token", ["", "wrong", TOKEN[:-1], TOKEN + "x"])
def test_an_agent_with_another_token_is_refused(token: str) -> None:
    peer = Peer(token)
    with pytest.raises(ConnectionClosed, match="could not prove"):
        peer.join()
    assert peer.link.hello is None
    peer.close()


def test_the_engines_own_proof_proves_no_agent(peer: Peer) -> None:
    peer.say(Kind.READY, {"nonce": "n", "agent": 3, "protocol": frames.PROTOCOL})
    with pytest.raises(ConnectionClosed, match="could not prove"):
        peer.say(Kind.HELLO, {**HELLO, "proof": peer.hear().document()["proof"]})


@pytest.mark.parametrize("proof", [None, 3, "\ud800", ["x"], ""])
def test_a_proof_that_is_none_is_refused(peer: Peer, proof: object) -> None:
    with pytest.raises(ConnectionClosed, match="could not prove"):
        peer.join(proof=proof)


@pytest.mark.parametrize("kind", [k for k in Kind if k is not Kind.READY])
def test_whatever_comes_before_the_handshake_closes_the_link(peer: Peer, kind: Kind) -> None:
    with pytest.raises(ConnectionClosed, match=f"a {kind.name} frame before the handshake"):
        peer.say(kind, HELLO)


def test_a_second_ready_closes_the_link(peer: Peer) -> None:
    ready = {"nonce": "n", "agent": 3, "protocol": frames.PROTOCOL}
    peer.say(Kind.READY, ready)
    with pytest.raises(ConnectionClosed, match="READY frame before the handshake"):
        peer.say(Kind.READY, ready)


def test_another_version_is_refused(peer: Peer) -> None:
    with pytest.raises(ConnectionClosed, match="speaks protocol 99"):
        peer.say(Kind.READY, {"nonce": "n", "agent": 3, "protocol": 99})


@pytest.mark.parametrize("nonce", [None, 3, "\ud800", ["x"], {"a": 1}])
def test_a_strange_nonce_harms_nobody(peer: Peer, nonce: object) -> None:
    peer.say(Kind.READY, {"nonce": nonce, "agent": 3, "protocol": frames.PROTOCOL})
    assert Kind.CHALLENGE is peer.hear().kind
    with pytest.raises(ConnectionClosed, match="could not prove"):
        peer.say(Kind.HELLO, {**HELLO, "proof": "x"})


@pytest.mark.parametrize(
    "changes",
    [
        {"pid": "seven"},
        {"port": None},
        {"time": "noon"},
        {"time": None},
        {"time": float("nan")},
        {"time": float("inf")},
        {"pid": float("inf")},
        {"time": 10**400},
        {"host": None},
        {"host": 5},
        {"host": "x" * 5000},
        {"pid": 0},
        {"pid": True},
        {"pid": 1.5},
        {"port": -1},
        {"port": 65536},
        {"port": "4000"},
        {"python": ["3.11"]},
        {"machine": 5},
        {"executable": "/" * 5000},
        {"torch": None},
        {"address": "10.0.0.1 10.0.0.2"},
        {"address": "a\nb"},
        {"addresses": "10.0.0.1"},
        {"addresses": [5]},
        {"addresses": ["10.0.0.1"] * 1025},
        {"cores": 0},
        {"cores": "all"},
        {"cores": 1 << 40},
        {"exclusive": 1},
        {"gpu_reason": {}},
        {"devices": {"index": 0}},
        {"devices": [3]},
        {"devices": [{"index": 0}]},
        {"devices": [{"index": "0", "uuid": "GPU-1"}]},
        {"devices": [{"index": -1, "uuid": "GPU-1"}]},
        {"devices": [{"index": 0, "uuid": 1}]},
        {"devices": [{"index": 0, "uuid": "GPU-1", "memory": "80G"}]},
        {"devices": [{"index": 0, "uuid": "GPU-1", "name": "x" * 5000}]},
        {"devices": [{}] * 1025},
    ],
    ids=lambda changes: repr(changes)[:40],
)
def test_a_hello_that_makes_no_sense_closes_the_link(peer: Peer, changes: dict[str, Any]) -> None:
    with pytest.raises(ConnectionClosed, match="HELLO"):
        peer.join(**changes)
    assert peer.link.hello is None


@pytest.mark.parametrize("missing", sorted(HELLO))
def test_a_hello_without_all_that_is_due_closes_the_link(peer: Peer, missing: str) -> None:
    peer.say(Kind.READY, {"nonce": "n", "agent": 3, "protocol": frames.PROTOCOL})
    proof = handshake.proof(TOKEN, "agent", "n", peer.hear().document()["nonce"])
    hello = {k: v for k, v in HELLO.items() if k != missing}
    with pytest.raises(ConnectionClosed, match="HELLO"):
        peer.say(Kind.HELLO, {**hello, "proof": proof})


@given(st.binary(min_size=1, max_size=300))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_garbage_closes_the_link_or_waits_for_more(garbage: bytes) -> None:
    peer = Peer()
    try:
        assert [] == peer.raw(garbage)
    except ConnectionClosed:
        pass
    finally:
        assert peer.link.hello is None
        peer.close()


@pytest.mark.parametrize("payload", [b"[" * 60_000, b"\xff", b"[]", b"", b"9" * 9000])
def test_a_first_frame_that_is_no_document_closes_the_link(peer: Peer, payload: bytes) -> None:
    with pytest.raises(ConnectionClosed, match="READY frame that is not"):
        peer.raw(encode(Frame(Kind.READY, payload)))


def test_an_oversized_frame_closes_the_link_from_its_header_alone(peer: Peer) -> None:
    peer.join()
    with pytest.raises(ConnectionClosed, match="the limit is"):
        peer.raw(frames.header(Kind.OUTPUT, frames.MAX_PAYLOAD + 1))


def test_a_peer_that_closes_midway_is_gone_once_its_whole_frames_are_read(peer: Peer) -> None:
    peer.join()
    peer.sock.sendall(frames.document(Kind.IDLE, {}) + encode(Frame(Kind.OUTPUT, b"half"))[:-2])
    peer.sock.close()
    assert [Frame(Kind.IDLE, b"{}")] == peer.link.receive()
    with pytest.raises(ConnectionClosed, match="closed the channel"):
        peer.link.receive()


def test_a_peer_that_leaves_unread_words_behind_is_gone(peer: Peer) -> None:
    peer.join()
    peer.link.send(Kind.STOP, {"grace_s": 1.0})
    peer.sock.close()
    with pytest.raises(ConnectionClosed):
        peer.link.receive()


def test_a_silent_peer_is_waited_for(peer: Peer) -> None:
    assert [] == peer.link.receive()


def test_writing_to_a_peer_that_is_gone_is_found_by_reading(peer: Peer) -> None:
    peer.join()
    peer.sock.close()
    peer.link.send(Kind.STOP, {"grace_s": 1.0})
    peer.link.flush()
    with pytest.raises(ConnectionClosed):
        peer.link.receive()


def test_a_pickle_travels_in_pieces_and_waits_for_room(peer: Peer) -> None:
    peer.join()
    data = bytes(range(256)) * (3 << 12)
    peer.link.send_payload(data)
    peer.link.send(Kind.START, {"ok": True})
    assert peer.link.wants_to_write
    decoder, frames = Decoder(), list[Frame]()
    while not frames or frames[-1].kind is not Kind.START:
        frames += decoder.feed(peer.sock.recv(1 << 18))
        peer.link.flush()
    assert not peer.link.wants_to_write
    assert data == b"".join(f.payload for f in frames[:-1])
    assert {Kind.PAYLOAD} == {f.kind for f in frames[:-1]}
    assert max(len(f.payload) for f in frames) <= wire.MAX_PAYLOAD


def test_one_agent_cannot_flood_a_turn(peer: Peer) -> None:
    peer.join()
    peer.sock.setblocking(False)
    frame = encode(Frame(Kind.OUTPUT, bytes(1 << 16)))
    sent = 0
    try:
        while True:
            sent += peer.sock.send(frame)
    except BlockingIOError:
        pass
    frames = peer.link.receive()
    assert sum(len(f.payload) for f in frames) <= 1 << 20


def test_all_that_an_agent_says_of_itself_is_known(peer: Peer) -> None:
    said: dict[str, Any] = {
        "machine": "m",
        "executable": "/usr/bin/python3",
        "torch": "2.13.0",
        "address": "10.0.0.1",
        "addresses": ["10.0.0.1", "fe80::1%eth0"],
        "cores": 4,
        "devices": [
            {"index": 1, "uuid": "GPU-1", "name": "H200", "memory": 10**11},
            {"index": 2, "uuid": "M"},
        ],
        "exclusive": False,
        "gpu_reason": "because",
    }
    peer.join(**said, unheard_of=1)
    hello = peer.link.hello
    assert hello is not None
    assert (Device(1, "GPU-1", "H200", 10**11), Device(2, "M")) == hello.devices
    assert ("10.0.0.1", "fe80::1%eth0") == hello.addresses
    assert {k: v for k, v in said.items() if k not in ("devices", "addresses")} == {
        k: getattr(hello, k) for k in said if k not in ("devices", "addresses")
    }


# --- an agent that says which one it is ---------------------------------------------------------------


@pytest.fixture
def asked() -> Iterator[Peer]:
    made = Peer(agent=None)
    yield made
    made.close()


def test_an_agent_may_say_its_own_number_and_must_prove_it(asked: Peer) -> None:
    assert -1 == asked.link.agent
    asked.say(Kind.READY, {"nonce": "n", "agent": 5, "protocol": frames.PROTOCOL})
    assert -1 == asked.link.agent
    challenge = asked.hear().document()
    assert handshake.proof(TOKEN, "engine", "n", challenge["nonce"], 5) == challenge["proof"]
    proof = handshake.proof(TOKEN, "agent", "n", challenge["nonce"], 5)
    asked.say(Kind.HELLO, {**HELLO, "proof": proof})
    assert asked.link.hello is not None
    assert (5, 5) == (asked.link.agent, asked.link.hello.agent)


@pytest.mark.parametrize("proven", [0, 4, 6])
def test_the_proof_of_one_number_is_none_for_another(asked: Peer, proven: int) -> None:
    asked.say(Kind.READY, {"nonce": "n", "agent": 5, "protocol": frames.PROTOCOL})
    proof = handshake.proof(TOKEN, "agent", "n", asked.hear().document()["nonce"], proven)
    with pytest.raises(ConnectionClosed, match="could not prove"):
        asked.say(Kind.HELLO, {**HELLO, "proof": proof})
    assert (-1, None) == (asked.link.agent, asked.link.hello)


@pytest.mark.parametrize("number", [None, -1, 1 << 16, 10**30, "5", 5.0, True, [5], {"a": 5}])
def test_a_number_that_is_none_closes_the_link(asked: Peer, number: object) -> None:
    with pytest.raises(ConnectionClosed, match="no agent's number"):
        asked.say(Kind.READY, {"nonce": "n", "agent": number, "protocol": frames.PROTOCOL})


def test_what_comes_with_the_hello_is_kept_when_only_the_handshake_is_read(peer: Peer) -> None:
    peer.sock.sendall(frames.document(Kind.READY, {"nonce": "n", "agent": 3, "protocol": frames.PROTOCOL}))
    assert not peer.link.join()
    proof = handshake.proof(TOKEN, "agent", "n", peer.hear().document()["nonce"])
    hello = frames.document(Kind.HELLO, {**HELLO, "proof": proof})
    peer.sock.sendall(hello + encode(Frame(Kind.BEAT)) + encode(Frame(Kind.IDLE)) + b"\x11")
    assert peer.link.join()
    assert [Frame(Kind.IDLE)] == peer.link.take_early()
    assert [] == peer.link.take_early()
    assert [Frame(Kind.OUTPUT, b"x")] == peer.raw(encode(Frame(Kind.OUTPUT, b"x"))[1:])


def test_frames_are_small_before_the_hello_and_may_be_large_with_it(peer: Peer) -> None:
    with pytest.raises(ConnectionClosed, match="the limit is"):
        peer.raw(wire.header(Kind.READY, UNPROVEN_BYTES + 1))
    other = Peer()
    other.say(Kind.READY, {"nonce": "n", "agent": 3, "protocol": wire.PROTOCOL})
    proof = handshake.proof(TOKEN, "agent", "n", other.hear().document()["nonce"])
    large = Frame(Kind.OUTPUT, bytes(UNPROVEN_BYTES + 1))
    other.sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    frames = other.raw(wire.document(Kind.HELLO, {**HELLO, "proof": proof}) + encode(large))
    while not frames:
        frames = other.link.receive()
    assert [large] == frames
    other.close()


# --- a file that the agent wrote itself ----------------------------------------------------------------


def test_a_trusted_link_takes_a_hello_at_its_word() -> None:
    peer = Peer(trusted=True)
    hello = frames.document(Kind.HELLO, {**HELLO, "time": 5.0})
    assert [Frame(Kind.IDLE, b"{}")] == peer.raw(hello + frames.document(Kind.IDLE, {}))
    assert Hello(3, "alpha", 7, "3.11.0", 4000, 0.0) == peer.link.hello
    peer.close()


@pytest.mark.parametrize("kind", [k for k in Kind if k is not Kind.HELLO])
def test_a_trusted_link_begins_with_a_hello_all_the_same(kind: Kind) -> None:
    peer = Peer(trusted=True)
    with pytest.raises(ConnectionClosed, match=f"a {kind.name} frame before the handshake"):
        peer.say(kind, {"nonce": "n", "agent": 3, "protocol": frames.PROTOCOL})
    peer.close()


# --- beats and silence ---------------------------------------------------------------------------------


@pytest.fixture
def beating() -> Iterator[Peer]:
    made = Peer(lost_after_s=5.0)
    made.join()
    yield made
    made.close()


def nothing(peer: Peer) -> bool:
    peer.sock.setblocking(False)
    try:
        peer.sock.recv(1 << 16)
    except BlockingIOError:
        return True
    return False


def test_a_link_to_this_machine_has_no_pulse(peer: Peer) -> None:
    peer.join()
    peer.link.keep_alive(0.0)
    peer.link.keep_alive(1e9)
    assert peer.link.deadline(1e9) is None
    assert nothing(peer)


def test_a_link_beats_where_nothing_else_was_sent(beating: Peer) -> None:
    beating.link.keep_alive(0.0)
    assert 1.0 == beating.link.deadline(0.0)
    beating.link.keep_alive(0.9)
    assert nothing(beating)
    beating.sock.settimeout(5)
    beating.link.keep_alive(1.0)
    assert Kind.BEAT is beating.hear().kind
    beating.link.send(Kind.STOP, {})
    beating.link.keep_alive(1.5)
    beating.link.keep_alive(2.1)
    assert Kind.STOP is beating.hear().kind
    assert nothing(beating)
    assert 0.4 == pytest.approx(beating.link.deadline(2.1))


def test_beats_are_swallowed_and_keep_an_agent_alive(beating: Peer) -> None:
    for t in range(30):
        if t % 4 == 0:
            assert [] == beating.say(Kind.BEAT, {})
        beating.link.keep_alive(float(t))


def test_half_a_frame_is_a_sign_of_life(beating: Peer) -> None:
    for t in range(30):
        if t % 4 == 0:
            assert [] == beating.raw(encode(Frame(Kind.OUTPUT, bytes(100)))[t : t + 1])
        beating.link.keep_alive(float(t))


def test_an_agent_that_is_silent_is_lost(beating: Peer) -> None:
    for t in range(5):
        beating.link.keep_alive(float(t))
    with pytest.raises(ConnectionClosed, match="silent for 5 s"):
        beating.link.keep_alive(5.0)


def test_beats_do_not_pile_up_where_there_is_no_room(beating: Peer) -> None:
    beating.link.send_payload(bytes(8 << 20))
    beating.link.flush()
    waiting = beating.link._outbox.pending
    assert waiting
    for t in range(5):
        beating.link.keep_alive(float(t))
        assert beating.link.deadline(float(t))
    assert waiting == beating.link._outbox.pending


def test_what_is_large_travels_under_its_own_kind(peer: Peer) -> None:
    peer.join()
    peer.link.send_payload(b"zip", kind=Kind.BUNDLE)
    peer.link.flush()
    assert Frame(Kind.BUNDLE, b"zip") == peer.hear()
