"""`Distributor`: start a training on many ranks from Python, and get its value or its failure.

value = Distributor(num_processes=8).run(train, 1e-3)
job = Distributor(num_processes=2).start("train.py", "--lr=0.1")
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from launcher.backends import Backend
from launcher.backends.local import LocalBackend
from launcher.bundle import make_bundle
from launcher.errors import LauncherError, SpecError
from launcher.job import Job
from launcher.origin import begin
from launcher.pack import pack
from launcher.plan import Plan, make_plan
from launcher.refusal import record_refusal
from launcher.request import Request, require_workdir
from launcher.runs.catalog import create_folder
from launcher.runs.paths import runs_root
from launcher.spec import JobSpec, Mode, SparkSpec, TargetKind
from launcher.supervisor import Supervisor


class Distributor:
    """How to launch: the world size, where, and with what. It holds no resources and may be reused.

    Args:
        num_processes: the world size.
        mode: ``"local"`` (this machine), ``"cluster"`` (a Spark cluster) or ``"connect"`` (through a Spark
            Connect server). Cluster mode uses the Spark session that is active here, of either kind.
        gpu: True demands GPUs for every rank, False hides them, None takes GPUs if there are enough.
        min_processes: go on with fewer ranks than `num_processes`, but no fewer than this.
        gpus_per_rank: GPUs that each rank has for itself.
        gpus_per_task: GPUs of one Spark task, whose ranks share it.
        env: additions to the ranks' environment.
        workdir: the ranks' working directory; the caller's by default.
        name: a label for people.
        grace_s: seconds between SIGTERM and SIGKILL when a run is stopped.
        timeout_s: the run's time limit in seconds.
        sample_s: seconds between device samples.
        max_restarts: how often the gang may be started again after a failure or a loss.
        start_timeout_s: seconds that the run may wait for slots.
        py_files: Python files, folders and zips to send along.
        spark: the Spark session to use, or a `SparkSpec` of one to make; by default the active one, or
            what the environment says.
        no_progress_timeout_s: seconds without output, report or step after which the gang counts as hung.
        root: the folder of run folders, if not the usual one.

    Raises:
        SpecError: a value that cannot be right.
    """

    def __init__(
        self,
        num_processes: int = 1,
        mode: str = "local",
        *,
        gpu: bool | None = None,
        env: Mapping[str, str] | None = None,
        workdir: str | os.PathLike[str] | None = None,
        name: str = "",
        grace_s: float = 10.0,
        timeout_s: float | None = None,
        sample_s: float = 1.0,
        min_processes: int | None = None,
        gpus_per_rank: int = 1,
        gpus_per_task: int | None = None,
        max_restarts: int = 0,
        start_timeout_s: float = 600.0,
        py_files: Sequence[str | os.PathLike[str]] = (),
        spark: Any = None,
        no_progress_timeout_s: float | None = None,
        root: Path | None = None,
    ) -> None:
        self._mode = _mode(mode)
        described = isinstance(spark, SparkSpec)
        self._session = None if described else spark
        self._options: dict[str, Any] = {
            "spark": spark if described else SparkSpec(),
            "min_processes": min_processes,
            "gpus_per_rank": gpus_per_rank,
            "gpus_per_task": gpus_per_task,
            "max_restarts": max_restarts,
            "start_timeout_s": start_timeout_s,
            "py_files": tuple(map(os.fspath, py_files)),
            "num_processes": num_processes,
            "gpu": gpu,
            "env": dict(env or {}),
            "workdir": str(Path(workdir or Path.cwd()).absolute()),
            "name": name,
            "grace_s": grace_s,
            "timeout_s": timeout_s,
            "sample_s": sample_s,
            "no_progress_timeout_s": no_progress_timeout_s,
        }
        self._root = root

    def run(self, target: Callable[..., Any] | str, *args: Any, **kwargs: Any) -> Any:
        """Start, wait, and return rank 0's value; see `start` for the target.

        Ctrl-C stops the run, waits until nothing of it is alive, and is raised again.

        Raises:
            RankFailed: training failed.
            LauncherError: anything else that ended it.
        """
        job = self.start(target, *args, **kwargs)
        try:
            return job.result()
        except KeyboardInterrupt:
            job.stop(reason="interrupted", exit_code=130)
            _wait_or_kill(job)
            raise

    def start(self, target: Callable[..., Any] | str, *args: Any, **kwargs: Any) -> Job:
        """Start a run and return at once.

        Args:
            target: a callable (closures, lambdas and functions of a notebook included), a script
                ``"train.py"`` with its argv as `args`, or ``"train.py:fn"`` or ``"package.module:fn"``.
            *args: the script's argv, or the function's positional arguments.
            **kwargs: the function's keyword arguments.

        Raises:
            SpecError: the target or its arguments cannot be right; nothing was started.
        """
        packed, payload = pack(target, args, kwargs, workdir=Path(self._options["workdir"]))
        spec = JobSpec(target=packed, mode=self._mode, **self._options)
        # a script is a program of its own, but a function lives among the caller's modules
        path = () if packed.kind is TargetKind.SCRIPT else tuple(sys.path)
        request = Request(spec, payload=payload, path=path, session=self._session)
        return launch(request, root=self._root)


def launch(request: Request, *, root: Path | None = None, backend: Backend | None = None) -> Job:
    """Start a checked request in this process.

    Raises:
        SpecError, CannotPlace: it cannot be placed.
        RecordError: the run folder cannot be made.
    """
    root = root or runs_root()
    given, request = request, packed(request)
    backend = backend or backend_for(request.spec.mode)
    try:
        plan = plan_for(request, backend)
    except SpecError:
        raise
    except LauncherError as error:  # a request that might have been right is part of the history
        record_refusal(request, error, root)
        raise
    folder = create_folder(root, time.time(), request.spec)
    supervisor = Supervisor(request, plan, folder, backend)
    supervisor.submit()
    begin(given, supervisor.mailbox.post)
    return Job(supervisor, folder)


def packed(request: Request) -> Request:
    """With what the target needs from here, where the ranks are elsewhere; their paths are their own.

    Raises:
        SpecError: something that it needs is not here.
    """
    local = request.spec.mode is Mode.LOCAL
    if local and request.spec.py_files:
        raise SpecError("Python files are sent to executors, and the mode is local", hint="use PYTHONPATH")
    if local or request.bundle is not None:
        return request
    return replace(request, bundle=make_bundle(request.spec), path=(), python="")


def plan_for(request: Request, backend: Backend | None = None) -> Plan | None:
    """Where every rank would go: what ``--dry-run`` prints. None where only the agents will know."""
    if backend is None:
        backend = backend_for(request.spec.mode)
        try:
            return plan_for(request, backend)
        finally:
            backend.close(0.0)
    offers, reason = backend.offers(request)
    require_workdir(request.spec)
    return None if offers is None else make_plan(request.spec, offers, gpu_reason=reason)


def backend_for(mode: Mode) -> Backend:
    """The way to start agents in this mode."""
    if mode is Mode.LOCAL:
        return LocalBackend()
    from launcher.backends.spark import SparkBackend

    return SparkBackend(mode)


def _mode(text: str) -> Mode:
    try:
        return Mode(text)
    except ValueError:
        raise SpecError(f"the mode must be one of {', '.join(Mode)}, not {text!r}") from None


def _wait_or_kill(job: Job) -> None:
    try:
        job.wait()
    except KeyboardInterrupt:
        job.stop(force=True, reason="interrupted twice", exit_code=130)
        job.wait()
