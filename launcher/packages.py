"""Which versions of the packages that matter to a training an interpreter has.

Read from the names of their metadata folders: nothing is imported, and hardly a file opened.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence

import launcher

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


def installed(
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
    return version, {"rankdeck": launcher.__version__, **found}


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
