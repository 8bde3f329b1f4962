"""Horovod 0.28.1 from its source, for an environment with the torch of today.

Its last release asks for C++14, which the headers of torch have not allowed since 2.1; with C++17 it compiles
unchanged. It is built with Gloo alone, as the tests have neither MPI nor NCCL, and without optimisation, as
that takes longer than all that the tests compute with it. What includes torch is compiled as one file, since
most of the time goes into torch's headers.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

PARTS = {
    "HOROVOD_WITH_GLOO": "1",
    "HOROVOD_WITH_PYTORCH": "1",
    "HOROVOD_WITHOUT_MPI": "1",
    "HOROVOD_WITHOUT_MXNET": "1",
    "HOROVOD_WITHOUT_TENSORFLOW": "1",
    "MAKEFLAGS": f"-j{os.cpu_count() or 1}",
}
LIMIT_S = 1800.0
ASKS_FOR = "set(CMAKE_CXX_STANDARD 14)"
WORKS_WITH = 'set(CMAKE_CXX_STANDARD 17)\nset(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O0")'
IN_ONE_FILE = "set(CMAKE_UNITY_BUILD ON)\nset(CMAKE_UNITY_BUILD_BATCH_SIZE 0)"


def can_build() -> bool:
    """Whether there is a C++ compiler, and CMake."""
    return shutil.which("c++") is not None and shutil.which("cmake") is not None


def unpack(archive: Path, folder: Path) -> Path:
    """The source's folder, changed so that it compiles."""
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    source = folder / archive.name.removesuffix(".tar.gz")
    for place, more in ((source, ""), (source / "horovod" / "torch", f"\n{IN_ONE_FILE}")):
        file = place / "CMakeLists.txt"
        text = file.read_text()
        assert ASKS_FOR in text, f"{file} is not that of Horovod 0.28.1"
        file.write_text(text.replace(ASKS_FOR, WORKS_WITH + more))
    return source


def build(python: Path, requirement: str, folder: Path) -> Path:
    """The wheel of Horovod for the torch of an interpreter.

    Raises:
        CalledProcessError: the source cannot be had, or does not compile; `stderr` has why.
    """
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "--python", str(python)]
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"  # its setup.py asks the first python for torch
    alone = ["--no-deps", "--no-build-isolation"]
    around = {**os.environ, **PARTS, "PATH": path}
    _run([*pip, "download", *alone, "--no-binary", ":all:", f"--dest={folder}", requirement], around)
    (archive,) = folder.glob("horovod-*.tar.gz")
    _run([*pip, "wheel", *alone, f"--wheel-dir={folder}", str(unpack(archive, folder))], around)
    (wheel,) = folder.glob("horovod-*.whl")
    return wheel


def _run(command: Sequence[str], around: Mapping[str, str]) -> None:
    subprocess.run(
        command,
        env=around,
        check=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=LIMIT_S,
    )
