"""What to run, and where each rank goes: frozen values, checked when they are made.

A leaf: it imports only the errors. Nothing here touches the file system; whether a file exists or a
function takes a parameter is `launcher.target`'s to say.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from launcher.errors import SpecError

REDACTED = "***"
_SECRET = re.compile(
    r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH|COOKIE|SESSION|PRIVATE|JWT|_(?:PWD|PAT|DSN)\b", re.IGNORECASE
)


class Mode(StrEnum):
    """How the ranks' agents are started."""

    LOCAL = "local"
    CLUSTER = "cluster"
    CONNECT = "connect"


class TargetKind(StrEnum):
    """What the target is: a script, a function found by name, or a pickled callable."""

    SCRIPT = "script"
    FUNCTION = "function"
    CALLABLE = "callable"


@dataclass(frozen=True, slots=True)
class Target:
    """The program that every rank runs.

    Attributes:
        kind: script, function or callable.
        source: path of a file, or dotted name of a module; for a callable, where it was defined.
        name: the function's name; empty for a script.
        args: a script's argv; a function's positional arguments as Python literals.
        kwargs: a function's keyword arguments as Python literals, in order.
        pickled: the arguments (or the callable with them) travel as a pickle beside this value, and
            `args` and `kwargs` are their representations, for people only.
    """

    kind: TargetKind
    source: str
    name: str = ""
    args: tuple[str, ...] = ()
    kwargs: tuple[tuple[str, str], ...] = ()
    pickled: bool = False

    @property
    def label(self) -> str:
        """The target as a person would type it, without arguments."""
        return f"{self.source}:{self.name}" if self.name else self.source

    @property
    def is_file(self) -> bool:
        """Whether `source` is a path rather than a dotted module name."""
        return self.source.endswith(".py") or "/" in self.source


@dataclass(frozen=True, slots=True)
class JobSpec:
    """One run, as asked for.

    Attributes:
        target: what every rank runs.
        num_processes: the world size, at least 1.
        mode: local, cluster or connect.
        gpu: True demands a GPU per rank, False hides them, None takes GPUs if there are enough.
        name: a label for people; defaults to the target's own name.
        workdir: the ranks' working directory; an absolute path.
        env: additions to the ranks' environment, on top of the caller's.
        grace_s: seconds between SIGTERM and SIGKILL.
        timeout_s: wall-clock limit of the run, or None.
        sample_s: seconds between device samples.
    """

    target: Target
    num_processes: int = 1
    mode: Mode = Mode.LOCAL
    gpu: bool | None = None
    name: str = ""
    workdir: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    grace_s: float = 10.0
    timeout_s: float | None = None
    sample_s: float = 1.0

    def __post_init__(self) -> None:
        if self.num_processes < 1:
            raise SpecError(f"the number of processes must be at least 1, not {self.num_processes}")
        for label, value in (("grace period", self.grace_s), ("time limit", self.timeout_s)):
            if value is not None and not value >= 0:
                raise SpecError(f"the {label} must be 0 or more seconds, not {value}")
        if not self.sample_s > 0:
            raise SpecError(f"the sample interval must be more than 0 seconds, not {self.sample_s}")
        _check_environ(self.env)

    @property
    def label(self) -> str:
        """The run's name, or what it runs if it was given none."""
        return self.name or self.target.name or self.target.source.rpartition("/")[2]

    def redacted(self) -> JobSpec:
        """The same spec with the values of environment names that look secret replaced."""
        env = {k: REDACTED if looks_secret(k) else v for k, v in self.env.items()}
        return replace(self, env=env)


def _check_environ(env: Mapping[Any, Any]) -> None:
    """What no process can be started with is refused here; a notebook may give numbers for text."""
    for key, value in env.items():
        if not isinstance(key, str) or not key or "=" in key or "\0" in key:
            raise SpecError(f"{key!r} cannot be the name of an environment variable")
        if not isinstance(value, str) or "\0" in value:
            raise SpecError(f"the environment variable {key} must be text without NUL, not {value!r}")


def looks_secret(name: str) -> bool:
    """Whether an environment variable of this name usually holds something not to be written down."""
    return _SECRET.search(name) is not None


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU of a host, as NVML names it."""

    index: int
    uuid: str
    name: str = ""
    memory: int | None = None


@dataclass(frozen=True, slots=True)
class Offer:
    """What one agent can hold: its host, its cores, its devices, and how many ranks (None: any)."""

    agent: int
    host: str
    cores: int
    devices: tuple[Device, ...] = ()
    slots: int | None = None


@dataclass(frozen=True, slots=True)
class Assignment:
    """One rank's place. Local ranks are counted by host, and ranks of one host are contiguous.

    Attributes:
        rank, world_size: place in the gang.
        local_rank, local_world_size: place on the host.
        node_rank, node_count: place of the host.
        agent: the agent that supervises it.
        devices: the GPUs that are this rank's own; empty on CPU.
        visible: what CUDA_VISIBLE_DEVICES says, or None to leave it alone. Every GPU of the gang on
            this host is named, in local-rank order, because scripts select ``cuda:LOCAL_RANK``.
        threads: the rank's share of the host's cores.
    """

    rank: int
    world_size: int
    local_rank: int
    local_world_size: int
    node_rank: int
    node_count: int
    agent: int
    host: str
    devices: tuple[Device, ...] = ()
    visible: str | None = None
    threads: int = 1


def as_literal(value: Any) -> str:
    """A value as Python source that `ast.literal_eval` turns back into it."""
    return repr(value)
