"""Linux's interfaces for processes, signals and limits; only this module calls `prctl`.

It imports little, because every rank imports it before its own first line.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import resource
import select
from collections.abc import Iterator
from pathlib import Path

from ..errors import counted

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36


def become_subreaper() -> None:
    """Adopt orphaned descendants instead of leaving them to init."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1)


def signal_on_parent_death(signum: int) -> None:
    """Have the kernel send this process `signum` when the thread that started it ends."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signum)


def rename(name: str) -> str:
    """Change the name by which this process is listed, of 15 bytes at most; the name before."""
    before = Path("/proc/self/comm").read_text(errors="replace").strip()
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_NAME, name.encode())
    return before


def await_end(process: int, limit_s: float | None = None) -> bool:
    """Whether a process, given by its pidfd, has ended or does so within `limit_s` seconds; None: no limit.

    It returns at once when the process ends; `Popen.wait` with a limit polls every 50 ms.
    """
    waiting = select.poll()
    waiting.register(process, select.POLLIN)
    return bool(waiting.poll(None if limit_s is None else limit_s * 1000))


def same_file(path: str, descriptor: int) -> bool:
    """Whether `path` leads to the file that `descriptor` has open."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(descriptor))
    except OSError:
        return False


THREADS = 16
_STATES = {
    "D": "in uninterruptible sleep",
    "R": "running",
    "S": "asleep",
    "T": "stopped",
    "t": "traced",
    "Z": "ended",
}


_START = 19  # of the fields of /proc/PID/stat after the name: the start, in ticks since boot


def is_alive(pid: int) -> bool:
    """Whether a thread of the process still runs; its first one may have ended before the others."""
    status = _status(f"{pid}")
    return bool(status) and (
        status.get("State", "Z")[:1] not in "ZX" or status.get("Threads") not in ("0", "1")
    )


def resident(pid: int) -> int:
    """A process's memory in bytes; 0 for one that is gone."""
    pages = _read(f"{pid}/statm").split()[1:2]
    return int(pages[0]) * os.sysconf("SC_PAGE_SIZE") if pages else 0


def started(pid: int) -> float | None:
    """When a process started, up to a second early, by the clock of the host's files; None if unknown."""
    boot = next((line[6:] for line in _read("stat").splitlines() if line.startswith("btime ")), "")
    after_name = _read(f"{pid}/stat").rpartition(")")[2].split()
    if not boot or len(after_name) <= _START:
        return None
    return int(boot) + int(after_name[_START]) / os.sysconf("SC_CLK_TCK")


def catches(pid: int, signum: int) -> bool:
    """Whether the process has a handler for the signal."""
    return _has(_status(f"{pid}").get("SigCgt", ""), signum)


def is_pending(pid: int, signum: int) -> bool:
    """Whether the signal has been sent to the process and no thread has received it yet."""
    return _has(_status(f"{pid}").get("ShdPnd", ""), signum)


def blocking(pid: int, signum: int) -> frozenset[int]:
    """The threads that cannot receive the signal now: those that block it, and one that is handling it."""
    return frozenset(t for t in _threads(pid) if _has(_status(f"{pid}/task/{t}").get("SigBlk", ""), signum))


def threads(pid: int, signum: int) -> Iterator[str]:
    """A line for each thread: its state, and where in the kernel it waits if that can be read."""
    ids = _threads(pid)
    if ids and ids == sorted(blocking(pid, signum)):
        yield "all of its threads block the signal"
    for thread in ids[:THREADS]:
        yield f"thread {thread}: {_describe(f'{pid}/task/{thread}')}"
    if len(ids) > THREADS:
        yield f"and {counted(len(ids) - THREADS, 'more thread')}"


def _describe(place: str) -> str:
    status = _status(place)
    state = status.get("State", "")[:1]
    parts = [status.get("Name", ""), _STATES.get(state, state)]
    if (channel := _read(f"{place}/wchan").strip()) not in ("", "0"):
        parts.append(f"in {channel}")
    number = _read(f"{place}/syscall").partition(" ")[0].strip()
    if number.isdecimal():
        parts.append(f"system call {number}")
    return ", ".join(filter(None, parts))


def _threads(pid: int) -> list[int]:
    try:
        return sorted(int(name) for name in os.listdir(f"/proc/{pid}/task"))
    except OSError:  # it has ended
        return []


def _status(place: str) -> dict[str, str]:
    pairs = (line.partition(":\t") for line in _read(f"{place}/status").splitlines())
    return {key: value.strip() for key, _, value in pairs}


def _has(mask: str, signum: int) -> bool:
    return bool(mask) and bool(int(mask, 16) >> (signum - 1) & 1)


def _read(place: str) -> str:
    try:
        return Path("/proc", place).read_text(errors="replace")
    except OSError:
        return ""


CANNOT_PLACE = 69
NOT_STARTED = 127
PER_RANK = 4  # its socket, both pipes and the file for its stacks
_SPARE = 24  # for the start of a rank, and for what the agent opens now and then
_SCARCE = frozenset({errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM})


def raise_file_limit() -> int:
    """Raise this process's limit of open files to the hard limit; return the soft limit before that."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return soft


def restore_file_limit(soft: int) -> None:
    """Set the soft limit of open files that this process's parent had before it raised its own."""
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def shortage(ranks: int) -> str:
    """Why so many ranks cannot be started with the files that are open already; empty if they can."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    need = len(os.listdir("/proc/self/fd")) + PER_RANK * ranks + _SPARE
    return too_many_files(ranks, need, limit) if limit != resource.RLIM_INFINITY and need > limit else ""


def too_many_files(ranks: int, need: int, limit: int) -> str:
    """The sentence for a limit of open files that is known to be too low."""
    one = "1 rank needs" if ranks == 1 else f"{ranks} ranks need"
    return f"{one} {need} open files in their agent, and its hard limit is {limit} (ulimit -Hn): raise it"


def start_failure(error: OSError, python: str, cwd: str) -> tuple[str, int]:
    """Why a rank could not be started, and the exit code for that."""
    text = f"cannot start {python} in {cwd}: {error.strerror}"
    if error.errno not in _SCARCE:
        return text, NOT_STARTED
    return f"{text}: {_limit(error.errno)}", CANNOT_PLACE


def _limit(number: int | None) -> str:
    match number:
        case errno.EMFILE:
            return f"its agent may have {_soft(resource.RLIMIT_NOFILE)} open files (ulimit -Hn)"
        case errno.ENFILE:
            return "the whole machine has as many open files as it may (sysctl fs.file-max)"
        case errno.EAGAIN:
            most = _soft(resource.RLIMIT_NPROC)
            return f"the user may have {most} processes (ulimit -u), and a container as many as its pids.max"
        case _:
            return f"there is no memory for it, or no more than {_soft(resource.RLIMIT_AS)} bytes (ulimit -v)"


def _soft(number: int) -> str:
    soft = resource.getrlimit(number)[0]
    return "any number of" if soft == resource.RLIM_INFINITY else str(soft)
