"""Why a rank may be slower than the others: what differs where it runs, by samples of both. Pure.

A difference is no proof that it is the cause, and what is unknown on either side makes none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from statistics import mean, median

from launcher.state.events import DeviceSample

from ...formatting import number, percent
from .metrics import CPU, UTIL
from .model import RankView, RunView

_SLOWER, _BUSY, _FREE, _STEAL = 0.9, 90.0, 70.0, 5.0
_SEEN, _IDLE_GPU, _LOADERS = 30, 50.0, 2

Reading = Callable[[RunView, RankView], float | None]


def differences(view: RunView, rank: int) -> tuple[str, ...]:
    """What differs between a rank and the gang's other living ranks, one short text each."""
    own = view.ranks[rank]
    others = [each for each in view.ranks if each.rank.alive and each.rank.rank != rank]
    return tuple(_found(view, own, others)) if others else ()


def _found(view: RunView, own: RankView, others: Sequence[RankView]) -> Iterator[str]:
    clock, usual = _compared(view, own, others, _clock)
    if clock is not None and usual is not None and clock < _SLOWER * usual:
        yield f"GPU clock {clock:.0f} MHz, others {usual:.0f}"
    if causes := _throttles(view, own) - set().union(*(_throttles(view, each) for each in others)):
        yield f"GPU throttled: {', '.join(sorted(causes))}"
    links, usual = _compared(view, own, others, _links)
    if links is not None and usual is not None and links < usual:
        yield f"{number(int(links), 'NVLink')} up, others {usual:.0f}"
    steal, usual = _compared(view, own, others, _steal)
    if steal is not None and usual is not None and steal >= _STEAL and usual < steal / 2:
        yield f"{percent(steal)} of its host's CPU stolen, others {percent(usual)}"
    busy, usual = _compared(view, own, others, _host_cpu)
    if busy is not None and usual is not None and busy >= _BUSY and usual < _FREE:
        yield f"its host's CPU {percent(busy)} busy, others {percent(usual)}"
    if _disk_wait(own) and not any(map(_disk_wait, others)):
        yield "it waits for a disk"


def _compared(
    view: RunView, own: RankView, others: Sequence[RankView], read: Reading
) -> tuple[float | None, float | None]:
    """A rank's reading, and the median of the others'; None where unknown."""
    known = [value for each in others if (value := read(view, each)) is not None]
    return read(view, own), median(known) if known else None


def devices_of(view: RunView, each: RankView) -> list[DeviceSample]:
    """The last samples of a rank's devices."""
    host = view.state.hosts.get(each.rank.agent)
    known = {} if host is None else host.devices
    return [known[device.uuid] for device in each.rank.devices if device.uuid in known]


def _clock(view: RunView, each: RankView) -> float | None:
    """The lowest clock of its GPUs while all are in use: an idle GPU lowers its clock by itself."""
    found = [(d.sm_clock_mhz, d.util) for d in devices_of(view, each)]
    clocks = [clock for clock, util in found if clock is not None and (util or 0.0) >= _IDLE_GPU]
    return min(clocks) if clocks and len(clocks) == len(found) else None


def _links(view: RunView, each: RankView) -> float | None:
    links = [d.nvlink_active for d in devices_of(view, each) if d.nvlink_active is not None]
    return min(links, default=None)


def _throttles(view: RunView, each: RankView) -> set[str]:
    return {reason for d in devices_of(view, each) for reason in d.throttle or ()}


def _host_cpu(view: RunView, each: RankView) -> float | None:
    host = view.state.hosts.get(each.rank.agent)
    return None if host is None or host.system is None else host.system.cpu


def _steal(view: RunView, each: RankView) -> float | None:
    host = view.state.hosts.get(each.rank.agent)
    return None if host is None or host.system is None else host.system.steal


def _disk_wait(each: RankView) -> bool:
    return each.rank.sample is not None and each.rank.sample.disk_wait is True


def loader_line(view: RunView) -> str:
    """That GPUs are idle between steps while several processes a rank are busy; empty if that is not so.

    It says what was seen. Only ranks that make steps are looked at, and only if all their figures of the last
    `_SEEN` samples are known.
    """
    ranks = [each for each in view.ranks if each.rank.alive and each.rank.devices]
    pace = view.progress.step_s
    if not ranks or pace is None or pace > _SEEN / 2 or view.progress.stalled:
        return ""
    used = [_mean(each.past.of(UTIL, _SEEN)) for each in ranks]
    busy = [_mean(each.past.of(CPU, _SEEN)) for each in ranks]
    workers = [each.rank.sample.processes if each.rank.sample else None for each in ranks]
    gpu, cpu = _whole_mean(used), _whole_mean(busy)
    if gpu is None or cpu is None or gpu >= _IDLE_GPU or cpu < _BUSY:
        return ""
    if any(count is None or count < _LOADERS for count in workers):
        return ""
    return (
        f"GPUs are idle between steps, {percent(gpu)} in use, while each rank's processes take"
        f" {percent(cpu)} of a core: its data loader may be the limit"
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return mean(known) if len(known) == _SEEN else None


def _whole_mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return mean(known) if known and len(known) == len(values) else None
