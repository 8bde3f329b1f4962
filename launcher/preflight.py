"""`doctor`: the checks of a launch before it, from Python. Nothing is started but agents, which leave again.

report = launcher.doctor("train.py", num_processes=8, mode="cluster")
report = launcher.doctor(train, 1e-3, num_processes=2)
"""

from __future__ import annotations

import inspect
import os
import platform
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack

from .agent.host_probe import disk
from .agent.torch_build import torch_version
from .backends.registry import make_backend
from .diagnosis.checks.check import Check, CheckReport, CheckState
from .diagnosis.checks.facts import CallerFacts, CapturedValue, CheckedLaunch, Examined, RefusedLaunch
from .diagnosis.checks.rules import judge
from .diagnosis.checks.sending import PICKLE_WARN
from .distributor import Distributor, LaunchOptions, described, plan_for
from .errors import CannotPlace, LauncherError, SpecError, counted, size_text
from .placement.plan import Plan
from .runs.paths import runs_root
from .spec.files.packing import make_bundle
from .spec.job import JobSpec, Target, TargetKind
from .spec.redaction import Redactor
from .spec.request import Request
from .spec.target_imports import own_folders, target_imports
from .state.host_facts import HostQuestions
from .supervisor.examination import SESSION_S, Examination

__all__ = ["Check", "CheckReport", "CheckState", "doctor"]

_MOST_PATHS, _MOST_CAPTURED = 32, 5


def doctor(
    target: Callable[..., Any] | str | None = None,
    /,
    *args: Any,
    num_processes: int = 1,
    mode: str = "local",
    spark: Any = None,
    parameters: Mapping[str, Any] | None = None,
    **options: Unpack[LaunchOptions],
) -> CheckReport:
    """Check whether a launch can work, and where it cannot, say why and what to do.

    Agents are started by the usual way, as many as the run would have; each looks at its host and leaves. No
    rank is started, and no run is recorded.

    Args:
        target: what would be run, as for `Distributor.start`; None to check the places alone.
        *args: its positional arguments.
        num_processes: the world size.
        mode: as for `Distributor`.
        spark: as for `Distributor`.
        parameters: the function's keyword arguments.
        **options: the launch options, as for `Distributor`.

    Raises:
        SpecError: an option is not allowed, or there is no such target.
    """
    distributor = Distributor(num_processes, mode, spark=spark, **options)
    prepared = _prepared(distributor, target, args, parameters or {})
    return prepared.judge(prepared.examine())


def _prepared(
    distributor: Distributor,
    target: Callable[..., Any] | str | None,
    args: tuple[Any, ...],
    parameters: Mapping[str, Any],
) -> PreparedCheck:
    if target is None:
        spec = distributor.spec_of(Target(TargetKind.SCRIPT, ""))
        return prepare(Request(spec, session=distributor.session))
    try:
        request = distributor.request(target, *args, **parameters)
    except SpecError as error:
        if isinstance(target, str):
            raise
        request = Request(distributor.spec_of(described(target, parameters)), session=distributor.session)
        return prepare(request, refused=error)
    return prepare(request, value=target if callable(target) else None)


@dataclass(frozen=True, slots=True)
class PreparedCheck:
    """A launch to be checked, with what is known before any host is asked.

    Attributes:
        request: the launch.
        asking: the same as agents are started for it.
        plan: every rank's place, where it is known beforehand.
        caller: this machine.
        questions: what hosts are asked.
    """

    request: Request
    asking: Request
    plan: Plan | None
    caller: CallerFacts
    questions: HostQuestions

    def examine(self, *, gone: int = -1) -> Examined:
        """Ask the hosts; agents are started by this process. `gone`: as for `Examination`."""
        backend = make_backend(self.asking.spec.mode)
        return Examination(self.asking, self.plan, backend, self.questions, gone=gone).run()

    def judge(self, examined: Examined) -> CheckReport:
        """The report of what came of it."""
        return judge(CheckedLaunch(self.request.spec, self.caller, examined))


