"""What an agent is told to start, and where what comes of it goes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from launcher.worker.wire import Kind


@dataclass(frozen=True, slots=True)
class Order:
    """What the engine asked to be started.

    Attributes:
        python: the ranks' interpreter.
        root: the folder or zip that holds `launcher`.
        cwd: the ranks' working directory.
        env: what all ranks share; `ranks` holds what each has beyond it.
        program: a descriptor that every rank reads its target from.
        grace_s: seconds between SIGTERM and SIGKILL.
        files: how many open files a rank may have; -1 to leave that alone.
        copied: the folder in which the target's sources were unpacked; empty where they lie as they are.
    """

    python: str
    root: str
    cwd: str
    env: Mapping[str, str]
    ranks: Mapping[int, Mapping[str, str]]
    program: int
    grace_s: float
    copied: str = ""
    files: int = -1


class Emit(Protocol):
    """Where frames go."""

    def fact(self, tag: str, fields: Mapping[str, Any]) -> None:
        """A fact; `time` among the fields is on the agent's clock."""

    def raw(self, kind: Kind, data: bytes, *, rank: int, stream: int = 0) -> None:
        """Bytes of a rank."""
