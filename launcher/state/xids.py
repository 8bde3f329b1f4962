"""Xids, the errors of GPUs that NVIDIA's driver logs, in words. Pure.

Their names are those of https://docs.nvidia.com/deploy/xid-errors, shortened.
"""

from __future__ import annotations

from .events import XidLogged

_NAMES = {
    13: "graphics engine exception",
    31: "MMU fault",
    43: "stopped processing (a program's error)",
    45: "preemptive cleanup",
    48: "double-bit ECC error",
    61: "microcontroller breakpoint",
    62: "microcontroller halt",
    63: "row remapping",
    64: "row remapping failed",
    74: "NVLink error",
    79: "fallen off the bus",
    92: "high rate of single-bit ECC errors",
    94: "contained memory error",
    95: "uncontained memory error",
    119: "GSP error (timeout)",
    120: "GSP error",
    140: "unrecovered ECC error",
    143: "GPU could not be initialised",
}


def gpu_text(logged: XidLogged) -> str:
    """The GPU of an Xid, as a sentence names it: ``GPU 0 on gpu-01``."""
    return f"GPU {logged.uuid if logged.index is None else logged.index} on {logged.host}"


def xid_text(number: int) -> str:
    """The Xid and its name: ``Xid 31, MMU fault``."""
    name = _NAMES.get(number, "")
    return f"Xid {number}{', ' if name else ''}{name}"
