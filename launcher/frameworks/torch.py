"""torchrun's worker contract, complete: any script written for torchrun runs unchanged.

The list of variables is that of torch.distributed.run 2.13; NODE_RANK is added because some frameworks
read it and torchrun does not set it.
"""

from __future__ import annotations

import ast
import re
import types
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..agent import build_locks, import_hooks
from ..agent.raising import GROUPS
from ..spec.places import Assignment
from .base import Framework, Rendezvous

_LOCKS = "torch.utils.file_baton"
_TOGETHER = ("torch.distributed", "torch.nn.parallel")
_WORDS = ("torch.distributed", "torch.nn.parallel", "from torch")
_MENTIONED = re.compile(
    r"\btorch\.(?:distributed|nn\.parallel)\b|^\s*from\s+torch(?:\.nn)?\s+import\b.*(?:distributed|parallel|\()",
    re.MULTILINE,
)

_newest_groups: deque[Any] = deque(maxlen=16)
"""Held because a DDP that outlives `destroy_process_group`, as in most functions, must not be the last to
hold its group: torch 2.13 frees it under Python's lock, and joins a thread that may wait for the lock."""


def environ(place: Assignment, rendezvous: Rendezvous) -> dict[str, str]:
    """The variables of one rank."""
    values = {
        "RANK": place.rank,
        "WORLD_SIZE": place.world_size,
        "LOCAL_RANK": place.local_rank,
        "LOCAL_WORLD_SIZE": place.local_world_size,
        "GROUP_RANK": place.node_rank,
        "GROUP_WORLD_SIZE": place.node_count,
        "NODE_RANK": place.node_rank,
        "ROLE_NAME": "default",
        "ROLE_RANK": place.rank,
        "ROLE_WORLD_SIZE": place.world_size,
        "MASTER_ADDR": rendezvous.address,
        "MASTER_PORT": rendezvous.port,
        "TORCHELASTIC_RUN_ID": rendezvous.run_id,
        "TORCHELASTIC_RESTART_COUNT": rendezvous.restart_count,
        "TORCHELASTIC_MAX_RESTARTS": rendezvous.max_restarts,
        "TORCHELASTIC_USE_AGENT_STORE": rendezvous.hosted,
        "TORCHELASTIC_ERROR_FILE": "",
    }
    return {name: str(value) for name, value in values.items()}


def network(interface: str) -> dict[str, str]:
    """The variables that make gloo and NCCL use a network interface; none if it is unknown.

    Gloo otherwise uses the address of the host's name, which is often loopback. NCCL reads a bare name as
    a prefix, so that ``eth1`` would match ``eth10`` too.
    """
    if not interface:
        return {}
    return {"GLOO_SOCKET_IFNAME": interface, "NCCL_SOCKET_IFNAME": f"={interface}"}


def defaults(interface: str) -> dict[str, str]:
    """The variables of a rank that apply unless the user or the host has set them."""
    return {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "1", **network(interface)}


def trains_together(source: str) -> bool:
    """Whether the source uses `torch.distributed` or `torch.nn.parallel`; text about them does not count."""
    # parsing takes a hundred times as long as matching, and that as searching
    if not any(word in source for word in _WORDS) or _MENTIONED.search(source) is None:
        return False
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(name.startswith(_TOGETHER) for node in ast.walk(tree) for name in _named(node))


def _named(node: ast.AST) -> Iterator[str]:
    """The modules that a node of a syntax tree names."""
    match node:
        case ast.Import():
            yield from (alias.name for alias in node.names)
        case ast.ImportFrom(module=str(module), level=0):
            yield from (f"{module}.{alias.name}" for alias in node.names)
        case ast.Attribute(attr="distributed" | "parallel"):
            yield ast.unparse(node)


def on_import(module: types.ModuleType, joined: Callable[[int], None]) -> None:
    """Learn the size of the default group whenever one is made; every framework on torch makes it here.

    Extensions are built under locks, of which killed runs leave some.
    """
    if module.__name__ == _LOCKS:
        return build_locks.clear_stale_locks(module.FileBaton)

    def on_default_group(*_: object) -> None:
        joined(module.get_world_size())
        _newest_groups.append(module.group.WORLD)

    import_hooks.around(module, "init_process_group", after=on_default_group)
    import_hooks.around(module, "new_group", after=lambda group, _: _newest_groups.append(group))
    return None


def in_use(modules: Mapping[str, Any]) -> bool:
    """Whether this process has trained: torch marks the `step` of every optimizer class that was made."""
    optim = modules.get("torch.optim")
    classes = [optim.Optimizer] if optim is not None else []
    for kind in classes:
        classes += kind.__subclasses__()
    return any(getattr(vars(kind).get("step"), "hooked", False) for kind in classes)


CONTRACT: Mapping[str, Any] = {"environ": environ, "defaults": defaults, "store": True}
"""What the rows of frameworks have in common that build on torch and read the same variables."""

TORCH = Framework(
    "torch",
    matches=trains_together,
    **CONTRACT,
    packages=("torch",),
    watches=(GROUPS, _LOCKS),
    cure="call torch.distributed.init_process_group() in every rank",
)
