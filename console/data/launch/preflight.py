"""The checks of a filled-in launch: its fields, this machine, and those of ``--dry-run``. Blocks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from launcher.diagnosis.checks.check import CheckReport, CheckState
from launcher.distributor import plan_for
from launcher.errors import CannotPlace, size_text
from launcher.frameworks.registry import choose
from launcher.placement.plan import Plan
from launcher.spec.environment import carried_by
from launcher.spec.files.packing import make_bundle
from launcher.spec.job import JobSpec
from launcher.spec.redaction import redacted
from launcher.spec.request import Request

from ...formatting import number, tilde
from ...sanitize import escaped
from .detect import Detected, Line, look, mode_line, room_line
from .draft import Draft, errors_in
from .targets import choice_text

_SHOWN = 64


def preflight(draft: Draft) -> tuple[Line, ...]:
    """What would be started, as pairs of a label and a text.

    Raises:
        Misfit: the launch cannot be started; the error names the field at fault.
    """
    spec = draft.resolved()
    detected = look(os.environ)
    with errors_in("mode"):
        works, how = mode_line(detected, draft)
        if not works:
            raise CannotPlace(how)
    return tuple(_lines(draft, spec, detected, how))


def findings(report: CheckReport) -> tuple[Line, ...]:
    """What checks on the hosts have found, as pairs of a label and a text; those that pass are one line."""
    return tuple((label, escaped(text)) for label, text in _findings(report))


def _findings(report: CheckReport) -> Iterator[Line]:
    if fine := report.having(CheckState.PASS):
        yield CheckState.PASS.value, ", ".join(each.id for each in fine)
    for each in report.checks:
        if each.state != CheckState.PASS:
            yield each.state.value, f"{each.id}: {each.text}"
            if each.remedy:
                yield "", f"→ {each.remedy}"


def _lines(draft: Draft, spec: JobSpec, detected: Detected, how: str) -> Iterator[Line]:
    shown = spec.redacted()
    yield "target", tilde(f"{shown.target.label} {shown.target.arguments}".strip())
    yield "workdir", tilde(spec.workdir)
    yield "mode", f"{spec.mode}: {how}"
    yield "room", room_line(detected, draft)
    request = Request(spec)
    field = "spark" if spec.mode.traits.address else "gpu" if draft.gpu == "yes" else "processes"
    with errors_in(field):
        plan = plan_for(request)
    yield from _stage(request) if plan is None else _places(request, plan)
    choice = choose(spec)
    yield "uses", choice_text(choice)
    for note in choice.notes(spec):
        yield "note", note
    for name, value in shown.env.items():
        yield "env", f"{name}={value}"
    if carried := [name for name in carried_by(request) if name not in shown.env]:
        yield "carried", ", ".join(carried)


def _places(request: Request, plan: Plan) -> Iterator[Line]:
    yield "python", request.interpreter
    for place in plan.ranks[:_SHOWN]:
        devices = ", ".join(f"GPU {d.index} {d.name}" for d in place.devices) or "CPU"
        yield f"rank {place.rank}", f"{place.host}  {devices}  {number(place.threads, 'thread')}"
    if len(plan.ranks) > _SHOWN:
        yield "", f"and {number(len(plan.ranks) - _SHOWN, 'more rank')}"
    for note in plan.notes:
        yield "note", note


def _stage(request: Request) -> Iterator[Line]:
    """Lines on the request to the scheduler; the sources to be sent are bundled for it, as at the start."""
    spec, traits = request.spec, request.spec.mode.traits
    with errors_in("py_files" if spec.py_files else "files" if spec.files else "target"):
        sent = make_bundle(spec).manifest if traits.ships_sources else None
    each = spec.gpus_per_task or spec.gpus_per_rank
    gpus = "no GPU" if spec.gpu is False else f"{number(each, 'GPU')}"
    where = " where there are any" if spec.gpu is None else ""
    if spec.python:
        yield "python", spec.python
    tasks = number(spec.num_processes // spec.ranks_per_task, traits.task)
    yield "stage", f"{tasks}, each with {gpus}{where}"
    if sent is not None:
        yield (
            "sent",
            f"{number(len(sent.files), 'file')}, {size_text(sent.size)}, from {Path(sent.workdir).name}",
        )
        for path, size in sent.left_out:
            yield "not sent", f"{tilde(path)}, {size_text(size)}"
        for folder, link in sent.unsent_folders:
            yield "not sent", f"{tilde(folder)}, where {Path(link).name} leads"
    for name, value in redacted(spec.spark.conf).items():
        yield "conf", f"{name}={value}"
