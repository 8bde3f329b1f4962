"""Queries about executors, jobs and workers: to Spark's scheduler, to its public interface, or by HTTP.

A session may refuse any of them (`guarded`); what none of them tells is unknown.
"""

from __future__ import annotations

import getpass
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ...channel.connecting import endpoint
from ...errors import counted
from ...spec import spark_address
from . import internals, pages, records
from .guarded import ask
from .records import SessionRecord
from .session import Session
from .slots import (
    EXECUTOR_CORES,
    EXECUTOR_GPUS,
    EXECUTOR_MEMORY,
    GPU,
    Capacity,
    ExecutorShape,
    HeldSlots,
    SlotNeed,
    WorkerNode,
    capacity_of,
    named_runs,
)

_KEPT = "this session keeps to itself which executors it has"


def look(session: Session, need: SlotNeed) -> Capacity:
    """The current slots of a session for a run's tasks.

    What cannot be found out is None; if that is everything, `explanation` is the reason.
    """
    if session.remote:
        return _capacity_by_http(session, need)
    if session.local:
        return _local_capacity(session, need)
    known = executors(session)
    held = _held_by_pages(session, need) if known is None else known
    if held is None:
        return Capacity(gpu=need.gpus > 0, explanation=_KEPT)
    found = _master(session)
    workers = None if found is None else worker_nodes(found[1])
    busy = _own_busy(session, sum(e.cores - e.cores_free for e in held))
    # for about a second, one that has registered has no free cores, as if all were in use
    starting = () if busy or known is None else tuple(e for e in known if not e.cores_free)
    held = tuple(e for e in held if e not in starting)
    idle: tuple[tuple[int, int], ...] = ()
    if found is not None:
        page, state = found
        ours = records.sessions()
        others = [app for app in _holding(state) if app["id"] != session.application]
        resting = [app for app in others if app["id"] in ours and not ours[app["id"]].runs]
        busy += tuple((holder_name(app, ours, page), app["cores"]) for app in others if app not in resting)
        idle = tuple((ours[app["id"]].pid, app["cores"]) for app in resting)
    capacity = capacity_of(need, held, workers, shape_of(session), busy, idle)
    return replace(capacity, coming=capacity.coming + sum(need.fits(e.cores, e.gpus) for e in starting))


def executors(session: Session) -> tuple[HeldSlots, ...] | None:
    """The executors of a classic session's application that have registered; None if it refuses to tell."""
    states = internals.executors(session.context)
    return None if states is None else tuple(HeldSlots(*state) for state in states)


def own_jobs(session: Session) -> tuple[str, ...]:
    """The running jobs of a classic session's application, by job group or name; none if it refuses."""
    tracker: Any = ask(lambda: session.context.statusTracker())
    jobs = ask(lambda: sorted(tracker.getActiveJobsIds())) or ()
    return tuple(_job_name(session.context, tracker, job) for job in jobs)


def master_state(session: Session) -> Mapping[str, Any] | None:
    """The JSON of a standalone master's page; None without such a master, or if it cannot be reached."""
    found = _master(session)
    return None if found is None else found[1]


def _master(session: Session) -> tuple[str, Mapping[str, Any]] | None:
    """The page of the standalone master in charge, and its JSON."""
    found = pages.live_master(master_pages(session))
    if found is None:
        session.pages = None  # another master may have taken over, and its page may have another port
    return found


def master_pages(session: Session) -> tuple[str, ...]:
    """The URLs of the standalone masters' pages; requested until a master answers, then remembered."""
    if not session.master.startswith("spark://"):
        return ()
    if not session.pages:
        hosts = spark_address.standalone_hosts(session.master)
        ports = ((host, _page_port(session, host, port)) for host, port in hosts)
        session.pages = tuple(f"http://{endpoint(host, page)}" for host, page in ports if page)
    return session.pages


def worker_nodes(state: Mapping[str, Any]) -> tuple[WorkerNode, ...]:
    """The live workers on a master's page."""
    return tuple(
        WorkerNode(
            cores=worker["cores"],
            cores_free=worker["coresfree"],
            memory=worker["memory"],
            memory_free=worker["memoryfree"],
            gpus=_gpu_count(worker.get("resources")),
            gpus_free=_gpu_count(worker.get("resourcesfree")),
        )
        for worker in state.get("workers", ())
        if worker.get("state") == "ALIVE"
    )


def holder_name(app: Mapping[str, Any], ours: Mapping[str, SessionRecord], page: str) -> str:
    """Who holds an application's cores, and how they become free: an entry of a master's page, for people."""
    if record := ours.get(app["id"]):
        return named_runs(record.runs, "your own ")
    user = str(app.get("user") or "somebody")
    ways = f"{page} ends it" if user == _me() else f"ask {user}, or {page} ends it"
    return f"application {app.get('name')} ({app['id']}) of {user} ({ways})"


def _me() -> str:
    """The name of this process's user; empty if it has none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return ""


def _holding(state: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The applications on a master's page that hold cores."""
    return (app for app in pages.active_applications(state) if app.get("cores"))


def shape_of(session: Session) -> ExecutorShape:
    """The size of one executor of the session's application, and its cap on cores."""
    cores, most = session.conf(EXECUTOR_CORES, "0"), session.conf("spark.cores.max")
    return ExecutorShape(
        cores=int(cores) if cores.isdigit() else 0,
        memory=mebibytes(session.conf(EXECUTOR_MEMORY, "1g")),
        gpus=int(session.conf(EXECUTOR_GPUS, "0") or 0),
        most=int(most) if most.isdigit() else None,
        ours=session.limit is not None,
    )


