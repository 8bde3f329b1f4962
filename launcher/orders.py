"""What each agent is told to start: the document of a START frame. Pure.

The engine sends it, and an executor that cannot reach the engine makes the same for itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from launcher.codec import to_plain
from launcher.frameworks.torch import Rendezvous
from launcher.plan import Plan, rank_environ
from launcher.spec import JobSpec, Mode

EXECUTOR_ENV = "spark.executorEnv."


def chosen_environ(spec: JobSpec, base: Mapping[str, str]) -> Mapping[str, str]:
    """The variables that count as the user's own choice, so that nothing is chosen in their place.

    Args:
        spec: the request.
        base: what all ranks share, as in `base_environ`.

    On this machine that is `base`. On executors it is what the spec says, for the ranks and for executors
    in general: their own environment holds an OMP_NUM_THREADS that Spark has put there and nobody chose.
    """
    if spec.mode is Mode.LOCAL:
        return base
    conf = spec.spark.conf.items()
    of_executors = {k.removeprefix(EXECUTOR_ENV): v for k, v in conf if k.startswith(EXECUTOR_ENV)}
    return {**of_executors, **spec.env}


def order_for(
    agent: int,
    plan: Plan,
    *,
    spec: JobSpec,
    rendezvous: Rendezvous,
    base: Mapping[str, str],
    python: str = "",
    path: Sequence[str] = (),
    interfaces: Mapping[int, str] | None = None,
    origin: str = "",
    attempt: int = 0,
) -> dict[str, Any]:
    """The order for one agent; `ranks` is empty if the plan has none for it.

    Args:
        agent: which.
        plan: every rank's place.
        spec: the request.
        rendezvous: where the gang meets.
        base: in local mode what all ranks share; elsewhere agents start from their own environment, and
            this is not looked at.
        python: the ranks' interpreter; empty for the agent's own.
        path: the caller's `sys.path`, where the target is a function of the caller's own world.
        interfaces: the network interface of each agent, where known.
        origin: the folder on the caller's machine of which the agent gets a copy; empty without one.
        attempt: which attempt of the run this starts, from 0.
    """
    local = spec.mode is Mode.LOCAL
    chosen = chosen_environ(spec, base)
    interface = (interfaces or {}).get(agent, "")
    return {
        "program": {"target": to_plain(spec.target), "path": list(path)},
        "python": python,
        "cwd": spec.workdir,
        "inherit": not local,
        "env": dict(base if local else spec.env),
        "ranks": {
            str(p.rank): rank_environ(p, rendezvous, chosen, interface=interface) for p in plan.on(agent)
        },
        "grace_s": spec.grace_s,
        "origin": origin,
        "attempt": attempt,
    }
