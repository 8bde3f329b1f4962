"""What must not be written down: values whose names say that they are secret."""

from __future__ import annotations

import re
from collections.abc import Mapping

REDACTED = "***"
_SECRET = re.compile(
    r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH|COOKIE|SESSION|PRIVATE|JWT|_(?:PWD|PAT|DSN)\b", re.IGNORECASE
)


def looks_secret(name: str) -> bool:
    """Whether a variable or setting of this name usually holds something not to be written down."""
    return _SECRET.search(name) is not None


def redacted(values: Mapping[str, str]) -> dict[str, str]:
    """The same with the values of secret names replaced."""
    return {k: REDACTED if looks_secret(k) else v for k, v in values.items()}


def without_token(remote: str) -> str:
    """A Connect URL without the values of the parameters that look secret (``;token=…``)."""
    server, *parameters = remote.split(";")
    return ";".join([server, *map(_parameter, parameters)])


def _parameter(text: str) -> str:
    name = text.partition("=")[0]
    return f"{name}={REDACTED}" if looks_secret(name) else text
