"""The names of all files in a run folder, and where run folders are.

<id>/spec.json      the request, secrets redacted      events.jsonl   one fact a line
     status.json    the folded state, replaced whole   target.pickle  a callable's bytes, if any
     logs/<attempt>/<rank>.out .err                    the exact bytes
     logs/<attempt>/chunks                             in which order and when they came
     samples/                                          telemetry, of bounded size
     usage.json                                        sums of the telemetry
     curves/points  curves/names                       reported metrics over steps, of bounded size
     result/<rank>.pickle  summary.json                return values
     artifacts/  artifacts.jsonl                       files that ranks wrote, and what each of them is
     notified/<kind>.json                              what was told, and what became of it
     tensorboard/                                      metrics for TensorBoard, if they were requested
     private.json   what spec.json leaves out; never exported
     reserve                                           disk space for the verdict, freed at the end
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from . import files

FOLDER_MODE = 0o700
FILE_MODE = 0o600

SPEC = "spec.json"
EVENTS = "events.jsonl"
STATUS = "status.json"
TARGET = "target.pickle"
PRIVATE = "private.json"
LOGS = "logs"
SAMPLES = "samples"
CURVES = "curves"
USAGE = "usage.json"
CURVE_POINTS, CURVE_NAMES = "points", "names"
RESULT = "result"
SUMMARY = "result/summary.json"
CHUNKS = "chunks"
CONTROL = "control.sock"
RESERVE = "reserve"
ARTIFACTS = "artifacts"
ARTIFACT_INDEX = "artifacts.jsonl"
TENSORBOARD = "tensorboard"

STDOUT, STDERR = 1, 2  # a rank's descriptors, as POSIX numbers them
SUFFIX = {STDOUT: "out", STDERR: "err"}

_ATTEMPT = re.compile("0|[1-9][0-9]{0,5}")
_ID = re.compile(r"\d{8}-\d{6}-\d{3}[0-9a-f]{3}")


def home() -> Path:
    """The folder of all that rankdeck keeps: ``$RANKDECK_HOME``, else the XDG state folder."""
    if override := os.environ.get("RANKDECK_HOME"):
        return Path(override).expanduser().absolute()
    from platformdirs import user_state_path

    return user_state_path("rankdeck")


def runs_root() -> Path:
    """The folder of run folders."""
    return home() / "runs"


def is_run_id(name: str) -> bool:
    """Whether a folder's name is a run id."""
    return _ID.fullmatch(name) is not None


CHECK_PREFIX = "rankdeck-doctor-"
"""Of the name of a folder for a check by `doctor`, which stands for a run's id where runs share a session."""


def is_check(name: str) -> bool:
    """Whether a folder's name is that of a check, which is no run: `rankdeck stop` does not know it."""
    return name.startswith(CHECK_PREFIX)


def log_folder(run: Path, attempt: int) -> Path:
    """The logs of one attempt."""
    return run / LOGS / str(attempt)


def attempts(run: Path) -> list[int]:
    """The attempts that have logs, in order."""
    try:
        names = files.names_in(run, run / LOGS)
    except OSError:
        return []
    return sorted(int(name) for name in names if _ATTEMPT.fullmatch(name))


def log_file(run: Path, attempt: int, rank: int, stream: int) -> Path:
    """The exact bytes that one rank wrote to one stream."""
    return log_folder(run, attempt) / f"{rank:05d}.{SUFFIX[stream]}"


def result_file(run: Path, rank: int) -> Path:
    """A rank's pickled return value."""
    return run / RESULT / f"{rank:05d}.pickle"
