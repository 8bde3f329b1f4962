"""Agents in Spark tasks that are forks of a zygote, which the workers of one executor share."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import sha256
from typing import Any

from ...agent.first_code import ZYGOTE
from ...agent.warm import client, startup
from ...spec.request import Request
from ..zygotes import modules_for
from .by_value import module_by_value
from .launcher_zip import Archive


def wanted(request: Request, carried: dict[str, str], archive: bytes) -> dict[str, Any] | None:
    """What a run's tasks need of their zygote (`client.WorkersZygote`); None for fresh ranks.

    Args:
        request: the run's.
        carried: the environment that all its ranks share beyond that of their hosts.
        archive: the zip of `launcher`.
    """
    modules = modules_for(request)
    if modules is None:
        return None
    environ = startup.read_at_start(carried)
    # one with cloudpickle has it from the zip, which must not be everybody's
    has = ["torch" in modules, "cloudpickle" in modules]
    kind = [sorted(environ.items()), has, sha256(archive).hexdigest()]
    key = sha256(json.dumps(kind).encode()).hexdigest()[:16]
    family = "torch" if "torch" in modules else "plain"
    return {"family": family, "key": key, "environ": environ, "modules": modules}


def forker(archive: Archive, need: dict[str, Any]) -> Callable[..., Any]:
    """A function that has a worker's zygote fork an agent (`client.WorkersZygote.fork`); pickled by value."""
    module, code = module_by_value(client), ZYGOTE

    def fork(document: dict[str, Any], errors: Any, environ: dict[bytes, bytes]) -> Any:
        return module().WorkersZygote(**need, code=code, archive=archive).fork(document, errors, environ)

    return fork
