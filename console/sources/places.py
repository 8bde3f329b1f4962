"""Which machine is meant: agents, Spark's workers and this console each name it in their own way. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from console.sources.spark_json import Executor, OwnExecutor, Worker
from console.sources.sparks import SparkNow
from launcher.state import Host, Rank, RankPhase, RunState

_HERE = ("localhost", "127.0.0.1", "::1")


@dataclass(slots=True)
class Place:
    """One machine, and everything that is known to be there."""

    name: str
    agents: list[tuple[RunState, Host]] = field(default_factory=list)
    ranks: list[tuple[RunState, list[Rank]]] = field(default_factory=list)
    workers: list[Worker] = field(default_factory=list)
    own: list[OwnExecutor] = field(default_factory=list)
    gone: bool = False

    @property
    def executors(self) -> list[Executor]:
        """Those of its live workers."""
        return [executor for worker in self.workers if worker.alive for executor in worker.executors or ()]


def places(here: str, runs: Sequence[RunState], sparks: Sequence[SparkNow]) -> list[Place]:
    """This machine, then those of live runs' agents, then those that only Spark knows."""
    found = {here: Place(here)}
    for run in runs:
        _add_run(found, run)
    names = _Names(here, runs)
    for spark in sparks:
        for worker in spark.master.workers if spark.master is not None else ():
            _at(found, names.of(worker.host or worker.number)).workers.append(worker)
        for executor in spark.own:
            _at(found, names.of(executor.host or executor.number)).own.append(executor)
    return list(found.values())


def _at(found: dict[str, Place], name: str) -> Place:
    return found.setdefault(name, Place(name))


def _add_run(found: dict[str, Place], run: RunState) -> None:
    for host in run.hosts.values():
        if host.present:
            _at(found, host.host).agents.append((run, host))
    alive: dict[str, list[Rank]] = {}
    for rank in run.ranks:
        if not rank.phase.ended:
            alive.setdefault(rank.host, []).append(rank)
        elif rank.phase is RankPhase.LOST and rank.host:
            _at(found, rank.host).gone = True
    for name, ranks in alive.items():
        if name in found:
            found[name].ranks.append((run, ranks))


class _Names:
    """From what Spark calls a machine to what it is called here."""

    def __init__(self, here: str, runs: Sequence[RunState]) -> None:
        hosts = [host for run in runs for host in run.hosts.values() if host.present]
        self._known = {host.host for host in hosts} | {here}
        self._by_address: dict[str, str] = {h.address: h.host for h in hosts if h.address not in ("", *_HERE)}
        self._by_address |= dict.fromkeys((name for name in _HERE if name not in self._known), here)
        self._by_short = _unique({name: _short(name) for name in self._known})

    def of(self, name: str) -> str:
        if name in self._known:
            return name
        return self._by_address.get(name) or self._by_short.get(_short(name), name)


def _short(name: str) -> str:
    """A name without its domain; an address has none."""
    return name if name.replace(".", "").isdecimal() or ":" in name else name.partition(".")[0]


def _unique(short: Mapping[str, str]) -> dict[str, str]:
    """From short names to whole ones, where only one is meant."""
    names = list(short.values())
    return {brief: name for name, brief in short.items() if names.count(brief) == 1}
