"""The plan: each rank's host, agent, devices and environment. Pure; `--dry-run` prints it.

Ranks of one host are contiguous and local ranks are counted by host, however many agents share it, since
that is the meaning of LOCAL_RANK in every framework. Ranks of one agent are contiguous too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, repeat

from ..errors import CannotPlace, LauncherError, SpecError, counted
from ..frameworks.base import Framework, Rendezvous
from ..spec.job import JobSpec
from ..spec.places import Assignment, Device, Offer
from ..state.outcome_rules import listed

THREADS = "OMP_NUM_THREADS"
VISIBLE = "CUDA_VISIBLE_DEVICES"
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Plan:
    """Every rank's place, and notes for the user about the choices made."""

    ranks: tuple[Assignment, ...]
    uses_gpu: bool
    notes: tuple[str, ...] = ()
    _by_agent: dict[int, list[Assignment]] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        for rank in self.ranks:
            self._by_agent.setdefault(rank.agent, []).append(rank)

    def on(self, agent: int) -> tuple[Assignment, ...]:
        """The ranks that one agent supervises; empty if it has none."""
        return tuple(self._by_agent.get(agent, ()))


def make_plan(spec: JobSpec, offers: Sequence[Offer], *, gpu_reason: str = "") -> Plan:
    """Place as many ranks as the offers hold, within the numbers of the spec.

    Args:
        spec: the request.
        offers: the agents' offers.
        gpu_reason: why there are no GPUs, for the error.

    Raises:
        SpecError: too few required GPUs, in a mode that plans before it starts agents.
        CannotPlace: the offers hold too few ranks, or agents offer too few required GPUs.
    """
    hosts = by_host(offers)
    taken, uses_gpu, notes = _choose(spec, hosts, gpu_reason)
    if len(taken) < spec.num_processes:
        what = "GPUs" if uses_gpu else "slots"
        notes += (f"{counted(len(taken), 'rank')} of at most {spec.num_processes}: there are no more {what}",)
    hide = not uses_gpu and (spec.gpu is False or any(o.devices for o in offers))
    ranks = _assign(taken, hosts, gpus=spec.gpus_per_rank if uses_gpu else 0, hide=hide)
    return Plan(ranks, uses_gpu, (*notes, *_sharing(ranks)))


