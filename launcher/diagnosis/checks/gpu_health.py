"""Checks of GPUs before a run: who else uses them, errors of their memory, clocks, Xids."""

from __future__ import annotations

from collections.abc import Iterator

from ...errors import counted, size_text
from ...state.host_facts import GpuFacts, GpuHolder, HostFacts
from ...state.outcome_rules import listed
from ...state.xids import xid_text
from .check import Check, failed, passed, unknown, warned
from .facts import CheckedLaunch

FULL = 0.9
HELD_BACK = frozenset(
    {"hw_slowdown", "sw_thermal_slowdown", "hw_thermal_slowdown", "hw_power_brake_slowdown", "reliability"}
)
"""Reasons for lower clocks that are no choice of a person. A cap of power under load is the usual state."""

OF_PROGRAMS = frozenset({13, 31, 43, 45})
"""Xids that a program usually causes by itself."""

_SHOWN = 3


def used_gpus(launch: CheckedLaunch) -> Iterator[tuple[str, HostFacts, GpuFacts]]:
    """The GPUs of each host that the run may use: those that its agents have, or all of a host's."""
    for name, facts in launch.hosts:
        agents = [each for each in launch.examined.hosts if launch.names[each.agent] == name]
        granted = {device.uuid for each in agents for device in each.devices}
        for gpu in facts.gpus:
            if not granted or gpu.uuid in granted or gpu.trouble:
                yield name, facts, gpu


def processes(launch: CheckedLaunch) -> Iterator[Check]:
    """Whether other processes hold the GPUs."""
    gpus, check = list(used_gpus(launch)), "gpu.processes"
    if not gpus or not launch.wants_gpus:
        return
    busy = [(name, gpu) for name, _, gpu in gpus if gpu.holders or _is_full(gpu)]
    for name, gpu in busy:
        text = f"GPU {gpu.index} of {name}: {_use(gpu)}"
        make = failed if _is_full(gpu) else warned
        yield make(check, text, "end them, or use other GPUs: CUDA_VISIBLE_DEVICES", [name])
    yield from _unreadable(gpus, check)
    if not busy and not any(gpu.trouble for *_, gpu in gpus):
        yield passed(check, f"nobody else uses the {counted(len(gpus), 'GPU')}")


def _is_full(gpu: GpuFacts) -> bool:
    return gpu.used is not None and bool(gpu.memory) and gpu.used > FULL * (gpu.memory or 0)


def _use(gpu: GpuFacts) -> str:
    who = listed([_holder(each) for each in gpu.holders], most=_SHOWN) or "no process that can be seen"
    of = (
        f", of {size_text(gpu.memory)} {size_text(gpu.used)} is used"
        if gpu.memory and gpu.used is not None
        else ""
    )
    return f"{who} {'hold' if len(gpu.holders) > 1 else 'holds'} it{of}"


def _holder(holder: GpuHolder) -> str:
    more = ", ".join(filter(None, (holder.name, holder.user)))
    return f"process {holder.pid}" + (f" ({more})" if more else "")


def _unreadable(gpus: list[tuple[str, HostFacts, GpuFacts]], check: str) -> Iterator[Check]:
    for name, _, gpu in gpus:
        if gpu.trouble:
            yield unknown(check, f"GPU {gpu.index} of {name} cannot be read: {gpu.trouble}", [name])


def memory_errors(launch: CheckedLaunch) -> Iterator[Check]:
    """Whether the GPUs' memory has had errors that could not be corrected."""
    gpus, check = list(used_gpus(launch)), "gpu.memory-errors"
    if not gpus or not launch.wants_gpus:
        return
    found = [bad for name, _, gpu in gpus if (bad := _memory_error(name, gpu))]
    yield from found
    if not found and all(gpu.uncorrected is None and gpu.broken is None for *_, gpu in gpus):
        yield unknown(check, "the GPUs do not tell errors of their memory")
    elif not found:
        yield passed(check, "no uncorrected error of the GPUs' memory")


def _memory_error(name: str, gpu: GpuFacts) -> Check | None:
    check, which = "gpu.memory-errors", f"GPU {gpu.index} of {name}"
    if gpu.broken:
        return failed(
            check, f"{which}: broken rows of its memory could not be remapped", "replace it", [name]
        )
    if gpu.pending:
        text = f"{which}: rows of its memory wait to be remapped"
        return failed(check, text, "reset it, which ends what runs on it: nvidia-smi --gpu-reset", [name])
    if gpu.uncorrected:
        errors = counted(gpu.uncorrected, "uncorrected error")
        return warned(
            check, f"{which}: {errors} of its memory", "reset it; replace it if they come back", [name]
        )
    return None


def clocks(launch: CheckedLaunch) -> Iterator[Check]:
    """Whether GPUs are slowed by heat or by their supply."""
    gpus, check = list(used_gpus(launch)), "gpu.clocks"
    if not gpus or not launch.wants_gpus:
        return
    slowed = [(name, gpu, why) for name, _, gpu in gpus if (why := HELD_BACK & set(gpu.throttle or ()))]
    for name, gpu, why in slowed:
        text = f"GPU {gpu.index} of {name} is held back: {', '.join(sorted(why))}"
        yield warned(check, text, "look at its cooling and its power supply", [name])
    if not slowed and all(gpu.throttle is None for *_, gpu in gpus):
        yield unknown(check, "the GPUs do not tell why their clocks are lowered")
    elif not slowed:
        yield passed(check, "no GPU is held back by heat or power")


def xids(launch: CheckedLaunch) -> Iterator[Check]:
    """Whether kernels have logged Xids."""
    with_gpus = [(name, facts) for name, facts in launch.hosts if facts.gpus]
    if not with_gpus or not launch.wants_gpus:
        return
    silent = [name for name, facts in with_gpus if facts.xids is None]
    found = [(name, facts.xids) for name, facts in with_gpus if facts.xids]
    for name, numbers in found:
        told = listed([xid_text(number) for number in numbers], most=_SHOWN, joint="; ", last="; ")
        remedy = "look at its kernel log (dmesg): they may be of an earlier run"
        if set(numbers) <= OF_PROGRAMS:
            remedy += ", and a program's own"
        yield warned("gpu.xid", f"{name} has logged {told}, since it was started", remedy, [name])
    if silent:
        yield unknown("gpu.xid", f"the kernel's log may not be read on {listed(silent)}", silent)
    if not found and not silent:
        yield passed("gpu.xid", "no Xid in the kernels' logs")
