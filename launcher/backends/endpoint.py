"""At which address the run listens for its agents, and which addresses they are told."""

from __future__ import annotations

import re
from dataclasses import dataclass

from launcher.errors import SpecError

_FORM = re.compile(r"(?:\[(?P<six>[^]\s]+)\]|(?P<host>[^:\[\]\s]*))(?::(?P<first>\d+)(?:-(?P<last>\d+))?)?")


@dataclass(frozen=True, slots=True)
class ListenAt:
    """Where to listen.

    Attributes:
        host: the address to bind; empty for the driver's own.
        ports: the ports that will do; ``range(1)`` for any.
    """

    host: str = ""
    ports: range = range(1)

    @classmethod
    def parse(cls, text: str) -> ListenAt:
        """What a person means by ``host``, ``host:port``, ``:4000-4010`` or ``[fe80::1]:port``.

        Raises:
            SpecError: nothing of the kind.
        """
        match = _FORM.fullmatch(text.strip())
        if match is None:
            raise SpecError(f"--listen takes HOST, HOST:PORT or HOST:FIRST-LAST, not {text!r}")
        host, first = match["six"] or match["host"] or "", match["first"]
        if first is None:
            return cls(host)
        ports = range(int(first), int(match["last"] or first) + 1)
        if not ports or ports[0] < 1 or ports[-1] > 65535:
            raise SpecError(f"--listen takes ports from 1 to 65535, and not {text!r}")
        return cls(host, ports)


def addresses(wanted: ListenAt, *, driver: str, bind: str) -> tuple[str, tuple[str, ...]]:
    """The address to bind, and those that agents try in this order.

    Args:
        wanted: what the person asked for.
        driver: the host by which executors know the driver.
        bind: what the driver itself binds; empty if it says nothing.

    Where the driver binds another address than it is known by (it is behind a translation of addresses),
    so do we. Spark writes IPv6 addresses in brackets.
    """
    driver, bind = driver.strip("[]"), bind.strip("[]")
    if wanted.host:
        told = (driver,) if wanted.host in ("0.0.0.0", "::") else (wanted.host, driver)
        return wanted.host, tuple(dict.fromkeys(told))
    return bind or driver, (driver,)
