"""`Distributor`: start a training on many ranks from Python, and get its value or its failure.

value = Distributor(num_processes=8).run(train, 1e-3)
job = Distributor(num_processes=2).start("train.py", "--lr=0.1")
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from launcher.backends import Backend
from launcher.backends.local import LocalBackend
from launcher.errors import SpecError
from launcher.job import Job
from launcher.pack import pack
from launcher.plan import Plan, make_plan
from launcher.request import Request
from launcher.runs.catalog import create_folder
from launcher.runs.paths import runs_root
from launcher.spec import JobSpec, Mode, TargetKind
from launcher.supervisor import Supervisor


class Distributor:
    """How to launch: the world size, where, and with what. It holds no resources and may be reused.

    Args:
        num_processes: the world size.
        mode: ``"local"``; cluster modes follow.
        gpu: True demands a GPU a rank, False hides them, None takes GPUs if there are enough.
        env: additions to the ranks' environment.
        workdir: the ranks' working directory; the caller's by default.
        name: a label for people.
        grace_s: seconds between SIGTERM and SIGKILL when a run is stopped.
        timeout_s: the run's time limit in seconds.
        sample_s: seconds between device samples.
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
        root: Path | None = None,
    ) -> None:
        self._mode = _mode(mode)
        self._options: dict[str, Any] = {
            "num_processes": num_processes,
            "gpu": gpu,
            "env": dict(env or {}),
            "workdir": str(Path(workdir or Path.cwd()).absolute()),
            "name": name,
            "grace_s": grace_s,
            "timeout_s": timeout_s,
            "sample_s": sample_s,
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
        return launch(Request(spec, payload=payload, path=path), root=self._root)


def launch(request: Request, *, root: Path | None = None, backend: Backend | None = None) -> Job:
    """Start a checked request in this process.

    Raises:
        SpecError, CannotPlace: it cannot be placed.
        RecordError: the run folder cannot be made.
    """
    backend = backend or backend_for(request.spec.mode)
    plan = plan_for(request, backend)
    folder = create_folder(root or runs_root(), time.time())
    supervisor = Supervisor(request, plan, folder, backend)
    supervisor.submit()
    return Job(supervisor, folder)


def plan_for(request: Request, backend: Backend | None = None) -> Plan:
    """Where every rank would go: what ``--dry-run`` prints."""
    backend = backend or backend_for(request.spec.mode)
    offers, reason = backend.offers(request)
    if not Path(request.spec.workdir).is_dir():
        raise SpecError(f"the working directory {request.spec.workdir} does not exist")
    return make_plan(request.spec, offers, gpu_reason=reason)


def backend_for(mode: Mode) -> Backend:
    """The way to start agents in this mode.

    Raises:
        SpecError: the mode is not there yet.
    """
    if mode is Mode.LOCAL:
        return LocalBackend()
    raise SpecError(f"mode {mode.value} is not available yet", hint="use --mode local")


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
