"""Where a run comes from: its user, the revision of its code, the versions of the installed packages.

What cannot be found out in time stays unknown: nothing here raises, and no launch waits for it. Versions are
read from the names of metadata folders: nothing is imported, and hardly a file is opened.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import pwd
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from .. import __version__
from ..spec.job import JobSpec
from ..spec.request import Request
from ..spec.source import find_source
from ..state.events import Checkout, Event, OriginFound

LIMIT_S = 2.0
_NAME_LIMIT_S = 0.5
_GIT = ("git", "--no-pager", "-c", "core.fsmonitor=false")  # runs no program that the repository configures
# git sets these for its hooks; a hook that starts a run would make us read the hook's own repository
_MISLEADING = {
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_INDEX_FILE",
    "GIT_COMMON_DIR",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
}
_QUIET = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}


def begin_origin(request: Request, post: Callable[[Event], None]) -> None:
    """Find the origin on a new thread, and post it as a fact; nothing waits for it."""
    work = threading.Thread(target=lambda: post(find_origin(request)), name="origin", daemon=True)
    with contextlib.suppress(RuntimeError):  # no room for a thread: it stays unknown
        work.start()


def find_origin(request: Request) -> OriginFound:
    """The code and the packages of a run, as far as they are found within some seconds. Never raises."""
    code, beside = _checkouts(request.spec)
    python, packages = installed_versions(request.interpreter, request.environ, request.path, limit_s=LIMIT_S)
    return OriginFound(
        time=time.time(),
        revision=code.revision,
        branch=code.branch,
        dirty=code.dirty,
        root=code.root,
        beside=beside,
        python=python,
        packages=packages,
    )


def user_name(environ: Mapping[str, str]) -> str:
    """The name of this process's user, from the system's user database: a variable could hold anything.

    If the database has no name, or its server does not answer, it is `USER` of `environ`, else the number.
    """
    names: list[str] = []

    def look_up() -> None:
        with contextlib.suppress(KeyError):
            names.append(pwd.getpwuid(os.getuid()).pw_name)

    lookup = threading.Thread(target=look_up, name="user", daemon=True)
    lookup.start()
    lookup.join(_NAME_LIMIT_S)
    return next(iter(names), "") or environ.get("USER", "") or str(os.getuid())


def _checkouts(spec: JobSpec) -> tuple[Checkout, Checkout | None]:
    """The checkout that holds the target, else the working directory's; and the latter if they differ."""
    target, workdir = _source(spec), Path(spec.workdir or ".")
    code = target and _root_above(target.parent)
    around = _root_above(workdir)
    if code is None or code == around:
        root, other = around, None
    else:
        root, other = code, around
    first = Checkout("") if root is None else _inspect(root, target if root == code else None)
    return first, None if other is None else _inspect(other)


def _source(spec: JobSpec) -> Path | None:
    """The target's file; None if it has none."""
    target = spec.target
    if target.is_file:
        return Path(spec.workdir or ".", target.source)
    try:
        return find_source(target.source, Path(spec.workdir or "."))
    except (ImportError, OSError, ValueError):
        return None


def _root_above(folder: Path) -> Path | None:
    """The nearest folder from here upwards that is under git; without one, git need not be run."""
    with contextlib.suppress(OSError, RuntimeError, ValueError):
        folder = folder.resolve()
        for each in (folder, *folder.parents):
            if (each / ".git").exists():
                return each
    return None


def _inspect(root: Path, target: Path | None = None) -> Checkout:
    """The state of a checkout, from git commands that run at the same time and share the time limit."""
    head = ["rev-parse", "HEAD", "--abbrev-ref", "HEAD"]
    changes = ["status", "--porcelain", "--untracked-files=no"]
    commands = [head, changes]
    if target is not None:
        commands.append(["ls-files", "-z", "--", f":(literal){os.path.realpath(target)}"])
    names, changed, *listed = _run_git(root, commands)
    revision, _, branch = (names or "").strip().partition("\n")
    dirty = None if changed is None else bool(changed.strip())
    if listed and listed[0] == "":
        dirty = True  # the target itself is in no revision
    return Checkout(str(root), revision, "" if branch == "HEAD" else branch, dirty)


def _run_git(root: Path, commands: Sequence[Sequence[str]]) -> list[str | None]:
    """The output of each command; None where it failed or took too long."""
    environ = {k: v for k, v in os.environ.items() if k not in _MISLEADING} | _QUIET
    deadline = time.monotonic() + LIMIT_S
    started = [_started([*_GIT, "-C", str(root), *words], environ) for words in commands]
    return [None if git is None else _output(git, deadline) for git in started]


def _started(command: Sequence[str], environ: Mapping[str, str]) -> subprocess.Popen[bytes] | None:
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environ,
            cwd="/",
            process_group=0,
        )
    except (OSError, ValueError):
        return None


