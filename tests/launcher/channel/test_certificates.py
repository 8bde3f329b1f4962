"""Certificates of one launch: they belong together, hold for a while, and are in no file."""

from __future__ import annotations

import os
import sys
import time

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec

from launcher.channel import certificates, tls
from launcher.channel.certificates import DAY_S, issue
from launcher.errors import CannotPlace
from tests.peers import issued

NOW = 1_800_000_000.0


def read(pem: str) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pem.encode())


def test_each_end_trusts_the_other_and_itself_not() -> None:
    made = issue()
    assert (made.engine.peer, made.agents.peer) == (made.agents.certificate, made.engine.certificate)
    assert made.engine.certificate != made.agents.certificate
    assert made.engine.key != made.agents.key


def test_no_two_launches_share_anything() -> None:
    first, second = issue(), issue()
    texts = [t for made in (first, second) for t in (made.engine.certificate, made.agents.certificate)]
    assert 4 == len({*texts})
    assert 4 == len({read(t).serial_number for t in texts})


@pytest.mark.parametrize("lifetime_s", [0.0, 600.0, 40 * DAY_S])
def test_they_hold_for_the_time_asked_and_a_day_at_both_ends(lifetime_s: float) -> None:
    made = issue(lifetime_s=lifetime_s, now=NOW)
    for text in (made.engine.certificate, made.agents.certificate):
        certificate = read(text)
        assert NOW - DAY_S == certificate.not_valid_before_utc.timestamp()
        assert NOW + lifetime_s + DAY_S == certificate.not_valid_after_utc.timestamp()


@pytest.mark.parametrize("lifetime_s", [1e18, float("inf")])
def test_no_time_is_too_long(lifetime_s: float) -> None:
    until = read(issue(lifetime_s=lifetime_s).engine.certificate).not_valid_after_utc.timestamp()
    assert time.time() + certificates.LONGEST_S <= until


def test_they_sign_no_others() -> None:
    certificate = read(issued().engine.certificate)
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    key = certificate.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    assert "secp256r1" == key.curve.name


def test_the_key_is_in_no_representation() -> None:
    assert "PRIVATE" in issued().engine.key
    assert "PRIVATE" not in repr(issued())


def test_a_context_leaves_no_file_and_no_descriptor_behind() -> None:
    before = os.listdir("/proc/self/fd")
    tls.context(issued().engine, server=True)
    assert before == os.listdir("/proc/self/fd")


def test_without_cryptography_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric", None)
    with pytest.raises(CannotPlace, match="pip install cryptography"):
        issue()


def test_to_import_the_module_needs_no_cryptography(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib

    monkeypatch.setitem(sys.modules, "cryptography", None)
    importlib.import_module("launcher.channel.certificates")
    spec = importlib.util.find_spec("launcher.channel.certificates")
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(importlib.util.module_from_spec(spec))
