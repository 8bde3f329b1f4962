"""Builds the library that gives one host's processes another time of day, and sets that. Needs gcc."""

from __future__ import annotations

import os
import struct
import subprocess
from dataclasses import dataclass
from pathlib import Path

_SOURCE = Path(__file__).with_name("fake_clock.c")


@dataclass(frozen=True, slots=True)
class FakeClock:
    """A clock of its own for whatever is started with `environment`."""

    library: Path
    file: Path

    @classmethod
    def make(cls, folder: Path) -> FakeClock:
        """A clock in a folder; it is right at first."""
        library = folder / "clock.so"
        command = ["gcc", "-shared", "-fPIC", "-O1", "-Wall", "-Werror", "-o", str(library), str(_SOURCE)]
        subprocess.run(command, check=True)
        clock = cls(library, folder / "clock")
        clock.set(0)
        return clock

    @property
    def environment(self) -> dict[str, str]:
        """What makes a process and its children live by it."""
        return {"LD_PRELOAD": os.fspath(self.library), "FAKE_CLOCK": os.fspath(self.file)}

    def set(self, seconds: int) -> None:
        """Let it differ from the true time by so much, from now on; also for what runs already."""
        descriptor = os.open(self.file, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            os.pwrite(descriptor, struct.pack("=q", seconds), 0)  # in place: it is mapped
        finally:
            os.close(descriptor)
