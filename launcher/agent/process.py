"""Processes on Linux: start a rank, find all its descendants, end them, prove it; and the agent's warden.

The agent is a subreaper, so whatever a rank starts stays below the agent however often it forks or
changes session: a walk over descendants finds all of it, and an empty walk is the proof of death.

If the agent is killed, or fails, its ranks die with it (PR_SET_PDEATHSIG), but the processes that ranks have
started would go to init. The warden is a subreaper too: it inherits those orphans, ends them, removes what
`leftovers` knows of and exits. It is forked before the agent opens anything, so it costs no start-up and
little memory. An agent that ends by itself removes that itself.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from . import first_code, leftovers, linux, memory_groups, rank_pipe

# As which an agent and its warden are listed.
AGENT, WARDEN = "rankdeck-agent", "rankdeck-warden"
PIPE_BYTES = 1 << 20
READ_BYTES = 256 << 10


@dataclass(slots=True)
class RankProcess:
    """A started rank and the agent's ends of its socket and pipes; `stacks` is a file that both have open."""

    rank: int
    pid: int
    line: socket.socket
    stdout: int
    stderr: int
    stacks: int


class Starter(Protocol):
    """Starts a process with nothing to read, in a session of its own; returns its pid.

    `keep` are the descriptors that it inherits, with their numbers. Whoever calls it waits for the process.
    """

    def __call__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str,
        stdout: int,
        stderr: int,
        keep: Sequence[int],
    ) -> int:
        """Raise `OSError` if the program or the working directory cannot be used."""


class WarmStart(Protocol):
    """What starts ranks as forks of this process: `launcher.agent.warm.forking.Zygote`."""

    def why_not(self, python: str, env: Mapping[str, str], folders: Sequence[str]) -> str:
        """Why a rank has to be a fresh process; empty if it may be a fork."""

    def changed(self) -> str:
        """A file that this process has imported and that has changed since; empty if there is none."""

    @property
    def fork(self) -> Starter:
        """Starts a rank as a fork."""


def spawn(
    argv: Sequence[str], *, env: Mapping[str, str], cwd: str, stdout: int, stderr: int, keep: Sequence[int]
) -> int:
    """Start a fresh process; see `Starter`."""
    popen = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        cwd=cwd,
        env=dict(env),
        pass_fds=keep,
        start_new_session=True,
    )
    popen.returncode = 0  # it is waited for by its pid, with all others
    return popen.pid


def start_rank(
    rank: int,
    *,
    python: str,
    root: str,
    program: int,
    env: Mapping[str, str],
    cwd: str,
    files: int = -1,
    boot: str = first_code.RANK,
    launch: Starter = spawn,
) -> RankProcess:
    """Start one rank in a session of its own, its output on pipes that the agent reads.

    `files` is its limit of open files; -1 keeps this process's own. `boot` is the code that it begins with,
    and `launch` starts the process.

    Raises:
        OSError: the interpreter or the working directory cannot be used.
    """
    with contextlib.ExitStack() as opened:  # if descriptors run out, the opened ones are closed
        near, far = rank_pipe.pair()
        opened.callback(near.close)
        opened.callback(far.close)
        out = _pipe(opened)
        err = _pipe(opened)
        stacks = _stacks_file()
        opened.pop_all()
    try:
        numbers = (far.fileno(), program, os.getpid(), stacks, files, rank)
        argv = [python, "-u", "-c", boot, root, *map(str, numbers)]
        keep = (far.fileno(), program, stacks)
        pid = launch(argv, env=env, cwd=cwd, stdout=out[1], stderr=err[1], keep=keep)
    except BaseException:
        near.close()
        for descriptor in (out[0], err[0], stacks):
            os.close(descriptor)
        raise
    finally:
        far.close()
        os.close(out[1])
        os.close(err[1])
    return RankProcess(rank, pid, near, out[0], err[0], stacks)


def _pipe(opened: contextlib.ExitStack) -> tuple[int, int]:
    """A pipe that does not block its reader and holds as much as the system allows."""
    reader, writer = os.pipe()
    opened.callback(os.close, reader)
    opened.callback(os.close, writer)
    os.set_blocking(reader, False)
    with contextlib.suppress(OSError):  # above the user's limit; the default size works too
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
    return reader, writer


def _stacks_file() -> int:
    """A file in memory, in append mode because both ends share its offset."""
    descriptor = os.memfd_create("rankdeck-stacks")
    fcntl.fcntl(descriptor, fcntl.F_SETFL, os.O_APPEND)
    return descriptor


def read(descriptor: int) -> bytes | None:
    """Read once from a pipe; None if nothing is there yet, empty at its end."""
    try:
        return os.read(descriptor, READ_BYTES)
    except BlockingIOError:
        return None


