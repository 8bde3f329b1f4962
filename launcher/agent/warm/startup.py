"""What a process reads when it starts or imports: a fork has what its parent read, whatever is set later.

Pure. Variables that libraries read when a device or a communicator is made (``CUDA_VISIBLE_DEVICES``,
``NCCL_*``, ``MASTER_*``) are not among them: they are set in the fork.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

THREADS = "OMP_NUM_THREADS"
"""The one variable of OpenMP whose value a fork can adopt: by the functions that it stands for."""
_PREFIXES = (
    "LD_", "GLIBC_", "MALLOC_",  # the dynamic loader and the C library
    "PYTHON", "LC_",  # the interpreter
    "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "GOTO_", "BLIS_", "NUMEXPR_", "NPY_",  # pools of threads
    "TORCH_", "TORCHINDUCTOR_", "TORCHDYNAMO_", "PYTORCH_", "ATEN_", "KINETO_", "TRITON_",
)  # fmt: skip
_LATER = ("TORCH_NCCL_",)
_NAMES = frozenset({"LANG", "LANGUAGE", "HOME", "LOGLEVEL", "CUDA_MODULE_LOADING"})


def is_read_at_start(name: str) -> bool:
    """Whether the loader, the interpreter or an import reads a variable."""
    if name == THREADS or name.startswith(_LATER):
        return False
    return name in _NAMES or name.startswith(_PREFIXES)


def read_at_start(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of an environment that only a fresh process would read anew."""
    return {name: value for name, value in environ.items() if is_read_at_start(name)}


def threads_of(environ: Mapping[str, str]) -> int | None:
    """The number of threads that an environment asks for; None if it does so in no plain way."""
    text = environ.get(THREADS, "")
    return int(text) if text.isascii() and text.isdigit() and 0 < int(text) < 1 << 15 else None


def shadowed(entries: Iterable[str], loaded: Collection[str]) -> str:
    """The module of a folder that a fresh process would import in place of one that is loaded; empty if none.

    Args:
        entries: the names in a folder from which the target imports.
        loaded: the top-level names that a fork has and a fresh rank has not.
    """
    names = ((entry, entry.partition(".")[0]) for entry in entries)
    return next((entry for entry, name in names if name in loaded), "")
