"""How many cores of a standalone cluster an application of ours requests, and which runs fit into it.

Without a limit of its own, a standalone application gets every free core and keeps it until it ends. An
application cannot raise its limit, so a larger run needs a new one.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from ...spec.job import JobSpec
from .config import choose_spark, spark_environment
from .jvm import spark_home

CORES_MAX = "spark.cores.max"
_ELASTIC = re.compile(r"rankdeck\b.* (\d{1,9}):\d{1,9}")


@dataclass(frozen=True, slots=True)
class CoreDemand:
    """The cores of one run.

    Attributes:
        limit: the least ``spark.cores.max`` of an application that holds the run.
        used: the cores that its tasks take.
        least: the cores with which an elastic run begins; 0 for a run that needs all of `limit`.
    """

    limit: int
    used: int
    least: int = 0

    def name(self, base: str) -> str:
        """The application's name. An elastic run's says how many cores are enough, for `least_in`."""
        return f"{base} {self.least}:{self.limit}" if self.least else base


def least_in(name: str) -> int | None:
    """The cores that are enough for an application of ours, if its name says so.

    A master's page shows the names of applications, and no other hint that this one does not wait for more.
    """
    match = _ELASTIC.fullmatch(name)
    return int(match[1]) if match else None


def demand_of(spec: JobSpec, environ: Mapping[str, str], *, server: bool) -> CoreDemand | None:
    """The cores of a run; None where its application has no limit of ours.

    Raises:
        LauncherError: request and environment name no Spark that could be used.
    """
    around = spark_environment(environ, spark_home(environ))
    choice = choose_spark(spec.spark, around, spec.num_processes, server=server)
    if not choice.master.startswith("spark://"):
        return None

    def setting(key: str) -> str:
        return spec.spark.conf.get(key) or around.value(key)

    gpus = 0 if spec.gpu is False else spec.gpus_per_task or spec.gpus_per_rank
    demand = cores_for(spec.num_processes // spec.ranks_per_task, gpus, setting)
    least = cores_for(-(-spec.least // spec.ranks_per_task), gpus, setting)
    if demand is None or least is None or least.limit == demand.limit:
        return demand
    return replace(demand, least=least.limit)


def cores_for(tasks: int, gpus: int, setting: Callable[[str], str]) -> CoreDemand | None:
    """The cores of so many tasks on executors of the settings' size; None if no limit is right for sure.

    Without ``spark.executor.cores``, a master takes cores one by one from all workers in turn. If a task
    needs several, a limit might leave it with single cores on different workers.

    Args:
        tasks: how many run at once.
        gpus: how many each takes, if executors have GPUs.
        setting: the value of a Spark setting; empty if unset.
    """
    cpus, cores = _whole(setting("spark.task.cpus"), 1), _whole(setting("spark.executor.cores"))
    if setting(CORES_MAX) or cpus is None or cores is None:
        return None
    if not cores:
        return CoreDemand(tasks, tasks) if cpus == 1 else None
    slots, executor_gpus = cores // cpus, _whole(setting("spark.executor.resource.gpu.amount")) or 0
    if gpus and executor_gpus:
        slots = min(slots, executor_gpus // gpus)
    return CoreDemand(-(-tasks // slots) * cores, tasks * cpus) if slots else None


def _whole(text: str, default: int = 0) -> int | None:
    """A setting as a number; None if it is none."""
    return int(text) if text.isdigit() else None if text else default


class Reservations:
    """The runs that one application is for, from before it exists. Any thread may use it.

    Attributes:
        limit: the ``spark.cores.max`` with which the runs fit; None for no limit, 0 without an application.
    """

    def __init__(self) -> None:
        self.limit: int | None = 0
        self._lock = threading.Lock()
        self._runs: dict[object, CoreDemand | None] = {}

    def __len__(self) -> int:
        return len(self._runs)

    def take(self, run: object, demand: CoreDemand | None) -> bool:
        """Reserve a run's cores, unless other runs go on and leave too few. None takes whatever there is."""
        with self._lock:
            if not self._fits(demand):
                return False
            self._runs[run] = demand
            unlimited = demand is None or self.limit is None
            self.limit = None if unlimited else max(self.limit or 0, demand.limit if demand else 0)
            return True

    def widened(self, demand: CoreDemand | None) -> CoreDemand | None:
        """The demand of an application for a run and for the others that count on it."""
        limit = self.limit
        if demand is None or limit is None:
            return None
        return demand if demand.limit >= limit else CoreDemand(limit, demand.used)

    def give_back(self, run: object) -> None:
        """Release a run's cores; nothing happens if it has none."""
        with self._lock:
            self._runs.pop(run, None)

    def on_application_ended(self) -> None:
        """Forget the application's limit, unless runs need the next one to have it."""
        with self._lock:
            if not self._runs:
                self.limit = 0

    def _fits(self, demand: CoreDemand | None) -> bool:
        if not self._runs or demand is None or self.limit is None:
            return True
        used = sum(each.used for each in self._runs.values() if each is not None)
        return demand.limit <= self.limit and used + demand.used <= self.limit
