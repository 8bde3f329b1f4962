"""This host's addresses and identity, and a port for rank 0's store.

Linux lets two sockets with SO_REUSEADDR bind one port as long as neither listens; torch's store (and
libuv under it) sets that option. The kernel does not choose a bound port for a socket that asks for any port.
So the agent can hold the port from before the ranks exist until they have ended, instead of guessing one.
"""

from __future__ import annotations

import array
import contextlib
import errno
import fcntl
import ipaddress
import os
import socket
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from .connecting import DialAddress, connect, dial_addresses

_SIOCGIFCONF, _SIOCGIFFLAGS = 0x8912, 0x8913
_IFF_UP, _IFNAMSIZ = 0x1, 16
_IFREQ = 40 if struct.calcsize("P") == 8 else 32
_IFREQS = 1024
_IF_INET6 = "/proc/net/if_inet6"
_LINK_LOCAL, _UNUSABLE = 0x20, 0x40 | 0x08  # scope; flags: tentative, found to be a duplicate
_ANY_PORT = 9


def addresses() -> list[tuple[str, str]]:
    """(interface, address) of every interface that is up, those of loopback last.

    Link-local addresses are left out: they are valid on one link only.
    """
    pairs = [*_ipv4(), *((i, a) for i, a, link_local in _ipv6() if not link_local)]
    return sorted(pairs, key=lambda pair: ipaddress.ip_address(pair[1]).is_loopback)


def interface_of(address: str) -> str:
    """The interface that holds an address of this host; empty if none does."""
    number = _number(address)
    if number is None:
        return ""
    held = [(i, ipaddress.ip_address(a)) for i, a in (*_ipv4(), *((i, a) for i, a, _ in _ipv6()))]
    for interface, own in held:
        if own == number:
            return interface
    # All of 127.0.0.0/8 belongs to the loopback interface, though it has one address only.
    return next((i for i, own in held if own.is_loopback and number.is_loopback), "")


def source_for(address: str) -> str:
    """This host's own address on the route to another. Nothing is sent.

    Raises:
        OSError: there is no route.
    """
    target = dial_addresses(address, _ANY_PORT)[0]
    with socket.socket(target.family, socket.SOCK_DGRAM) as sock:
        sock.connect(target.address)
        return str(sock.getsockname()[0])


def machine(environ: Mapping[str, str] = os.environ) -> str:
    """A unique identifier of this host, the same for all processes on it.

    It consists of the kernel's boot, the network namespace, the host's name, and Spark's name for the host:
    Spark treats workers of one machine under several addresses as several hosts.
    """
    parts = [boot(), _namespace_number(), socket.gethostname(), _spark_name(environ)]
    return "|".join(parts)


def host_name(environ: Mapping[str, str] = os.environ) -> str:
    """The host's name for display: Spark's if it has one, else the kernel's."""
    return _spark_name(environ) or socket.gethostname()


@dataclass(frozen=True, slots=True)
class Way:
    """How this host reaches another one: its interface on the way, and its own address on it."""

    interface: str = ""
    source: str = ""


def reach(candidates: Sequence[str], port: int, timeout_s: float) -> dict[str, Way]:
    """Which addresses of a host can be reached from here, and our way to each.

    All are tried at once. Hosts may have the same address, such as that of a container bridge: an address of
    ours leads to this host, and counts only if the port is held here, which shows that this host is meant.

    Args:
        candidates: addresses of one host.
        port: a port that the host holds, listening or not.
        timeout_s: seconds to wait for an answer.
    """
    reached = {}
    elsewhere: dict[DialAddress, str] = {}
    for address in candidates:
        if interface := interface_of(address):
            if _held_here(address, port):
                reached[address] = Way(interface, address)
        else:
            with contextlib.suppress(OSError, UnicodeError):
                elsewhere.update(dict.fromkeys(dial_addresses(address, port), address))
    for target, outcome in connect(elsewhere, timeout_s):
        if isinstance(outcome, socket.socket):
            outcome.close()
        elif outcome.errno != errno.ECONNREFUSED:
            continue
        address = elsewhere[target]
        with contextlib.suppress(OSError):
            source = source_for(address)
            reached[address] = Way(interface_of(source), source)
    return {address: reached[address] for address in candidates if address in reached}


