"""Where each rank of a draft would go, as far as that is known before the start: hosts, their GPUs, ranks.

On this machine the launcher's own plan is asked, for the GPUs that were detected. On a cluster the scheduler
chooses hosts, so the map shows its tasks, and the slots that a local master's URL names. Pure.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from launcher.errors import LauncherError
from launcher.placement.plan import Plan, make_plan
from launcher.spec.job import JobSpec, Target, TargetKind, world_size
from launcher.spec.places import Device, Offer

from ...formatting import device_model, number
from .detect import Detected, Gpu, slots_of, tasks_of
from .draft import Draft, Misfit, fitting

_MOST = 4096
_GIB = 1 << 30
_SIZES = ("gpus_per_rank", "ranks_per_gpu", "gpus_per_task")


@dataclass(frozen=True, slots=True)
class Seat:
    """A GPU, the CPU of a host, or a task, and the ranks that would be there.

    `note` is what else is known of it; `taken` means that others use it now.
    """

    label: str
    ranks: tuple[int, ...] = ()
    note: str = ""
    taken: bool = False


@dataclass(frozen=True, slots=True)
class HostPlaces:
    """A host with its seats, and what is known of it."""

    name: str
    seats: tuple[Seat, ...]
    about: str = ""


@dataclass(frozen=True, slots=True)
class PlacementMap:
    """The places of all ranks; `problem` is why they have none, `notes` what a person should know."""

    hosts: tuple[HostPlaces, ...] = ()
    notes: tuple[str, ...] = ()
    problem: str = ""


def placement_map(draft: Draft, detected: Detected) -> PlacementMap:
    """The places of a draft's ranks. Its target and its arguments need not be right."""
    try:
        spec = _sized(draft)
    except LauncherError as error:
        return PlacementMap(problem=error.message)
    if spec.num_processes > _MOST:
        few = f"{number(spec.num_processes, 'rank')}: too many to be drawn"
        return PlacementMap(notes=(few,))
    if not draft.mode.traits.one_host:
        return _tasks(draft, spec)
    offer = Offer(0, socket.gethostname(), detected.cores, tuple(_devices(detected.gpus)))
    try:
        plan = make_plan(spec, [offer], gpu_reason=detected.gpu_reason)
    except LauncherError as error:
        return PlacementMap(problem=error.message)
    return _here(plan, detected, offer)


def _sized(draft: Draft) -> JobSpec:
    """A job of the draft's size, with any target."""
    least, most = world_size(draft.processes)
    spec = JobSpec(Target(TargetKind.SCRIPT, "any.py", ""), most, min_processes=least)
    spec = replace(spec, mode=draft.mode, gpu={"yes": True, "no": False}.get(draft.gpu))
    for extra, text in fitting(draft.extras, draft.mode):
        if extra.name in _SIZES:
            spec = spec.with_options({extra.name: extra.read_text(text, draft.workdir)})
    return spec


def _devices(gpus: Sequence[Gpu]) -> Iterator[Device]:
    return (Device(i, str(i), gpu.name, gpu.total) for i, gpu in enumerate(gpus))


def _here(plan: Plan, detected: Detected, offer: Offer) -> PlacementMap:
    """The ranks on this machine: by GPU, or all of them on its cores."""
    threads = plan.ranks[0].threads if plan.ranks else 0
    share = f"{number(threads, 'thread')} a rank" if threads else ""
    about = " · ".join(filter(None, (number(detected.cores, "core"), share)))
    if not plan.uses_gpu:
        seats = [Seat("CPU", tuple(place.rank for place in plan.ranks), number(detected.cores, "core"))]
        seats += [replace(_seat(i, gpu, ()), taken=False) for i, gpu in enumerate(detected.gpus)]
    else:
        owners: dict[int, list[int]] = {}
        for place in plan.ranks:
            for device in place.devices:
                owners.setdefault(device.index, []).append(place.rank)
        seats = [_seat(i, gpu, tuple(owners.get(i, ()))) for i, gpu in enumerate(detected.gpus)]
    busy = [seat.label for seat in seats if seat.taken and seat.ranks]
    notes = (f"in use by others: {', '.join(busy)}",) if busy else ()
    return PlacementMap((HostPlaces(offer.host, tuple(seats), about),), (*plan.notes, *notes))


def _seat(index: int, gpu: Gpu, ranks: tuple[int, ...]) -> Seat:
    taken = gpu.free is False
    used = f"{_whole(gpu.used)} of " if taken else ""
    note = f"{used}{_whole(gpu.total)}" if gpu.total else device_model(gpu.name)
    return Seat(f"GPU {index}", ranks, note, taken)


def _whole(size: int | None) -> str:
    """An amount of memory without decimals: a box is narrow."""
    return f"{(size or 0) / _GIB:.0f}G"


def _tasks(draft: Draft, spec: JobSpec) -> PlacementMap:
    """The tasks that a scheduler would be asked for; it chooses their hosts."""
    try:
        tasks, each = tasks_of(draft, spec.num_processes)
    except (LauncherError, Misfit) as error:
        return PlacementMap(problem=error.message)
    gpus = "no GPU" if spec.gpu is False else number(spec.gpus_per_task or spec.gpus_per_rank, "GPU")
    where = gpus if spec.gpu is not None else f"{gpus.removeprefix('1 ')} or CPU"
    seats = tuple(
        Seat(f"task {i}", tuple(range(i * each, min((i + 1) * each, spec.num_processes))), where)
        for i in range(tasks)
    )
    slots = slots_of(draft.spark.strip())
    known = f"{slots} · " if slots else ""
    chooser = "Spark chooses the hosts" if draft.mode.traits.address else "the scheduler chooses the hosts"
    return PlacementMap((HostPlaces(str(draft.mode), seats, f"{known}{chooser}"),))


def ranges(numbers: Iterable[int]) -> str:
    """Ranks as text, neighbours as a range: ``0-3, 6``."""
    parts: list[list[int]] = []
    for each in sorted(numbers):
        if parts and parts[-1][-1] == each - 1:
            parts[-1][1:] = [each]
        else:
            parts.append([each])
    return ", ".join("-".join(map(str, part)) for part in parts)
