"""Checks of where the ranks would go: Java, Spark's settings, slots, agents, GPUs for all."""

from __future__ import annotations

from collections.abc import Iterator

from ...errors import LauncherError, counted
from ...placement.plan import make_plan
from ...placement.topology import gpu_reason, offers_of
from .check import Check, failed, passed, unknown, warned
from .facts import CheckedLaunch, RefusedLaunch

DYNAMIC = "spark.dynamicAllocation.enabled"
EXECUTOR_GPUS = "spark.executor.resource.gpu.amount"
TASK_GPUS = "spark.task.resource.gpu.amount"
TASK_CPUS = "spark.task.cpus"
SETTINGS = (DYNAMIC, EXECUTOR_GPUS, TASK_GPUS, TASK_CPUS)
"""The settings of a session that the checks read."""

_LATER = "wait, or ask for fewer ranks; --start-timeout says how long a run waits"


def java(launch: CheckedLaunch) -> Iterator[Check]:
    """Whether there is a Java where this machine needs one."""
    trouble = launch.caller.java
    if trouble is None:
        return
    yield (
        failed("java", trouble, "install Java 17 or newer, or set JAVA_HOME")
        if trouble
        else passed("java", "there is a Java")
    )


def dynamic_allocation(launch: CheckedLaunch) -> Iterator[Check]:
    """Whether dynamic allocation is off."""
    if (value := _setting(launch, DYNAMIC)) is None:
        return
    if value.lower() == "true":
        remedy = f"start the session with --conf {DYNAMIC}=false"
        yield failed("spark.dynamic-allocation", f"{DYNAMIC} is true: no barrier stage can run", remedy)
    else:
        yield passed("spark.dynamic-allocation", "dynamic allocation is off")


def gpu_amount(launch: CheckedLaunch) -> Iterator[Check]:
    """Whether executors have whole GPUs, and as many as a task needs."""
    check, spec = "spark.gpu-amount", launch.spec
    executor, task = _setting(launch, EXECUTOR_GPUS) or "", _setting(launch, TASK_GPUS) or ""
    if spec.gpu is False or not (executor or task):
        return
    each = spec.gpus_per_task or spec.gpus_per_rank
    if not executor.isdigit():
        yield failed(
            check, f"{EXECUTOR_GPUS} is {executor or 'not set'}", f"set it to a whole number, {each} or more"
        )
    elif int(executor) < each:
        text = f"{EXECUTOR_GPUS} is {executor}, and a task of this run needs {each}"
        yield failed(check, text, f"start the session with --conf {EXECUTOR_GPUS}={each}")
    elif task and not _is_whole(task):
        text = (
            f"{TASK_GPUS} is {task}: other jobs of this session share GPUs; this run asks for {each} a task"
        )
        yield warned(check, text, f"set {TASK_GPUS}={each}, so that no two tasks get the same GPU")
    else:
        yield passed(check, f"an executor has {counted(int(executor), 'GPU')}, and a task needs {each}")


def _is_whole(text: str) -> bool:
    try:
        return float(text) >= 1 and float(text).is_integer()
    except ValueError:
        return False


def _setting(launch: CheckedLaunch, name: str) -> str | None:
    """A setting of the session, or else one that the launch gives; None if neither is known."""
    value = launch.examined.settings.get(name, launch.spec.spark.conf.get(name))
    return None if value is None else value.strip()


def slots(launch: CheckedLaunch) -> Iterator[Check]:
    """Whether there is room for all ranks now."""
    examined, refused = launch.examined, launch.caller.placement
    error = examined.error
    if refused is not None:
        yield _refusal("slots", refused)
    elif examined.expected is not None:
        if examined.lacking:  # Spark may have queued them: not every session tells
            asked = f"Spark was asked for {counted(examined.expected, 'task')}"
            yield unknown("slots", "; ".join([asked, *examined.notes]))
        else:
            yield passed("slots", _room(launch, examined.expected))
    elif examined.waiting:
        yield failed("slots", examined.waiting, (error.hint if error else "") or _LATER)
    elif error is not None:
        yield _refusal("slots", error)


def _room(launch: CheckedLaunch, agents: int) -> str:
    """For how many ranks there is room; a gang that may be smaller may have got less."""
    spec = launch.spec
    if not spec.mode.traits.scheduled:
        return f"there is room for {counted(spec.num_processes, 'rank')}, on this machine"
    ranks = counted(min(spec.num_processes, agents * spec.ranks_per_task), "rank")
    return f"there is room for {ranks}, in {counted(agents, 'task')} of Spark"


def _refusal(check: str, error: RefusedLaunch) -> Check:
    return failed(check, error.message, error.hint or "see the message")


def hosts(launch: CheckedLaunch) -> Iterator[Check]:
    """Whether every agent came and answered."""
    examined = launch.examined
    if examined.expected is None:
        return
    came, silent = len(examined.hosts), [h for h in examined.hosts if h.facts is None]
    if examined.lacking:
        text = f"{came} of {counted(examined.expected, 'agent')} came"
        text += f": {examined.error.message}" if examined.error else ""
        remedy = (examined.error.hint if examined.error else "") or _where_to_look(came)
        yield failed("hosts", text, remedy)
    for each in silent:
        name = launch.names[each.agent]
        remedy = "see whether the host is overloaded, or a file system or driver of it hangs"
        yield failed("hosts", f"the agent on {name} {each.trouble}", remedy, [name])
    for name, facts in launch.hosts:
        for probe, why in facts.unanswered.items():
            yield warned(
                "hosts", f"{name}: nothing is known of its {probe}: {why}", "look at that host", [name]
            )
    if not examined.lacking and not silent and not any(f.unanswered for _, f in launch.hosts):
        names = counted(len(launch.hosts), "host")
        yield passed("hosts", f"{counted(came, 'agent')} on {names} answered within {examined.seconds:.1f} s")


def _where_to_look(came: int) -> str:
    """The remedy where agents did not come; `came`: how many did."""
    logs = "look at the executors' logs"
    return f"{logs}; executors that cannot reach each other are slow to start a task" if came else logs


def gpus(launch: CheckedLaunch) -> Iterator[Check]:
    """Whether the agents that came can give every rank its GPUs."""
    examined, spec = launch.examined, launch.spec
    if spec.gpu is False or not spec.mode.traits.scheduled or examined.expected is None or examined.lacking:
        return
    try:
        plan = make_plan(spec, offers_of(examined.hosts, spec), gpu_reason=gpu_reason(examined.hosts))
    except LauncherError as error:
        yield _refusal("gpus", RefusedLaunch.of(error))
        return
    if any(rank.devices for rank in plan.ranks):
        yield passed("gpus", f"every rank has {counted(len(plan.ranks[0].devices), 'GPU')}")
    elif any(facts.gpus for _, facts in launch.hosts):
        why = gpu_reason(examined.hosts) or "hosts have GPUs, and the ranks would not get any"
        yield warned("gpus", why, "--gpu demands them, --no-gpu says that none are meant")


def local_gpus(launch: CheckedLaunch) -> Iterator[Check]:
    """Whether local ranks have GPUs, which the plan knows beforehand."""
    if launch.spec.mode.traits.scheduled or launch.spec.gpu is False or launch.caller.placement is not None:
        return
    devices = [device for each in launch.examined.hosts for device in each.devices]
    if devices:
        yield passed("gpus", f"the ranks use {counted(len(devices), 'GPU')}")
    elif launch.hosts and any(facts.gpus for _, facts in launch.hosts):
        yield warned("gpus", "this machine has GPUs, and the ranks would not use them", "--gpu demands them")
