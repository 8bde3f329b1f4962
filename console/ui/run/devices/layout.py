"""How the devices of a gang are laid out: blocks for a few ranks, a line each, or a heat map. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from ....data.run.model import RankView
from .blocks import LEAST, MOST, WIDTH

MAP_RANKS = 16
"""From so many ranks the map is shown, unless a person chose otherwise."""

MANY_HOSTS = 64


class DeviceLook(Enum):
    """How ranks are shown."""

    BLOCKS = "blocks"
    LINES = "lines"
    MAP = "map"

    @property
    def next(self) -> DeviceLook:
        """The next one."""
        every = list(DeviceLook)
        return every[(every.index(self) + 1) % len(every)]


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """What a row shows: one line of these ranks' blocks, of their host (`head`), or of themselves."""

    ranks: tuple[int, ...]
    line: int = 0
    head: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """All rows below the fixed ones; `per` ranks share a row, or stand beside each other as blocks."""

    look: DeviceLook
    places: tuple[DeviceRow, ...] = ()
    per: int = 1
    height: int = 1

    def row_of(self, rank: int) -> int:
        """The first row of a rank; 0 if it has none."""
        rows = enumerate(self.places)
        return next((n for n, at in rows if not at.head and rank in at.ranks), 0)


def usual_look(ranks: int, hosts: Sequence[Sequence[RankView]], width: int, room: int) -> DeviceLook:
    """How so many ranks are shown in `room` rows, unless a person chose."""
    if ranks >= MAP_RANKS:
        return DeviceLook.MAP
    return DeviceLook.BLOCKS if _block_height(hosts, width, room) >= LEAST or ranks == 1 else DeviceLook.LINES


def plan_of(
    look: DeviceLook, hosts: Sequence[Sequence[RankView]], width: int, room: int, *, halves: bool, heads: bool
) -> Plan:
    """The rows for these ranks, host by host, each host with a row of its own if there are `heads`.

    `halves` allows two ranks on a row of the map, which is used if they would not fit otherwise.
    """
    if look is DeviceLook.BLOCKS:
        per = _columns(width)
        height = min(max(_block_height(hosts, width, room), LEAST), MOST)
    else:
        count = sum(map(len, hosts))
        per, height = (2 if look is DeviceLook.MAP and halves and count > room else 1), 1
    places: list[DeviceRow] = []
    for members in hosts:
        numbers = [each.rank.rank for each in members]
        if heads and look is not DeviceLook.MAP:
            places.append(DeviceRow(tuple(numbers), head=True))
        for at in range(0, len(numbers), per):
            some = tuple(numbers[at : at + per])
            places += [DeviceRow(some, line) for line in range(height)]
    return Plan(look, tuple(places), per, height)


def _columns(width: int) -> int:
    return max(width // WIDTH, 1)


def _block_height(hosts: Sequence[Sequence[RankView]], width: int, room: int) -> int:
    """How many rows each block can have if all are to be seen."""
    per = _columns(width)
    bands = sum(-(-len(members) // per) for members in hosts)
    return (room - len(hosts)) // bands if bands else 0
