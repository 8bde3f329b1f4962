"""The interface of a framework: how it gives each rank its place, as environment and arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..spec.places import Assignment


@dataclass(frozen=True, slots=True)
class Rendezvous:
    """Where rank 0's store listens, and the identity of the gang.

    Attributes:
        address, port: an address of rank 0's host that every rank reaches, and a port that its agent holds.
        run_id: the run's id.
        restart_count: how often the gang has been restarted; 0 for the first attempt.
        max_restarts: how often it may be restarted.
    """

    address: str
    port: int
    run_id: str
    restart_count: int = 0
    max_restarts: int = 0


def _no_defaults(interface: str) -> Mapping[str, str]:
    del interface
    return {}


def _unchanged(place: Assignment, rendezvous: Rendezvous, args: Sequence[str]) -> Sequence[str]:
    del place, rendezvous
    return args


@dataclass(frozen=True, slots=True)
class Framework:
    """A row of `launcher.frameworks.registry`. All of it is pure, and nothing imports the framework itself.

    Attributes:
        name: the framework's name.
        matches: whether the text of a target's source uses the framework.
        environ: the variables of one rank.
        defaults: variables of one rank that apply unless the user or the host has set them, from the name of
            the network interface to use, which is empty if unknown.
        argv: a script's arguments for one rank, from those of the request.
    """

    name: str
    matches: Callable[[str], bool]
    environ: Callable[[Assignment, Rendezvous], Mapping[str, str]]
    defaults: Callable[[str], Mapping[str, str]] = _no_defaults
    argv: Callable[[Assignment, Rendezvous, Sequence[str]], Sequence[str]] = _unchanged


def imports(source: str, package: str) -> bool:
    """Whether a line of the source imports a package or a part of it."""
    return re.search(rf"^\s*(?:import|from)\s+{re.escape(package)}\b", source, re.MULTILINE) is not None
