"""What `nvidia-smi` says: the measure of all that we show of a GPU."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from functools import cache

import pytest

MIB = 1 << 20


@cache
def _missing() -> str:
    """Why tests that need a GPU cannot run here; empty if they can."""
    if shutil.which("nvidia-smi") is None:
        return "no GPU here: there is no nvidia-smi"
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    return "" if listed.stdout.startswith("GPU ") else f"no GPU here: {listed.stdout or listed.stderr}"


needs_gpu = [
    pytest.mark.gpu,
    pytest.mark.process,
    pytest.mark.skipif(bool(_missing()), reason=_missing()),
]


def query(*fields: str) -> list[str]:
    """These figures of the first GPU, without units."""
    words = ["nvidia-smi", "-i", "0", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits"]
    line = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    return [part.strip() for part in line.split(",")]


def number(field: str) -> float:
    """One figure of the first GPU."""
    return float(query(field)[0])


def used_by_process() -> dict[int, int]:
    """MiB of GPU memory by pid, of processes that compute."""
    words = ["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"]
    lines = subprocess.run(words, capture_output=True, text=True, check=True).stdout.splitlines()
    return {int(pid): int(used) for pid, _, used in (line.partition(",") for line in lines)}


def agree(pairs: Callable[[], list[tuple[float | None, float, float]]], tries: int = 20) -> None:
    """Read our figures and nvidia-smi's until they agree: a figure may change between two readings.

    `pairs` reads both: ours, nvidia-smi's, and by how much they may differ.
    """
    for left in reversed(range(tries)):
        read = pairs()
        if all(ours is not None and abs(ours - theirs) <= most for ours, theirs, most in read):
            return
        assert left, f"they never agreed: {read}"
