"""The frameworks, and which of them a target uses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import SpecError
from ..spec.job import JobSpec, TargetKind
from ..spec.program_sources import program_sources
from ..spec.request import config_text
from ..state.outcome_rules import listed
from . import ray
from .accelerate import ACCELERATE
from .base import Framework
from .colossalai import COLOSSALAI
from .deepspeed import DEEPSPEED
from .horovod import HOROVOD
from .lightning import LIGHTNING
from .none import NONE
from .ray import RAY
from .tensorflow import TENSORFLOW
from .torch import TORCH
from .transformers import TRANSFORMERS

DEFAULT = TORCH
FRAMEWORKS: tuple[Framework, ...] = (
    RAY,
    HOROVOD,
    COLOSSALAI,
    LIGHTNING,
    DEEPSPEED,
    TRANSFORMERS,
    ACCELERATE,
    TORCH,
    TENSORFLOW,
    NONE,
)
"""In the order in which they are tried: a framework comes before those that it builds on."""


@dataclass(frozen=True, slots=True)
class FrameworkChoice:
    """The framework of a run.

    Attributes:
        framework: the one by whose rules ranks get their places.
        asked: whether it was chosen by name.
        detected: the frameworks that the target's program uses to train together.
        source: the text of the target's own file; empty if it cannot be read from here.
        config: the text of the framework's configuration file; empty without one.
    """

    framework: Framework
    asked: bool = False
    detected: tuple[str, ...] = ()
    source: str = ""
    config: str = ""

    def notes(self, spec: JobSpec) -> tuple[str, ...]:
        """What a person should know before the start."""
        caution = self.framework.caution(self.source) if spec.num_processes > 1 else ""
        return (caution,) if caution else ()


def require_framework(spec: JobSpec) -> None:
    """Refuse options about frameworks that do not fit each other or the target.

    Raises:
        SpecError: as `choose`.
    """
    if spec.deepspeed_config or spec.roles or spec.ray_options:
        choose(spec)
    else:  # reading the program's sources can wait
        asked_for(spec)


def asked_for(spec: JobSpec) -> Framework | None:
    """The framework that was chosen by name, if one was.

    Raises:
        SpecError: there is none of this name, or a group is required of ranks that cannot have one.
    """
    asked = named(spec.framework) if spec.framework else None
    if asked is NONE and spec.require_group:
        raise SpecError("--require-group demands a group, and --framework none is for ranks that have none")
    if spec.require_group and spec.target.kind is TargetKind.PROGRAM:
        raise SpecError("--require-group is for Python: nobody can see whether other programs join a group")
    return asked


def choose(spec: JobSpec) -> FrameworkChoice:
    """The framework of a run: the one that is asked for, else the first that its program uses, else torch.

    Raises:
        SpecError: no framework has the name that is asked for, it has no such role, a group is required of
            ranks that cannot have one, or the configuration is another framework's or cannot be read.
    """
    asked = asked_for(spec)
    texts = list(program_sources(spec.target, Path(spec.workdir)))
    found = detected(texts)
    used = tuple(each.name for each in found)
    chosen = asked or next(iter(found), DEFAULT)
    if spec.deepspeed_config and chosen is not DEEPSPEED:
        hint = "--framework deepspeed, if it is right"
        raise SpecError(f"--deepspeed-config is for DeepSpeed, and the target uses {chosen.name}", hint=hint)
    _require_roles(spec.roles, chosen)
    if spec.ray_options:
        if chosen is not RAY:
            hint = "--framework ray, if it is right"
            raise SpecError(f"--ray-option is for Ray, and the target uses {chosen.name}", hint=hint)
        ray.require_options(spec.ray_options, spec.num_processes)
    return FrameworkChoice(chosen, asked is not None, used, next(iter(texts), ""), config_text(spec))


def _require_roles(roles: Mapping[str, int], chosen: Framework) -> None:
    """Refuse roles that the framework does not know, or of which it has one at most."""
    for name, count in roles.items():
        if name not in chosen.roles:
            known = f"its roles are {listed(chosen.roles)}" if chosen.roles else "it has none"
            raise SpecError(f"{chosen.name} knows no role {name!r}", hint=known)
        if count > 1 and name != chosen.roles[0]:
            raise SpecError(f"{chosen.name} has one {name} at most, not {count}")


def detected(sources: Sequence[str]) -> list[Framework]:
    """The frameworks that the sources of a program use to train together."""
    return [each for each in FRAMEWORKS if any(map(each.matches, sources))]


def named(name: str) -> Framework:
    """The framework of this name.

    Raises:
        SpecError: there is none.
    """
    found = next((each for each in FRAMEWORKS if each.name == name), None)
    if found is None:
        known = ", ".join(each.name for each in FRAMEWORKS)
        raise SpecError(f"there is no framework {name!r}", hint=f"there are {known}")
    return found


def cures() -> dict[str, str]:
    """For each framework, what makes its ranks meet."""
    return {each.name: each.cure for each in FRAMEWORKS}


def watched() -> list[list[Any]]:
    """Each framework's name, packages and watched modules, for `launcher.agent.membership`."""
    return [[f.name, [*f.packages], [*f.watches]] for f in FRAMEWORKS if f.packages or f.watches]
