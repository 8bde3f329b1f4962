"""The slots that a run needs, those that there are, who holds them, and a sentence about that.

A slot is room for one Spark task of the run: its cores and its GPUs, on one executor.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any
from weakref import WeakKeyDictionary

from ...errors import CannotPlace, counted
from ...runs.paths import is_check
from ...spec.job import JobSpec
from . import internals
from .session import Session

GPU = "gpu"
DYNAMIC = "spark.dynamicAllocation.enabled"
TASK_GPUS = "spark.task.resource.gpu.amount"
EXECUTOR_GPUS = "spark.executor.resource.gpu.amount"
WORKER_GPUS = "workers offer GPUs by spark.worker.resource.gpu.amount and .discoveryScript"
EXECUTOR_CORES = "spark.executor.cores"
EXECUTOR_MEMORY = "spark.executor.memory"
LET_GO_S = 2.0
"""Within so many seconds an idle session is ended that somebody waits for."""


@dataclass(frozen=True, slots=True)
class SlotNeed:
    """What a run needs: so many tasks at once, each with so many cores and GPUs."""

    tasks: int
    cpus: int = 1
    gpus: int = 0

    def fits(self, cores: int, gpus: int) -> int:
        """How many of its tasks fit on so many cores and GPUs."""
        by_gpu = gpus // self.gpus if self.gpus else cores
        return max(0, min(cores // self.cpus, by_gpu))


@dataclass(frozen=True, slots=True)
class HeldSlots:
    """One executor of the session's application. It has no free cores until it has reported that it is up."""

    executor: str
    host: str
    cores: int
    cores_free: int
    gpus: int = 0
    gpus_free: int = 0


@dataclass(frozen=True, slots=True)
class WorkerNode:
    """One worker machine, as the cluster's manager sees it. Memory in MiB."""

    cores: int
    cores_free: int
    memory: int = 0
    memory_free: int = 0
    gpus: int = 0
    gpus_free: int = 0


@dataclass(frozen=True, slots=True)
class ExecutorShape:
    """What one executor of the application takes of a worker, and the cores that the application may have.

    `cores` 0 means all of the worker's; `most` None means no cap. `ours`: the cap is what we requested for a
    run, so it says nothing about the cluster.
    """

    cores: int = 0
    memory: int = 0
    gpus: int = 0
    most: int | None = None
    ours: bool = False


class Outlook(StrEnum):
    """Whether the slots of a run are free now, later or never."""

    FITS = "fits"
    WAITS = "waits"
    NEVER = "never"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Capacity:
    """Slots for one kind of task. None is unknown.

    Attributes:
        total: on the executors that are there.
        free: of these, not in use.
        possible: with every executor that the cluster could ever give the application.
        coming: beyond `total`, on executors that can start with what nobody else holds.
        gpu: whether a slot has a GPU.
        busy: who holds slots, and how many: jobs of this application, and other applications.
        cure: what to do about that explanation, if known.
        idle: sessions of the user's own that no run uses, by the pid of their engine, and how many they hold.
        outgrown: the application has all that we requested for it, and it is too small for the run.
        explanation: what limits the slots, if not the number of machines, or why they are unknown.
    """

    total: int | None = None
    free: int | None = None
    possible: int | None = None
    coming: int = 0
    gpu: bool = False
    busy: tuple[tuple[str, int], ...] = ()
    explanation: str = ""
    idle: tuple[tuple[int, int], ...] = ()
    cure: str = ""
    outgrown: bool = False

    def outlook(self, tasks: int) -> Outlook:
        """Whether so many tasks can run at once: now, after a wait, or not with this cluster."""
        if self.free is not None and self.free >= tasks:
            return Outlook.FITS
        if self.possible is not None and max(self.possible, self.total or 0) < tasks:
            return Outlook.NEVER
        if self.free is None:
            return Outlook.UNKNOWN
        return Outlook.WAITS

    def sentence(self, tasks: int, least: int | None = None) -> str:
        """A sentence for people: how many slots are needed, how many there are, and who holds them.

        `least` is the number that is enough to begin; by default all.
        """
        kind = "GPU slot" if self.gpu else "slot"
        need = f"needs {counted(tasks, kind)} at once"
        if self.total is None and self.possible is None:
            return f"{need}; how many there are is not known here" + _tail(self.explanation)
        there = max(self.total or 0, self.possible or 0)
        never = self.outlook(tasks if least is None else least) is Outlook.NEVER
        parts = [f"the cluster has {there or ('none' if never else 'none yet')}"]
        if self.total is not None and self.total < there and not never:
            starting = min(self.coming, there - self.total)
            parts[0] += f", {self.total} of them up" + (f" and {starting} starting" if starting else "")
        return f"{need}; {', '.join([*parts, *self._holders(never=never)])}" + _tail(self.explanation)

    def _holders(self, *, never: bool) -> list[str]:
        """Who holds slots; where they could never be enough, only what is not ours."""
        held = [f"{count} busy with {name}" for name, count in self.busy]
        if never:
            return held
        held += [
            f"{count} held by your own idle session, which lets go within {LET_GO_S:g} s"
            f" (`rankdeck engine stop --pid {pid}` ends it)"
            for pid, count in self.idle
        ]
        if not held and self.free is not None and self.total is not None and self.free < self.total:
            held.append(f"{self.total - self.free} of them in use by other jobs of this application")
        return held


