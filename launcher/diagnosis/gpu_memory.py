"""Recognise that a rank ran out of GPU memory, who holds it, and what would help. Pure.

torch tells all of it in the message of its `OutOfMemoryError`, in words that have changed over its versions.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise

from ..errors import size_text
from .failure import Certainty, Course, Finding, FirstFailure

_SIZE = r"\b(\d{1,15}(?:\.\d{1,9})?) (bytes|KiB|MiB|GiB|TiB)"
_UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_CERTAIN = re.compile(
    r"\A(?:(?:CUDA|HIP) (?:out of memory\.|error: out of memory)|Triton Error \[CUDA\]: out of)"
)
_LIKELY = re.compile(
    r"\ACUDA error: CU(?:BLAS|DNN)_STATUS_ALLOC_FAILED|\AcuDNN error: CUDNN_STATUS_ALLOC_FAILED"
)
_TRIED = re.compile(rf"Tried to allocate {_SIZE}")
_TOTAL = re.compile(rf"total capacity of {_SIZE}|{_SIZE} total capacity")
_FREE = re.compile(rf"of which {_SIZE} is free|{_SIZE} free")
_OWN = re.compile(rf"this process has {_SIZE} memory in use")
_OTHERS = re.compile(rf"\bProcess (\d{{1,10}}) has {_SIZE} memory in use")
_TENSORS = re.compile(rf"{_SIZE} is allocated by PyTorch|{_SIZE} already allocated")
_CACHED = re.compile(rf"{_SIZE} is reserved by PyTorch but unallocated")
_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Told:
    """What torch's message tells, in bytes; None for what it does not.

    Attributes:
        tried: what was asked for.
        total: the memory of the GPU.
        free: what was free of it.
        own: what the process held.
        tensors: what its tensors held.
        cached: what torch kept for tensors to come.
        others: what other processes held, by pid.
    """

    tried: int | None = None
    total: int | None = None
    free: int | None = None
    own: int | None = None
    tensors: int | None = None
    cached: int | None = None
    others: tuple[tuple[int, int], ...] = ()


def told(message: str) -> Told:
    """Read the message of an `OutOfMemoryError`."""
    found = [(int(pid), _bytes(size, unit)) for pid, size, unit in _OTHERS.findall(message)]
    return Told(
        tried=_first(_TRIED, message),
        total=_first(_TOTAL, message),
        free=_first(_FREE, message),
        own=_first(_OWN, message),
        tensors=_first(_TENSORS, message),
        cached=_first(_CACHED, message),
        others=tuple(found),
    )


def _first(pattern: re.Pattern[str], message: str) -> int | None:
    match = pattern.search(message)
    if match is None:
        return None
    size, unit = (part for part in match.groups() if part is not None)
    return _bytes(size, unit)


def _bytes(size: str, unit: str) -> int:
    return int(float(size) * _UNITS[unit])


def out_of_memory(failure: FirstFailure) -> Finding | None:
    """The rank raised because its GPU had no memory left."""
    certain = _CERTAIN.search(failure.message)
    if certain is None and _LIKELY.search(failure.message) is None:
        return None
    seen = told(failure.message)
    return Finding(
        "cuda-oom",
        f"{failure.name} ran out of the memory of {failure.gpu}",
        Certainty.CERTAIN if certain else Certainty.LIKELY,
        evidence=tuple(_evidence(failure, seen)),
        remedy=tuple(_remedies(failure, seen)),
    )


def _evidence(failure: FirstFailure, seen: Told) -> list[str]:
    lines = []
    if seen.tried is not None and seen.free is not None and seen.total is not None:
        tried, free, total = map(size_text, (seen.tried, seen.free, seen.total))
        lines.append(f"it asked for {tried}, and {free} of {total} were free")
    if seen.tensors is not None:
        kept = f", and torch kept {size_text(seen.cached)} for later ones" if seen.cached else ""
        lines.append(f"its tensors held {size_text(seen.tensors)}{kept}")
    for pid, size in seen.others:
        lines.append(f"process {pid} held {size_text(size)} of the same GPU")
    if len(failure.memory) > 1:
        lines.append(f"its memory went {course_text(failure.memory)}")
    return lines


def course_text(course: Course) -> str:
    """How a figure went, in at most eight points: ``0.0 GiB, 24.6 GiB, 78.6 GiB over 3 s``."""
    last = len(course) - 1
    picked = sorted({round(i * last / (_SHOWN - 1)) for i in range(_SHOWN)}) if last >= _SHOWN else None
    points = [course[i] for i in picked] if picked else list(course)
    took = points[-1][0] - points[0][0]
    return f"{', '.join(size_text(size) for _, size in points)} over {took:.0f} s"


def _remedies(failure: FirstFailure, seen: Told) -> list[str]:
    """What helps, the most fitting first."""
    ways = []
    if _is_fragmented(seen):
        ways.append(
            "--env PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: what torch keeps is in pieces that are "
            "too small"
        )
    if _is_held_by_others(seen):
        ways.append("free the GPU of the other processes (nvidia-smi lists them), or use another one")
    if _grows(failure.memory):
        ways.append(
            "see whether memory grows with every step: what is kept of a step must be detached "
            "(total += loss.item(), not total += loss)"
        )
    return [
        *ways,
        "a smaller batch a rank; accumulate gradients over several for the same step",
        "bfloat16 (torch.autocast), activation checkpointing, or FSDP over more ranks",
    ]


def _is_fragmented(seen: Told) -> bool:
    """Whether what torch keeps would have been enough, or is much."""
    if seen.cached is None:
        return False
    enough = seen.tried is not None and seen.cached >= seen.tried
    much = seen.total is not None and seen.cached >= seen.total // 10
    return enough or much


def _is_held_by_others(seen: Told) -> bool:
    """Whether others held a twentieth of the GPU or more."""
    if seen.total is None:
        return False
    others = sum(size for _, size in seen.others)
    if not others and seen.own is not None and seen.free is not None:
        others = seen.total - seen.own - seen.free
    return others >= seen.total // 20


def _grows(course: Course) -> bool:
    """Whether it grew by a tenth or more in each of the last three samples."""
    sizes = [size for _, size in course][-4:]
    return len(sizes) == 4 and all(after > before * 1.1 for before, after in pairwise(sizes))
