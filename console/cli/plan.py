"""`rankdeck run --dry-run`: who would go where with what, as far as it is known before anything starts."""

from __future__ import annotations

import io
import shlex
import sys
import zipfile

from launcher.distributor import plan_for
from launcher.placement.plan import THREADS, Plan
from launcher.spec.bundle import MANIFEST, SOURCES, make_bundle
from launcher.spec.job import JobSpec
from launcher.spec.request import Request

from ..echo import say, tell
from ..formatting import size_text
from ..sanitize import escaped


def print_plan(request: Request) -> int:
    """What would be started, on standard output; what to know of it, on standard error."""
    plan, spec = plan_for(request), request.spec.redacted()
    _row(f"target   {shlex.join([spec.target.label, *spec.target.args])}")
    _row(f"workdir  {spec.workdir}")
    if plan is None:
        _print_stage(request.spec)
    else:
        _row(f"python   {request.python}")
        _print_places(plan)
    for name, value in spec.env.items():
        _row(f"env      {name}={value}")
    for note in plan.notes if plan else ():
        say(f"note: {note}")
    return 0


def _row(text: str) -> None:
    """A line of the plan, in which nothing that a terminal would obey is left out unseen."""
    tell(escaped(text))


def _print_places(plan: Plan) -> None:
    for place in plan.ranks:
        devices = ", ".join(f"{d.uuid} ({d.name})" for d in place.devices) or "cpu"
        _row(
            f"rank {place.rank}   host {place.host}  local rank {place.local_rank} of "
            f"{place.local_world_size}  node {place.node_rank}  {devices}  {THREADS}={place.threads}"
        )


def _print_stage(spec: JobSpec) -> None:
    """What a scheduler is asked for: hosts and devices are known when its tasks run."""
    traits = spec.mode.traits
    each, tasks = spec.ranks_per_task, spec.num_processes // spec.ranks_per_task
    shown = spec.redacted().spark
    named = shown.master or shown.remote or "what the session or the environment says"
    gpus = "no" if spec.gpu is False else str(spec.gpus_per_task or spec.gpus_per_rank)
    wanted = f"{gpus} GPUs" + ("" if spec.gpu is not None else " where there are any")
    if traits.address:
        _row(f"spark    {named}")
    for name, value in shown.conf.items():
        _row(f"conf     {name}={value}")
    _row(f"python   {': '.join(filter(None, (traits.python or sys.executable, traits.python_named)))}")
    _row(f"stage    {tasks} {traits.tasks} of {each} ranks, each with {wanted}")
    if spec.min_processes is not None:
        _row(f"ranks    {spec.min_processes} to {spec.num_processes}")
    if traits.ships_sources:
        _row(f"sent     {_sent(make_bundle(spec))}")
    server = ", or through the Connect server" if traits.through_server else ""
    spool = f", or by {spec.spark.spool}" if spec.spark.spool else ""
    _row(f"output   live{server}{spool}")


def _sent(bundle: bytes) -> str:
    """How many files the ranks would get, and which come first."""
    with zipfile.ZipFile(io.BytesIO(bundle)) as archive:
        names = [name.removeprefix(SOURCES) for name in archive.namelist() if name != MANIFEST]
    first = ", ".join(names[:5])
    more = f" and {len(names) - 5} more" if len(names) > 5 else ""
    return f"{len(names)} files, {size_text(len(bundle))}: {first}{more}"