def _output(git: subprocess.Popen[bytes], deadline: float) -> str | None:
    try:
        out, _ = git.communicate(timeout=max(0.0, deadline - time.monotonic()))
    except subprocess.TimeoutExpired:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(git.pid, signal.SIGKILL)
        git.wait()
        if git.stdout is not None:
            git.stdout.close()
        return None
    return os.fsdecode(out) if git.returncode == 0 else None


RECORDED_PACKAGES = frozenset((
    "accelerate", "apex", "bitsandbytes", "cloudpickle", "colossalai", "composer", "datasets", "deepspeed",
    "diffusers", "einops", "fairscale", "flash_attn", "flax", "horovod", "jax", "jaxlib", "keras",
    "lightning", "megatron_core", "mlflow", "mosaicml_streaming", "mpi4py", "numpy", "nvidia_cublas_cu12",
    "nvidia_cuda_runtime_cu12", "nvidia_cudnn_cu12", "nvidia_nccl_cu11", "nvidia_nccl_cu12",
    "nvidia_nccl_cu13", "optax", "pandas", "peft", "petastorm", "pillow", "pyarrow", "pyspark",
    "pyspark_client", "pyspark_connect", "pytorch_lightning", "pytorch_triton", "ray", "safetensors",
    "scikit_learn", "scipy", "sentencepiece", "tensorboard", "tensorflow", "timm", "tokenizers", "torch",
    "torchaudio", "torchdata", "torchmetrics", "torchtext", "torchvision", "transformer_engine",
    "transformers", "triton", "trl", "vllm", "wandb", "webdataset", "xformers", "xgboost",
))  # fmt: skip
"""The packages that are recorded, by their names in lower case with underscores."""

_METADATA = re.compile(
    r"(?P<name>.+?)(?:-(?P<version>\d[^-]*)(?:-py\d.*)?)?\.(?:dist|egg)-info", re.IGNORECASE
)
_PRINT_PATH = "import json, platform, sys; print(json.dumps([platform.python_version(), sys.path]))"


def installed_versions(
    python: str, environ: Mapping[str, str], path: Sequence[str], *, limit_s: float
) -> tuple[str, dict[str, str]]:
    """An interpreter's version, and its recorded packages by name; empty if it cannot be run in time.

    Args:
        python: the interpreter; empty for our own.
        environ: its environment.
        path: folders that it searches besides its own.
        limit_s: how long it may take to answer, in seconds.
    """
    if not python or os.path.abspath(python) == os.path.abspath(sys.executable):
        extra = filter(os.path.isabs, environ.get("PYTHONPATH", "").split(os.pathsep))
        version, folders = platform.python_version(), [*extra, *sys.path]
    else:
        version, folders = _version_and_path(python, environ, limit_s)
    packages = versions([*path, *folders]) if version else {}
    return version, {"rankdeck": __version__, **packages}


def _version_and_path(python: str, environ: Mapping[str, str], limit_s: float) -> tuple[str, list[str]]:
    """The version and the import path of another interpreter."""
    try:
        done = subprocess.run(
            [python, "-c", _PRINT_PATH],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=limit_s,
            env=environ,
            cwd="/",
            check=True,
        )
        version, folders = json.loads(done.stdout.splitlines()[-1])
    except (OSError, ValueError, LookupError, TypeError, subprocess.SubprocessError):
        return "", []
    return str(version), [str(folder) for folder in folders if folder]


def versions(folders: Iterable[str]) -> dict[str, str]:
    """The recorded packages in these folders, by name; of two with one name, the first."""
    found: dict[str, str] = {}
    for folder in dict.fromkeys(filter(None, folders)):
        for name, version in _in_folder(folder):
            found.setdefault(name, version)
    return dict(sorted(found.items()))


def _in_folder(folder: str) -> Iterator[tuple[str, str]]:
    try:
        entries = os.listdir(folder)
    except OSError:  # a zip, or it does not exist
        return
    for entry in entries:
        if (match := _METADATA.fullmatch(entry)) is None:
            continue
        name = re.sub(r"[-_.]+", "_", match["name"]).lower()
        if name not in RECORDED_PACKAGES:
            continue
        if version := match["version"] or _version_in(os.path.join(folder, entry)):
            yield name.replace("_", "-"), version


def _version_in(info: str) -> str:
    """The version from the file in a metadata folder whose name has none."""
    try:
        with open(os.path.join(info, "PKG-INFO"), encoding="utf-8", errors="replace") as file:
            head = file.read(4096)
    except OSError:
        return ""
    match = re.search(r"^Version:\s*(\S+)", head, re.MULTILINE)
    return match[1] if match else ""