def gpus_for_each(session: Session) -> int:
    """How many GPUs each executor could have, if the workers' GPUs were divided; 0 if that is not known."""
    state = None if session.remote or session.local else master_state(session)
    cores = shape_of(session).cores if state is not None else 0
    shares = (
        room.gpus // (max(1, room.cores // cores) if cores else 1)
        for room in (worker_nodes(state) if state is not None else ())
    )
    return min((share for share in shares if share), default=0)


def mebibytes(text: str) -> int:
    """A size in Spark's form, such as ``512m`` or ``2g``; without a unit it is MiB. 0 if it is invalid."""
    match = re.fullmatch(r"(\d+)\s*([kmgtp]?)b?", text.strip().lower())
    return int(match[1]) << 10 * " kmgtp".index(match[2] or "m") >> 20 if match else 0


def _own_busy(session: Session, used: int | None) -> tuple[tuple[str, int], ...]:
    """This application's jobs, with what they use of it; empty if it is not in use, or if none is known."""
    names = own_jobs(session) if used else ()
    return ((" and ".join(names), used),) if used and names else ()


def _job_name(context: Any, tracker: Any, job: int) -> str:
    """Its group; without one, or if that is unknown, its number and the name of its last stage."""
    if group := internals.job_group(context, job):
        return f"job group {group}"
    stages = internals.job_stages(tracker, job) or ()
    name = ask(lambda: tracker.getStageInfo(max(stages)).name) if stages else None
    return f"job {job} ({name})" if name else f"job {job}"


def _page_port(session: Session, host: str, port: int) -> int:
    """The port of a master's page, requested by Spark's own protocol; 0 if there is no answer."""
    try:
        return internals.master_page_port(session.context, host, port) or 0
    except Exception:  # noqa: BLE001  # whatever Java raises, the port is then unknown
        return 0


def _local_capacity(session: Session, need: SlotNeed) -> Capacity:
    """A local master has as many slots as it was given threads, and no GPUs."""
    cores = _local_cores(session)
    if cores is None:
        return Capacity(gpu=need.gpus > 0, explanation="this session keeps to itself how many cores it has")
    total, used = need.fits(cores, 0), _running(session)
    free = None if used is None else max(0, total - used // need.cpus)
    explanation = f"{session.master} runs {counted(cores, 'task')} at once"
    return Capacity(total, free, total, 0, need.gpus > 0, _own_busy(session, used), explanation)


def _local_cores(session: Session) -> int | None:
    """The threads of a local master; None if they are not in its name and the session does not tell."""
    if match := re.search(r"\[(\d+)", session.master):
        return int(match[1])
    if "[" not in session.master or session.conf("spark.default.parallelism"):
        return 1
    return ask(lambda: int(session.context.defaultParallelism))


def _running(session: Session) -> int | None:
    """Tasks that run in a local master's threads."""
    now = internals.running_tasks(session.context)
    return ask(lambda: _tracked_tasks(session.context.statusTracker())) if now is None else now


def _tracked_tasks(tracker: Any) -> int:
    stages = (tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds())
    return sum(stage.numActiveTasks for stage in stages if stage is not None)


def _capacity_by_http(session: Session, need: SlotNeed) -> Capacity:
    """The slots on a Connect server's own pages, if they can be read at the port in its settings."""
    host, port = session.conf("spark.driver.host"), session.conf("spark.ui.port", "4040")
    address = f"http://{endpoint(host, port)}/api/v1/applications/{session.application}"
    held = _executors_at(address, need) if port != "0" else None
    if held is None:
        return Capacity(gpu=need.gpus > 0, explanation="the Connect server's own pages cannot be reached")
    return capacity_of(need, held, None, ExecutorShape())


def _held_by_pages(session: Session, need: SlotNeed) -> tuple[HeldSlots, ...] | None:
    """The executors on the pages of a classic session's application; None if they cannot be read."""
    address = f"{session.ui}/api/v1/applications/{session.application}"
    return _executors_at(address, need) if session.ui and session.application else None


def _executors_at(address: str, need: SlotNeed) -> tuple[HeldSlots, ...] | None:
    """The executors on an application's pages; None if they cannot be read.

    The pages show most tasks of a job up to 10 s after they began, but its stages at once. So tasks of stages
    that go on are taken to run on whatever executor has room.
    """
    entries = pages.read_json(f"{address}/executors")
    if not isinstance(entries, list):
        return None
    entries = [entry for entry in entries if entry.get("id") != "driver" and entry.get("isActive")]
    unseen = _open_tasks(address) - sum(int(entry["activeTasks"]) for entry in entries)
    held = []
    for entry in entries:
        active = int(entry["activeTasks"])
        more = max(0, min(unseen, int(entry["totalCores"]) // need.cpus - active))
        held.append(_held_by_page(entry, active + more, need))
        unseen -= more
    return tuple(held)


def _open_tasks(address: str) -> int:
    """The tasks that have not ended, of the stages that go on; 0 if that page cannot be read."""
    stages = pages.read_json(f"{address}/stages?status=active")
    if not isinstance(stages, list):
        return 0
    return sum(max(0, int(stage["numTasks"]) - int(stage["numCompleteTasks"])) for stage in stages)


def _held_by_page(entry: Mapping[str, Any], active: int, need: SlotNeed) -> HeldSlots:
    cores = int(entry["totalCores"])
    gpus = _gpu_count(entry.get("resources"))
    free = max(0, cores - active * need.cpus)
    return HeldSlots(
        str(entry["id"]), str(entry["hostPort"]), cores, free, gpus, max(0, gpus - active * need.gpus)
    )


def _gpu_count(resources: Any) -> int:
    """The number of GPUs in a page's table of resources, which lists addresses by name."""
    entry = (resources or {}).get(GPU) if isinstance(resources, dict) else None
    return len(entry.get("addresses", ())) if isinstance(entry, dict) else 0
