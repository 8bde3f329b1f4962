"""Builds the fake NVML library and writes the file that it answers from.

`load` makes this process's pynvml meet the fake; `environment` does so for a process to be started. Knows
nothing of the launcher.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SONAME = "libnvidia-ml.so.1"
_SOURCE = Path(__file__).with_name("fake_nvml.c")


@dataclass(frozen=True, slots=True)
class FakeGpu:
    """What the fake says of one GPU or MIG instance. None: not supported. Units are NVML's own."""

    uuid: str
    name: str = "NVIDIA H100 80GB HBM3"
    util: int | None = None
    memory: tuple[int, int] | None = None
    power: int | None = None
    power_limit: int | None = None
    temperature: int | None = None
    sm_clock: int | None = None
    memory_clock: int | None = None
    throttle: int | None = None
    pcie_rx: int | None = None
    pcie_tx: int | None = None
    nvlink: tuple[int, ...] | None = None
    nvlink_kib: tuple[tuple[int, int], ...] | None = None
    ecc: tuple[int, int] | None = None
    remapped: tuple[int, int, int, int] | None = None
    compute: tuple[tuple[int, int], ...] | None = None
    graphics: tuple[tuple[int, int], ...] | None = None
    xids: tuple[int, ...] | None = None
    mig: tuple[FakeGpu, ...] | None = None
    fail: int | None = None
    fails: Mapping[str, int] = field(default_factory=dict)

    def lines(self, section: str) -> list[str]:
        """Its part of the file."""
        scalars = {name: getattr(self, name) for name in _SCALARS}
        rows = {name: str(value) for name, value in scalars.items() if value is not None}
        for name in ("memory", "nvlink", "ecc", "remapped", "xids"):
            if (numbers := getattr(self, name)) is not None:
                rows[name] = " ".join(map(str, numbers))
        for name in ("compute", "graphics", "nvlink_kib"):
            if (held := getattr(self, name)) is not None:
                rows[name] = " ".join(f"{first}:{second}" for first, second in held)
        if self.mig is not None:
            rows["mig"] = str(len(self.mig))
        rows |= {f"fail.{function}": str(code) for function, code in self.fails.items()}
        own = [f"{section}.{name} = {value}" for name, value in rows.items()]
        return own + [
            line for i, part in enumerate(self.mig or ()) for line in part.lines(f"{section}.mig{i}")
        ]


_SCALARS = (
    "uuid", "name", "util", "power", "power_limit", "temperature", "sm_clock", "memory_clock", "throttle",
    "pcie_rx", "pcie_tx", "fail",
)  # fmt: skip


def build(directory: Path) -> Path:
    """Compiles the fake into `directory` and gives its path."""
    library = directory / SONAME
    command = ["gcc", "-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]
    command += [f"-Wl,-soname,{SONAME}", "-o", str(library), str(_SOURCE), "-lpthread"]
    subprocess.run(command, check=True)
    return library


def write(
    path: Path,
    gpus: Sequence[FakeGpu] = (),
    *,
    fails: Mapping[str, int] | None = None,
    hangs: Mapping[str, float] | None = None,
    log: Path | None = None,
) -> None:
    """Replaces the file in one step; a running process sees the change at its next call."""
    lines = [f"count = {len(gpus)}"]
    lines += [f"fail.{function} = {code}" for function, code in (fails or {}).items()]
    lines += [f"hang.{function} = {seconds}" for function, seconds in (hangs or {}).items()]
    lines += [f"log = {log}"] if log else []
    lines += [line for i, gpu in enumerate(gpus) for line in gpu.lines(f"gpu{i}")]
    fresh = path.with_suffix(".new")
    fresh.write_text("\n".join(lines) + "\n")
    fresh.replace(path)


def load(library: Path) -> None:
    """Makes this process's pynvml find the fake.

    The loader answers a request for a name with the library of that soname which is already there.
    Without the environment variable FAKE_NVML the fake says that no driver is loaded, so that nothing
    else in this process is disturbed.
    """
    ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)


def environment(library: Path, answers: Path) -> dict[str, str]:
    """What a process to be started needs in its environment to meet the fake."""
    inherited = os.environ.get("LD_LIBRARY_PATH")
    paths = [str(library.parent), *([inherited] if inherited else [])]
    return {"LD_LIBRARY_PATH": os.pathsep.join(paths), "FAKE_NVML": str(answers)}


@dataclass(frozen=True, slots=True)
class FakeNvml:
    """The fake library and the file that it answers from."""

    library: Path
    answers: Path

    def say(self, *gpus: FakeGpu, **more: Any) -> None:
        """Changes what the driver answers from now on; `more` is as in `write`."""
        write(self.answers, gpus, **more)

    @property
    def environment(self) -> dict[str, str]:
        """The whole environment of a process that is to meet the fake."""
        return {**os.environ, **environment(self.library, self.answers)}