def beside(capacity: Capacity, claims: Mapping[str, int]) -> Capacity:
    """The capacity without the slots that our other runs hold, which Spark may not show yet."""
    if not claims or capacity.total is None or capacity.free is None:
        return capacity
    free = min(capacity.free, max(0, capacity.total - sum(claims.values())))
    busy = capacity.busy or tuple((named_runs([run]), tasks) for run, tasks in claims.items())
    return replace(capacity, free=free, busy=busy)


def named_runs(runs: Sequence[str], whose: str = "") -> str:
    """What holds slots, and how they become free, for people: one of the user's own runs, if there is one.

    Args:
        runs: the ids of those that hold them; a check by `doctor` may be among them, which nobody can stop.
        whose: what is said before "run".
    """
    held = [run for run in runs if not is_check(run)]
    if not held:
        return "a check by `rankdeck doctor` (it ends by itself)"
    more = f" and {len(held) - 1} more" if len(held) > 1 else ""
    return f"{whose}run {held[0]}{more} (`rankdeck stop {held[0]}` ends it)"


def _tail(explanation: str) -> str:
    return f": {explanation}" if explanation else ""


def capacity_of(
    need: SlotNeed,
    held: Sequence[HeldSlots],
    rooms: Sequence[WorkerNode] | None,
    shape: ExecutorShape,
    busy: Sequence[tuple[str, int]] = (),
    idle: Sequence[tuple[int, int]] = (),
) -> Capacity:
    """The slots on the application's executors (`held`) and on the cluster's workers (`rooms`).

    `rooms` is None if the cluster's manager cannot be queried; `busy` and `idle` are in cores.
    """
    total = sum(need.fits(e.cores, e.gpus) for e in held)
    free = sum(need.fits(e.cores_free, e.gpus_free) for e in held)
    blocked = tuple((name, max(1, cores // need.cpus)) for name, cores in busy if cores > 0)
    resting = tuple((pid, max(1, cores // need.cpus)) for pid, cores in idle if cores > 0)
    known = Capacity(total, free, gpu=need.gpus > 0, busy=blocked, idle=resting)
    if rooms is None:
        return known
    cores = sum(e.cores for e in held)
    ever = sum(_slots_on(need, room.cores, room.memory, room.gpus, shape) for room in rooms)
    now = sum(_slots_on(need, room.cores_free, room.memory_free, room.gpus_free, shape) for room in rooms)
    explanation, cure = ("", "") if ever or total else _obstacle(need, rooms, shape)
    outgrown = False
    if shape.most is not None:
        outgrown = shape.ours and cores >= shape.most and total < need.tasks
        now = min(now, max(0, shape.most - cores) // need.cpus)
    if shape.most is not None and not shape.ours:
        if need.fits(shape.most, shape.most * max(1, need.gpus)) < ever:
            explanation = f"spark.cores.max={shape.most} caps this application"
        ever = min(ever, shape.most // need.cpus)
    return replace(
        known, possible=max(ever, total), coming=now, explanation=explanation, cure=cure, outgrown=outgrown
    )


def _obstacle(need: SlotNeed, rooms: Sequence[WorkerNode], shape: ExecutorShape) -> tuple[str, str]:
    """Why no worker can hold a slot, and what to do about it; empty if that is not known."""
    if not rooms:
        return "no worker has registered with its master", "start its workers first"
    if need.gpus > shape.gpus:
        wants = f"{EXECUTOR_GPUS} is {shape.gpus}, and a task needs {need.gpus}"
        return wants, "raise it, or give a rank fewer GPUs"
    asks = (
        (EXECUTOR_GPUS, shape.gpus, max(room.gpus for room in rooms), ""),
        (EXECUTOR_CORES, shape.cores, max(room.cores for room in rooms), ""),
        (EXECUTOR_MEMORY, shape.memory, max(room.memory for room in rooms), "m"),
    )
    for setting, each, most, unit in asks:
        if each > most:
            has = f"more than {most}{unit}" if most else "any"
            cure = f"{setting}={most}{unit} would fit" if most else WORKER_GPUS
            return f"{setting}={each}{unit}, and no worker has {has}", cure
    if need.cpus > (shape.cores or max(room.cores for room in rooms)):
        return f"spark.task.cpus={need.cpus}, and no executor has as many cores", "lower it"
    return "", ""


def _slots_on(need: SlotNeed, cores: int, memory: int, gpus: int, shape: ExecutorShape) -> int:
    """The slots of the executors of a shape that fit on so much of a worker."""
    if cores <= 0:
        return 0
    each = shape.cores or cores
    number = cores // each
    if shape.memory:
        number = min(number, memory // shape.memory)
    if shape.gpus:
        number = min(number, gpus // shape.gpus)
    return number * need.fits(each, shape.gpus)


def need_of(session: Session, spec: JobSpec, *, gpu: bool) -> SlotNeed:
    """What a run needs of this session's Spark; a task takes the session's ``spark.task.cpus``."""
    cpus = session.conf("spark.task.cpus", "1")
    return SlotNeed(
        tasks=spec.num_processes // spec.ranks_per_task,
        cpus=max(1, round(float(cpus))),
        gpus=(spec.gpus_per_task or spec.gpus_per_rank) if gpu else 0,
    )


def refuse_dynamic(session: Session) -> None:
    """Check that dynamic allocation is off: barrier stages cannot run with it.

    Raises:
        CannotPlace: it is on.
    """
    if session.conf(DYNAMIC, "false").lower() == "true" and not session.local:
        raise CannotPlace(
            f"barrier stages cannot run with {DYNAMIC}=true",
            hint=f"start the session with --conf {DYNAMIC}=false",
        )


def has_gpus(session: Session, each: int = 0) -> tuple[bool, str]:
    """Whether the session's executors have GPUs that Spark assigns; else why not, and what to set.

    `each` is how many an executor could have; 0 if that is not known.
    """
    if session.local:
        return False, f"Spark assigns no GPUs on {session.master}; use --mode local for this machine's"
    if not session.settings_known:
        return False, "whether Spark assigns GPUs is unknown: this session keeps its settings to itself"
    amount = session.conf(EXECUTOR_GPUS, "0")
    if amount.isdigit() and int(amount) > 0:
        return True, ""
    if session.remote:
        cure = f"start the Connect server with --conf {EXECUTOR_GPUS}={each or 'N'}"
    elif session.owned:
        cure = f"give it with --conf {EXECUTOR_GPUS}={each or 'N'}"
    else:
        cure = "set it where this process's session is made"
    return False, f"Spark assigns none because {EXECUTOR_GPUS}, the GPUs of an executor, is not set: {cure}"


def profile_for(session: Session, need: SlotNeed) -> Any:
    """The resource profile of a run's tasks; None if the session's own defaults fit.

    It changes what a task takes, never what an executor has, so that existing executors can run it. Works
    with ``rdd.withResources`` and with ``mapInArrow(profile=…)``. A local master, and Spark before 3.4, has
    no profiles. Runs with equal needs share one: for each new profile, Spark starts new Python workers.

    Raises:
        CannotPlace: they do not fit, and the session refuses to make a profile.
    """
    if session.local or _release(session.version) < (3, 4):
        return None
    cpus, gpus = session.conf("spark.task.cpus", "1"), session.conf(TASK_GPUS, "0")
    if (float(cpus), float(gpus)) == (need.cpus, need.gpus):
        return None
    known, amounts = _profiles.setdefault(session.spark, {}), (need.cpus, need.gpus)
    if amounts not in known:
        known[amounts] = _new_profile(session, need)
    return known[amounts]


_profiles: WeakKeyDictionary[Any, dict[tuple[int, int], Any]] = WeakKeyDictionary()
"""By the SparkSession, which may be the caller's own and outlive our `Session`."""


def _new_profile(session: Session, need: SlotNeed) -> Any:
    from pyspark.resource import ResourceProfileBuilder, TaskResourceRequests

    requests = TaskResourceRequests().cpus(need.cpus)
    if need.gpus:
        requests = requests.resource(GPU, need.gpus)
    if not session.remote:
        return ResourceProfileBuilder().require(requests).build
    profile = internals.profile_on_server(session.spark, requests)
    if profile is None:
        raise CannotPlace(
            f"this Connect session lets no task take other than its own {_own_amounts(session)}, and the"
            f" run's need {_amounts(str(need.cpus), str(need.gpus))}",
            hint=f"set spark.task.cpus and {TASK_GPUS} where the server is started",
        )
    return profile


def _own_amounts(session: Session) -> str:
    return _amounts(session.conf("spark.task.cpus", "1"), session.conf(TASK_GPUS, "0"))


def _amounts(cpus: str, gpus: str) -> str:
    """What one task takes, for people; Spark writes amounts as decimals, some below 1."""
    return f"spark.task.cpus={cpus} and {TASK_GPUS}={gpus}"


def _release(version: str) -> tuple[int, ...]:
    """Major and minor number of a version."""
    numbers = version.split(".")[:2]
    return tuple(int(n) for n in numbers if n.isdigit())
