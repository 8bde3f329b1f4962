"""From the engine's START to what a gang is started with on this host."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

from launcher.worker import process
from launcher.worker.baggage import Unpacked
from launcher.worker.environ import base_environ, yielding
from launcher.worker.order import Order


def prepare(
    start: Mapping[str, Any], payload: bytes, bundle: Unpacked | None, root: str, *, files: int = -1
) -> Order:
    """The order that a START frame stands for.

    With `inherit`, ranks get this process's own environment and interpreter, as what Spark started here
    would; without it, exactly what the engine says.

    Args:
        start: the document of the frame.
        payload: the pickle that came before it.
        bundle: the target's sources, where it came with some.
        root: the folder or zip that holds `launcher`.
        files: how many open files a rank may have; -1 leaves it what we have.

    Raises:
        OSError: there is no memory for the program.
    """
    python, cwd = start["python"] or sys.executable, _cwd(start["cwd"], bundle)
    env, ranks = start["env"], start["ranks"]
    if start.get("inherit"):
        env = base_environ(os.environ, env, python=python)
        ranks = {rank: yielding(own, os.environ) for rank, own in ranks.items()}
    return Order(
        python=python,
        root=root,
        cwd=cwd,
        env=env,
        ranks={int(rank): own for rank, own in ranks.items()},
        program=process.memory_file(b"%s\n%s" % (_program(start["program"], bundle, cwd), payload)),
        grace_s=float(start["grace_s"]),
        copied=bundle.copied if bundle else "",
        files=files,
    )


def _program(program: Mapping[str, Any], bundle: Unpacked | None, cwd: str) -> bytes:
    """What ranks read: the target, where to import from, and how to name files in tracebacks."""
    document = dict(program)
    if bundle:
        # what came with the run goes before what lies here under the same name, and may be older
        beyond = [] if bundle.source else [cwd]
        document["path"] = [*bundle.path, *document["path"], *beyond]
        document["lead"] = bundle.lead
        document["names"] = [bundle.copied, ""]
        if bundle.source:
            document["target"] = {**document["target"], "source": bundle.source}
    return json.dumps(document).encode()


def _cwd(wanted: str, bundle: Unpacked | None) -> str:
    """The caller's working directory where this host has it, else the folder of the target's sources."""
    here = os.path.isdir(wanted) and os.access(wanted, os.X_OK)
    return bundle.lead if bundle and not here else wanted
