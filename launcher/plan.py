"""Which rank goes where, on which devices, with which environment. Pure; `--dry-run` prints it.

Ranks of one host are contiguous and local ranks are counted by host, however many agents share it: that
is what LOCAL_RANK means to every framework.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from launcher.errors import CannotPlace, SpecError
from launcher.frameworks import torch
from launcher.spec import Assignment, Device, JobSpec, Offer

THREADS = "OMP_NUM_THREADS"


@dataclass(frozen=True, slots=True)
class Plan:
    """Every rank's place, and what a person should be told about the choices made."""

    ranks: tuple[Assignment, ...]
    uses_gpu: bool
    notes: tuple[str, ...] = ()

    def on(self, agent: int) -> tuple[Assignment, ...]:
        """The ranks that one agent supervises."""
        return tuple(r for r in self.ranks if r.agent == agent)


def make_plan(spec: JobSpec, offers: Sequence[Offer], *, gpu_reason: str = "") -> Plan:
    """Places for all ranks.

    Args:
        spec: the request.
        offers: what the agents can hold.
        gpu_reason: why there are no GPUs, for the error.

    Raises:
        SpecError: GPUs were demanded of this machine and it has too few.
        CannotPlace: the offers hold fewer ranks than asked for.
    """
    uses_gpu, notes = _choose_devices(spec, offers, gpu_reason)
    by_host: dict[str, list[Offer]] = {}
    for seat in _seats(spec.num_processes, offers, each_with_gpu=uses_gpu):
        by_host.setdefault(seat.host, []).append(seat)
    ranks = tuple(_assign(by_host, uses_gpu=uses_gpu, hide=_hides(spec, offers, uses_gpu)))
    return Plan(ranks, uses_gpu, notes)


def _choose_devices(spec: JobSpec, offers: Sequence[Offer], reason: str) -> tuple[bool, tuple[str, ...]]:
    """Whether the gang uses GPUs, and what to say about it."""
    have, need = sum(_room(o, with_gpu=True) or 0 for o in offers), spec.num_processes
    if spec.gpu is False:
        return False, ()
    if have >= need:
        return True, ()
    if spec.gpu:
        found = f"there {'is' if have == 1 else 'are'} {have}" if have else "there is none"
        why = f": {reason}" if reason and not have else ""
        raise SpecError(
            f"--gpu needs {need} GPU{'s' * (need > 1)}, one a rank, and {found}{why}",
            hint="use --no-gpu, or a smaller -n" if have else "use --no-gpu to train on the CPU",
        )
    if not have:
        return False, ((f"{reason}: the ranks run on the CPU",) if reason else ())
    use = "it" if have == 1 else "them"
    why = f"{have} GPU{'s' * (have > 1)} for {need} ranks is too few: the ranks run on the CPU"
    return False, (f"{why} (-n {have} would use {use})",)


def _hides(spec: JobSpec, offers: Sequence[Offer], uses_gpu: bool) -> bool:
    """Whether GPUs that exist must be hidden from the ranks, so that they do not share them by accident."""
    return not uses_gpu and (spec.gpu is False or any(o.devices for o in offers))


def _room(offer: Offer, *, with_gpu: bool) -> int | None:
    """How many ranks an agent can hold, or None for any number."""
    if not with_gpu:
        return offer.slots
    count = len(offer.devices)
    return count if offer.slots is None else min(offer.slots, count)


def _seats(count: int, offers: Sequence[Offer], *, each_with_gpu: bool) -> list[Offer]:
    """One offer per rank: agents are filled in order; an offer without a limit takes the rest."""
    seats: list[Offer] = []
    for offer in offers:
        room = _room(offer, with_gpu=each_with_gpu)
        left = count - len(seats)
        seats += [offer] * (left if room is None else min(room, left))
    if len(seats) < count:
        raise CannotPlace(f"{count} ranks need {count} slots at once, and there are {len(seats)}")
    return seats


def _assign(by_host: Mapping[str, list[Offer]], *, uses_gpu: bool, hide: bool) -> list[Assignment]:
    world_size = sum(map(len, by_host.values()))
    ranks: list[Assignment] = []
    for node, (host, local) in enumerate(by_host.items()):
        devices = _devices(local) if uses_gpu else ()
        visible = _visible(devices, hide=hide)
        for index, offer in enumerate(local):
            ranks.append(
                Assignment(
                    rank=len(ranks),
                    world_size=world_size,
                    local_rank=index,
                    local_world_size=len(local),
                    node_rank=node,
                    node_count=len(by_host),
                    agent=offer.agent,
                    host=host,
                    devices=devices[index : index + 1],
                    visible=visible,
                    threads=max(1, offer.cores // len(local)),
                )
            )
    return ranks


def _devices(seats: list[Offer]) -> tuple[Device, ...]:
    """One device per local rank, in local-rank order."""
    given: dict[int, int] = {}
    chosen = []
    for offer in seats:
        nth = given.get(offer.agent, 0)
        given[offer.agent] = nth + 1
        chosen.append(offer.devices[nth])
    return tuple(chosen)


def _visible(devices: tuple[Device, ...], *, hide: bool) -> str | None:
    if devices:
        return ",".join(d.uuid for d in devices)
    return "" if hide else None


def rank_environ(place: Assignment, rendezvous: torch.Rendezvous, base: Mapping[str, str]) -> dict[str, str]:
    """What a rank's environment has beyond what the gang shares."""
    env = torch.environ(place, rendezvous)
    if THREADS not in base:
        env[THREADS] = str(place.threads)
    return env


def thread_note(plan: Plan, base: Mapping[str, str]) -> str | None:
    """What to say about the threads that were chosen for the user, once a run."""
    if THREADS in base or not plan.ranks:
        return None
    each = sorted({r.threads for r in plan.ranks})
    return (
        f"{THREADS}={'/'.join(map(str, each))} for each rank: the host's cores divided among its ranks "
        f"(set {THREADS} to choose)"
    )
