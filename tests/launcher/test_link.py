"""The engine's end of a channel: strangers, liars and peers that vanish end the link and nothing else."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from launcher.channel.link import Hello, Link, LinkClosed
from launcher.testing import FakeClock
from launcher.worker import handshake, wire
from launcher.worker.wire import Decoder, Frame, Kind, encode

TOKEN = "secret" * 8
HELLO = {"time": 0.0, "host": "alpha", "pid": 7, "python": "3.11.0", "port": 4000}


class Peer:
    """What pretends to be an agent, and the link that it talks to."""

    def __init__(self, token: str = TOKEN) -> None:
        near, self.sock = socket.socketpair()
        self.sock.settimeout(5)
        self.clock = FakeClock(100.0)
        self.link = Link(near, 3, TOKEN, clock=self.clock)
        self.token = token
        self._decoder = Decoder()

    def close(self) -> None:
        self.link.close()
        self.sock.close()

    def say(self, kind: Kind, value: Any) -> list[Frame]:
        self.sock.sendall(wire.document(kind, value))
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
        assert [] == self.say(Kind.READY, {"nonce": "n", "agent": 3, "protocol": wire.PROTOCOL})
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
    peer.say(Kind.READY, {"nonce": "mine", "agent": 3, "protocol": wire.PROTOCOL})
    challenge = peer.hear().document()
    assert handshake.proof(TOKEN, "engine", "mine", challenge["nonce"]) == challenge["proof"]
    assert peer.link.hello is None
    proof = handshake.proof(TOKEN, "agent", "mine", challenge["nonce"])
    assert [] == peer.say(Kind.HELLO, {**HELLO, "proof": proof, "time": 160.0})
    assert Hello(3, "alpha", 7, "3.11.0", 4000, 60.0) == peer.link.hello


def test_the_clocks_are_related_at_the_middle_of_the_round_trip(peer: Peer) -> None:
    peer.join(wait_s=4.0, time=112.0)
    assert peer.link.hello is not None
    assert 10.0 == peer.link.hello.clock_offset


def test_the_token_does_not_travel(peer: Peer) -> None:
    peer.say(Kind.READY, {"nonce": "n", "agent": 3, "protocol": wire.PROTOCOL})
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
    with pytest.raises(LinkClosed, match="could not prove"):
        peer.join()
    assert peer.link.hello is None
    peer.close()


def test_the_engines_own_proof_proves_no_agent(peer: Peer) -> None:
    peer.say(Kind.READY, {"nonce": "n", "agent": 3, "protocol": wire.PROTOCOL})
    with pytest.raises(LinkClosed, match="could not prove"):
        peer.say(Kind.HELLO, {**HELLO, "proof": peer.hear().document()["proof"]})


@pytest.mark.parametrize("proof", [None, 3, "\ud800", ["x"], ""])
def test_a_proof_that_is_none_is_refused(peer: Peer, proof: object) -> None:
    with pytest.raises(LinkClosed, match="could not prove"):
        peer.join(proof=proof)


@pytest.mark.parametrize("kind", [k for k in Kind if k is not Kind.READY])
def test_whatever_comes_before_the_handshake_closes_the_link(peer: Peer, kind: Kind) -> None:
    with pytest.raises(LinkClosed, match=f"a {kind.name} frame before the handshake"):
        peer.say(kind, HELLO)


def test_a_second_ready_closes_the_link(peer: Peer) -> None:
    ready = {"nonce": "n", "agent": 3, "protocol": wire.PROTOCOL}
    peer.say(Kind.READY, ready)
    with pytest.raises(LinkClosed, match="READY frame before the handshake"):
        peer.say(Kind.READY, ready)


def test_another_version_is_refused(peer: Peer) -> None:
    with pytest.raises(LinkClosed, match="speaks protocol 99"):
        peer.say(Kind.READY, {"nonce": "n", "agent": 3, "protocol": 99})


@pytest.mark.parametrize("nonce", [None, 3, "\ud800", ["x"], {"a": 1}])
def test_a_strange_nonce_harms_nobody(peer: Peer, nonce: object) -> None:
    peer.say(Kind.READY, {"nonce": nonce, "agent": 3, "protocol": wire.PROTOCOL})
    assert Kind.CHALLENGE is peer.hear().kind
    with pytest.raises(LinkClosed, match="could not prove"):
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
    ],
    ids=lambda changes: repr(changes)[:20],
)
def test_a_hello_that_makes_no_sense_closes_the_link(peer: Peer, changes: dict[str, Any]) -> None:
    with pytest.raises(LinkClosed, match="HELLO"):
        peer.join(**changes)
    assert peer.link.hello is None


@pytest.mark.parametrize("missing", sorted(HELLO))
def test_a_hello_without_all_that_is_due_closes_the_link(peer: Peer, missing: str) -> None:
    peer.say(Kind.READY, {"nonce": "n", "agent": 3, "protocol": wire.PROTOCOL})
    proof = handshake.proof(TOKEN, "agent", "n", peer.hear().document()["nonce"])
    hello = {k: v for k, v in HELLO.items() if k != missing}
    with pytest.raises(LinkClosed, match="HELLO"):
        peer.say(Kind.HELLO, {**hello, "proof": proof})


@given(st.binary(min_size=1, max_size=300))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_garbage_closes_the_link_or_waits_for_more(garbage: bytes) -> None:
    peer = Peer()
    try:
        assert [] == peer.raw(garbage)
    except LinkClosed:
        pass
    finally:
        assert peer.link.hello is None
        peer.close()


@pytest.mark.parametrize("payload", [b"[" * 100_000, b"\xff", b"[]", b"", b"9" * 9000])
def test_a_first_frame_that_is_no_document_closes_the_link(peer: Peer, payload: bytes) -> None:
    with pytest.raises(LinkClosed, match="READY frame that is not"):
        peer.raw(encode(Frame(Kind.READY, payload)))


def test_an_oversized_frame_closes_the_link_from_its_header_alone(peer: Peer) -> None:
    peer.join()
    with pytest.raises(LinkClosed, match="the limit is"):
        peer.raw(wire.header(Kind.OUTPUT, wire.MAX_PAYLOAD + 1))


def test_a_peer_that_closes_midway_is_gone_once_its_whole_frames_are_read(peer: Peer) -> None:
    peer.join()
    peer.sock.sendall(wire.document(Kind.IDLE, {}) + encode(Frame(Kind.OUTPUT, b"half"))[:-2])
    peer.sock.close()
    assert [Frame(Kind.IDLE, b"{}")] == peer.link.receive()
    with pytest.raises(LinkClosed, match="closed the channel"):
        peer.link.receive()


def test_a_peer_that_leaves_unread_words_behind_is_gone(peer: Peer) -> None:
    peer.join()
    peer.link.send(Kind.STOP, {"grace_s": 1.0})
    peer.sock.close()
    with pytest.raises(LinkClosed):
        peer.link.receive()


def test_a_silent_peer_is_waited_for(peer: Peer) -> None:
    assert [] == peer.link.receive()


def test_writing_to_a_peer_that_is_gone_is_found_by_reading(peer: Peer) -> None:
    peer.join()
    peer.sock.close()
    peer.link.send(Kind.STOP, {"grace_s": 1.0})
    peer.link.flush()
    with pytest.raises(LinkClosed):
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
