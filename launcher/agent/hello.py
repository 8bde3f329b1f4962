"""How an agent comes to its engine, and what it says of itself there.

A socket is inherited, dialled by the engine's addresses, or made of files in a spool folder.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

from .. import serialization
from ..channel.dial import Unreachable, dial, secure
from ..channel.tls import SocketLike
from ..spec.places import Device
from .boot import STDIN, Boot

# The exit code of an agent that has found no way; Spark's task then ends its stage, and nothing has run.
UNREACHABLE = 69


def arrive(boot: Boot) -> SocketLike:
    """The stream to the engine. Without one this process ends, and says on standard error what it tried."""
    if boot.descriptor >= 0:
        os.set_inheritable(boot.descriptor, False)
        return socket.socket(fileno=boot.descriptor)

    try:
        with _ending_with_the_task():
            return _far_stream(boot)
    except Unreachable as error:
        _give_up(str(error))


def _far_stream(boot: Boot) -> SocketLike:
    """By an address, or else by the spool folder.

    Raises:
        Unreachable: neither is a way.
    """
    from ..channel import spool

    try:
        return dial([(e.host, e.port) for e in boot.endpoints], boot.credentials, boot.dial_s)
    except Unreachable as error:
        if not boot.spool:
            raise
        if why := spool.why_not_shared(boot.spool, boot.marker):
            raise Unreachable(f"{error}; {why}") from error
        try:
            sock = spool.connect_by_files(boot.spool, boot.agent)
        except OSError as failed:
            why = f"nothing can be written to {boot.spool}: {failed.strerror}"
            raise Unreachable(f"{error}; {why}") from failed
    return secure(sock, boot.credentials, boot.dial_s)


def _give_up(why: str) -> NoReturn:
    from ..channel import network

    sys.stderr.write(f"{network.host_name()}: {why}\n")
    sys.exit(UNREACHABLE)


@contextlib.contextmanager
def _ending_with_the_task() -> Iterator[None]:
    """While this lasts, the end of the Spark task is the end of this process: there are no ranks yet."""
    done, stop = os.pipe()

    def watch() -> None:
        if STDIN in select.select([STDIN, done], [], [])[0]:
            os._exit(1)

    watcher = threading.Thread(target=watch, name="rankdeck-lifeline", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        os.close(stop)
        watcher.join()
        os.close(done)


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
    from .gpus import granted_gpus

    found = granted_gpus(boot.gpus, os.environ)
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
        "devices": [serialization.to_plain(device) for device in own.devices],
    }
    return {**said, **_of_elsewhere(own)} if boot.lifeline else said


def _of_elsewhere(own: Belongings) -> dict[str, Any]:
    from ..channel import network

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
