"""Whose each GPU is: by its processes, by what our ranks were given, and by Spark's word. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from console.sources.cluster import ExecutorView, GpuView, Held, Use
from console.sources.places import Place
from launcher import events as ev
from launcher.inventory import GpuUse
from launcher.spec import Device
from launcher.state import Rank, RunState

_TAKEN_BYTES = 1 << 30
_TAKEN_UTIL = 5.0


@dataclass(frozen=True, slots=True)
class _Handed:
    """What Spark says of a GPU: the address it has there, its executor, whether that is unknown though there
    is one, and whether its worker lives.
    """

    address: str
    executor: ExecutorView | None
    taken: bool
    alive: bool

    def means(self, device: Device) -> bool:
        """Whether it is this one: Spark's names for GPUs are numbers or UUIDs, as a worker's script says."""
        return self.address in (str(device.index), device.uuid)


def gpus_of(place: Place, own: Sequence[GpuUse], executors: Sequence[ExecutorView]) -> Iterator[GpuView]:
    """Those that are measured, and those that only Spark tells of."""
    known = {gpu.device.uuid or f"{gpu.device.index}": gpu for gpu in own}
    told = {uuid: gpu for uuid, gpu in _sampled(place) if uuid not in known}
    handed = list(_handed(place, executors))
    found = []
    for gpu in (*known.values(), *told.values()):
        mark = next((mark for mark in handed if mark.means(gpu.device)), None)
        found.append(_gpu(gpu, place, mark))
        handed = [mark for mark in handed if not mark.means(gpu.device)]
    for number, mark in enumerate(handed):
        index = int(mark.address) if mark.address.isdecimal() else number
        device = Device(index, "" if mark.address.isdecimal() else mark.address)
        found.append(_gpu(GpuUse(device, ev.DeviceSample(uuid=device.uuid)), place, mark))
    yield from sorted(found, key=lambda gpu: gpu.device.index)


def _handed(place: Place, executors: Sequence[ExecutorView]) -> Iterator[_Handed]:
    """The GPUs that Spark hands out there; without a master's page, those that our executors were given."""
    holders = {gpu: executor for executor in executors for gpu in executor.gpus}
    for worker in place.workers:
        for address in worker.gpus:
            executor = holders.pop(address, None)
            yield _Handed(address, executor, executor is None and address not in worker.free, worker.alive)
    for address, executor in holders.items():
        yield _Handed(address, executor, taken=False, alive=True)


def _sampled(place: Place) -> Iterator[tuple[str, GpuUse]]:
    """The GPUs that agents on a host told of; those that none has measured yet by their ranks."""
    known = {d.uuid: d for _, ranks in place.ranks for r in ranks for d in r.devices}
    for uuid, device in known.items():
        yield uuid, GpuUse(device, ev.DeviceSample(uuid=uuid, index=device.index))
    for _, host in place.agents:
        for uuid, sample in host.devices.items():
            yield uuid, GpuUse(known.get(uuid) or Device(sample.index or 0, uuid), sample)


def _gpu(gpu: GpuUse, place: Place, mark: _Handed | None) -> GpuView:
    pids = {rank.pid for _, ranks in place.ranks for rank in ranks if rank.pid is not None}
    mine = tuple(h for h in gpu.holders if not pids.isdisjoint((h.pid, *h.ancestors)))
    theirs = {pid for holder in mine for pid in (holder.pid, *holder.ancestors)}
    held = tuple(
        held_by(run, on_it)
        for run, ranks in place.ranks
        if (on_it := [rank for rank in ranks if rank.pid in theirs or _was_given(rank, gpu.device)])
    )
    view = GpuView(
        gpu.device,
        gpu.sample,
        Use.UNKNOWN,
        held,
        tuple(holder for holder in gpu.holders if holder not in mine),
        mine,
        gpu.error,
        address=mark.address if mark is not None else "",
        executor=mark.executor if mark is not None else None,
        lent=mark is not None and mark.taken,
        whole=gpu.whole,
        health=gpu.health,
    )
    return replace(view, use=_use(view, mark))


def held_by(run: RunState, ranks: Sequence[Rank]) -> Held:
    """Some ranks of a run, in one place."""
    numbers, pids = tuple(rank.rank for rank in ranks), tuple(rank.pid for rank in ranks)
    return Held(run.id, run.name or run.id, numbers, pids)


def _was_given(rank: Rank, device: Device) -> bool:
    return any(
        given.uuid == device.uuid if given.uuid and device.uuid else given.index == device.index
        for given in rank.devices
    )


def _use(gpu: GpuView, mark: _Handed | None) -> Use:
    if gpu.held:
        return Use.MINE
    if gpu.foreign:
        return Use.OTHER
    used, util = gpu.sample.memory_used, gpu.sample.util
    unknown = used is None and util is None
    if mark is not None and not mark.alive and unknown:
        return Use.LOST
    if gpu.executor is not None:
        return Use.MINE if gpu.executor.mine else Use.OTHER
    if (mark is not None and mark.taken) or (used or 0) > _TAKEN_BYTES or (util or 0) > _TAKEN_UTIL:
        return Use.TAKEN
    return Use.UNKNOWN if unknown and mark is None else Use.FREE
