"""Recognise failures whose cause is the host: its memory, disks and limits, and who else ends ranks. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import takewhile

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


_SHARED = (
    r"unable to (?:write to file|allocate shared memory\(shm\) for file|mmap \d+ bytes from file) "
    r"</?torch_\w{1,80}>: (?:No space left on device|Cannot allocate memory)"
)
_BUS = r"DataLoader worker \(pid \d+\) is killed by signal: Bus error"
_ENOSPC = r"\[Errno 28\] No space left on device"
_SHM = f"{_ENOSPC}: '/dev/shm/"
_SHARES = r"multiprocessing/(?:synchronize|shared_memory|heap)\.py"


def full_shared_memory(failure: FirstFailure) -> Finding | None:
    """The file system for memory that processes share is full."""
    found = failure.begins(_SHARED, "RuntimeError") or failure.begins(_SHM, "OSError")
    if found is None:
        nameless = failure.begins(rf"{_ENOSPC}\Z", "OSError")
        found = nameless if nameless and nameless.error.passed(_SHARES) else None
    bus = failure.begins(_BUS, "RuntimeError")
    if (told := found or bus) is None:
        return None
    what = f"/dev/shm of {failure.rank.host} is full, through which {failure.name} shares memory"
    return Finding(
        "shm-full",
        what,
        found.certainty if found else Certainty.LIKELY,
        (brief(told.error.message),),
        (
            "a larger /dev/shm: docker run --shm-size=8g, or an emptyDir of medium Memory in Kubernetes",
            "fewer workers of the DataLoader, a smaller prefetch_factor or batch",
            "torch.multiprocessing.set_sharing_strategy('file_system') does not help: it uses /dev/shm too",
        ),
    )


_QUOTA = r"\[Errno 122\] Disk quota exceeded"
_WRITER = r"\[enforce fail at inline_container\.cc:\d+\]|unexpected pos \d+ vs \d+|PytorchStreamWriter failed"
# torch's writer follows the system's own error, or a stream that could not be written for whatever reason
_SPACE = re.compile(rf"^OSError: {_ENOSPC}", re.MULTILINE)
_STREAM = re.compile(r"^RuntimeError: basic_ios::clear: iostream error", re.MULTILINE)


def full_disk(failure: FirstFailure) -> Finding | None:
    """A file could not be written because its file system is full."""
    found = failure.begins(rf"{_ENOSPC}|{_QUOTA}", "OSError")
    text = failure.rank.raised.traceback if failure.rank.raised else ""
    unsure = found is None and _SPACE.search(text) is None
    if found is None and (_SPACE.search(text) or _STREAM.search(text)):
        found = failure.begins(_WRITER, "RuntimeError")
    if found is None:
        return None
    path = re.search(r": '([^'\n]{1,400})'", found.error.message)
    quota = found.error.message.startswith("[Errno 122]")
    where = f"to {path[1]}" if path else "a file"
    why = "its quota there is used up" if quota else "no space is left on its disk"
    return Finding(
        "disk-full",
        f"{failure.name} could not write {where} on {failure.rank.host}: {why}",
        Certainty.LIKELY if unsure else found.certainty,
        (brief(found.error.message),),
        (
            "`df -h` there shows which file system is full; free it, or write elsewhere",
            "`df -i` shows whether it has room for no more files: then many small ones are in the way",
        ),
    )


_ALLOCATION = (
    r"\[enforce fail at alloc_cpu\.cpp:\d+\] .{0,40}?DefaultCPUAllocator: (?:can't allocate|not enough)"
    r" memory|std::bad_alloc|\[Errno 12\] Cannot allocate memory"
    r"|Unable to allocate [\d.]+ \w+ for an array"
)
_NUMPY = ("numpy._core._exceptions._ArrayMemoryError", "numpy.core._exceptions._ArrayMemoryError")
_BAD_ALLOC = r"terminate called after throwing an instance of 'std::bad_alloc'"


def _ended_by_bad_alloc(lines: Sequence[str]) -> bool:
    """Whether the last thing that a process printed is that exception, before Python's dump of the stacks.

    A child prints it to the same place, and the rank may go on.
    """
    told = [place for place, line in enumerate(lines) if re.search(_BAD_ALLOC, line)]
    rest = (
        takewhile(lambda line: not line.startswith("Fatal Python error"), lines[told[-1] + 1 :])
        if told
        else ()
    )
    return bool(told) and all(not line.strip() or line.strip().startswith("what():") for line in rest)


def memory_refused(failure: FirstFailure) -> Finding | None:
    """The system refused memory that the rank asked for."""
    found = failure.begins("", "MemoryError") or failure.begins(
        _ALLOCATION, "RuntimeError", "OSError", *_NUMPY
    )
    ended = failure.rank.signal == "SIGABRT" and _ended_by_bad_alloc(failure.output_of(failure.rank))
    if found is None and not ended:
        return None
    evidence = [
        brief(f"{found.error.kind}: {found.error.message}".removesuffix(": ") if found else "std::bad_alloc")
    ]
    used, total = failure.host_memory or (0, 0)
    if total:
        evidence.append(f"{size_text(used)} of the host's {size_text(total)} were in use when last seen")
    return Finding(
        "memory-limit",
        f"{failure.name} asked for more memory than {failure.rank.host} or a limit there allows",
        found.certainty if found else Certainty.LIKELY,
        tuple(evidence),
        (
            "see whether the size that it asks for is right",
            "`ulimit -v` must be unlimited where ranks start; fewer ranks or DataLoader workers a host",
        ),
    )


_OPEN_FILES = r"\[Errno 2[34]\] Too many open files|Too many open files\. Communication with the workers"
_ANCDATA = r"received 0 items of ancdata"


def too_many_files(failure: FirstFailure) -> Finding | None:
    """The rank had as many files open as it may have."""
    found = failure.begins(_OPEN_FILES, "OSError", "RuntimeError")
    passed = None if found else failure.begins(_ANCDATA, "RuntimeError")
    if (told := found or passed) is None:
        return None
    return Finding(
        "too-many-files",
        f"{failure.name} had as many files open as its limit allows",
        found.certainty if found else Certainty.LIKELY,
        (brief(told.error.message),),
        (
            "a higher limit where the run is started: `ulimit -n 65536`",
            "torch.multiprocessing.set_sharing_strategy('file_system'), if loaders' workers send much",
            "files must be closed: `with open(…)`",
        ),
    )


def terminated(failure: FirstFailure) -> Finding | None:
    """Somebody else than rankdeck sent SIGTERM."""
    if failure.rank.signal != "SIGTERM" or failure.rank.raised is not None:
        return None
    return Finding(
        "terminated",
        f"SIGTERM ended {failure.name} on {failure.rank.host}, and it was not rankdeck that sent it",
        Certainty.CERTAIN,
        evidence=("no stop of the run came before it",),
        remedy=(
            "a scheduler that takes the host back sends it: --max-restarts N starts the gang again",
            "else somebody ended that process: `journalctl` or the scheduler's log on the host may say who",
            f"or it ended itself: rankdeck logs {failure.run} -r {failure.rank.rank} has what it wrote last",
        ),
    )
