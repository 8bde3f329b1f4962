"""Certificates for one launch of one run: two keys that only its engine and its agents hold."""

from __future__ import annotations

import datetime as dt
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..errors import CannotPlace
from .tls import Credentials

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

DAY_S = 86400.0
LONGEST_S = 365 * DAY_S


@dataclass(frozen=True, slots=True)
class Issued:
    """The credentials of both ends; each trusts the other's certificate and no other."""

    engine: Credentials
    agents: Credentials


def issue(*, lifetime_s: float = DAY_S, now: float | None = None) -> Issued:
    """New keys and self-signed certificates.

    Args:
        lifetime_s: how long agents may take to join. Certificates are checked only then. A day is added
            before and after, because executors' clocks may be wrong by hours.
        now: the time in seconds since 1970.

    Raises:
        CannotPlace: the `cryptography` package is not installed.
    """
    try:
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError as error:
        raise CannotPlace(
            "agents on other hosts need an encrypted channel, and its certificates need `cryptography`",
            hint="pip install cryptography",
        ) from error
    now = time.time() if now is None else now
    first = dt.datetime.fromtimestamp(now - DAY_S, dt.UTC)
    last = first + dt.timedelta(seconds=2 * DAY_S + min(lifetime_s, LONGEST_S))
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    engine, agents = (
        _certificate(key, name, first, last)
        for key, name in zip(keys, ("rankdeck engine", "rankdeck agents"), strict=True)
    )
    return Issued(
        engine=Credentials(certificate=engine, key=_pem(keys[0]), peer=agents),
        agents=Credentials(certificate=agents, key=_pem(keys[1]), peer=engine),
    )


def _certificate(key: EllipticCurvePrivateKey, name: str, first: dt.datetime, last: dt.datetime) -> str:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.x509.oid import NameOID

    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(first)
        .not_valid_after(last)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.PEM).decode()


def _pem(key: EllipticCurvePrivateKey) -> str:
    from cryptography.hazmat.primitives import serialization

    encodings: dict[str, Any] = {
        "encoding": serialization.Encoding.PEM,
        "format": serialization.PrivateFormat.PKCS8,
        "encryption_algorithm": serialization.NoEncryption(),
    }
    return key.private_bytes(**encodings).decode()
