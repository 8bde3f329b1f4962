"""Which rank failed first, where reports come late and clocks are wrong; and ranks that cannot meet."""

from __future__ import annotations

import os
import re
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from launcher.runs.reader import read_state
from launcher.state import events as ev
from tests.broken.cluster.conftest import Hosts, at_work, ended
from tests.commands import Gate, facts, last, until

pytestmark = [pytest.mark.spark, pytest.mark.netns, pytest.mark.timeout(240)]

FAILS = """
import os
import signal

signal.signal(signal.SIGTERM, signal.SIG_IGN)
rank, host = os.environ["RANK"], os.environ["RANKDECK_TEST_HOST"]
print("go", flush=True)
open(f"{os.environ['GATE']}.{host}").read()
raise ValueError(f"of host {host}")
"""


@contextmanager
def halted(pid: int) -> Iterator[None]:
    """A process that does nothing meanwhile."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def agent_on(host: str) -> int:
    return next(each.pid for each in read_state(last()).hosts.values() if each.host == host)


def pid_on(host: str) -> int:
    return next(rank.pid for rank in read_state(last()).ranks if rank.host == host and rank.pid)


def known_apart() -> float:
    """Seconds after which clocks tell which of two failures was first; on a busy machine they are many."""
    state = read_state(last())
    return 0.1 + state.tells_apart(list(state.ranks))


def has_ended(pid: int) -> bool:
    """Whether a process has exited, reaped or not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


@pytest.mark.parametrize(("first", "seconds"), [(1, 30), (0, -30)])
def test_the_true_first_one_whatever_the_clock_of_its_host_shows(
    hosts: Hosts, tmp_path: Path, script: Callable[[str], str], first: int, seconds: int
) -> None:
    """Its report is the last to arrive, and by the hosts' own clocks the other one would be first."""
    hosts.clock.set(seconds)
    gate = Gate(tmp_path / "gate", 2)
    command = hosts.start(tmp_path, script(FAILS), "--env", f"GATE={gate.path}")
    at_work(command)
    with halted(agent_on(hosts.cluster.host(first))):
        gate.open_one(first)
        until(lambda: has_ended(pid_on(hosts.cluster.host(first))))
        earlier, apart = time.monotonic(), known_apart()
        until(lambda: time.monotonic() > earlier + apart)
        gate.open_one(1 - first)
        until(lambda: bool(facts(ev.StopRequested)))
    run = ended(command)

    by_own_clocks = min(facts(ev.RankRaised), key=lambda fact: fact.agent_time or 0.0)
    blamed = run.state.ranks[run.state.blamed or 0]
    assert blamed.host == hosts.cluster.host(first)
    assert f"on {hosts.cluster.host(first)} raised ValueError: of host {first}" in run.state.why
    assert isinstance(by_own_clocks, ev.RankRaised)
    assert by_own_clocks.rank != blamed.rank


DIES = """
import time

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
for step in range(10_000):
    dist.all_reduce(torch.ones(4))
    if step == 3:
        print("go", flush=True)
    time.sleep(0.02)
"""


def test_a_peer_s_death_that_another_host_reports_first(
    hosts: Hosts, tmp_path: Path, script: Callable[[str], str]
) -> None:
    command = hosts.start(tmp_path, script(DIES))
    at_work(command)
    host = hosts.cluster.host(0)
    dies = next(rank.rank for rank in read_state(last()).ranks if rank.host == host)
    with halted(agent_on(host)):
        os.kill(pid_on(host), signal.SIGKILL)
        until(lambda: bool(facts(ev.RankRaised)))
    run = ended(command)

    assert (137, dies) == (run.code, run.state.blamed)
    assert f"rank {dies} on {host} was killed by SIGKILL" == run.state.why


MEETS = """
import datetime
import os

import torch.distributed as dist

print("go", flush=True)
open(f"{os.environ['GATE']}.{os.environ['RANK']}").read()
dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=6))
"""


def test_a_port_that_is_blocked_between_executors(
    hosts: Hosts, tmp_path: Path, script: Callable[[str], str]
) -> None:
    gate = Gate(tmp_path / "gate", 2)
    command = hosts.start(tmp_path, script(MEETS), "--env", f"GATE={gate.path}")
    at_work(command)
    assert hosts.cluster.net is not None
    with hosts.cluster.net.lost(0, 1):
        gate.open()
        run = ended(command)

    assert 1 == run.code
    run.has("master-unreachable", "", "could not connect to", "firewall")
    assert run.cause is not None
    assert {hosts.cluster.host(0), hosts.cluster.host(1)} <= set(
        re.findall(r"10\.77\.0\.\d+", run.cause.text)
    )
    assert re.search(r"10\.77\.0\.\d+:\d+\b", run.cause.text)
