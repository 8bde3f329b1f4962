"""Both ends prove that they hold the run's token; then the agent says what it is, checked field by field.

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


TEXT = 4096
LIST = 1024


@dataclass(frozen=True, slots=True)
class Hello:
    """What an agent says of itself when it joins.

    Attributes:
        agent: its number.
        host: its host's name, for people.
        machine: what tells its host from all others; agents that say the same share a host.
        pid, python, executable: its process, its Python's version and path.
        torch: the version of torch that its Python would import; empty if there is none.
        port: a port that it holds for rank 0's store.
        address: its own address on the way to the engine; `addresses`: all of its host.
        cores: the cores that were granted to it.
        devices: the GPUs that it may use; `exclusive` as in `Offer`, `gpu_reason` says why there are none.
        clock_offset: its clock minus ours, in seconds.
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


def read_hello(agent: int, said: Mapping[str, Any], our_time: float | None) -> Hello:
    """The hello of agent number `agent`.

    Args:
        agent: its number.
        said: the HELLO document.
        our_time: our clock when it was said; None to take the agent's clock for ours.

    Raises:
        ValueError, TypeError, LookupError, OverflowError: it makes no sense.
    """
    time = _finite(float(said["time"]))
    return Hello(
        agent=agent,
        host=_text(said["host"]),
        pid=_within(said["pid"], 1, 1 << 31),
        python=_text(said["python"]),
        port=_within(said["port"], 0, 65535),
        clock_offset=0.0 if our_time is None else time - our_time,
        machine=_text(said.get("machine", "")),
        executable=_text(said.get("executable", "")),
        torch=_text(said.get("torch", "")),
        address=_address(said.get("address", "")),
        addresses=tuple(map(_address, _list(said.get("addresses", ())))),
        cores=_within(said.get("cores", 1), 1, 1 << 20),
        devices=tuple(map(_device, _list(said.get("devices", ())))),
        exclusive=_flag(said.get("exclusive", True)),
        gpu_reason=_text(said.get("gpu_reason", "")),
    )


def _device(said: Any) -> Device:
    device = from_plain(Device, said)
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
    """It becomes part of ranks' environment and of commands: no white space, nothing unprintable."""
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
