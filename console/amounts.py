"""What people mean by ``30d`` and ``10G``."""

from __future__ import annotations

import re

from launcher.errors import SpecError

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_BYTES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


def seconds_of(text: str) -> float:
    """An age such as ``90s``, ``12h``, ``30d`` or ``2w``; a bare number means days.

    Raises:
        SpecError: it is none.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhdw]?)", text.strip().lower(), re.ASCII)
    if match is None:
        raise SpecError(f"{text!r} is no age", hint="such as 90s, 12h, 30d or 2w")
    return float(match[1]) * _SECONDS[match[2] or "d"]


def bytes_of(text: str) -> int:
    """A size such as ``500M``, ``10G`` or ``1.5T``, in powers of 1000, or of 1024 with an i (``10Gi``).

    Raises:
        SpecError: it is none.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?", text.strip().lower(), re.ASCII)
    if match is None or (match[3] and not match[2]):
        raise SpecError(f"{text!r} is no size", hint="such as 500M, 10G or 1.5T")
    power = "kmgt".find(match[2]) + 1 if match[2] else 0
    return int(float(match[1]) * (1024**power if match[3] else _BYTES[match[2]]))
