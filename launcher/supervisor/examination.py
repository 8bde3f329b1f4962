"""Asking hosts before a run: agents are started as for a run, asked, and dismissed. No rank is started.

Nothing is recorded, and there is no run folder: what came of it is one value, `Examined`.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import selectors
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from ..backends.base import AgentsExpected, Backend, StageOver
from ..channel.connection import AgentConnection, ConnectionClosed
from ..channel.frames import Frame, Kind, WireError
from ..channel.handshake import Hello
from ..channel.network import is_loopback
from ..diagnosis.checks.facts import Examined, HostAnswer, RefusedLaunch
from ..diagnosis.checks.placing import SETTINGS
from ..diagnosis.checks.reachability import MOST_DIALLED
from ..errors import LauncherError, RunStopped, SpecError
from ..placement.plan import Plan
from ..placement.topology import host_names
from ..runs.paths import CHECK_PREFIX
from ..serialization import to_plain
from ..spec.request import Request
from ..state import events as ev
from ..state.host_facts import HostFacts, HostQuestions, PeerAddress, read_answer

SESSION_S = 60.0
SLOTS_S, COLD_SLOTS_S = 12.0, 40.0  # a gang that may be smaller settles after 10 s
"""For how long slots are waited for that somebody holds, and for those of a session that was just made.

A run waits for longer; a check is to be told of it.
"""
COLD_S = 1.0
"""A session that takes longer to be opened was not there before: its executors have yet to start."""

JOIN_S = 60.0
"""For how long agents are waited for that Spark has started.

An executor asks another one for the parts of a task first, and asks the driver 15 s later if it cannot reach
that one (`spark.shuffle.io.maxRetries` times `retryWait`); a task has two such parts. Only agents that came
can tell that the hosts do not reach each other.
"""
SPARE_S = 7.0
"""A host answers within its own limit; so much later, if it is overloaded, or the way to it slow."""

LEAVE_S, CLOSE_S = 3.0, 20.0
POLL_S = 0.5


@dataclass(slots=True)
class ExaminationCourse:
    """How far an examination is; times are monotonic, None for what has not happened.

    Attributes:
        began: when it began.
        cold: whether the Spark session had to be made.
        waiting_since: since when slots are waited for that are not free.
        expected_at: when the agents were being started.
        asked_at: when all had joined and were asked.
        over: whether no more agents will come.
    """

    began: float
    cold: bool = False
    waiting_since: float | None = None
    expected_at: float | None = None
    asked_at: float | None = None
    over: bool = False

    def deadline(self, limit_s: float) -> float:
        """Until when the present step may take. `limit_s` is the hosts' own limit for their answer."""
        if self.asked_at is not None:
            return self.asked_at + limit_s + SPARE_S
        if self.expected_at is not None:
            return self.expected_at + JOIN_S
        if self.waiting_since is not None:
            return self.waiting_since + (COLD_SLOTS_S if self.cold else SLOTS_S)
        return self.began + SESSION_S


