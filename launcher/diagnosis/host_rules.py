"""Recognise failures whose cause is the host: its memory, its disks, its limits. Pure."""

from __future__ import annotations

import re

from ..errors import counted, size_text
from ..state.outcome_rules import brief
from .failure import Certainty, Finding, FirstFailure

NEARLY_FULL = 0.9


def killed_by_the_kernel(failure: FirstFailure) -> Finding | None:
    """The kernel counted a kill for lack of memory while the rank ran, and the rank was killed."""
    rank = failure.rank
    if rank.signal != "SIGKILL" or not rank.oom_kills:
        return None
    evidence = [f"the kernel counted {counted(rank.oom_kills, 'kill')} for want of memory while it ran"]
    if rank.sample is not None and rank.sample.rss is not None:
        evidence.append(f"{failure.name} and its children held {size_text(rank.sample.rss)} when last seen")
    used, total = failure.host_memory or (0, 1)
    if used > total * NEARLY_FULL:  # else a limit of its own was reached, such as a container's
        evidence.append(f"{size_text(used)} of the host's {size_text(total)} were in use")
    return Finding(
        "oom-killer",
        f"the kernel killed {failure.name} because memory had run out for its container or host",
        Certainty.LIKELY,
        tuple(evidence),
        (
            "fewer workers of the DataLoader, or a smaller prefetch_factor: each holds batches of its own",
            "fewer ranks a host, or more memory for the container or the executor",
        ),
    )


_FULL = r"\[Errno 28\] |[^\n]{0,300}\bNo space left on device\b"
_SHM = (
    r"[^\n]{0,300}(?:unable to (?:write to|resize|allocate|mmap)[^\n]{0,60} (?:file|shared memory)"
    r"|/dev/shm|torch_\d+_)"
)
_BUS = r"[^\n]{0,200}Unexpected bus error encountered in worker|DataLoader worker [^\n]{0,100}Bus error"
_KINDS = ("OSError", "RuntimeError", "IOError")


def full_shared_memory(failure: FirstFailure) -> Finding | None:
    """There is no room in /dev/shm, through which a DataLoader's workers send their batches."""
    bus = failure.begins(_BUS, "RuntimeError")
    full = failure.begins(_SHM, *_KINDS)
    short = full is not None and re.search(r"No space left|Bus error|\(28\)|Errno 28", full.message)
    told = bus or (full if short else None)
    if told is None:
        return None
    return Finding(
        "shm-full",
        f"/dev/shm of {failure.rank.host} is full: the workers of a DataLoader send their batches through it",
        certainty=told.certainty,
        evidence=(brief(told.message),),
        remedy=(
            "a larger /dev/shm: `docker run --shm-size=8g`; in Kubernetes an emptyDir of medium Memory there",
            "fewer workers, a smaller prefetch_factor or smaller batches",
            "torch.multiprocessing.set_sharing_strategy('file_system'), if files run out and not bytes",
        ),
    )


def full_disk(failure: FirstFailure) -> Finding | None:
    """A file could not be written, for want of room."""
    told = failure.begins(_FULL, *_KINDS) or failure.begins(
        r"[^\n]{0,200}PytorchStreamWriter failed writing file|\[enforce fail at inline_container\.cc:\d+\] "
        r"\. unexpected pos \d+ vs \d+",
        "RuntimeError",
    )
    if told is None:
        return None
    certain = "No space left" in told[0] or "Errno 28" in told[0]
    path = re.search(r"'([^'\n]{1,300})'", told.message)
    return Finding(
        "disk-full",
        f"a disk of {failure.rank.host} is full" + (f": {path[1]} could not be written" if path else ""),
        Certainty.CERTAIN if certain else Certainty.LIKELY,
        (brief(told.message),),
        (
            f"on {failure.rank.host}, `df -h` shows which disk, and `df -i` whether its inodes have run out",
            "keep fewer checkpoints, or write them to another disk: --env TMPDIR=… for temporary files",
        ),
    )


def memory_limit(failure: FirstFailure) -> Finding | None:
    """The host, or a limit of the process, refused memory."""
    told = (
        failure.begins(r"\Z", "MemoryError")  # with a message, it may be the program's own
        or failure.begins(
            r"[^\n]{0,200}DefaultCPUAllocator: can't allocate memory[^\n]{0,300}", "RuntimeError"
        )
        or failure.begins(r"std::bad_alloc\b|\[Errno 12\] ", "RuntimeError", "OSError", "MemoryError")
    )
    if told is None:
        return None
    asked = re.search(r"tried to allocate (\d{1,20}) bytes", told.message)
    size = f"it asked for {size_text(int(asked[1]))} at once" if asked else ""
    used, total = failure.host_memory or (0, 0)
    host = f"{size_text(used)} of the host's {size_text(total)} were in use" if total else ""
    return Finding(
        "memory-limit",
        f"{failure.name} was refused memory on {failure.rank.host}",
        certainty=told.certainty,
        evidence=tuple(filter(None, (size or f"{failure.errors[0].kind} was raised", host))),
        remedy=(
            "`ulimit -v` and the limit of the container or executor show how much a rank may have",
            "smaller batches, fewer ranks a host, or data that is read in parts (memory-mapped)",
        ),
    )


def too_many_files(failure: FirstFailure) -> Finding | None:
    """A process may open no more files."""
    told = failure.begins(
        r"\[Errno 24\] |[^\n]{0,300}Too many open files|received 0 items of ancdata",
        "OSError",
        "RuntimeError",
    )
    if told is None:
        return None
    return Finding(
        "too-many-files",
        f"{failure.name} has as many files open as a process may have",
        certainty=told.certainty,
        evidence=(brief(told.message),),
        remedy=(
            "close what is opened (`with open(…)`), or raise the limit: `ulimit -n 65536`",
            "torch.multiprocessing.set_sharing_strategy('file_system'), if loaders' tensors are kept",
        ),
    )


def terminated(failure: FirstFailure) -> Finding | None:
    """Somebody else than rankdeck ended the rank."""
    rank = failure.rank
    if rank.signal != "SIGTERM" or rank.raised is not None or not rank.ended_before_stop:
        return None
    return Finding(
        "terminated",
        f"{failure.name} on {rank.host} was ended by a SIGTERM that rankdeck did not send",
        evidence=(f"its process, {rank.pid}, was gone before the gang was stopped",),
        remedy=(
            "a scheduler that takes the host back (preemption), a shutdown, or a person: its log tells",
            "save checkpoints often, and start with --max-restarts",
        ),
    )
