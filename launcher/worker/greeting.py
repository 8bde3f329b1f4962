"""What an agent says of itself: who it is, where, with what."""

from __future__ import annotations

import os
import sys
import time
from dataclasses import dataclass
from typing import Any

from launcher import codec
from launcher.spec import Device
from launcher.worker.boot import Boot


@dataclass(frozen=True, slots=True)
class Belongings:
    """The GPUs that an agent may use, whether they are its alone, and why there are none."""

    devices: tuple[Device, ...] = ()
    exclusive: bool = True
    reason: str = ""


def belongings(boot: Boot) -> Belongings:
    """What the engine gave, or what Spark granted, or what there is on this host."""
    if not boot.find_gpus:
        return Belongings(boot.devices)
    from launcher.worker.granted import granted

    found = granted(boot.gpus, os.environ)
    return Belongings(found.devices, found.exclusive, found.reason)


def greeting(boot: Boot, own: Belongings, *, port: int, address: str) -> dict[str, Any]:
    """The fields of a HELLO, but for the proof.

    An agent beside its engine leaves out what both know.
    """
    said: dict[str, Any] = {
        "agent": boot.agent,
        "time": time.time(),
        "host": boot.host,
        "pid": os.getpid(),
        "warden": os.getppid(),
        "python": ".".join(map(str, sys.version_info[:3])),
        "port": port,
        "address": boot.address or address,
        "cores": boot.cores,
        "devices": [codec.to_plain(device) for device in own.devices],
    }
    return {**said, **_of_elsewhere(own)} if boot.lifeline else said


def _of_elsewhere(own: Belongings) -> dict[str, Any]:
    from launcher.worker import network

    return {
        "host": network.host_name(),
        "machine": network.machine(),
        "addresses": [address for _, address in network.addresses()],
        "executable": sys.executable or "",
        "torch": torch_version(),
        "exclusive": own.exclusive,
        "gpu_reason": own.reason,
    }


def torch_version() -> str:
    """The version of torch that this interpreter would import, without importing it; empty if none."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("torch") or ""  # what was half removed has none
    except PackageNotFoundError:
        return ""
