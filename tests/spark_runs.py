"""Runs on a real cluster from a session that is active in this process, and their misfortunes."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from launcher.agent import process
from launcher.distributor import Distributor
from launcher.job import Job
from launcher.runs import paths
from launcher.state import events as ev
from launcher.state.run_state import RunState
from tests import engines, survivors
from tests.commands import until
from tests.spark_cluster import Cluster


def agents_of(cluster: Cluster) -> list[int]:
    """The pids of a cluster's agents and wardens that are alive."""
    found = []
    for pid in cluster.processes():
        with contextlib.suppress(OSError):  # it has just ended
            name = Path(f"/proc/{pid}/comm").read_text().strip()
            found += [pid] if name in (process.AGENT, process.WARDEN) else []
    return found


def links_of(pid: int) -> set[str]:
    """What a process's descriptors lead to."""
    with contextlib.suppress(OSError):
        return {os.readlink(each) for each in Path(f"/proc/{pid}/fd").iterdir()}
    return set()


@contextmanager
def classic_session(cluster: Cluster, **conf: str) -> Iterator[Any]:
    """A SparkSession of the caller's own, as a notebook has one."""
    from pyspark.sql import SparkSession

    before = os.environ.get("PYSPARK_PYTHON")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master(cluster.url).appName("a notebook")
    for key, value in {**cluster.conf(), "spark.ui.showConsoleProgress": "false", **conf}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    try:
        yield session
    finally:
        session.stop()
        _end_jvm()
        if before is None:
            os.environ.pop("PYSPARK_PYTHON", None)
        else:
            os.environ["PYSPARK_PYTHON"] = before


def _end_jvm() -> None:
    """End the session's JVM too: it would give the settings that it was started with to the next one."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    with SparkContext._lock:
        SparkContext._gateway = SparkContext._jvm = None
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(60)


@dataclass
class Bench:
    """A cluster, a session on it, and what runs there."""

    cluster: Cluster
    session: Any
    mark: str = field(default_factory=survivors.new_mark)

    def distributor(self, ranks: int = 4, **options: Any) -> Distributor:
        """Ranks carry the mark, so that those that outlive their run are found."""
        env = {survivors.MARK: self.mark, **options.pop("env", {})}
        return Distributor(ranks, "cluster", env=env, **options)

    def agents(self) -> list[int]:
        """Agents and wardens that are alive."""
        return agents_of(self.cluster)

    def agent_of(self, job: Job, rank: int) -> int:
        """The pid of the agent that supervises a rank; hosts are one machine here."""
        return job.state.hosts[job.state.ranks[rank].agent].pid

    def python_worker_of(self, job: Job, rank: int) -> int:
        """Spark's own process that has started a rank's agent: it holds the agent's lifeline."""
        agent = self.agent_of(job, rank)
        lifeline = os.readlink(f"/proc/{agent}/fd/0")
        workers = self.cluster.processes("pyspark.daemon")
        return next(pid for pid in workers if lifeline in links_of(pid))

    def executor_of(self, job: Job, rank: int) -> int:
        """The JVM above that."""
        pid = self.python_worker_of(job, rank)
        executors = self.cluster.executors()
        while pid not in executors:
            pid = parent(pid)
        return pid

    def nothing_left(self) -> None:
        """No rank and no agent is alive."""
        assert survivors.gone(self.mark, within=20) == {}
        until(lambda: not self.agents())

    def executors_back(self, count: int) -> None:
        """Wait until Spark has replaced the executors that a test has ended."""
        until(lambda: len(self.cluster.executors()) == count, within=60)


def common_options(cluster: Cluster) -> list[str]:
    """The options of a command that runs on a cluster; its ranks carry the test's mark."""
    conf = [word for key, value in cluster.conf().items() for word in ("--conf", f"{key}={value}")]
    mark = f"{survivors.MARK}={os.environ[survivors.MARK]}"
    return ["--master", cluster.url, *conf, "--env", mark, "--start-timeout", "60"]


def end_engines(cluster: Cluster, mark: str) -> None:
    """End the engines of a test; no rank of it and no agent is left then."""
    engines.end_all()
    assert survivors.gone(mark, within=60) == {}
    until(lambda: not agents_of(cluster), within=60)


def parent(pid: int) -> int:
    """A process's parent."""
    with open(f"/proc/{pid}/stat") as file:
        return int(file.read().rpartition(")")[2].split()[1])


def entered(job: Job, ranks: int, within: float = 60) -> None:
    """Wait until every rank has entered user code. It may have left it by then."""
    until(lambda: job.done or _entered(job) == ranks, within=within)
    assert _entered(job) == ranks, f"it ended: {job.state.why}"


def _entered(job: Job) -> int:
    return sum(rank.entered is not None for rank in job.state.ranks)


def working(job: Job, ranks: int, within: float = 60) -> None:
    """Wait until every rank has written a line, so that its handlers of signals are set."""
    entered(job, ranks, within)
    outputs = [paths.log_file(job.folder, 0, rank, paths.STDOUT) for rank in range(ranks)]
    until(lambda: job.done or all(file.exists() and file.stat().st_size for file in outputs), within=within)
    assert not job.done, f"it ended: {job.state.why}"


def struck(job: Job, act: Callable[[], object], *, ranks: int = 4) -> RunState:
    """Let something happen to a run whose ranks are all at work, and wait for its end."""
    working(job, ranks)
    act()
    return job.wait(60)


def kill(pid: int) -> None:
    """As the kernel's OOM killer would."""
    os.kill(pid, signal.SIGKILL)


def facts(job: Job, kind: type[ev.Event]) -> list[Any]:
    """All facts of one kind."""
    return [fact for fact in job.events() if isinstance(fact, kind)]
