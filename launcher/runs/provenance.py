"""Where a run comes from: whose it is, which revision of the code, which packages beside it.

What cannot be found out, or not in time, stays unknown: nothing here raises, and no launch waits for it.

Read from the names of their metadata folders: nothing is imported, and hardly a file opened.
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
from ..errors import SpecError
from ..spec.job import JobSpec
from ..spec.request import Request
from ..spec.source import module_file
from ..state.events import Checkout, Event, OriginFound

LIMIT_S = 2.0
_NAME_LIMIT_S = 0.5
_GIT = ("git", "--no-pager", "-c", "core.fsmonitor=false")  # no program that the repository names is run
# what git sets for a hook that starts us points at that hook's repository
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
    """Find out on a thread of its own, and hand over the one fact; nobody waits for it."""
    work = threading.Thread(target=lambda: post(find_origin(request)), name="origin", daemon=True)
    with contextlib.suppress(RuntimeError):  # no room for a thread: it stays unknown
        work.start()


def find_origin(request: Request) -> OriginFound:
    """The code and the packages of a run, as far as they can be told within some seconds. Never raises."""
    code, beside = _checkouts(request.spec)
    python, packages = installed_versions(request.python, request.environ, request.path, limit_s=LIMIT_S)
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
    """The name of the user whose process this is: by the system's word, for a variable may say anything.

    Where the system has no name, or asks a server that does not answer, it is what `environ` says, else
    the number.
    """
    found: list[str] = []

    def look() -> None:
        with contextlib.suppress(KeyError):
            found.append(pwd.getpwuid(os.getuid()).pw_name)

    asking = threading.Thread(target=look, name="user", daemon=True)
    asking.start()
    asking.join(_NAME_LIMIT_S)
    return next(iter(found), "") or environ.get("USER", "") or str(os.getuid())


def _checkouts(spec: JobSpec) -> tuple[Checkout, Checkout | None]:
    """The checkout that holds the target, else the working directory's; and the latter if it is another."""
    target, workdir = _source(spec), Path(spec.workdir or ".")
    code = target and _root_above(target.parent)
    around = _root_above(workdir)
    if code is None or code == around:
        root, other = around, None
    else:
        root, other = code, around
    first = Checkout("") if root is None else _look(root, target if root == code else None)
    return first, None if other is None else _look(other)


def _source(spec: JobSpec) -> Path | None:
    """The target's file; None if it has none."""
    target = spec.target
    if target.is_file:
        return Path(spec.workdir or ".", target.source)
    try:
        return module_file(target.source, Path(spec.workdir or "."))
    except (SpecError, ImportError, OSError, ValueError):
        return None


def _root_above(folder: Path) -> Path | None:
    """The nearest folder from here upwards that is under git; without one, no command need be run."""
    with contextlib.suppress(OSError, RuntimeError, ValueError):
        folder = folder.resolve()
        for each in (folder, *folder.parents):
            if (each / ".git").exists():
                return each
    return None


def _look(root: Path, target: Path | None = None) -> Checkout:
    """What git says of a checkout: the questions are put at once, and share the time limit."""
    head = ["rev-parse", "HEAD", "--abbrev-ref", "HEAD"]
    changes = ["status", "--porcelain", "--untracked-files=no"]
    asked = [head, changes]
    if target is not None:
        asked.append(["ls-files", "-z", "--", f":(literal){os.path.realpath(target)}"])
    said, changed, *listed = _ask(root, asked)
    revision, _, branch = (said or "").strip().partition("\n")
    dirty = None if changed is None else bool(changed.strip())
    if listed and listed[0] == "":
        dirty = True  # the target itself is in no revision
    return Checkout(str(root), revision, "" if branch == "HEAD" else branch, dirty)


def _ask(root: Path, questions: Sequence[Sequence[str]]) -> list[str | None]:
    """What git answers to each; None where it failed or took too long."""
    environ = {k: v for k, v in os.environ.items() if k not in _MISLEADING} | _QUIET
    deadline = time.monotonic() + LIMIT_S
    started = [_started([*_GIT, "-C", str(root), *words], environ) for words in questions]
    return [None if git is None else _answer(git, deadline) for git in started]


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


def _answer(git: subprocess.Popen[bytes], deadline: float) -> str | None:
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


MATTERING = frozenset((
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
"""By their names with underscores and in lower case."""

_METADATA = re.compile(
    r"(?P<name>.+?)(?:-(?P<version>\d[^-]*)(?:-py\d.*)?)?\.(?:dist|egg)-info", re.IGNORECASE
)
_ASK = "import json, platform, sys; print(json.dumps([platform.python_version(), sys.path]))"


def installed_versions(
    python: str, environ: Mapping[str, str], path: Sequence[str], *, limit_s: float
) -> tuple[str, dict[str, str]]:
    """An interpreter's version, and its packages that matter by name; empty where it does not tell.

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
        version, folders = _asked(python, environ, limit_s)
    found = versions([*path, *folders]) if version else {}
    return version, {"rankdeck": __version__, **found}


def _asked(python: str, environ: Mapping[str, str], limit_s: float) -> tuple[str, list[str]]:
    """What another interpreter says of itself."""
    try:
        done = subprocess.run(
            [python, "-c", _ASK],
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
    """The packages that matter in these folders, by name; of two of a name, the one that is found first."""
    found: dict[str, str] = {}
    for folder in dict.fromkeys(filter(None, folders)):
        for name, version in _in_folder(folder):
            found.setdefault(name, version)
    return dict(sorted(found.items()))


def _in_folder(folder: str) -> Iterator[tuple[str, str]]:
    try:
        entries = os.listdir(folder)
    except OSError:  # a zip, or nothing at all
        return
    for entry in entries:
        if (match := _METADATA.fullmatch(entry)) is None:
            continue
        name = re.sub(r"[-_.]+", "_", match["name"]).lower()
        if name in MATTERING and (version := match["version"] or _written(os.path.join(folder, entry))):
            yield name.replace("_", "-"), version


def _written(info: str) -> str:
    """The version that a metadata folder without one in its name tells inside."""
    try:
        with open(os.path.join(info, "PKG-INFO"), encoding="utf-8", errors="replace") as file:
            head = file.read(4096)
    except OSError:
        return ""
    match = re.search(r"^Version:\s*(\S+)", head, re.MULTILINE)
    return match[1] if match else ""
