"""Which variables force a fresh interpreter where they differ, and which are set in a fork."""

from __future__ import annotations

import pytest

from launcher.agent.warm import startup

READ_AT_START = [
    "LD_LIBRARY_PATH", "LD_PRELOAD", "GLIBC_TUNABLES", "MALLOC_ARENA_MAX",
    "PYTHONPATH", "PYTHONHASHSEED", "PYTHONOPTIMIZE", "PYTHONWARNINGS", "PYTHONUNBUFFERED", "PYTHONSAFEPATH",
    "LC_ALL", "LANG", "LANGUAGE", "HOME",
    "OMP_PROC_BIND", "OMP_SCHEDULE", "GOMP_CPU_AFFINITY", "KMP_BLOCKTIME", "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS", "BLIS_NUM_THREADS", "NUMEXPR_MAX_THREADS", "NPY_DISABLE_CPU_FEATURES",
    "TORCH_LOGS", "TORCH_SHOW_CPP_STACKTRACES", "TORCH_DISTRIBUTED_DEBUG", "TORCHINDUCTOR_CACHE_DIR",
    "PYTORCH_CUDA_ALLOC_CONF", "ATEN_CPU_CAPABILITY", "LOGLEVEL", "CUDA_MODULE_LOADING",
]  # fmt: skip
SET_IN_THE_FORK = [
    "CUDA_VISIBLE_DEVICES", "CUDA_LAUNCH_BLOCKING", "NCCL_DEBUG", "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME",
    "MASTER_ADDR", "MASTER_PORT", "RANK", "LOCAL_RANK", "WORLD_SIZE", "TORCHELASTIC_RUN_ID",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING", "OMP_NUM_THREADS", "TZ", "TMPDIR", "PATH", "USER", "MY_LEARNING_RATE",
]  # fmt: skip


@pytest.mark.parametrize("name", READ_AT_START)
def test_what_a_start_or_an_import_reads(name: str) -> None:
    assert startup.is_read_at_start(name)
    assert {name: "1"} == startup.read_at_start({name: "1", "RANK": "0"})


@pytest.mark.parametrize("name", SET_IN_THE_FORK)
def test_what_is_read_later(name: str) -> None:
    assert not startup.is_read_at_start(name)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("1", 1),
        ("16", 16),
        ("", None),
        ("0", None),
        ("-1", None),
        ("4,2", None),
        ("²", None),
        ("99999", None),
    ],
)
def test_a_number_of_threads_is_plain_or_not(text: str, count: int | None) -> None:
    assert count == startup.threads_of({"OMP_NUM_THREADS": text})
    assert startup.threads_of({}) is None


@pytest.mark.parametrize(
    ("entries", "found"),
    [
        (["train.py", "data"], ""),
        (["numpy.py"], "numpy.py"),
        (["torch"], "torch"),
        (["numpy.cpython-311-x86_64-linux-gnu.so"], "numpy.cpython-311-x86_64-linux-gnu.so"),
        (["numpy_tools.py", ".numpy"], ""),
        ([], ""),
    ],
)
def test_a_file_that_would_be_imported_in_place_of_a_loaded_one(entries: list[str], found: str) -> None:
    assert found == startup.shadowed(entries, {"torch", "numpy"})
