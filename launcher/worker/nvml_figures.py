"""What NVML's raw answers mean: pure functions over numbers, without pynvml and without a device."""

from __future__ import annotations

from typing import Any

_UNKNOWN_UINT = 0xFFFFFFFF
_UNKNOWN_ULONG = 0xFFFFFFFFFFFFFFFF
_SLOW_PER_READ = 2

# Named as nvidia-smi names them. "Idle" (bit 0) is left out: a GPU without work is not held back.
_THROTTLE = {
    0x002: "applications_clocks_setting",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake_slowdown",
    0x100: "display_clocks_setting",
    0x200: "board_limit",
    0x400: "reliability",
}
_IDLE = 0x001


def throttle_names(bits: int | None) -> tuple[str, ...] | None:
    """The reasons for lowered clocks in a bit mask; a bit that has no name yet appears as a number."""
    if bits is None:
        return None
    set_bits = [1 << i for i in range(bits.bit_length()) if bits >> i & 1]
    return tuple(_THROTTLE.get(bit, hex(bit)) for bit in set_bits if bit != _IDLE)


def watts(milliwatts: int | None) -> float | None:
    """Milliwatts, as NVML counts, in watts."""
    return None if milliwatts is None else milliwatts / 1000


def known(value: Any) -> int | None:
    """The number, or None for the values by which NVML says that there is none."""
    return None if value in (None, _UNKNOWN_UINT, _UNKNOWN_ULONG) else int(value)


def is_turn(reads: int, position: int, devices: int) -> bool:
    """Whether a device's slow readings are due; so that a round of all devices has at most two."""
    rounds = max(1, -(-devices // _SLOW_PER_READ))
    return reads % rounds == position % rounds


def merged_memory(lists: list[list[tuple[int, int | None]]]) -> dict[int, int | None]:
    """Bytes by pid. A process may stand in several lists with one figure, and several times in one."""
    merged: dict[int, int | None] = {}
    for entries in lists:
        for pid, used in _summed(entries).items():
            before = merged.get(pid)
            merged[pid] = max((v for v in (before, used) if v is not None), default=None)
    return merged


def _summed(entries: list[tuple[int, int | None]]) -> dict[int, int | None]:
    sums: dict[int, int | None] = {}
    for pid, used in entries:
        before = sums.get(pid, 0)
        sums[pid] = None if before is None or used is None else before + used
    return sums


def text(value: str | bytes) -> str:
    """Text; older versions of pynvml gave bytes."""
    return value.decode(errors="replace") if isinstance(value, bytes) else value
