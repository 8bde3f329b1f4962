"""The panel of a run in a notebook, updated in place while the run goes on."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

from ..job import Job
from ..runs.logs.printer import Printer, hosts_of
from .html import html_of, text_of
from .panel import TAIL, Paces, panel_of

INTERVAL_S = 0.25
_REST_FACTOR = 12.0


class LivePanel:
    """Shows one run by updates of one output, at most one each `INTERVAL_S`.

    Nothing is sent while nothing has changed, and that of a large gang less often: this process also receives
    what the ranks write. What stays in the notebook is the run's end.

    Raises:
        ImportError: there is no IPython.
    """

    def __init__(self, job: Job) -> None:
        from IPython.display import display

        self._job = job
        self._show: Any = display  # untyped
        self._handle: Any = None
        self._shown: dict[str, str] = {}
        self._due = 0.0
        self._paces = Paces()
        self._tail: deque[str] = deque(maxlen=TAIL)
        self._printer = Printer(
            job.folder,
            job.state.requested,
            frozenset(range(job.most_ranks)),
            write=self._take,
            hosts=lambda: hosts_of(job.state),
            last=TAIL,
        )
        self._update()

    def advance(self) -> None:
        """Show what is new, if the last update is old enough."""
        self._printer.advance()
        if time.monotonic() >= self._due:
            began = time.thread_time()
            self._update()
            rest = (time.thread_time() - began) * _REST_FACTOR
            self._due = time.monotonic() + max(INTERVAL_S, rest)

    def finish(self) -> None:
        """Show the end."""
        self._printer.finish()
        self._update()

    def _take(self, text: str, *, err: bool = False) -> None:  # noqa: ARG002  both streams are one here
        self._tail.extend(text.split("\n"))

    def _update(self) -> None:
        state = self._job.state
        self._paces.observe(state)
        panel = panel_of(state, now=time.time(), paces=self._paces, tail=self._tail)
        bundle = {"text/html": html_of(panel), "text/plain": text_of(panel)}
        if bundle == self._shown:
            return
        if self._handle is None:
            self._handle = self._show(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)
        self._shown = bundle
