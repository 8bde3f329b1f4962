"""What lets a run stand on its own where executors cannot reach us: all that the engine knows, sent along.

It travels with the Spark task and is looked at only there and only then: the agent of task 0 makes an engine
of it. Nothing in it is ours alone but what a rank may see too: no Spark token, no environment of ours.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from launcher.codec import from_plain, to_plain
from launcher.events import GangRestarted
from launcher.orders import EXECUTOR_ENV
from launcher.request import Request
from launcher.runs.reader import read_restarts
from launcher.runs.status import read_status
from launcher.spec import JobSpec, SparkSpec
from launcher.worker.secure import Credentials

# The program of an agent that can do that.
PROGRAM = "import sys; sys.path.insert(0, sys.argv.pop(1)); from launcher import field; field.main()"
# A larger one is not sent: Spark hands it to every executor before a task can start.
LIMIT = 64 << 20
# Of what comes home, at the same time and in one heap, with room for Spark itself.
COPIES = 5


@dataclass(frozen=True, slots=True)
class Standing:
    """A run for an engine elsewhere.

    Attributes:
        run: its id.
        tasks: how many agents there are.
        credentials: the engine's.
        spec: the request's, without what only we need.
        path: as in `Request`.
        user: who started it.
        age_s: for how many seconds the run has existed.
        restarts: the attempts before.
        spool: the folder that may be shared with us, if there is one; `marker` is what it then holds.
        carry_bytes: how much the stage may bring home at most; 0 for any amount.
    """

    run: str
    tasks: int
    credentials: Credentials = field(repr=False)
    spec: JobSpec
    path: tuple[str, ...] = ()
    user: str = ""
    age_s: float = 0.0
    restarts: tuple[GangRestarted, ...] = ()
    spool: str = ""
    marker: str = field(default="", repr=False)
    carry_bytes: int = 0

    def request(self, payload: bytes | None, bundle: bytes | None) -> Request:
        """The request, as the engine elsewhere carries it out."""
        return Request(
            self.spec, environ={"USER": self.user}, python="", payload=payload, path=self.path, bundle=bundle
        )


def lean(spec: JobSpec) -> JobSpec:
    """The spec without what an executor has no business with: how we reach Spark, and with which secrets.

    The agents have come together when it is used, so there is little left to wait for.
    """
    conf = {k: v for k, v in spec.spark.conf.items() if k.startswith(EXECUTOR_ENV)}
    spark = SparkSpec(conf=conf, lost_after_s=spec.spark.lost_after_s)
    return replace(spec, spark=spark, start_timeout_s=0.0)


def stand(
    request: Request,
    folder: Path,
    tasks: int,
    engine: Credentials,
    spool: tuple[str, str],
    conf: Callable[[str, str], str],
) -> bytes:
    """All that an engine beside the agents has to know, in one piece; empty if that is too large to send.

    Args:
        request: the run's.
        folder: its run folder.
        tasks: how many agents there are.
        engine: the credentials that the agents expect of their engine.
        spool: the folder that may be shared, and its marker.
        conf: one of Spark's settings, or a default.
    """
    status, now = read_status(folder), time.time()
    standing = Standing(
        run=folder.name,
        tasks=tasks,
        credentials=engine,
        spec=lean(request.spec),
        path=request.path,
        user=request.environ.get("USER", ""),
        age_s=now - (status.started or now) if status else 0.0,
        restarts=tuple(read_restarts(folder).values()),
        spool=spool[0],
        marker=spool[1],
        carry_bytes=carry_limit(conf),
    )
    return seal(standing, request)


def carry_limit(conf: Callable[[str, str], str]) -> int:
    """How many bytes a stage may bring home; 0 for any number.

    A job's results count together, and lie whole and in several copies in the heaps of the executor that
    they come from and of the driver. What is too large there ends the job, and nothing comes.

    Args:
        conf: one of Spark's settings, or a default.
    """
    most = size_of(conf("spark.driver.maxResultSize", "1g")) * 9 // 10
    heaps = [size_of(conf(f"spark.{of}.memory", "1g")) // COPIES for of in ("driver", "executor")]
    return min(filter(None, (most, *heaps)), default=0)


def size_of(text: str, *, unit: str = "") -> int:
    """Bytes, as Spark writes them: ``512m``, ``2gb``; without a unit in `unit`, or plain. 0 if it is none."""
    match = re.fullmatch(r"(\d+)\s*([kmgtp]?)b?", text.strip().lower())
    return int(match[1]) << 10 * " kmgtp".index(match[2] or unit or " ") if match else 0


def seal(standing: Standing, request: Request) -> bytes:
    """One piece of bytes; empty if it would be too large to send."""
    pieces = [request.payload, request.bundle]
    sizes = [None if piece is None else len(piece) for piece in pieces]
    if sum(size or 0 for size in sizes) > LIMIT:
        return b""
    head = json.dumps({"standing": to_plain(standing), "sizes": sizes}).encode()
    return b"".join([head, b"\n", *(piece or b"" for piece in pieces)])


def unseal(data: bytes) -> tuple[Standing, Request]:
    """What `seal` made one piece of.

    Raises:
        ValueError, TypeError, KeyError: it did not.
    """
    head, _, rest = data.partition(b"\n")
    document = json.loads(head)
    standing = from_plain(Standing, document["standing"])
    return standing, standing.request(*_cut(rest, document["sizes"]))


def _cut(data: bytes, sizes: Iterable[int | None]) -> list[bytes | None]:
    pieces: list[bytes | None] = []
    start = 0
    for size in sizes:
        pieces.append(None if size is None else data[start : start + size])
        start += size or 0
    return pieces
