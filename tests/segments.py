"""Segments of shared memory that ranks leave, as DeepSpeed's do, and who has to remove them."""

from __future__ import annotations

import contextlib
import os
import re
from pathlib import Path

from launcher.job import Job
from launcher.runs import paths

MAKE = """
import os
from pathlib import Path
name = "deepspeed_allreduce_buffer_%d_{MASTER_ADDR}_{MASTER_PORT}_{RANK}" % os.getuid()
segment = Path("/dev/shm", name.format(**os.environ))
segment.touch()
print(f"left {segment}", flush=True)
"""
"""The part of a script that leaves a segment, and prints its path."""


_OTHER = "elsewhere"


def made_by(job: Job, ranks: int, attempt: int = 0) -> list[Path]:
    """The segments that the ranks of an attempt have made so far."""
    outputs = (paths.log_file(job.folder, attempt, rank, paths.STDOUT) for rank in range(ranks))
    printed = "".join(each.read_text() for each in outputs if each.exists())
    return [Path(name) for name in re.findall("^left (.+)$", printed, re.MULTILINE)]


def of_another_training() -> Path:
    """Where another training's rank would have its segment."""
    return Path(f"/dev/shm/deepspeed_allreduce_buffer_{os.getuid()}_{_OTHER}_1_{os.getpid()}")


def abandoned() -> set[Path]:
    """DeepSpeed's segments that no process has mapped."""
    segments = {each for each in Path("/dev/shm").glob("deepspeed_*") if _OTHER not in each.name}
    mapped = set()
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with contextlib.suppress(OSError):  # the process has just ended
            mapped |= set(re.findall(r"/dev/shm/\S+", maps.read_text()))
    return {segment for segment in segments if str(segment) not in mapped}
