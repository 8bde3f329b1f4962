"""Which GPUs a host offers to a run, and which of them a Spark task was granted.

CUDA counts the fastest GPU first and NVML follows the PCI bus, so an index means different GPUs to the
two. Devices are therefore identified and pinned by UUID from here on.

Spark knows only addresses, the output of a discovery script on this host: mostly indices in the order of
the PCI bus, as `nvidia-smi` counts, sometimes UUIDs, and anything at all where GPUs are simulated.
"""

from __future__ import annotations

import queue
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from ..spec.places import Device
from . import nvml

VISIBLE = "CUDA_VISIBLE_DEVICES"
ANSWER_S = 15.0


@dataclass(frozen=True, slots=True)
class Inventory:
    """The devices a run may use here, and one sentence if there are none or something is wrong."""

    devices: tuple[Device, ...]
    reason: str = ""


def discover(environ: Mapping[str, str], *, limit_s: float = ANSWER_S) -> Inventory:
    """Find the host's GPUs; a driver that does not answer within the limit counts as none."""
    visible = environ.get(VISIBLE)
    if visible is not None and _hides_all(visible):
        return Inventory((), f"{VISIBLE}={visible} hides every GPU")
    gpus = _within(limit_s, _list_gpus)
    if isinstance(gpus, str):
        return Inventory((), f"no GPU found ({gpus})")
    return select(gpus, visible, bus_order=environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID")


def select(gpus: Sequence[nvml.Gpu], visible: str | None, *, bus_order: bool) -> Inventory:
    """The host's GPUs that a process with this CUDA_VISIBLE_DEVICES may use, in the variable's order."""
    if not gpus:
        return Inventory((), "no GPU found (NVML lists none)")
    if visible is None:
        devices = tuple(device for gpu in gpus for device in _usable(gpu))
        return Inventory(devices, "; ".join(filter(None, map(_trouble, gpus))))
    return _filtered(gpus, visible, bus_order=bus_order)


def _filtered(gpus: Sequence[nvml.Gpu], visible: str, *, bus_order: bool) -> Inventory:
    """Filter as CUDA does: an entry that is no device hides itself and the rest, a repeated one hides all."""
    chosen: list[Device] = []
    for entry in map(str.strip, visible.split(",")):
        if _ordinal(entry) == -1:
            break
        device = _resolve(gpus, entry)
        if device is None:
            return Inventory(
                tuple(chosen), f"{VISIBLE}={visible}: {entry!r} is no GPU here; CUDA stops there"
            )
        if device in chosen:
            return Inventory((), f"{VISIBLE}={visible} names a GPU twice, so CUDA shows none")
        chosen.append(device)
    by_index = any(_ordinal(entry) is not None for entry in visible.split(","))
    mixed = len({gpu.device.name for gpu in gpus if gpu.device}) > 1
    return Inventory(tuple(chosen), _AMBIGUOUS if by_index and mixed and not bus_order else "")


_AMBIGUOUS = (
    f"{VISIBLE} counts GPUs of different models, and CUDA's own order may differ from the bus order used "
    "here: set CUDA_DEVICE_ORDER=PCI_BUS_ID, or name them by UUID"
)


def _hides_all(visible: str) -> bool:
    return not visible.strip() or _ordinal(visible) == -1


def _ordinal(entry: str) -> int | None:
    """The number that an entry begins with, as CUDA reads it; -1 for any negative one, None for a name."""
    match = re.match(r"\s*([+-]?\d+)", entry)
    return max(-1, int(match[1])) if match else None


def _resolve(gpus: Sequence[nvml.Gpu], entry: str) -> Device | None:
    """The device that an index, a UUID or the unique beginning of a UUID names."""
    ordinal = _ordinal(entry)
    if ordinal is not None:
        return next(iter(_usable(gpus[ordinal])), None) if ordinal < len(gpus) else None
    matches = [device for uuid, device in _names(gpus) if uuid.startswith(entry)]
    return matches[0] if entry.startswith(("GPU-", "MIG-")) and len(matches) == 1 else None


def _names(gpus: Sequence[nvml.Gpu]) -> list[tuple[str, Device]]:
    """Every UUID and the device that CUDA uses for it: for a GPU in MIG mode, its first instance."""
    usable = [(gpu, _usable(gpu)) for gpu in gpus]
    whole = [(gpu.device.uuid, devices[0]) for gpu, devices in usable if gpu.device and devices]
    parts = [(device.uuid, device) for gpu in gpus for device in gpu.instances or ()]
    return whole + parts


def _usable(gpu: nvml.Gpu) -> tuple[Device, ...]:
    if gpu.instances is not None:
        return gpu.instances
    return (gpu.device,) if gpu.device else ()


def _trouble(gpu: nvml.Gpu) -> str:
    if gpu.device is None:
        return f"GPU {gpu.index} does not answer ({gpu.error})"
    return "" if _usable(gpu) else f"GPU {gpu.index} is in MIG mode and has no instances"


def _list_gpus() -> list[nvml.Gpu] | str:
    """The GPUs, or why they cannot be listed.

    NVML stays initialised: the sampler of the same process needs it next, and without a persistence daemon
    another start takes a second for each GPU.
    """
    try:
        return nvml.open_session().gpus()
    except nvml.NoAnswer as error:
        return str(error)


def _within(limit_s: float, work: Callable[[], list[nvml.Gpu] | str]) -> list[nvml.Gpu] | str:
    """The result of `work`, or a sentence after the limit; a stuck driver blocks only a daemon thread."""
    answers: queue.SimpleQueue[list[nvml.Gpu] | str] = queue.SimpleQueue()
    threading.Thread(target=lambda: answers.put(work()), name="list-gpus", daemon=True).start()
    try:
        return answers.get(timeout=limit_s)
    except queue.Empty:
        return f"NVML did not answer within {limit_s:g} s"


_ORDER = "CUDA_DEVICE_ORDER"
_BUS_ORDER = "PCI_BUS_ID"


@dataclass(frozen=True, slots=True)
class GrantedGpus:
    """The devices that an agent may use.

    Attributes:
        devices: the devices in Spark's order.
        exclusive: whether no other agent uses them; else they are all that the host shows, and its agents
            have to divide them.
        reason: one sentence if there are none, or if something is wrong.
    """

    devices: tuple[Device, ...]
    exclusive: bool
    reason: str = ""


def granted_gpus(
    addresses: Sequence[str] | None, environ: Mapping[str, str], *, limit_s: float = ANSWER_S
) -> GrantedGpus:
    """The devices of this host that a task's addresses for the resource ``gpu`` name.

    Args:
        addresses: Spark's addresses; None where it schedules no GPUs.
        environ: the executor's environment. In a CUDA_VISIBLE_DEVICES that it presets, Spark's address i
            means the i-th entry; an address that is no such index means the entry of that name.
        limit_s: seconds that the driver may take to answer.
    """
    if addresses is None:
        host = discover(environ, limit_s=limit_s)
        return GrantedGpus(host.devices, exclusive=False, reason=host.reason)
    named = [address.strip() for address in addresses]
    if reason := _invalid(named):
        return GrantedGpus((), exclusive=True, reason=reason)
    if VISIBLE not in environ:
        return _find_granted(named, _BUS_ORDER, limit_s)
    preset = _entries(environ[VISIBLE])
    entries = [_entry(address, preset) for address in named]
    if "" in entries:
        lacking = named[entries.index("")]
        why = (
            f"Spark granted GPU {lacking}, which the executor's {VISIBLE}={environ[VISIBLE]!r} does not show"
        )
        return GrantedGpus((), exclusive=True, reason=why)
    return _find_granted(entries, environ.get(_ORDER, ""), limit_s)


def _invalid(addresses: Sequence[str]) -> str:
    """Why addresses can name no devices on any host; empty if they may."""
    if not addresses:
        return "Spark granted this task no GPU"
    for address in addresses:
        if not address or "," in address or re.fullmatch(r"[+-]\d+", address):
            return f"Spark granted a GPU with the address {address!r}, which names none"
        if addresses.count(address) > 1:
            return f"Spark granted GPU {address} twice to one task"
    return ""


def _entries(visible: str) -> list[str]:
    """The entries of a CUDA_VISIBLE_DEVICES; a negative one hides itself and the rest."""
    entries = [entry.strip() for entry in visible.split(",")]
    return list(takewhile(lambda entry: not entry.startswith("-"), entries))


def _entry(address: str, preset: Sequence[str]) -> str:
    """The entry of a preset list that an address means; empty if it means none.

    A UUID means its GPU even if the list lacks it.
    """
    if address.isdecimal() and int(address) < len(preset):
        return preset[int(address)]
    return address if address in preset or address.startswith(("GPU-", "MIG-")) else ""


def _find_granted(entries: Sequence[str], order: str, limit_s: float) -> GrantedGpus:
    """The entries as devices, looked up by NVML; if that lists nothing, devices made of the names alone."""
    host = discover({}, limit_s=limit_s)
    if not host.devices:
        named = tuple(_by_name(place, entry) for place, entry in enumerate(dict.fromkeys(entries)))
        return GrantedGpus(named, exclusive=True)
    granted = discover({VISIBLE: ",".join(entries), _ORDER: order}, limit_s=limit_s)
    if len(granted.devices) == len(entries):
        return GrantedGpus(granted.devices, exclusive=True, reason=granted.reason)
    why = (
        f"Spark granted GPU {', '.join(entries)}, and NVML lists {len(host.devices)} here ({granted.reason})"
    )
    return GrantedGpus(granted.devices, exclusive=True, reason=why)


def _by_name(place: int, entry: str) -> Device:
    return Device(int(entry) if entry.isdecimal() else place, entry)
