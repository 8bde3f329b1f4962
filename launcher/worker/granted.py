"""Which GPUs a Spark task may use: the addresses that Spark granted it, as devices of this host.

Spark knows addresses only: what a discovery script printed on this host, mostly indices in the order of
the PCI bus as `nvidia-smi` counts, sometimes UUIDs, and anything at all where GPUs are made up.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from launcher.spec import Device
from launcher.worker.devices import ANSWER_S, VISIBLE, discover

_ORDER = "CUDA_DEVICE_ORDER"
_BUS_ORDER = "PCI_BUS_ID"


@dataclass(frozen=True, slots=True)
class Granted:
    """The devices that an agent may use.

    Attributes:
        devices: in Spark's order.
        exclusive: whether they are this agent's alone; else they are all that the host shows, and its
            agents have to divide them.
        reason: one sentence if there are none, or if something is wrong.
    """

    devices: tuple[Device, ...]
    exclusive: bool
    reason: str = ""


def granted(
    addresses: Sequence[str] | None, environ: Mapping[str, str], *, limit_s: float = ANSWER_S
) -> Granted:
    """What a task's addresses for the resource ``gpu`` mean on this host.

    Args:
        addresses: Spark's addresses; None where it schedules no GPUs.
        environ: the executor's environment. In a CUDA_VISIBLE_DEVICES that it presets, Spark's address i
            means the i-th entry; an address that is no place in it means the entry of that name.
        limit_s: seconds that the driver may take to answer.
    """
    if addresses is None:
        found = discover(environ, limit_s=limit_s)
        return Granted(found.devices, exclusive=False, reason=found.reason)
    named = [address.strip() for address in addresses]
    if wrong := _nonsense(named):
        return Granted((), exclusive=True, reason=wrong)
    if VISIBLE not in environ:
        return _on_this_host(named, _BUS_ORDER, limit_s)
    preset = _shown(environ[VISIBLE])
    entries = [_entry(address, preset) for address in named]
    if "" in entries:
        lacking = named[entries.index("")]
        why = (
            f"Spark granted GPU {lacking}, which the executor's {VISIBLE}={environ[VISIBLE]!r} does not show"
        )
        return Granted((), exclusive=True, reason=why)
    return _on_this_host(entries, environ.get(_ORDER, ""), limit_s)


def _nonsense(addresses: Sequence[str]) -> str:
    """What is wrong with addresses that can name no devices, whatever the host has."""
    if not addresses:
        return "Spark granted this task no GPU"
    for address in addresses:
        if not address or "," in address or re.fullmatch(r"[+-]\d+", address):
            return f"Spark granted a GPU with the address {address!r}, which names none"
        if addresses.count(address) > 1:
            return f"Spark granted GPU {address} twice to one task"
    return ""


def _shown(visible: str) -> list[str]:
    """The entries of a CUDA_VISIBLE_DEVICES; a negative one hides itself and the rest."""
    entries = [entry.strip() for entry in visible.split(",")]
    return list(takewhile(lambda entry: not entry.startswith("-"), entries))


def _entry(address: str, preset: Sequence[str]) -> str:
    """The entry of a preset list that an address means; empty if it means none.

    A UUID names its GPU whatever the list says.
    """
    if address.isdecimal() and int(address) < len(preset):
        return preset[int(address)]
    return address if address in preset or address.startswith(("GPU-", "MIG-")) else ""


def _on_this_host(entries: Sequence[str], order: str, limit_s: float) -> Granted:
    """The entries as devices: by NVML, and where that shows nothing, as what they are called."""
    host = discover({}, limit_s=limit_s)
    if not host.devices:
        named = tuple(_by_name(place, entry) for place, entry in enumerate(dict.fromkeys(entries)))
        return Granted(named, exclusive=True)
    found = discover({VISIBLE: ",".join(entries), _ORDER: order}, limit_s=limit_s)
    if len(found.devices) == len(entries):
        return Granted(found.devices, exclusive=True, reason=found.reason)
    why = f"Spark granted GPU {', '.join(entries)}, and NVML lists {len(host.devices)} here ({found.reason})"
    return Granted(found.devices, exclusive=True, reason=why)


def _by_name(place: int, entry: str) -> Device:
    return Device(int(entry) if entry.isdecimal() else place, entry)
