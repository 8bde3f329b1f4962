"""What Spark's exception says of a worker that failed: `worker` has put it into the text. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ....errors import LauncherError

_FAILURE = re.compile(
    r"(?P<rows>(?:rows \d+ to \d+ of|loading for) partition \d+): (?P<kind>\w+): (?P<message>.*?)\n"
    r"  in worker (?P<pid>\d+) of task (?P<task>\d+) on (?P<host>\S+)\n"
    r"(?P<trace>(?:  \| [^\n]*\n?)+)",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class WorkerFailure:
    """An exception of the user's code in a worker: in which rows, in which process, with its traceback.

    `rows` may also say that the model was being loaded.
    """

    rows: str
    kind: str
    message: str
    pid: int
    task: int
    host: str
    traceback: str


def failure_in(text: str) -> WorkerFailure | None:
    """The first failure of a worker that a text quotes; None if it quotes none."""
    found = _FAILURE.search(text)
    if found is None:
        return None
    lines = (line.removeprefix("  | ") for line in found["trace"].splitlines())
    return WorkerFailure(
        rows=found["rows"],
        kind=found["kind"],
        message=found["message"],
        pid=int(found["pid"]),
        task=int(found["task"]),
        host=found["host"],
        traceback="\n".join(lines) + "\n",
    )


class WorkerFailed(LauncherError):
    """The user's code raised in a worker; `failure` says where."""

    exit_code = 1

    def __init__(self, failure: WorkerFailure) -> None:
        where = f"worker {failure.pid} on {failure.host}"
        super().__init__(f"{failure.kind} in {failure.rows}, in {where}: {failure.message}")
        self.failure = failure
