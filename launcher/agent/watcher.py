"""The agent beside a Python worker that predicts: it tells the engine what the worker has done.

It starts and stops nothing: Spark owns the worker. It ends with the worker, whose end closes its standard
input, or with the engine. If it cannot reach the engine, the worker predicts all the same.

Started as ``python -P -c BOOT ROOT`` with one JSON line on standard input (`Boot`), as other agents are.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import selectors
import time
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..channel import frames
from ..channel.connection import EngineConnection
from . import linux
from .boot import STDIN, Boot, read_boot
from .hello import AgentGpus, agent_gpus, connect_to_engine, greeting

if TYPE_CHECKING:
    from ..state.events import Event
    from .telemetry import Sampling

# It yields to the worker, whose core it shares.
BOOT = (
    "import os, sys; os.nice(10); sys.path.insert(0, sys.argv.pop(1)); "
    "from launcher.agent import watcher; watcher.main()"
)
REPORT_S = 0.5
RATE_S = 10.0
LAST_S = 2.0


def main() -> None:
    """Run as an agent beside a worker."""
    boot = read_boot()
    gpus = agent_gpus(boot)
    with contextlib.closing(connect_to_engine(boot)) as stream:
        Watcher(boot, gpus, EngineConnection(stream, boot.lost_after_s)).run()


class Counters:
    """What a worker has counted in memory that it shares: rows and batches.

    The rate is that of the last `RATE_S` seconds.
    """

    def __init__(self, descriptor: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._shared = memoryview(mmap.mmap(descriptor, mmap.PAGESIZE, prot=mmap.PROT_READ)).cast("Q")
        self._clock = clock
        self._past: deque[tuple[float, int]] = deque()
        self.rows = self.batches = 0

    def read(self) -> bool:
        """Read them; whether there is something new."""
        now, before = self._clock(), self.rows
        self.rows, self.batches = self._shared[0], self._shared[1]
        self._past.append((now, self.rows))
        while len(self._past) > 2 and now - self._past[0][0] > RATE_S:
            self._past.popleft()
        return self.rows != before

    @property
    def rate(self) -> float:
        """Rows a second."""
        (began, first), (now, last) = self._past[0], self._past[-1]
        return (last - first) / (now - began) if now > began else 0.0


class Watcher:
    """The agent's loop."""

    def __init__(self, boot: Boot, gpus: AgentGpus, line: EngineConnection) -> None:
        self._boot, self._gpus, self._line = boot, gpus, line
        self._counters = Counters(boot.counters)
        self._selector = selectors.DefaultSelector()
        self._sampling: Sampling | None = None
        self._rank: int | None = None
        self._due = 0.0
        self._leaving: float | None = None

    def run(self) -> None:
        """Join, and report until the worker or the engine is gone."""
        linux.raise_file_limit()
        hello = greeting(self._boot, self._gpus, port=0, address=self._line.address)
        with contextlib.suppress(ConnectionError, frames.WireError):
            self._line.join(self._boot.token, {**hello, "pid": self._boot.worker})
            self._selector.register(self._line, selectors.EVENT_READ, self._on_engine)
            self._selector.register(STDIN, selectors.EVENT_READ, self._on_worker_ended)
            while not self._is_over():
                self._turn()
        if self._sampling is not None:
            self._sampling.stop()

    def _is_over(self) -> bool:
        """Whether the last was said, or nobody takes it."""
        if self._leaving is None:
            return False
        return not self._line.pending or time.monotonic() > self._leaving

    def _turn(self) -> None:
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._line.pending else 0)
        self._selector.modify(self._line, events, self._on_engine)
        for key, _ in self._selector.select(REPORT_S):
            key.data()
        if time.monotonic() >= self._due and not self._line.full:
            self._due = time.monotonic() + REPORT_S
            self._report()
        self._line.keep_alive()
        self._line.flush()

    def _on_engine(self) -> None:
        for frame in self._line.receive():
            if frame.kind is frames.Kind.START and self._rank is None:
                self._rank = int(frame.document()["rank"])
                self._sample(self._rank)
            elif frame.kind is frames.Kind.QUIT:
                self._leave()

    def _on_worker_ended(self) -> None:
        if not os.read(STDIN, 1):
            self._selector.unregister(STDIN)
            self._leave()

    def _leave(self) -> None:
        """Say the last: what the worker did, and that it needs no agent. If it failed, Spark says so."""
        if self._leaving is not None:
            return
        if self._sampling is not None:
            self._selector.unregister(self._sampling)
            self._sampling.on_ranks_ended()
            self._sampling.stop()
        self._report()
        if self._rank is not None:
            from ..state.events import RankExited

            self._fact(RankExited(time=time.time(), rank=self._rank, exit_code=0))
        self._line.put(frames.document(frames.Kind.IDLE, {"port": 0}))
        self._leaving = time.monotonic() + LAST_S

    def _sample(self, rank: int) -> None:
        """Sample the worker's devices and processes from now on."""
        from .telemetry import Sampling

        self._sampling = Sampling(self._boot, self._gpus.devices, self._fact)
        self._selector.register(self._sampling, selectors.EVENT_READ, self._sampling.deliver)
        self._sampling.start(lambda: {rank: (self._boot.worker,)})

    def _report(self) -> None:
        """Report the rows if there are more, and once more when none came for a while."""
        was = self._counters.rate if self._counters.rows else 0.0
        if self._rank is None or not (self._counters.read() or was):
            return
        from ..state.events import ROWS, ROWS_PER_S, RankReported

        counted = self._counters
        metrics = {ROWS: counted.rows, ROWS_PER_S: round(counted.rate, 1), "batches": counted.batches}
        self._fact(RankReported(time=time.time(), rank=self._rank, metrics=metrics))

    def _fact(self, fact: Event) -> None:
        from ..state.events import to_wire

        self._line.put(frames.document(frames.Kind.FACT, to_wire(fact)))