def _assign(taken: Sequence[Seat], hosts: Hosts, *, gpus: int, hide: bool) -> tuple[Assignment, ...]:
    """A rank for every seat, numbered as torchrun would."""
    local: dict[str, list[Seat]] = {}
    for seat in taken:
        local.setdefault(seat.offer.host, []).append(seat)
    ranks: list[Assignment] = []
    for node, (host, here) in enumerate(local.items()):
        cores = sum(o.cores for o in hosts[host])
        shown = visible(here, gpus) if gpus else ["" if hide else None] * len(here)
        for index, seat in enumerate(here):
            ranks.append(
                Assignment(
                    rank=len(ranks),
                    world_size=len(taken),
                    local_rank=index,
                    local_world_size=len(here),
                    node_rank=node,
                    node_count=len(local),
                    agent=seat.offer.agent,
                    host=host,
                    devices=seat.devices,
                    visible=shown[index],
                    threads=max(1, cores // len(here)),
                )
            )
    return tuple(ranks)


def _choose(spec: JobSpec, hosts: Hosts, reason: str) -> tuple[list[Seat], bool, tuple[str, ...]]:
    """The seats to use, whether they are on GPUs, and notes about that."""
    notes: tuple[str, ...] = ()
    if spec.gpu is not False:
        on_gpus = seats(hosts, gpus=spec.gpus_per_rank, sharing=spec.ranks_per_gpu, most=spec.num_processes)
        if len(on_gpus) >= spec.least:
            return on_gpus, True, ()
        if spec.gpu:
            raise _too_few_gpus(spec, hosts, len(on_gpus), reason)
        notes = _on_the_cpu(spec, len(on_gpus), _count(hosts), reason)
    on_cpus = seats(hosts, gpus=0, most=spec.num_processes)
    if len(on_cpus) < spec.least:
        few = f"{spec.least} slots at once, and there are {len(on_cpus) or 'none'}"
        needs = f"need {few}" if spec.least > 1 else "needs 1 slot, and there is none"
        raise CannotPlace(f"{_at_least(spec)} {needs}")
    return on_cpus, False, notes


def _count(hosts: Hosts) -> int:
    """How many different GPUs the agents have."""
    return len({(host, d.uuid) for host, offers in hosts.items() for o in offers for d in o.devices})


def _at_least(spec: JobSpec) -> str:
    ranks = counted(spec.least, "rank")
    return ranks if spec.min_processes is None else f"at least {ranks}"


def _too_few_gpus(spec: JobSpec, hosts: Hosts, rooms: int, reason: str) -> LauncherError:
    """The error for too few required GPUs; `rooms` is for how many ranks they suffice."""
    need, each, sharing = spec.least, spec.gpus_per_rank, spec.ranks_per_gpu
    if sharing > 1:
        wants = f"{counted(-(-need // sharing), 'GPU')} for {_at_least(spec)}, {sharing} on each,"
        found = f"there are enough for {rooms}" if rooms else "there is none"
    elif each == 1:
        wants = f"{counted(need, 'GPU')}, one a rank,"
        found = f"there {'is' if rooms == 1 else 'are'} {rooms}" if rooms else "there is none"
    else:
        wants = f"{each} GPUs on one host for each of {_at_least(spec)}"
        found = f"there are enough for {rooms}" if rooms else "there are not enough for one"
    ahead = spec.mode.traits.plans_ahead
    why = f": {reason}" if reason and not (ahead and rooms) else ""
    kind = SpecError if ahead else CannotPlace
    return kind(
        f"--gpu needs {wants} and {found}{why}",
        hint=_instead(spec, hosts) if rooms else "use --no-gpu to train on the CPU",
    )


def _instead(spec: JobSpec, hosts: Hosts) -> str:
    """What to ask for where there are too few GPUs, but some.

    Sharing is named only if it would be enough. That is known where the places are: a scheduler would start
    fewer tasks for it, anywhere.
    """
    if spec.mode.traits.plans_ahead and spec.gpus_per_rank == 1:
        sharing = -(-spec.least // _count(hosts))
        if len(seats(hosts, gpus=1, sharing=sharing, most=spec.least)) == spec.least:
            return f"use --no-gpu, a smaller -n, or --ranks-per-gpu {sharing}"
    return "use --no-gpu, or a smaller -n"


def _on_the_cpu(spec: JobSpec, rooms: int, count: int, reason: str) -> tuple[str, ...]:
    """The note for too few GPUs that are not required."""
    if not count:
        return (f"{reason}: the ranks run on the CPU",) if reason else ()
    have, each = count, ""
    if spec.ranks_per_gpu > 1:
        each = f", {spec.ranks_per_gpu} on each,"
    elif spec.gpus_per_rank > 1:
        each = f" with {spec.gpus_per_rank} each"
    elif rooms:
        have = rooms
    why = f"{counted(have, 'GPU')} for {_at_least(spec)}{each} is too few: the ranks run on the CPU"
    use = "it" if have == 1 else "them"
    return (f"{why} (-n {rooms} would use {use})" if rooms else why,)


def _sharing(ranks: Sequence[Assignment]) -> tuple[str, ...]:
    """The note for devices of several ranks: as requested, or granted to several agents by a scheduler."""
    owners: dict[tuple[str, str], list[Assignment]] = {}
    for rank in ranks:
        for device in rank.devices:
            owners.setdefault((rank.host, device.uuid), []).append(rank)
    shared = [
        f"ranks {listed([str(r.rank) for r in users])} share GPU {_index(users[0], uuid)} on {host}"
        for (host, uuid), users in owners.items()
        if len(users) > 1
    ]
    if not shared:
        return ()
    return (f"{listed(shared, most=_SHOWN, joint='; ', last='; ')} (NCCL takes one rank a GPU, gloo more)",)


def _index(rank: Assignment, uuid: str) -> int:
    return next(d.index for d in rank.devices if d.uuid == uuid)


def rank_environ(
    place: Assignment,
    rendezvous: Rendezvous,
    base: Mapping[str, str],
    *,
    framework: Framework,
    interface: str = "",
) -> dict[str, str]:
    """A rank's environment beyond the variables that all ranks share.

    Args:
        place: the rank's place.
        rendezvous: the address and identity of the gang's store.
        base: the variables that the user has set, which get no default here.
        framework: the framework of the target.
        interface: the network interface by which this host reaches rank 0's; empty if unknown.
    """
    seen = _own(place) if framework.isolates else place.visible
    devices = {} if seen is None else {VISIBLE: seen}
    threads = {THREADS: str(place.threads)} if framework.threads else {}
    chosen = {**threads, **framework.defaults(interface), **framework.alike(rendezvous)}
    env = framework.environ(place, rendezvous)
    return {**env, **devices, **{name: value for name, value in chosen.items() if name not in base}}


def _own(place: Assignment) -> str | None:
    """The rank's own GPUs alone; without any, what `visible` says."""
    return _uuids(place.devices) if place.devices else place.visible


def thread_note(plan: Plan, base: Mapping[str, str]) -> str | None:
    """The note about the chosen number of threads, once a run; `base` as in `rank_environ`."""
    if THREADS in base or not plan.ranks:
        return None
    each = sorted({r.threads for r in plan.ranks})
    shown = "/".join(map(str, each)) if len(each) <= _SHOWN else f"{each[0]} to {each[-1]}"
    return (
        f"{THREADS}={shown} for each rank: the run's cores on a host divided among its ranks there "
        f"(--env {THREADS}=N to choose)"
    )


Hosts = Mapping[str, Sequence[Offer]]


@dataclass(frozen=True, slots=True)
class Seat:
    """Room for one rank at an agent, with the devices of that rank."""

    offer: Offer
    devices: tuple[Device, ...] = ()


def by_host(offers: Iterable[Offer]) -> dict[str, list[Offer]]:
    """The offers of every host by agent number; hosts in order of their first agent."""
    hosts: dict[str, list[Offer]] = {}
    for offer in sorted(offers, key=lambda o: o.agent):
        hosts.setdefault(offer.host, []).append(offer)
    return hosts


def seats(hosts: Hosts, *, gpus: int, most: int, sharing: int = 1) -> list[Seat]:
    """All seats in the order in which ranks take them: host by host, and agent by agent on each.

    Args:
        hosts: the offers by host.
        gpus: devices of each seat; 0 for seats on the CPU.
        most: the largest number of seats; an agent without a limit has that many.
        sharing: seats on each device; more than 1 only for seats with one device.
    """
    all_seats = (seat for offers in hosts.values() for seat in _on_host(offers, gpus, most, sharing))
    return list(islice(all_seats, most))


def _on_host(offers: Sequence[Offer], gpus: int, most: int, sharing: int) -> Iterator[Seat]:
    devices = _divide(offers, gpus, most, sharing) if gpus else {}
    for offer in offers:
        if not gpus:
            yield from (Seat(offer) for _ in range(_limit(offer, most)))
        own = devices.get(offer.agent, ())
        for start in range(0, len(own), gpus or 1):
            yield Seat(offer, own[start : start + gpus])


def _limit(offer: Offer, most: int) -> int:
    return most if offer.slots is None else min(offer.slots, most)


def _divide(offers: Sequence[Offer], gpus: int, most: int, sharing: int) -> dict[int, tuple[Device, ...]]:
    """The devices that each agent of a host uses, for as many whole ranks as it can hold.

    A device that ranks share is named once for each of them, and its ranks follow each other. An agent keeps
    the devices that were granted to it, even if another agent was granted them too. Devices that all agents
    of a host see are divided. Agents that see fewer choose first: others can use the rest.
    """
    divided: dict[int, tuple[Device, ...]] = {}
    left: dict[str, int] = {}  # how many more ranks a device takes that has some
    for offer in sorted(offers, key=lambda o: (not o.exclusive, len(o.devices))):
        rooms = {d.uuid: sharing if offer.exclusive else left.get(d.uuid, sharing) for d in offer.devices}
        devices = {d.uuid: d for d in offer.devices}
        free = chain.from_iterable(repeat(devices[uuid], count) for uuid, count in rooms.items())
        own = tuple(islice(free, max(0, _limit(offer, most)) * gpus))
        divided[offer.agent] = own = own[: len(own) // gpus * gpus]
        for uuid, count in Counter(d.uuid for d in own).items():
            left[uuid] = 0 if offer.exclusive else rooms[uuid] - count
    return divided


def visible(local: Sequence[Seat], gpus: int) -> list[str]:
    """CUDA_VISIBLE_DEVICES of each rank of a host, in local-rank order.

    With several GPUs per rank, each rank sees its own. With one, each sees all that the gang has on the host,
    with its own at the index of its local rank. If ranks share GPUs there are fewer GPUs than ranks, and none
    may be named twice (CUDA would show none): a rank's own is then at its local rank modulo their number,
    the index that scripts for shared GPUs use.
    """
    if gpus > 1:
        return [_uuids(seat.devices) for seat in local]
    owned = [seat.devices[0] for seat in local]
    distinct = list({d.uuid: d for d in owned}.values())
    if len(distinct) == len(owned):
        return [_uuids(distinct)] * len(owned)
    return [_uuids(_with_device_at(distinct, own, index % len(distinct))) for index, own in enumerate(owned)]


def _with_device_at(devices: Sequence[Device], own: Device, place: int) -> list[Device]:
    """The devices with `own` moved to an index by an exchange."""
    swapped = list(devices)
    at = next(i for i, d in enumerate(swapped) if d.uuid == own.uuid)
    swapped[at], swapped[place] = swapped[place], swapped[at]
    return swapped


def _uuids(devices: Sequence[Device]) -> str:
    return ",".join(d.uuid for d in devices)
