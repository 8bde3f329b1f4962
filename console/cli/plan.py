"""`--dry-run`: the placement and inputs of the ranks, as far as known before the start."""

from __future__ import annotations

import shlex
import sys

from launcher.distributor import plan_for
from launcher.errors import size_text
from launcher.frameworks.registry import choose
from launcher.placement.plan import THREADS, Plan
from launcher.spec.environment import carried_by
from launcher.spec.files.bundle import SOURCES
from launcher.spec.files.packing import make_bundle
from launcher.spec.job import JobSpec
from launcher.spec.prediction import Location, Prediction
from launcher.spec.request import Request

from ..data.launch.targets import choice_text
from ..echo import print_text, say
from ..formatting import number
from ..sanitize import escaped


def print_plan(request: Request) -> int:
    """Print the plan on standard output, and notes about it on standard error."""
    plan, spec = plan_for(request), request.spec.redacted()
    _row(f"target   {shlex.join([*spec.target.words, *spec.target.args])}")
    _row(f"workdir  {spec.workdir}")
    if spec.prediction is not None:
        _print_spark(spec)
        _print_prediction(spec.prediction)
        return 0
    if plan is None:
        _print_spark(spec)
        _print_stage(request.spec)
    else:
        _row(f"python   {request.interpreter}")
        _print_places(plan)
    choice = choose(request.spec)
    _row(f"uses     {choice_text(choice)}")
    for name, value in spec.env.items():
        _row(f"env      {name}={value}")
    if carried := [name for name in carried_by(request) if name not in spec.env]:
        _row(f"carried  {', '.join(carried)}")
    for note in (*(plan.notes if plan else ()), *choice.notes(spec)):
        say(f"note: {note}")
    return 0


def _row(text: str) -> None:
    """Print a line of the plan; control characters in it are shown as escapes."""
    print_text(escaped(text))


def _print_places(plan: Plan) -> None:
    for place in plan.ranks:
        devices = ", ".join(f"{d.uuid} ({d.name})" for d in place.devices) or "cpu"
        _row(
            f"rank {place.rank}   host {place.host}  local rank {place.local_rank} of "
            f"{place.local_world_size}  node {place.node_rank}  {devices}  {THREADS}={place.threads}"
        )


def _print_stage(spec: JobSpec) -> None:
    """Print the request to the scheduler; hosts and devices are known only when its tasks run."""
    each, tasks = spec.ranks_per_task, spec.num_processes // spec.ranks_per_task
    gpus = "no GPUs" if spec.gpu is False else number(spec.gpus_per_task or spec.gpus_per_rank, "GPU")
    gpu_text = gpus + ("" if spec.gpu is not None else " where there are any")
    traits = spec.mode.traits
    _row(f"stage    {number(tasks, traits.task)} of {number(each, 'rank')}, each with {gpu_text}")
    if spec.min_processes is not None:
        _row(f"ranks    {spec.min_processes} to {spec.num_processes}")
    if traits.ships_sources:
        _print_sent(spec)
    server = ", or through the Connect server" if traits.through_server else ""
    spool = f", or by {spec.spark.spool}" if spec.spark.spool else ""
    _row(f"output   live{server}{spool}")


def _print_spark(spec: JobSpec) -> None:
    """Print which Spark is asked, and which interpreter its workers have, of a spec without its secrets."""
    traits, shown = spec.mode.traits, spec.spark
    if traits.address:
        _row(f"spark    {shown.master or shown.remote or 'what the session or the environment says'}")
    for name, value in shown.conf.items():
        _row(f"conf     {name}={value}")
    own = ": ".join(filter(None, (traits.python or sys.executable, traits.python_named)))
    _row(f"python   {spec.python or own}")


def _print_prediction(prediction: Prediction) -> None:
    """Print what is read, what the function is given, and what is written."""
    shapes = [f"{name} as {shape}" for name, shape in prediction.shapes.items()]
    columns = ", ".join(prediction.columns) or "all columns"
    cores = "as many workers as the cluster has cores for"
    _row(f"reads    {_described(prediction.source)}")
    _row(f"given    {', '.join([columns, *shapes])}, in batches of {prediction.batch_size:,} rows at most")
    _row(f"writes   {_described(prediction.result)}, with {prediction.column} {prediction.returns}")
    _row(f"exists   {prediction.if_exists}")
    _row(f"by       {cores if prediction.workers is None else number(prediction.workers, 'worker')}")


def _described(location: Location) -> str:
    """A location with its format and its options, of which some may be secret."""
    if not location.name:
        return "a DataFrame of the caller"
    options = [f"{name}={value}" for name, value in location.options.items()]
    kind = "a table" if location.is_table else location.source
    return f"{location.name} ({', '.join([kind, *options])})"


def _print_sent(spec: JobSpec) -> None:
    """Print what travels to hosts that have none of the caller's files, and what does not."""
    manifest = make_bundle(spec).manifest
    _row(
        f"sent     {number(len(manifest.files), 'file')}, {size_text(manifest.size)}, to hosts that lack them"
    )
    for file in manifest.files:
        _row(f"         {file.place.removeprefix(SOURCES)}  {size_text(file.size)}")
    for path, size in manifest.left_out:
        _row(f"not sent {path}  {size_text(size)}: too large to travel unasked; --files {path}")
    for folder, link in manifest.unsent_folders:
        _row(f"not sent {folder}, which {link} leads to, and hosts may have; --files {link}")
    if manifest.private:
        _row(f"not sent what else is in {manifest.private}: it is no folder of this program alone")
    if manifest.keys:
        _row(f"not sent {number(manifest.keys, 'file')} that may be a key; --files sends one that it names")
    if manifest.uncounted:
        _row(f"not sent what lies deepest in {manifest.workdir}: it holds more files than were looked at")
