"""Proofs: only a holder of the token can make one, and each fits one role and one channel."""

from __future__ import annotations

import pytest

from launcher.channel.frames import PROTOCOL, WireError
from launcher.channel.handshake import check, check_protocol, new_nonce, new_token, proof

TOKEN = "t" * 64


def test_the_right_proof_passes() -> None:
    check(proof(TOKEN, "agent", "a", "b"), proof(TOKEN, "agent", "a", "b"), "agent")


def test_a_proof_fits_one_token_one_role_one_channel_and_one_agent() -> None:
    proofs = {
        proof(token, role, nonce_a, nonce_e, agent)
        for token in (TOKEN, "u" * 64)
        for role in ("agent", "engine")
        for nonce_a in ("a", "b")
        for nonce_e in ("a", "b")
        for agent in (0, 1)
    }
    assert 32 == len(proofs)


def test_the_token_is_not_in_the_proof() -> None:
    assert TOKEN not in proof(TOKEN, "agent", "a", "b")


@pytest.mark.parametrize("claim", [None, "", 0, True, [], {}, "x", "\ud800", "é" * 64, "0" * 64, b"0" * 64])
def test_any_other_claim_is_refused(claim: object) -> None:
    with pytest.raises(WireError, match="the agent could not prove"):
        check(claim, proof(TOKEN, "agent", "a", "b"), "agent")


@pytest.mark.parametrize("nonce", ["\ud800", "é", "", "\0", "x" * 100_000])
def test_any_nonce_of_a_stranger_gives_a_proof(nonce: str) -> None:
    assert 64 == len(proof(TOKEN, "engine", nonce, "b"))


@pytest.mark.parametrize("version", [PROTOCOL + 1, 0, None, "1", [PROTOCOL]])
def test_another_protocol_is_refused_and_both_versions_are_named(version: object) -> None:
    with pytest.raises(WireError, match=f"this engine {PROTOCOL}"):
        check_protocol({"protocol": version})


def test_the_same_protocol_passes() -> None:
    check_protocol({"protocol": PROTOCOL})


def test_tokens_and_nonces_are_never_the_same() -> None:
    assert 100 == len({new_token() for _ in range(100)})
    assert 100 == len({new_nonce() for _ in range(100)})
    assert len(new_token()) >= 64
