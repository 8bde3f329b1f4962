"""Runs that are written fact by fact: what no recording has, such as restarts and losses."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from launcher.runs import paths
from launcher.runs.catalog import new_id
from launcher.runs.logs import writer
from launcher.runs.writer import RunWriter
from launcher.spec.job import JobSpec, Target, TargetKind
from launcher.spec.modes import Mode
from launcher.spec.places import Assignment
from launcher.state import events as ev

START = 1_767_261_600.0
HOSTS = ("ip-10-0-12-31.ec2.internal", "ip-10-0-12-32.ec2.internal", "ip-10-0-47-5.ec2.internal")
SPARK = ev.SparkReady(
    time=START + 1, application="app-20260101100000-0042", master="spark://head:7077", version="4.0.1",
    ui="http://head:4040",
)  # fmt: skip

Said = tuple[float, int, str]
Moment = ev.Event | Said


class Scripted:
    """A run's folder that a test writes, in seconds after its start."""

    def __init__(
        self, root: Path, *, ranks: int = 4, hosts: Sequence[str] = HOSTS, max_restarts: int = 3
    ) -> None:
        self.ranks, self.hosts = ranks, hosts
        self.folder = root / new_id(START, "abc")
        self.folder.mkdir(parents=True, mode=0o700)
        target = Target(TargetKind.FUNCTION, "train.py", "main")
        spec = JobSpec(
            target, num_processes=ranks, mode=Mode.CLUSTER, name="llama", max_restarts=max_restarts
        )
        seconds = itertools.count(1.0)
        self.writer = RunWriter(self.folder, spec, monotonic=lambda: next(seconds))  # a second a look
        self.add(
            ev.RunSubmitted(
                time=0.0, name="llama", target="train.py:main", mode="cluster", num_processes=ranks
            )
        )

    def host(self, rank: int) -> int:
        """The agent of a rank: one a host, ranks in equal shares."""
        return rank * len(self.hosts) // self.ranks

    def add(self, *moments: Moment) -> None:
        """Facts with their time, and output as (time, rank, text), in this order."""
        for moment in moments:
            if isinstance(moment, ev.Event):
                shift = 0.0 if moment.time >= START else START
                self.writer.append(replace(moment, time=moment.time + shift))
            else:
                time, rank, text = moment
                data = text.encode()
                chunk = writer.Chunk(int((START + time) * 1e9), rank, len(data), paths.STDOUT)
                self.writer.output([(chunk, memoryview(data))])
        self.writer.settle()

    def place(self, time: float, attempt: int = 0) -> None:
        """Agents join, ranks get their places and begin."""
        size = self.ranks
        self.add(
            *(
                ev.AgentJoined(time=time, attempt=attempt, agent=agent, host=host, pid=900 + agent)
                for agent, host in enumerate(self.hosts)
            ),
            ev.GangPlaced(time=time, attempt=attempt, ranks=tuple(self._places())),
            *(ev.RankStarted(time=time, attempt=attempt, rank=r, pid=2000 + r) for r in range(size)),
            *(ev.RankEntered(time=time + 1, attempt=attempt, rank=r) for r in range(size)),
        )

    def _places(self) -> Iterable[Assignment]:
        for rank in range(self.ranks):
            agent = self.host(rank)
            mates = [r for r in range(self.ranks) if self.host(r) == agent]
            yield Assignment(
                rank,
                self.ranks,
                mates.index(rank),
                len(mates),
                agent,
                len(self.hosts),
                agent,
                self.hosts[agent],
            )

    def fail(self, time: float, rank: int, attempt: int = 0, *, code: int = 7) -> None:
        """A rank fails, and the others are stopped for it."""
        self.add(
            ev.RankExited(time=time, attempt=attempt, rank=rank, exit_code=code),
            ev.StopRequested(
                time=time, attempt=attempt, by="rank", reason=f"rank {rank} failed", grace_s=10.0
            ),
            *(
                ev.RankExited(time=time + 1, attempt=attempt, rank=r, exit_code=143, signal="SIGTERM")
                for r in range(self.ranks)
                if r != rank
            ),
        )

    def restart(self, time: float, attempt: int, reason: str, *, in_place: bool = True) -> None:
        """Another attempt begins."""
        self.add(ev.GangRestarted(time=time, attempt=attempt, reason=reason, in_place=in_place))
