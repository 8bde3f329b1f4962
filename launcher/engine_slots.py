"""How large a Spark inside our own JVM is."""

from __future__ import annotations

LEAST = 64


def embedded_slots(num_processes: int) -> int:
    """How many slots it gets: threads, which cost nothing while they are not used."""
    return max(LEAST, 1 << (num_processes - 1).bit_length())
