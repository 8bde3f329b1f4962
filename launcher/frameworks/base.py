"""What a framework is: how each rank of a worker group learns its place, as environment and arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..spec.places import Assignment


@dataclass(frozen=True, slots=True)
class Rendezvous:
    """Where rank 0's store listens, and what the gang is called.

    Attributes:
        address, port: rank 0's address, as every rank reaches it, and a port that its agent holds.
        run_id: the run.
        restart_count: how often the gang has been started again; 0 for the first attempt.
        max_restarts: how often it may be.
    """

    address: str
    port: int
    run_id: str
    restart_count: int = 0
    max_restarts: int = 0


def _no_defaults(interface: str) -> Mapping[str, str]:
    del interface
    return {}


def _as_given(place: Assignment, rendezvous: Rendezvous, args: Sequence[str]) -> Sequence[str]:
    del place, rendezvous
    return args


@dataclass(frozen=True, slots=True)
class Framework:
    """A row of `launcher.frameworks.registry`. All of it is pure, and nothing imports the framework itself.

    Attributes:
        name: the framework's.
        matches: whether the text of a target's source uses it.
        environ: the variables of one rank.
        defaults: the variables of one rank that a user's or the host's own values replace, from the name of
            the network interface to use; the name is empty where it is not known.
        argv: a script's arguments for one rank, from those that were given.
    """

    name: str
    matches: Callable[[str], bool]
    environ: Callable[[Assignment, Rendezvous], Mapping[str, str]]
    defaults: Callable[[str], Mapping[str, str]] = _no_defaults
    argv: Callable[[Assignment, Rendezvous, Sequence[str]], Sequence[str]] = _as_given


def imports(source: str, package: str) -> bool:
    """Whether a line of the source imports a package or a part of it."""
    return re.search(rf"^\s*(?:import|from)\s+{re.escape(package)}\b", source, re.MULTILINE) is not None
