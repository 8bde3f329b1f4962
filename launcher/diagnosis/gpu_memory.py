"""Recognise that a rank ran out of GPU memory, who holds it, and what would help. Pure.

torch tells all of it in the message of its `OutOfMemoryError`, in words that have changed over its versions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from ..errors import size_text
from .failure import Certainty, Course, Finding, FirstFailure

_SIZE = r"\b(\d{1,15}(?:\.\d{1,9})?) (bytes|KiB|MiB|GiB|TiB)"
_UNITS = {"bytes": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}
_CERTAIN = r"(?:CUDA|HIP) (?:out of memory\.|error: out of memory)|Triton Error \[CUDA\]: out of"
_LIKELY = r"CUDA error: CU(?:BLAS|DNN)_STATUS_ALLOC_FAILED|cuDNN error: CUDNN_STATUS_ALLOC_FAILED"
_TRIED = re.compile(rf"Tried to allocate {_SIZE}")
_TOTAL = re.compile(rf"total capacity of {_SIZE}|{_SIZE} total capacity")
_FREE = re.compile(rf"of which {_SIZE} is free|{_SIZE} free")
_OWN = re.compile(rf"this process has {_SIZE} memory in use")
_OTHERS = re.compile(rf"\bProcess (\d{{1,10}}) has {_SIZE} memory in use")
_TENSORS = re.compile(rf"{_SIZE} is allocated by PyTorch|{_SIZE} already allocated")
_CACHED = re.compile(rf"{_SIZE} is reserved by PyTorch but unallocated")
_NUMBER = re.compile(r"\bGPU (\d{1,3}) has a total capacity|\(GPU (\d{1,3});")
_SHOWN, _LEAST_COURSE = 8, 8


@dataclass(frozen=True, slots=True)
class MemoryTold:
    """What torch's message tells; None for what it does not.

    Attributes:
        number: of the GPU, as the rank counts those that it sees; the other figures are in bytes.
        tried: what was asked for.
        total: the memory of the GPU.
        free: what was free of it.
        own: what the process held.
        tensors: what its tensors held.
        cached: what torch kept for tensors to come.
        others: what other processes held, by pid.
    """

    number: int | None = None
    tried: int | None = None
    total: int | None = None
    free: int | None = None
    own: int | None = None
    tensors: int | None = None
    cached: int | None = None
    others: tuple[tuple[int, int], ...] = ()


def told(message: str) -> MemoryTold:
    """Read the message of an `OutOfMemoryError`."""
    found = [(int(pid), _bytes(size, unit)) for pid, size, unit in _OTHERS.findall(message)]
    number = _NUMBER.search(message)
    return MemoryTold(
        number=int(number[1] or number[2]) if number else None,
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
    """The rank raised because a GPU had no memory left."""
    sure = failure.begins(_CERTAIN)
    found = sure or failure.begins(_LIKELY)
    if found is None:
        return None
    seen, course = told(found.error.message), failure.memory()
    return Finding(
        "cuda-oom",
        f"{failure.name} ran out of GPU memory on {failure.rank.host or 'its host'}",
        found.certainty if sure else Certainty.LIKELY,
        evidence=tuple(_evidence(failure, seen, course)),
        remedy=tuple(_remedies(failure, seen, course)),
    )


def _evidence(failure: FirstFailure, seen: MemoryTold, course: Course) -> list[str]:
    lines = []
    if seen.tried is not None and seen.free is not None and seen.total is not None:
        tried, free, total = map(size_text, (seen.tried, seen.free, seen.total))
        where = "" if seen.number is None else f" of cuda:{seen.number}"
        lines.append(f"it asked for {tried}, and {free} of the {total}{where} were free")
    if seen.tensors is not None:
        kept = f", and torch kept {size_text(seen.cached)} for later ones" if seen.cached else ""
        lines.append(f"its tensors held {size_text(seen.tensors)}{kept}")
    for pid, size in seen.others:
        peer = failure.peers.get(pid)
        who = f"process {pid}" if peer is None else f"rank {peer}"
        lines.append(f"{who} held {size_text(size)} of the same GPU")
    if len(course) > 1:
        lines.append(f"its memory went {course_text(course)}")
    return lines


def course_text(course: Course) -> str:
    """How a figure went, in at most eight points: ``0.0 GiB, 24.6 GiB, 78.6 GiB over 3 s``."""
    last = len(course) - 1
    picked = sorted({round(i * last / (_SHOWN - 1)) for i in range(_SHOWN)}) if last >= _SHOWN else None
    points = [course[i] for i in picked] if picked else list(course)
    took = points[-1][0] - points[0][0]
    return f"{', '.join(size_text(size) for _, size in points)} over {took:.0f} s"


def _remedies(failure: FirstFailure, seen: MemoryTold, course: Course) -> list[str]:
    """What helps, the most fitting first."""
    ways = []
    if any(pid in failure.peers for pid, _ in seen.others):
        ways.append(
            "fewer ranks a GPU"
            if failure.shared
            else "torch.cuda.set_device(int(os.environ['LOCAL_RANK'])) first: ranks have met on one GPU"
        )
    if _is_fragmented(seen):
        ways.append(
            "--env PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: what torch keeps is in pieces that are "
            "too small"
        )
    if _is_held_by_others(seen, failure.peers):
        ways.append("free the GPU of the other processes (nvidia-smi lists them), or use another one")
    if _grows(course):
        ways.append(
            "see whether memory grows with every step: what is kept of a step must be detached "
            "(total += loss.item(), not total += loss)"
        )
    return [
        *ways,
        "a smaller batch a rank; accumulate gradients over several for the same step",
        "bfloat16 (torch.autocast), activation checkpointing, or FSDP over more ranks",
    ]


def _is_fragmented(seen: MemoryTold) -> bool:
    """Whether what torch keeps would have been enough, or is much."""
    if seen.cached is None:
        return False
    enough = seen.tried is not None and seen.cached >= seen.tried
    much = seen.total is not None and seen.cached >= seen.total // 10
    return enough or much


def _is_held_by_others(seen: MemoryTold, peers: Mapping[int, int]) -> bool:
    """Whether processes that are no ranks of this run held a twentieth of the GPU or more."""
    if seen.total is None:
        return False
    others = sum(size for pid, size in seen.others if pid not in peers)
    if not seen.others and seen.own is not None and seen.free is not None:
        others = seen.total - seen.own - seen.free
    return others >= seen.total // 20


def _grows(course: Course) -> bool:
    """Whether it grew on and on: by a fifth in the last two thirds, and never shrank there.

    The first third is left out: there the model and the first batch come.
    """
    later = [size for _, size in course][len(course) // 3 :]
    if len(course) < _LEAST_COURSE or later[-1] < later[0] * 1.2:
        return False
    rises = [after - before for before, after in pairwise(later)]
    return min(rises) >= 0 and sum(rise > 0 for rise in rises) * 3 >= len(rises)
