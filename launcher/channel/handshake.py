"""Both ends prove that they hold the run's token; the agent then describes itself, checked field by field.

    agent                                engine
      READY {nonce_a, agent, protocol} ->
                                        <- CHALLENGE {nonce_e, proof(engine)}
      HELLO {proof(agent), facts, time} ->

The token itself is never sent. The engine proves itself first, so that an agent obeys no other; the times
of CHALLENGE and HELLO give the offset between the two clocks.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..serialization import from_plain
from ..spec.places import Device
from .frames import PROTOCOL, WireError


def new_token() -> str:
    """A token for one run."""
    return secrets.token_hex(32)


def new_nonce() -> str:
    """A number used once."""
    return secrets.token_hex(16)


def proof(token: str, role: str, nonce_agent: str, nonce_engine: str, agent: int = 0) -> str:
    """The text by which an end proves that it holds the token, for this role and this channel.

    `agent` is the number that READY claims. On a channel that was made for one agent nothing is claimed,
    and it is 0.
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
    """Encode lone surrogates too: JSON can hold them, and the peer may be anyone."""
    return text.encode("utf-8", "surrogatepass")


def check_protocol(document: Mapping[str, Any]) -> None:
    """Refuse a peer with another version of the protocol.

    Raises:
        WireError: the versions differ; the message names both.
    """
    if document.get("protocol") != PROTOCOL:
        raise WireError(f"the agent speaks protocol {document.get('protocol')}, this engine {PROTOCOL}")


TEXT = 4096
LIST = 1024


@dataclass(frozen=True, slots=True)
class Hello:
    """An agent's description of itself when it joins.

    Attributes:
        agent: its number.
        host: its host's name, for display.
        machine: a unique identifier of its host; agents with the same one share a host.
        pid, python, executable: its process, its Python's version and path.
        torch: the version of torch that its Python would import; empty if there is none.
        port: a port that it holds for rank 0's store.
        address: its own address on the way to the engine; `addresses`: all of its host.
        cores: how many cores were granted to it.
        devices: the GPUs that it may use; `exclusive` as in `Offer`, `gpu_reason`: why there are none.
        clock_offset: its clock minus the engine's, in seconds.
        clock_error: by how many seconds that may be wrong.
        cuda: the version of CUDA that its torch was built for; empty if it was not, or that is not known.
        store: whether it can host torch's store for the gang.
    """

    agent: int
    host: str
    pid: int
    python: str
    port: int
    clock_offset: float
    machine: str = ""
    executable: str = ""
    torch: str = ""
    address: str = ""
    addresses: tuple[str, ...] = ()
    cores: int = 1
    devices: tuple[Device, ...] = ()
    exclusive: bool = True
    gpu_reason: str = ""
    store: bool = False
    clock_error: float = 0.0
    cuda: str = ""


def read_hello(
    agent: int, document: Mapping[str, Any], our_time: float | None, clock_error: float = 0.0
) -> Hello:
    """The hello of agent number `agent`.

    Args:
        agent: its number.
        document: the payload of HELLO.
        our_time: the engine's clock when HELLO was sent; None to assume equal clocks.
        clock_error: by how many seconds that may be wrong.

    Raises:
        ValueError, TypeError, LookupError, OverflowError: the document is invalid.
    """
    time = _finite(float(document["time"]))
    return Hello(
        agent=agent,
        host=_text(document["host"]),
        pid=_within(document["pid"], 1, 1 << 31),
        python=_text(document["python"]),
        port=_within(document["port"], 0, 65535),
        clock_offset=0.0 if our_time is None else time - our_time,
        machine=_text(document.get("machine", "")),
        executable=_text(document.get("executable", "")),
        torch=_text(document.get("torch", "")),
        address=_address(document.get("address", "")),
        addresses=tuple(map(_address, _list(document.get("addresses", ())))),
        cores=_within(document.get("cores", 1), 1, 1 << 20),
        devices=tuple(map(_device, _list(document.get("devices", ())))),
        exclusive=_flag(document.get("exclusive", True)),
        gpu_reason=_text(document.get("gpu_reason", "")),
        store=_flag(document.get("store", False)),
        clock_error=clock_error,
        cuda=_text(document.get("cuda", "")),
    )


def _device(value: Any) -> Device:
    device = from_plain(Device, value)
    _within(device.index, 0, 1 << 16)
    if device.memory is not None:
        _within(device.memory, 0, 1 << 60)
    for text in (device.uuid, device.name):
        _text(text)
    return device


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} where a text is due")
    if len(value) > TEXT:
        raise ValueError(f"a text of {len(value)} characters")
    return value


def _address(value: Any) -> str:
    """Check an address, which gets into ranks' environment and into commands: no spaces, all printable."""
    text = _text(value)
    if not text.isprintable() or " " in text:
        raise ValueError(f"{text!r:.40} is no address")
    return text


def _within(value: Any, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{value!r:.40} where a whole number is due")
    if not low <= value <= high:
        raise ValueError(f"{value} is not between {low} and {high}")
    return value


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r:.40} where true or false is due")
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"{value!r:.40} where a list is due")
    if len(value) > LIST:
        raise ValueError(f"a list of {len(value)}")
    return list(value)


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError(f"the time {value}")
    return value
