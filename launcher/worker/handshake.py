"""Who are you, and who am I: both ends of a channel prove that they hold the run's token.

    agent                                engine
      READY {nonce_a, agent, protocol} ->
                                        <- CHALLENGE {nonce_e, proof(engine)}
      HELLO {proof(agent), facts, time} ->

The token itself never travels. The engine proves itself first, so that an agent obeys nobody else; the
time between CHALLENGE and HELLO relates the two clocks.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from typing import Any

from launcher.worker.wire import PROTOCOL, WireError


def new_token() -> str:
    """A token for one run."""
    return secrets.token_hex(32)


def new_nonce() -> str:
    """A number used once."""
    return secrets.token_hex(16)


def proof(token: str, role: str, nonce_agent: str, nonce_engine: str, agent: int = 0) -> str:
    """What only a holder of the token can say, for this role and this channel.

    `agent` is the number that READY claims. On a channel that was made for one agent nothing is claimed,
    and it stays 0.
    """
    message = f"rankdeck {PROTOCOL} {role} {agent} {nonce_agent} {nonce_engine}"
    return hmac.new(token.encode(), _bytes(message), hashlib.sha256).hexdigest()


def check(claim: object, expected: str, who: str) -> None:
    """Compare in constant time.

    Raises:
        WireError: the peer does not hold the token.
    """
    if not isinstance(claim, str) or not hmac.compare_digest(_bytes(claim), _bytes(expected)):
        raise WireError(f"the {who} could not prove that it belongs to this run")


def _bytes(text: str) -> bytes:
    """JSON can say what UTF-8 cannot, and a stranger may."""
    return text.encode("utf-8", "surrogatepass")


def check_protocol(document: Mapping[str, Any]) -> None:
    """Refuse a peer that speaks another version.

    Raises:
        WireError: naming both versions.
    """
    if document.get("protocol") != PROTOCOL:
        raise WireError(f"the agent speaks protocol {document.get('protocol')}, this engine {PROTOCOL}")
