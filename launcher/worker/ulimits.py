"""What this process may have of the system, and the words for having come to the end of it."""

from __future__ import annotations

import contextlib
import errno
import os
import resource

CANNOT_PLACE = 69
NOT_STARTED = 127
PER_RANK = 4  # its line, both pipes and the file for its stacks
_SPARE = 24  # while one is being started, and for what the agent opens now and then
_SCARCE = frozenset({errno.EMFILE, errno.ENFILE, errno.EAGAIN, errno.ENOMEM})


def widen() -> int:
    """Let this process have as many open files as it may, and how many it was given before."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return soft


def narrow(soft: int) -> None:
    """Give this process back the limit that its starter had taken off for itself."""
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))


def shortage(ranks: int) -> str:
    """Why so many ranks cannot be started beside what is open already; empty if they can."""
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
            return f"its agent may have {_told(resource.RLIMIT_NOFILE)} open files (ulimit -Hn)"
        case errno.ENFILE:
            return "the whole machine has as many open files as it may (sysctl fs.file-max)"
        case errno.EAGAIN:
            most = _told(resource.RLIMIT_NPROC)
            return f"the user may have {most} processes (ulimit -u), and a container as many as its pids.max"
        case _:
            return f"there is no memory for it, or no more than {_told(resource.RLIMIT_AS)} bytes (ulimit -v)"


def _told(number: int) -> str:
    soft = resource.getrlimit(number)[0]
    return "any number of" if soft == resource.RLIM_INFINITY else str(soft)
