"""What all ranks of a gang share of their environment, wherever the base of it comes from. Pure."""

from __future__ import annotations

import os
from collections.abc import Mapping

# How Spark's Python daemon and the JVM know each other: nothing for a rank to hand on.
_SPARK_ONLY = frozenset(
    {"PYTHON_WORKER_FACTORY_PORT", "PYTHON_WORKER_FACTORY_SECRET", "PYTHON_WORKER_FACTORY_SOCK_PATH"}
)
INTERFACES = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")


def base_environ(own: Mapping[str, str], extra: Mapping[str, str], *, python: str) -> dict[str, str]:
    """An environment to start from, the spec's additions, and unbuffered output.

    The interpreter's folder goes first on PATH, because frameworks run tools (ninja) that a virtual
    environment holds and that an absolute interpreter path does not lead to.

    Args:
        own: the caller's environment, or that of an agent on an executor.
        extra: what the spec adds; it wins.
        python: the ranks' interpreter.
    """
    env = {**{name: value for name, value in own.items() if name not in _SPARK_ONLY}, **extra}
    folder = os.path.dirname(python)
    path = env.get("PATH", os.defpath)
    leads = folder in ("", path.split(os.pathsep)[0])  # an empty entry would mean the working directory
    env["PATH"] = path if leads else f"{folder}{os.pathsep}{path}"
    env["PYTHONUNBUFFERED"] = "1"
    env.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "1")
    return env


def yielding(rank: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """A rank's variables, less the network interfaces that a host's own environment has chosen.

    An administrator who set them for the executors knows more than what a connection has shown.
    """
    return {name: value for name, value in rank.items() if name not in INTERFACES or name not in own}
