"""Processes: how they ended, what came of them, and that a rank inherits nothing but its own."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher.agent import linux, process, rank_pipe
from tests.commands import until

pytestmark = pytest.mark.process

ROOT = str(Path(process.__file__).parents[2])
HIGH = 1030  # more than `select` can take


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (0, (0, None)),
        (7 << 8, (7, None)),
        (255 << 8, (255, None)),
        (signal.SIGKILL, (137, "SIGKILL")),
        (signal.SIGTERM, (143, "SIGTERM")),
        (signal.SIGSEGV | 0x80, (139, "SIGSEGV")),  # with a core dump
        (40, (168, "signal 40")),
    ],
)
def test_a_wait_status_as_shells_say_it(status: int, expected: tuple[int, str | None]) -> None:
    assert expected == process.outcome(status)


@pytest.mark.skipif(
    resource.getrlimit(resource.RLIMIT_NOFILE)[0] <= HIGH,
    reason=f"descriptors above {HIGH} need a higher limit of open files (ulimit -n)",
)
def test_the_end_of_a_process_is_awaited_as_long_as_asked_by_any_descriptor() -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    low = os.pidfd_open(child.pid)
    high = fcntl.fcntl(low, fcntl.F_DUPFD_CLOEXEC, HIGH)
    try:
        assert not linux.await_end(high, 0.0)
        assert child.stdin is not None
        child.stdin.close()
        assert linux.await_end(high)
        assert child.poll() is not None
    finally:
        os.close(low)
        os.close(high)
        child.kill()
        child.wait()


def test_a_memory_file_holds_what_it_is_given_and_has_no_name() -> None:
    data = os.urandom(3_000_000)
    descriptor = process.memory_file(data)
    try:
        assert data == os.pread(descriptor, len(data) + 1, 0)
        assert os.fstat(descriptor).st_nlink == 0
    finally:
        os.close(descriptor)


FAMILY = """
import os, subprocess, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print("grandchild", flush=True)
        time.sleep(600)
    os._exit(0)
os.wait()
time.sleep(600)
"""


@pytest.fixture
def family() -> Iterator[subprocess.Popen[str]]:
    """A process whose grandchild has left its session and lost its parent, under a subreaper of its own."""
    boot = f"import sys; sys.path.insert(0, {ROOT!r})\nfrom launcher.agent import linux, process\n"
    start = f"import subprocess\nsubprocess.run([sys.executable, '-c', {FAMILY!r}])"
    reaper = f"{boot}linux.become_subreaper()\n{start}"
    with subprocess.Popen([sys.executable, "-c", reaper], stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        assert "grandchild\n" == started.stdout.readline()
        yield started
        process.kill_all_below(started.pid)
        started.kill()


def test_descendants_are_found_however_often_they_fork(family: subprocess.Popen[str]) -> None:
    until(lambda: 2 == len(process.descendants(family.pid)))

    assert family.pid in process.descendants(os.getpid())


def test_killing_all_below_leaves_nothing(family: subprocess.Popen[str]) -> None:
    assert process.kill_all_below(family.pid) >= 2

    until(lambda: [] == process.descendants(family.pid))


def test_signalling_what_is_gone_counts_nothing() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()

    assert 0 == process.send([gone.pid], signal.SIGTERM)


def test_a_rank_that_cannot_start_leaves_no_descriptor_open(tmp_path: Path) -> None:
    program = process.memory_file(b"{}\n")
    before = os.listdir("/proc/self/fd")
    for python, cwd in (("/no/such/python", str(tmp_path)), (sys.executable, "/no/such/folder")):
        with pytest.raises(OSError, match="No such file"):
            process.start_rank(0, python=python, root=ROOT, program=program, env={}, cwd=cwd)
    os.close(program)

    assert len(before) == len(os.listdir("/proc/self/fd")) + 1


def test_a_rank_whose_agent_is_gone_already_leaves_at_once() -> None:
    code = (
        f"import sys; sys.path.insert(0, {ROOT!r})\n"
        "from launcher.agent import rank_main\nrank_main.die_with(1)"
    )

    assert 137 == subprocess.run([sys.executable, "-c", code], check=False).returncode


def test_a_rank_dies_with_its_agent(tmp_path: Path) -> None:
    boot = f"import sys, os, time; sys.path.insert(0, {ROOT!r})\nfrom launcher.agent import rank_main\n"
    rank = f"{boot}rank_main.die_with(os.getppid())\nprint(os.getpid(), flush=True)\ntime.sleep(600)"
    agent = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {rank!r}])"
    with subprocess.Popen([sys.executable, "-c", agent], stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        pid = int(started.stdout.readline())
        started.kill()

    until(lambda: not Path(f"/proc/{pid}").exists() or "Z" in _state(pid))


def test_the_start_of_a_process_is_known_to_a_second() -> None:
    before = time.time()
    with subprocess.Popen(["sleep", "60"]) as child:
        start = linux.started(child.pid)
        child.kill()

    assert start is not None
    assert before - 1.5 < start < time.time() + 0.1
    assert linux.started(1 << 22) is None


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return "Z"


def test_a_report_that_fits_no_packet_is_dropped_and_does_not_wait() -> None:
    near, far = rank_pipe.pair()
    with near, far:
        line = rank_pipe.RankPipe(far, os.getpid())

        assert line.offer_fact("rank_reported", {"metrics": {str(i): 1.0 for i in range(100_000)}})
        assert "empty" == rank_pipe.receive(near)
        assert line.offer_fact("rank_reported", {"step": 1})
        assert (rank_pipe.FACT, b'{"event":"rank_reported","step":1}') == rank_pipe.receive(near)


def test_a_full_line_refuses_reports_instead_of_blocking() -> None:
    near, far = rank_pipe.pair()
    with near, far:
        line = rank_pipe.RankPipe(far, os.getpid())
        while line.offer_fact("rank_reported", {"step": 1}):
            pass

        assert not line.offer_fact("rank_reported", {"step": 2})


def test_a_line_whose_agent_is_gone_is_no_error_of_the_rank() -> None:
    near, far = rank_pipe.pair()
    near.close()
    with far:
        rank_pipe.RankPipe(far, os.getpid()).send(rank_pipe.FACT, b"{}")


def test_only_the_rank_itself_speaks_on_its_line() -> None:
    near, far = rank_pipe.pair()
    with near, far:
        assert not rank_pipe.RankPipe(far, os.getpid() + 1).offer_fact("rank_reported", {})
        assert "empty" == rank_pipe.receive(near)
    assert isinstance(near, socket.socket)


HEADLESS = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(600,)).start()
print("up", flush=True)
ctypes.CDLL(None).pthread_exit(None)
"""


def test_a_process_whose_first_thread_has_ended_is_still_alive() -> None:
    with subprocess.Popen([sys.executable, "-c", HEADLESS], stdout=subprocess.PIPE) as started:
        assert started.stdout is not None
        started.stdout.readline()
        until(lambda: _state(started.pid) == "Z")
        try:
            assert started.pid in process.descendants(os.getpid())
        finally:
            started.kill()
    assert started.pid not in process.descendants(os.getpid())