class Examination:
    """One examination. `run` blocks; `stop` may be called from any thread.

    Args:
        request: the launch.
        plan: every rank's place, if the backend knows that beforehand.
        backend: starts the agents; it is closed at the end.
        questions: what every host is asked.
        gone: a descriptor that becomes readable when nobody waits for the answer any more; -1 for none.
    """

    def __init__(
        self,
        request: Request,
        plan: Plan | None,
        backend: Backend,
        questions: HostQuestions,
        *,
        gone: int = -1,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._request, self._plan, self._backend = request, plan, backend
        self._questions = replace(questions, nonce=secrets.token_hex(16))
        self._monotonic = monotonic
        self._progress = ExaminationCourse(monotonic())
        self._examined = Examined()
        self._links: dict[int, AgentConnection] = {}
        self._hellos: dict[int, Hello] = {}
        self._facts: dict[int, HostFacts] = {}
        self._troubles: dict[int, str] = {}
        self._selector = selectors.DefaultSelector()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._waking = threading.RLock()  # a handler of a signal may stop it twice
        self._gone = gone
        self._stopped = self._leaving = False

    def stop(self) -> None:
        """End it soon; `run` then raises."""
        self._stopped = True
        with self._waking:
            if self._wake >= 0:
                os.eventfd_write(self._wake, 1)

    def run(self) -> Examined:
        """Start agents, ask them, dismiss them, and return what came of it. Nothing is left running.

        Raises:
            RunStopped: it was stopped, or nobody waits for it any more.
            SpecError: the launch is not allowed.
            OSError: there is no room for a temporary folder.
        """
        folder: Path | None = None
        try:
            with self._selector:
                folder = Path(tempfile.mkdtemp(prefix=CHECK_PREFIX))
                self._examine(folder)
        finally:
            try:
                self._end_backend()
            finally:
                self._close_wake()
                if folder is not None:
                    shutil.rmtree(folder, ignore_errors=True)
        return self._result()

    def _end_backend(self) -> None:
        if not self._progress.over:  # its backend may still be about to start agents
            self._backend.abort()
        late = (news for news in self._backend.news() if isinstance(news, AgentConnection))
        for link in (*self._links.values(), *late):
            link.close()
        self._backend.close(CLOSE_S)

    def _close_wake(self) -> None:
        """Another thread may be about to stop it, and another file will soon have the descriptor's number."""
        with self._waking:
            wake, self._wake = self._wake, -1
            os.close(wake)

    def _examine(self, folder: Path) -> None:
        self._selector.register(self._wake, selectors.EVENT_READ, self._interrupt)
        if self._gone >= 0:
            self._selector.register(self._gone, selectors.EVENT_READ, self._interrupt)
        self._selector.register(self._backend, selectors.EVENT_READ, self._on_news)
        try:
            self._backend.offers(self._request)
            self._backend.launch(self._request, self._plan, folder, attempt=0)
            while not self._done():
                self._turn()
            self._note_silent()
            self._note_settings()
            self._dismiss()
        except LauncherError as error:
            if self._stopped or isinstance(error, SpecError):
                raise
            self._fail(error)

    def _interrupt(self) -> None:
        self._stopped = True
        raise RunStopped("the check was interrupted", exit_code=130)

    # --- the loop ------------------------------------------------------------------------------------

    def _turn(self) -> None:
        left = self._progress.deadline(self._questions.limit_s) - self._monotonic()
        for key, _ in self._selector.select(max(0.0, min(POLL_S, left))):
            if isinstance(key.data, AgentConnection):
                self._on_agent(key.data)
            else:
                key.data()
        self._keep_alive()
        if self._progress.asked_at is None and self._complete:
            self._ask()

    @property
    def _complete(self) -> bool:
        expected = self._examined.expected
        return expected is not None and len(self._hellos) >= expected

    def _done(self) -> bool:
        """Whether nothing more will be heard, or not in time."""
        progress = self._progress
        if (
            progress.asked_at is not None
            and self._facts.keys() | self._troubles.keys() >= self._hellos.keys()
        ):
            return True
        if progress.over and not self._links:
            return True
        if self._monotonic() < progress.deadline(self._questions.limit_s):
            return False
        if progress.asked_at is None and self._hellos:  # those that came can be asked
            self._ask()
            return False
        return True

    def _on_news(self) -> None:
        for news in self._backend.news():
            match news:
                case AgentConnection():
                    self._admit(news)
                case AgentsExpected():
                    self._progress.expected_at = self._monotonic()
                    self._examined = replace(self._examined, expected=news.agents)
                case StageOver():
                    self._progress.over = True
                    if news.error is not None:
                        self._fail(news.error)
                case _:
                    self._on_fact(news)

    def _on_fact(self, fact: ev.Event) -> None:
        match fact:
            case ev.SlotsAwaited():
                if self._progress.waiting_since is None:
                    self._progress.waiting_since = self._monotonic()
                self._examined = replace(self._examined, waiting=fact.reason)
            case ev.SparkReady():
                self._progress.cold = self._monotonic() - self._progress.began > COLD_S
            case ev.NoteMade():
                self._examined = replace(self._examined, notes=(*self._examined.notes, fact.text))
            case ev.DeliveryChosen():
                self._examined = replace(self._examined, way=fact.reason)
            case _:
                pass

    def _fail(self, error: LauncherError) -> None:
        self._examined = replace(self._examined, error=RefusedLaunch.of(error))

    # --- agents --------------------------------------------------------------------------------------

    def _admit(self, link: AgentConnection) -> None:
        if self._leaving or link.agent in self._links:
            return link.close()
        self._links[link.agent] = link
        self._selector.register(link, selectors.EVENT_READ, link)
        return self._greet(link)

    def _greet(self, link: AgentConnection) -> None:
        if link.hello is not None and link.hello.agent not in self._hellos:
            self._hellos[link.hello.agent] = link.hello

    def _on_agent(self, link: AgentConnection) -> None:
        try:
            frames = link.receive()
        except ConnectionClosed as error:
            self._drop(link, f"went away: {error}")
            return
        self._greet(link)
        for frame in frames:
            if frame.kind is Kind.CHECKED:
                self._on_answer(link.agent, frame)

    def _on_answer(self, agent: int, frame: Frame) -> None:
        try:
            self._facts[agent] = read_answer(frame.document())
        except (WireError, ValueError, TypeError, LookupError, RecursionError) as error:
            self._troubles[agent] = f"has answered with what makes no sense: {error!s:.200}"

    def _drop(self, link: AgentConnection, why: str) -> None:
        self._selector.unregister(link)
        link.close()
        del self._links[link.agent]
        if link.agent in self._hellos and link.agent not in self._facts:
            self._troubles.setdefault(link.agent, why)

    def _keep_alive(self) -> None:
        now = self._monotonic()
        for link in list(self._links.values()):
            try:
                link.keep_alive(now)
                link.flush()
            except ConnectionClosed as error:
                self._drop(link, f"went away: {error}")

    def _ask(self) -> None:
        """Ask all that came. Of each host, one agent dials those of other hosts."""
        self._progress.asked_at = self._monotonic()
        hellos = [self._hellos[agent] for agent in sorted(self._hellos)]
        names, leaders = host_names(hellos), dict[str, Hello]()
        for hello in hellos:
            leaders.setdefault(names[hello.agent], hello)
        for agent, link in self._links.items():
            dials = agent in self._hellos and leaders[names[agent]].agent == agent
            peers = tuple(peers_of(agent, list(leaders.values()))) if dials else ()
            link.send(Kind.CHECK, to_plain(replace(self._questions, peers=peers)))

    # --- the end -------------------------------------------------------------------------------------

    def _note_silent(self) -> None:
        late = f"has not answered within {self._questions.limit_s + SPARE_S:g} s"
        for agent in self._hellos.keys() - self._facts.keys():
            self._troubles.setdefault(agent, late)

    def _note_settings(self) -> None:
        with contextlib.suppress(LauncherError):
            self._examined = replace(self._examined, settings=self._backend.settings(SETTINGS))

    def _dismiss(self) -> None:
        """Have agents leave by themselves, which Spark then needs not be asked for."""
        self._leaving = True
        for link in self._links.values():
            link.send(Kind.QUIT, {})
        until = self._monotonic() + LEAVE_S
        while (self._links or (self._examined.expected and not self._progress.over)) and (
            left := until - self._monotonic()
        ) > 0:
            for key, _ in self._selector.select(left):
                if isinstance(key.data, AgentConnection):
                    self._on_agent(key.data)
                else:
                    key.data()

    def _result(self) -> Examined:
        hosts = tuple(
            answer_of(hello, self._facts.get(agent), self._troubles.get(agent, ""))
            for agent, hello in sorted(self._hellos.items())
        )
        took = self._monotonic() - self._progress.began
        return replace(self._examined, hosts=hosts, seconds=round(took, 3))


def peers_of(agent: int, leaders: list[Hello]) -> Iterator[PeerAddress]:
    """The agents of other hosts that an agent dials: the next ones by number, of many hosts not all."""
    place = next(i for i, each in enumerate(leaders) if each.agent == agent)
    others = [*leaders[place + 1 :], *leaders[:place]][:MOST_DIALLED]
    for other in others:
        addresses = dict.fromkeys(filter(None, (other.address, *other.addresses)))
        outside = [each for each in addresses if not is_loopback(each)]
        yield PeerAddress(other.agent, tuple(outside or addresses), other.port)


def answer_of(hello: Hello, facts: HostFacts | None, trouble: str) -> HostAnswer:
    """What is told of one agent."""
    return HostAnswer(
        agent=hello.agent,
        host=hello.host,
        python=hello.python,
        torch=hello.torch,
        machine=hello.machine,
        address=hello.address,
        cores=hello.cores,
        devices=hello.devices,
        exclusive=hello.exclusive,
        gpu_reason=hello.gpu_reason,
        clock_offset=hello.clock_offset,
        facts=facts,
        trouble=trouble,
    )
