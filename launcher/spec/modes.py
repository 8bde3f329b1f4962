"""The modes, and a table of what the backend of each mode is and can do.

No other module compares modes: it uses the mode's row (`spec.mode.traits.plans_ahead`). So a new backend is a
row here, a factory in `launcher.backends.registry`, and its own file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

SPARK = "spark"
"""The group of options that apply to Spark."""


@dataclass(frozen=True, slots=True)
class ModeTraits:
    """The properties of one backend.

    Attributes:
        place: where ranks run, for people.
        plans_ahead: its offers, and so every rank's place, are known before any agent has started.
        one_host: all its agents are on one host.
        scheduled: a scheduler assigns the agents' slots, may let them wait, and may take slots back.
        inherits: ranks get the environment and interpreter of the run's caller; else those of their hosts.
        ships_sources: its hosts have none of the caller's files, so the target's sources are sent along.
        takes: the groups of options that apply to it.
        address: the option with its address, which is a field of `SparkSpec` too; empty if it has none.
        example: such an address.
        through_server: agents are started through a Connect server.
        keeps_session: runs share a Spark session, and each session has its own engine.
        needs_java: this machine needs Java.
        task: the scheduler's name for an agent.
        python: which interpreter ranks use if they do not inherit one.
        python_named: the variable or setting that selects it.
    """

    place: str
    plans_ahead: bool = False
    one_host: bool = False
    scheduled: bool = True
    inherits: bool = False
    ships_sources: bool = True
    takes: frozenset[str] = frozenset()
    address: str = ""
    example: str = ""
    through_server: bool = False
    keeps_session: bool = False
    needs_java: bool = False
    task: str = "task"
    python: str = ""
    python_named: str = ""


class Mode(StrEnum):
    """How the ranks' agents are started."""

    LOCAL = "local"
    CLUSTER = "cluster"
    CONNECT = "connect"

    @property
    def traits(self) -> ModeTraits:
        """What its backend is and can do."""
        return TRAITS[self]


TRAITS: Mapping[Mode, ModeTraits] = {
    Mode.LOCAL: ModeTraits(
        "this machine",
        plans_ahead=True,
        one_host=True,
        scheduled=False,
        inherits=True,
        ships_sources=False,
    ),
    Mode.CLUSTER: ModeTraits(
        "a Spark cluster",
        takes=frozenset({SPARK}),
        address="master",
        example="spark://host:7077",
        keeps_session=True,
        needs_java=True,
        task="barrier task",
        python="the executors' own",
        python_named="PYSPARK_PYTHON or spark.pyspark.python",
    ),
    Mode.CONNECT: ModeTraits(
        "a Spark Connect server",
        takes=frozenset({SPARK}),
        address="remote",
        example="sc://host:15002",
        through_server=True,
        keeps_session=True,
        task="barrier task",
        python="the executors' own",
        python_named="PYSPARK_PYTHON or spark.pyspark.python",
    ),
}
DEFAULT_MODE = Mode.LOCAL
ADDRESSES = tuple(row.address for row in TRAITS.values() if row.address)
"""The options that are an address."""


def recorded_traits(mode: str) -> ModeTraits | None:
    """The row of a mode in a record; None for a mode that only another version knows."""
    return next((row for known, row in TRAITS.items() if known == mode), None)


def implied_mode(given: Mapping[str, object]) -> Mode | None:
    """The mode that follows from the options that are given; None if none of them is an address."""
    return next((mode for mode in reversed(Mode) if given.get(mode.traits.address)), None)


def modes_taking(group: str) -> tuple[Mode, ...]:
    """The modes to which a group of options applies."""
    return tuple(mode for mode, row in TRAITS.items() if group in row.takes)
