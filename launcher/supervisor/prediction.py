"""A prediction from its submission to its verdict. Its ranks are Spark's Python workers, as they come."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..agent.worker_group import SELECT_LIMIT_S
from ..backends.base import AgentsExpected, StageOver
from ..channel.connection import AgentConnection
from ..channel.frames import Kind
from ..errors import LauncherError, TimeLimit
from ..runs import paths
from ..runs.logs.writer import Chunk
from ..state import events as ev
from .run_loop import RunLoop

if TYPE_CHECKING:
    from ..backends.spark.prediction.reading import WorkerFailure

LAST_WORDS_S = 1.0
"""How long the agents may take to say what their workers did last."""


class PredictionSupervisor(RunLoop):
    """Runs a prediction: Spark places and repeats its tasks, so it has no gang and no attempts."""

    _over: float | None = None
    _error: LauncherError | None = None

    def _launch(self) -> None:
        self._backend.launch(self._request, None, self._writer.folder, attempt=0)

    def _ended(self) -> bool:
        if self._over is None:
            return False
        self._roster.dismiss()
        if self._roster and self._clock() < self._over + LAST_WORDS_S and not self._all_told:
            return False
        if self._error is not None and self.state.stop is None:
            failed = getattr(self._error, "failure", None)
            if failed is None:
                raise self._error
            self._blame(failed)
        self._finish_workers()
        return True

    @property
    def _all_told(self) -> bool:
        """Whether agents have told all rows that were written."""
        told = sum(rank.rows for rank in self.state.ranks)
        return self.state.prediction is not None and 0 < self.state.prediction.rows <= told

    def _decide(self) -> None:
        for posted in self.mailbox.take():
            self._handle(posted)
        if self._limit is not None and self._clock() >= self._limit and self.state.stop is None:
            self._stop(self._too_late())

    def _timeout(self) -> float:
        last = LAST_WORDS_S / 10 if self._over is not None else SELECT_LIMIT_S
        waits = [w for w in (self._roster.timeout(), last) if w is not None]
        if self._limit is not None and self.state.stop is None:
            waits.append(max(0.0, self._limit - self._clock()))
        return min(waits)

    @property
    def _limit(self) -> float | None:
        """When the time limit ends it, on the engine's clock; None without a limit."""
        limit, began = self._spec.timeout_s, self.state.started
        return None if limit is None or began is None else began + limit

    def _too_late(self) -> ev.StopRequested:
        return ev.StopRequested(
            time=self._clock(),
            by="limit",
            reason=f"the time limit of {self._spec.timeout_s:g} s",
            exit_code=TimeLimit.exit_code,
            grace_s=0.0,
        )

    def _on_news(self) -> None:
        for news in self._backend.news():
            match news:
                case AgentConnection():
                    self._welcome(news)
                case AgentsExpected():
                    pass
                case StageOver():
                    self._over, self._error = self._clock(), news.error
                case _:
                    self._writer.append(news)

    def _welcome(self, link: AgentConnection) -> None:
        """Give the worker beside an agent its number."""
        self._roster.add([link])
        if (hello := link.hello) is None:
            return
        rank = len(self.state.ranks)
        self._writer.append(
            ev.WorkerFound(
                time=self._clock(),
                rank=rank,
                agent=hello.agent,
                host=hello.host,
                pid=hello.pid,
                devices=hello.devices,
            )
        )
        self._roster.send_to(hello.agent, Kind.START, {"rank": rank})

    def _handle(self, posted: ev.Event) -> None:
        if isinstance(posted, ev.StopRequested):
            self._stop(posted)
        else:
            self._writer.append(posted)

    def _stop(self, request: ev.StopRequested) -> None:
        """Cancel the jobs; Spark then ends the workers."""
        if self.state.stop is None:
            self._writer.append(request)
        self._backend.abort()

    def _blame(self, failed: WorkerFailure) -> None:
        """Record which worker failed, how, and in which rows. It may have failed before its agent came."""
        state, now = self.state, self._clock()
        found = next((r.rank for r in state.ranks if r.agent == failed.task or r.pid == failed.pid), None)
        if found is None:
            found = len(state.ranks)
            self._writer.append(
                ev.WorkerFound(time=now, rank=found, agent=failed.task, host=failed.host, pid=failed.pid)
            )
        self._writer.append(
            ev.RankRaised(
                time=now,
                rank=found,
                kind=failed.kind,
                message=f"{failed.rows}: {failed.message}",
                traceback=failed.traceback,
            )
        )
        text = failed.traceback.encode()
        self._writer.output([(Chunk(int(now * 1e9), found, len(text), paths.STDERR), memoryview(text))])
        self._writer.append(ev.RankExited(time=now, rank=found, exit_code=1))

    def _finish_workers(self) -> None:
        """Spark keeps workers for other people's work, so that they have not ended says nothing."""
        for rank in self.state.ranks:
            if not rank.phase.ended:
                self._writer.append(ev.RankExited(time=self._clock(), rank=rank.rank, exit_code=0))