def wake_on(*signums: int) -> int:
    """A pipe that holds the numbers of those of these signals that have come. For a process's first thread.

    They get handlers, and are not ignored: ranks would inherit an ignored signal as ignored.
    """
    reader, writer = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    for signum in signums:
        signal.signal(signum, lambda *_: None)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    return reader


def drain(descriptor: int) -> bytes:
    """All that is in a pipe now."""
    return b"".join(iter(lambda: read(descriptor) or b"", b""))


def memory_file(data: bytes) -> int:
    """A descriptor that holds `data` and has no name in any file system."""
    descriptor = os.memfd_create("rankdeck-program")
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    return descriptor


def signal_name(number: int) -> str:
    """`SIGKILL` for 9; real-time signals by number."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def outcome(status: int) -> tuple[int, str | None]:
    """Exit code and signal name of a wait status; a signal's code is 128 + its number, as shells say."""
    code = os.waitstatus_to_exitcode(status)
    return (code, None) if code >= 0 else (128 - code, signal_name(-code))


def reap() -> list[tuple[int, int]]:
    """(pid, wait status) of every child that has ended, adopted orphans among them."""
    ended: list[tuple[int, int]] = []
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended.append((pid, status))


def descendants(root: int) -> list[int]:
    """Every live process below `root`, parents before children; zombies do not count."""
    parents: dict[int, list[int]] = {}
    for pid, parent in _processes():
        parents.setdefault(parent, []).append(pid)
    pids, queue = [], list(parents.get(root, ()))
    while queue:
        pid = queue.pop(0)
        pids.append(pid)
        queue += parents.get(pid, ())
    return pids


def _processes() -> Iterable[tuple[int, int]]:
    """(pid, parent) of every live process; a zombie's children have been adopted already."""
    for name in os.listdir("/proc"):
        if name.isdigit() and (stat := _stat(name)):
            state, parent, threads = stat
            # the first thread of a process can be a zombie while others of it still run
            if state not in "ZX" or threads > 1:
                yield int(name), parent


def _stat(pid: str) -> tuple[str, int, int] | None:
    """State, parent and number of threads."""
    try:
        fields = Path("/proc", pid, "stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:  # it has just ended
        return None
    return fields[0], int(fields[1]), int(fields[17])


def send(pids: Iterable[int], signum: int) -> int:
    """Signal each process that still exists; return how many did."""
    count = 0
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signum)
            count += 1
    return count


def kill_all_below(root: int) -> int:
    """SIGKILL every descendant, after SIGSTOP so that none can fork; return how many were killed.

    One pass: the caller repeats it until `descendants` is empty.
    """
    pids = descendants(root)
    send(pids, signal.SIGSTOP)
    return send({*pids, *descendants(root)}, signal.SIGKILL)


def oom_kills() -> int | None:
    """How many processes the OOM killer has killed: in our cgroup if it counts them, else on the machine."""
    for path in (memory_groups.oom_counter(), Path("/proc/vmstat")):
        if path and (count := _counter(path, "oom_kill")) is not None:
            return count
    return None


def _counter(path: Path, name: str) -> int | None:
    try:
        pairs = (line.split() for line in path.read_text().splitlines())
        return next((int(p[1]) for p in pairs if p[0] == name), None)
    except OSError:
        return None


_POLL_S = 0.01
_GIVE_UP_S = 30.0


def fork_warden(*, keep_from_warden: int) -> None:
    """Fork: the child returns and is the agent; the parent becomes the warden and never returns.

    Args:
        keep_from_warden: the channel's descriptor, or -1 if there is none yet. Only the agent may hold it,
            or else the engine would not notice the agent's end.
    """
    linux.become_subreaper()
    parent = os.getpid()
    agent = os.fork()
    if agent == 0:
        linux.signal_on_parent_death(signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)
        return
    if keep_from_warden >= 0:
        os.close(keep_from_warden)
    watch_agent(agent)


def _wait_for(child: int) -> int:
    """Wait for a child's end; its status. Signals are handled meanwhile.

    A plain `os.waitpid` would leave one unhandled that comes just before it blocks.
    """
    wake = wake_on(signal.SIGCHLD)
    waiting = select.poll()
    waiting.register(wake, select.POLLIN)
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
        waiting.poll()
        drain(wake)
    return ended[1]


def watch_agent(agent: int) -> None:
    """Wait for the agent's end, end whatever it left, and exit with its code."""
    signal.signal(signal.SIGTERM, lambda *_: send([agent], signal.SIGTERM))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    status = _wait_for(agent)
    deadline = time.monotonic() + _GIVE_UP_S
    while kill_all_below(os.getpid()) and time.monotonic() < deadline:
        reap()
        time.sleep(_POLL_S)
    reap()
    leftovers.clear(os.environ)
    code = os.waitstatus_to_exitcode(status)
    sys.stdout.flush()
    os._exit(code if code >= 0 else 128 - code)
