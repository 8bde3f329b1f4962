"""Seats for ranks: which agents hold how many, and on which devices. Pure, and linear in ranks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from launcher.spec import Device, Offer

Hosts = Mapping[str, Sequence[Offer]]


@dataclass(frozen=True, slots=True)
class Seat:
    """Room for one rank at an agent, with the devices that would be its own."""

    offer: Offer
    devices: tuple[Device, ...] = ()


def by_host(offers: Iterable[Offer]) -> dict[str, list[Offer]]:
    """The agents of every host by number, hosts in order of their first agent."""
    hosts: dict[str, list[Offer]] = {}
    for offer in sorted(offers, key=lambda o: o.agent):
        hosts.setdefault(offer.host, []).append(offer)
    return hosts


def seats(hosts: Hosts, *, gpus: int, most: int) -> list[Seat]:
    """All seats in the order in which ranks take them: host by host, and agent by agent on each.

    Args:
        hosts: the agents by host.
        gpus: devices of each seat; 0 for seats on the CPU.
        most: how many seats are wanted at most; an agent without a limit of its own has that many.
    """
    found = (seat for offers in hosts.values() for seat in _on_host(offers, gpus, most))
    return list(islice(found, most))


def _on_host(offers: Sequence[Offer], gpus: int, most: int) -> Iterator[Seat]:
    given = _divide(offers, gpus, most) if gpus else {}
    for offer in offers:
        if not gpus:
            yield from (Seat(offer) for _ in range(_limit(offer, most)))
        own = given.get(offer.agent, ())
        for start in range(0, len(own), gpus or 1):
            yield Seat(offer, own[start : start + gpus])


def _limit(offer: Offer, most: int) -> int:
    return most if offer.slots is None else min(offer.slots, most)


def _divide(offers: Sequence[Offer], gpus: int, most: int) -> dict[int, tuple[Device, ...]]:
    """The devices that each agent of a host uses, for as many whole ranks as it can hold.

    What was granted to an agent is its own, even if another was granted it too. What all agents of a host
    see is divided, and those that see less choose first: what they leave serves the others as well.
    """
    given: dict[int, tuple[Device, ...]] = {}
    taken: set[str] = set()
    for offer in sorted(offers, key=lambda o: (not o.exclusive, len(o.devices))):
        free = {d.uuid: d for d in offer.devices if offer.exclusive or d.uuid not in taken}
        count = max(0, min(_limit(offer, most), len(free) // gpus)) * gpus
        given[offer.agent] = tuple(islice(free.values(), count))
        taken.update(d.uuid for d in given[offer.agent])
    return given


def visible(local: Sequence[Seat], gpus: int) -> list[str]:
    """What CUDA_VISIBLE_DEVICES says to each rank of a host, in local-rank order.

    With several GPUs a rank, each sees its own. With one, each sees all that the gang has on the host, and
    its own at its local rank. Where ranks share a GPU there are fewer than ranks, and none may be named
    twice (CUDA would show none): a rank's own is then at its local rank modulo their number, which is what
    scripts take that expect to share.
    """
    if gpus > 1:
        return [_named(seat.devices) for seat in local]
    owned = [seat.devices[0] for seat in local]
    distinct = list({d.uuid: d for d in owned}.values())
    if len(distinct) == len(owned):
        return [_named(distinct)] * len(owned)
    return [_named(_turned(distinct, own, index % len(distinct))) for index, own in enumerate(owned)]


def _turned(devices: Sequence[Device], own: Device, place: int) -> list[Device]:
    """The devices with one of them at a given place, by an exchange."""
    turned = list(devices)
    at = next(i for i, d in enumerate(turned) if d.uuid == own.uuid)
    turned[at], turned[place] = turned[place], turned[at]
    return turned


def _named(devices: Sequence[Device]) -> str:
    return ",".join(d.uuid for d in devices)
