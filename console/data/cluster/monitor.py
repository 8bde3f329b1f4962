"""Polling of machines, runs and engines for the cluster screen, once a second while it is shown."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

from launcher.errors import LauncherError
from launcher.placement.inventory import Inspector, Machine
from launcher.runs.reader import FactTail
from launcher.runs.samples import newest
from launcher.runs.status import process_start
from launcher.state import events as ev
from launcher.state.fold import fold
from launcher.state.run_state import RunState

from ..history.run_list import RunCache
from ..launch.detect import named_master
from ..polling import Poller
from . import spark_api
from .model import ClusterView
from .occupancy import cluster_view, known_sparks
from .spark_api import Ask, SparkPoller

LOOK_S = 1.0
_ENGINES_S = 5.0
_SAMPLED = ev.Sampled.tag.encode()

Engines = Callable[[], Iterable[Mapping[str, Any]]]


class Inspects(Protocol):
    """Inspects this machine."""

    def look(self) -> Machine:
        """The machine's current state."""

    def close(self) -> None:
        """Release the sensors."""


class MachinePoller:
    """Publishes a `ClusterView` whenever it has changed."""

    def __init__(
        self,
        root: Path,
        publish: Callable[[ClusterView], None],
        *,
        inspector: Inspects | None = None,
        engines: Engines | None = None,
        ask: Ask = spark_api.ask,
        named: Callable[[], str] = named_master,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._root, self._clock = root, clock
        self._inspector: Inspects = Inspector() if inspector is None else inspector
        self._runs = RunCache(root)
        self._followed: dict[str, Followed] = {}
        self._engine_cache = EngineCache(_engines if engines is None else engines, clock)
        self._find_master: Callable[[], str] | None = named
        self._master = ""
        self.poller = Poller(
            self.read, publish, LOOK_S, name="rankdeck-cluster", finish=self._inspector.close
        )
        self.sparks = SparkPoller(self.poller.nudge, ask=ask, clock=clock)

    def start(self) -> None:
        """Start polling."""
        self.poller.start()
        self.sparks.poller.start()

    def rest(self) -> None:
        """Stop polling until resumed."""
        self.poller.rest()
        self.sparks.poller.rest()

    def resume(self) -> None:
        """Poll now, and go on polling."""
        self.poller.resume()
        self.sparks.poller.resume()

    def close(self) -> None:
        """End, without waiting for pending answers."""
        self.poller.close()
        self.sparks.poller.close()

    def read(self) -> Iterable[ClusterView]:
        """The current view."""
        try:
            return (self._view(),)
        except (OSError, ValueError, TypeError, LauncherError) as error:
            return (ClusterView(problem=str(error)),)

    def _view(self) -> ClusterView:
        if self._find_master is not None:
            self._master, self._find_master = self._find_master(), None
        machine = self._inspector.look()
        live = self._runs.live()
        self._followed = {run.id: self._followed.get(run.id) or Followed(self._root / run.id) for run in live}
        states = [state for followed in self._followed.values() if not (state := followed.look()).phase.final]
        engines = self._engine_cache.look(tuple(run.id for run in live))
        self.sparks.watch(known_sparks(states, engines, self._master))
        return cluster_view(machine, states, engines, self._clock(), self.sparks.seen)


class Followed:
    """A live run's state, from its facts and the newest sample of each of its agents."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self._tail = FactTail(run)
        self._state = RunState(id=run.name)

    def look(self) -> RunState:
        """The current state."""
        for fact in self._tail.poll():
            self._state = fold(self._state, fact)
        state = self._state
        for sample in self._samples():
            state = fold(state, sample)
        return state

    def _samples(self) -> Iterable[ev.Sampled]:
        agents, samples = set(self._state.hosts), dict[int, ev.Sampled]()
        lines: list[bytes] = []
        with contextlib.suppress(OSError):  # the file was thinned meanwhile
            lines = newest(self._run)
        for line in reversed(lines):
            if len(samples) >= len(agents):
                break
            if _SAMPLED in line:
                with contextlib.suppress(ValueError):
                    fact = ev.decode(line)
                    if isinstance(fact, ev.Sampled):
                        samples.setdefault(fact.agent, fact)
        return samples.values()


class EngineCache:
    """The engines' last answers. Requests are rare, because each would keep an idle engine alive."""

    def __init__(self, ask: Engines, clock: Callable[[], float]) -> None:
        self._ask, self._clock = ask, clock
        self._known: list[Mapping[str, Any]] = []
        self._asked: tuple[float, tuple[str, ...]] | None = None

    def look(self, live: tuple[str, ...]) -> list[Mapping[str, Any]]:
        """Living engines' last answers; requested when runs start or end, and every 5 s during runs."""
        now = self._clock()
        if self._asked is None or live != self._asked[1] or (live and now - self._asked[0] >= _ENGINES_S):
            self._known, self._asked = list(self._ask()), (now, live)
        self._known = [each for each in self._known if process_start(each["pid"]) is not None]
        return self._known


def _engines() -> Iterable[Mapping[str, Any]]:
    from launcher.engine.client import engines

    return engines()
