"""Native frames of a rank by `py-spy`, where that is installed: what its extensions do below Python.

It stops the rank while it looks, and takes much longer than the rank's own handler; so it runs beside
the agent, rarely, and with a deadline. Where it fails (often it may not trace), nothing is told.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

PROGRAM = "py-spy"
LIMIT_S = 2.0
BYTES = 64 << 10


@dataclass(slots=True)
class NativeDump:
    """One run of the program, whose output goes to the file `output`."""

    process: subprocess.Popen[bytes]
    output: int
    deadline: float

    def is_over(self, now: float) -> bool:
        """Whether it has ended; one that is late is killed."""
        if self.process.poll() is None and now >= self.deadline:
            self._kill()
        return self.process.returncode is not None

    def close(self) -> str:
        """End it, and return what it printed if it did well."""
        if self.process.poll() is None:
            self._kill()
        text = (
            os.pread(self.output, BYTES, 0).decode(errors="replace") if self.process.returncode == 0 else ""
        )
        os.close(self.output)
        return text

    def _kill(self) -> None:
        self.process.kill()
        self.process.wait()


def find(pid: int) -> str | None:
    """The program on the agent's path, on that of a rank, or beside the rank's interpreter."""
    paths = [os.environ.get("PATH", os.defpath), _path_of(pid), _interpreter_folder(pid)]
    return next((found for path in paths if path and (found := shutil.which(PROGRAM, path=path))), None)


def begin(program: str, pid: int, now: float) -> NativeDump | None:
    """Have the program look at a process; None if it cannot be started."""
    output = os.memfd_create("rankdeck-native-stacks")
    argv = [program, "dump", "--native", "--pid", str(pid)]
    try:
        process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.DEVNULL, start_new_session=True
        )
    except OSError:
        os.close(output)
        return None
    return NativeDump(process, output, now + LIMIT_S)


def _path_of(pid: int) -> str:
    entries = _read(f"/proc/{pid}/environ").split(b"\0")
    return next((os.fsdecode(e[5:]) for e in entries if e.startswith(b"PATH=")), "")


def _interpreter_folder(pid: int) -> str:
    first = os.fsdecode(_read(f"/proc/{pid}/cmdline").split(b"\0")[0])
    return str(Path(first).parent) if first.startswith("/") else ""


def _read(path: str) -> bytes:
    with contextlib.suppress(OSError):
        return Path(path).read_bytes()
    return b""
