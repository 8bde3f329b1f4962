"""A detached process that owns one run: what the console and ``run --detach`` start.

Started as ``python -P -c BOOT ROOT`` with a request on standard input; it answers with one JSON line (the
run's id, or why there is none), leaves its terminal and its parent, and ends with the run.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from typing import Any

from launcher import codec
from launcher.distributor import launch
from launcher.errors import LauncherError
from launcher.request import Request
from launcher.spec import JobSpec

BOOT = "import sys; sys.path.insert(0, sys.argv.pop(1)); from launcher import keeper; keeper.main()"


def main() -> None:
    """Detach, launch, answer, and wait for the end."""
    if os.fork():
        os._exit(0)
    for signum in (signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)
    request = read_request(sys.stdin.buffer.read())
    try:
        job = launch(request)
    except LauncherError as error:
        _answer({"error": type(error).__name__, "message": error.message, "hint": error.hint})
        return
    signal.signal(signal.SIGTERM, lambda *_: job.stop(reason="its keeper was terminated"))
    _answer({"run": job.id})
    job.wait()


def write_request(request: Request) -> bytes:
    """A request as bytes: a JSON line, and the pickle behind it."""
    head = {
        "spec": codec.to_plain(request.spec),
        "environ": dict(request.environ),
        "python": request.python,
        "pickled": request.payload is not None,
        "path": request.path,
    }
    return json.dumps(head).encode() + b"\n" + (request.payload or b"")


def read_request(data: bytes) -> Request:
    """What `write_request` wrote."""
    head, _, payload = data.partition(b"\n")
    fields = json.loads(head)
    return Request(
        spec=codec.from_plain(JobSpec, fields["spec"]),
        environ=fields["environ"],
        python=fields["python"],
        payload=payload if fields["pickled"] else None,
        path=tuple(fields["path"]),
    )


def _answer(document: dict[str, Any]) -> None:
    """Say it and let go of every descriptor that belongs to the client."""
    os.write(1, json.dumps(document).encode() + b"\n")
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    os.close(null)