def _held_here(address: str, port: int) -> bool:
    """Whether a process on this host has bound the port at that address."""
    target = dial_addresses(address, port)[0]
    with socket.socket(target.family, socket.SOCK_STREAM) as sock:
        try:
            sock.bind(target.address)
        except OSError as error:
            return error.errno == errno.EADDRINUSE
    return False


def _ipv4() -> Iterator[tuple[str, str]]:
    """By SIOCGIFCONF, which lists every address of an interface, not only the first."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        space = array.array("B", bytes(_IFREQ * _IFREQS))
        request = struct.pack("iP", len(space), space.buffer_info()[0])
        (filled, _) = struct.unpack("iP", fcntl.ioctl(sock, _SIOCGIFCONF, request))
        for start in range(0, filled, _IFREQ):
            entry = bytes(space[start : start + _IFREQ])
            name = entry[:_IFNAMSIZ].partition(b"\0")[0]
            if _is_up(sock, name):
                interface = os.fsdecode(name.partition(b":")[0])  # eth0:1 is another label of eth0
                yield interface, socket.inet_ntoa(entry[_IFNAMSIZ + 4 : _IFNAMSIZ + 8])


def _is_up(sock: socket.socket, name: bytes) -> bool:
    try:
        answer = fcntl.ioctl(sock, _SIOCGIFFLAGS, struct.pack(f"{_IFREQ}s", name))
    except OSError:
        return False  # the interface has just gone
    return bool(struct.unpack_from("H", answer, _IFNAMSIZ)[0] & _IFF_UP)


def _ipv6() -> Iterator[tuple[str, str, bool]]:
    """(interface, address, whether it is link-local); nothing where there is no IPv6."""
    try:
        with open(_IF_INET6) as file:
            lines = file.readlines()
    except OSError:
        return
    for line in lines:
        digits, _, _, scope, flags, interface = line.split()
        if not int(flags, 16) & _UNUSABLE:
            address = socket.inet_ntop(socket.AF_INET6, bytes.fromhex(digits))
            yield interface, address, int(scope, 16) == _LINK_LOCAL


def is_loopback(address: str) -> bool:
    """Whether an address is a loopback one: a number or the name ``localhost``."""
    number = _number(address)
    if number is None:
        return address.lower() in ("localhost", "localhost.localdomain", "ip6-localhost")
    return number.is_loopback


def _number(address: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """An address as a number: without its zone, and an IPv4-mapped IPv6 address as IPv4."""
    try:
        number = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return None
    mapped = number.ipv4_mapped if isinstance(number, ipaddress.IPv6Address) else None
    return mapped or number


def boot() -> str:
    """A unique identifier of this boot of the kernel; empty if there is none."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return file.read().strip()
    except OSError:
        return ""


def namespace() -> str:
    """A unique identifier of the network namespace, in which loopback addresses are valid; else empty."""
    number = _namespace_number()
    return f"{boot()}|{number}" if number else ""


def _namespace_number() -> str:
    try:
        return str(os.stat("/proc/self/ns/net").st_ino)
    except OSError:
        return ""


def _spark_name(environ: Mapping[str, str]) -> str:
    return environ.get("SPARK_LOCAL_HOSTNAME") or environ.get("SPARK_LOCAL_IP") or ""


@dataclass(frozen=True, slots=True)
class HeldPort:
    """A port that is ours while `sock` is open."""

    sock: socket.socket
    number: int


def hold_port() -> HeldPort:
    """Hold a port on every address, IPv6 included where there is any."""
    sock = _bound(socket.AF_INET6, "::") or _bound(socket.AF_INET, "0.0.0.0")
    if sock is None:
        raise OSError("this host has no port left to bind")
    return HeldPort(sock, sock.getsockname()[1])


def _bound(family: socket.AddressFamily, address: str) -> socket.socket | None:
    try:
        sock = socket.socket(family, socket.SOCK_STREAM)
    except OSError:
        return None
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family is socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.bind((address, 0))
    except OSError:
        sock.close()
        return None
    return sock
