"""The frameworks' own processes beside the ranks of a run, and those below them."""

from __future__ import annotations

from launcher.agent import process
from launcher.agent.services import ray_node
from launcher.state.run_state import RunState


def pid_of(state: RunState, rank: int) -> int:
    """The service beside a rank."""
    return next(service.pid for service in state.services if service.rank == rank)


def part_of(state: RunState, rank: int, name: str) -> int:
    """A process of Ray's below the service beside a rank, by the name of its program."""
    below = process.descendants(pid_of(state, rank))
    return next(pid for pid in below if ray_node.name_of(pid) == name)