def prepare(request: Request, *, refused: LauncherError | None = None, value: Any = None) -> PreparedCheck:
    """Find out about this machine, and what hosts are to be asked.

    Args:
        request: the launch.
        refused: why its target cannot be packed.
        value: the function, if it is one of this process.

    Raises:
        SpecError: the launch is not allowed.
    """
    spec = request.spec
    imports = target_imports(request) if refused is None else None
    sent, refusal = _sent(spec, refused)
    placement, plan, asking = _placed(request)
    option_paths = {spec.spark.spool: "--spool"} if spec.spark.spool else {}
    argument_paths = () if spec.mode.traits.one_host else tuple(dict.fromkeys(_argument_paths(spec)))
    size = len(request.payload) if request.payload is not None else None
    caller = CallerFacts(
        python=platform.python_version(),
        torch=torch_version(),
        java=_java(request),
        runs=disk(str(runs_root())),
        placement=placement,
        target=refusal,
        needed=imports.needed if imports else (),
        lazy=imports.lazy if imports else (),
        parsed=imports.read if imports else None,
        pickle=size,
        captured=tuple(captured(value)) if value is not None and (size or 0) >= PICKLE_WARN else (),
        option_paths=option_paths,
        argument_paths=argument_paths[:_MOST_PATHS],
        workdir=disk(spec.workdir),
        sent=sent,
    )
    questions = HostQuestions(
        modules=(*caller.needed, *caller.lazy),
        folders=_import_folders(request),
        python=spec.python,
        paths=(*option_paths, *argument_paths[:_MOST_PATHS]),
    )
    return PreparedCheck(request, asking, plan, caller, questions)


def _placed(request: Request) -> tuple[RefusedLaunch | None, Plan | None, Request]:
    """Why the ranks have no place here, their places, and the request for which agents are started.

    That has fresh agents, which fork nothing, and does not wait for as long as a run would. Where the ranks
    have no place on this machine, one agent can still look at it.
    """
    bare = replace(request, payload=None, bundle=None, path=())
    spec = replace(
        request.spec, fresh=True, track=(), start_timeout_s=min(SESSION_S, request.spec.start_timeout_s)
    )
    asking = replace(bare, spec=spec)
    if not spec.mode.traits.plans_ahead:
        return None, None, asking
    try:
        return None, plan_for(asking), asking
    except LauncherError as error:  # if it is not about places, it is raised below
        alone = replace(spec, num_processes=1, min_processes=None, gpu=False, roles={}, framework="none")
        asking = replace(bare, spec=alone)
        return RefusedLaunch.of(error), plan_for(asking), asking


def _java(request: Request) -> str | None:
    """Why there is no Java where one is needed; None if none is needed."""
    if not request.spec.mode.traits.needs_java or request.session is not None:
        return None
    from .backends.spark.jvm import need_java  # only a cluster's launch needs it

    try:
        need_java(request.environ)
    except CannotPlace as error:
        return error.message
    return ""


def _sent(spec: JobSpec, refused: LauncherError | None) -> tuple[str, RefusedLaunch | None]:
    """How the target's files travel, or why they cannot."""
    if refused is not None:
        return "", RefusedLaunch.of(refused)
    if not spec.mode.traits.ships_sources or not spec.target.source:
        return "", None
    try:
        manifest = make_bundle(spec).manifest
    except SpecError as error:
        return "", RefusedLaunch.of(error)
    return (
        f"{counted(len(manifest.files), 'file')} of {size_text(manifest.size)} travel to hosts without them",
        None,
    )


def _import_folders(request: Request) -> tuple[str, ...]:
    """The folders from which ranks import too, by their environment."""
    own = request.environ if request.spec.mode.traits.inherits else {}
    path = {**own, **request.spec.env}.get("PYTHONPATH", "")
    return tuple(filter(os.path.isabs, (*path.split(os.pathsep), *request.path)))


def _argument_paths(spec: JobSpec) -> Iterator[str]:
    """The absolute paths in arguments and variables that exist here and do not travel; no secret is one."""
    own, redactor = own_folders(spec), Redactor()
    words = [("", word.rpartition("=")[2]) for word in spec.target.args]
    words += [(name, value.strip("'\"")) for name, value in spec.target.kwargs]
    words += spec.env.items()
    for name, word in dict.fromkeys(words):
        if not word.startswith("/") or word == "/" or redactor.mask(word, name) != word:
            continue
        path = Path(os.path.normpath(word))
        travels = any(path.is_relative_to(folder) for folder in own) or word in spec.files
        if not travels and os.path.exists(path):
            yield str(path)


def captured(function: Any) -> list[CapturedValue]:
    """The largest values that a function takes along into its pickle, the largest first."""
    function = inspect.unwrap(getattr(function, "func", function))
    try:
        found = inspect.getclosurevars(function)
    except (TypeError, ValueError):
        return []
    values = {**found.globals, **found.nonlocals}
    sizes = [
        CapturedValue(name, type(value).__name__, _pickled_size(value)) for name, value in values.items()
    ]
    return sorted(sizes, key=lambda each: -each.size)[:_MOST_CAPTURED]


def _pickled_size(value: Any) -> int:
    """The size of a value's pickle; 0 of one that cannot be pickled by itself."""
    import cloudpickle

    try:
        return len(cloudpickle.dumps(value))
    except Exception:  # noqa: BLE001  a user's __reduce__ may raise anything
        return 0
