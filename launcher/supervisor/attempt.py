"""One attempt at a run: the agents' hellos become hosts and a plan, and the plan each agent's START order.

joining    agents arrive; the backend reports how many are expected
placing    their offers become the plan, unless it was made beforehand
reaching   agents of several hosts report the addresses at which they reach rank 0's host
started    every agent has its order
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..agent.boot import base_environ
from ..agent.hello import torch_version
from ..agent.program import CONFIG
from ..channel.frames import Kind
from ..channel.handshake import Hello
from ..errors import CannotPlace, InternalError, LauncherError, counted
from ..frameworks.base import Call, Rendezvous
from ..frameworks.registry import FrameworkChoice, choose, watched
from ..placement.plan import Plan, make_plan, rank_environ, thread_note
from ..placement.topology import (
    MeetingPoint,
    Versions,
    choose_address,
    gpu_reason,
    host_names,
    offers_of,
    version_notes,
)
from ..runs.provenance import user_name
from ..runs.writer import RunWriter
from ..serialization import to_plain
from ..spec.environment import carried_by, of_executors
from ..spec.job import JobSpec
from ..spec.places import Assignment
from ..spec.request import Request
from ..state import events as ev
from ..state.outcome_rules import listed
from .agents import Roster
from .delivery import Delivery


def submission(request: Request, time: float) -> ev.RunSubmitted:
    """A run's first fact: that it exists, with its owner."""
    spec = request.spec.redacted()
    return ev.RunSubmitted(
        time=time,
        name=spec.label,
        target=spec.target.label,
        mode=spec.mode.value,
        num_processes=spec.num_processes,
        user=user_name(request.environ),
        host=os.uname().nodename,
        pid=os.getpid(),
        args=spec.target.arguments,
    )


class Attempt:
    """The steps before the ranks of one attempt can start; `advance` takes those that are possible.

    Attributes:
        number: the attempt's number, from 0.
        plan: every rank's place, once known.
        started: whether the ranks have been ordered to start.
        scheduler_reason: why the scheduler assigns no GPUs, if they are demanded.
    """

    def __init__(
        self,
        request: Request,
        plan: Plan | None,
        *,
        writer: RunWriter,
        roster: Roster,
        clock: Callable[[], float],
    ) -> None:
        self.number = 0
        self.started = False
        self.scheduler_reason = ""
        self._request = request
        self._spec = request.spec
        self.plan = self._initial_plan = plan
        self._choice = choose(request.spec)
        self._base = shared_environ(request)
        self._writer = writer
        self._roster = roster
        self._clock = clock
        self._meeting: MeetingPoint | None = None
        self._reach_sent = False
        self._delivery: Delivery | None = None
        self._delivered = False
        self._explained = -1

    def place(self) -> None:
        """Record a plan that was made beforehand, when its agents are being started."""
        if self.plan and not self._writer.state.ranks:
            self._record(self.plan)

    def advance(self) -> None:
        """Take the next steps whose conditions are met.

        Raises:
            CannotPlace: the agents cannot hold the gang, or cannot reach each other.
        """
        if self.started or not self._roster.complete:
            return
        if self.plan is None:
            self.plan = self._plan_from_offers()
            self._record(self.plan)
        delivered = self._deliver()
        if self._meeting is None:
            self._meeting = self._choose_meeting(self.plan)
        if self._meeting is not None and delivered:
            self._start(self.plan, self._meeting)

    def explain(self) -> None:
        """Note once which files ranks have missed that the caller has, and that did not travel."""
        if self._delivery is None or self._explained == self.number:
            return
        self._explained = self.number
        raised = (rank.raised for rank in self._writer.state.ranks)
        messages = dict.fromkeys(each.message for each in raised if each and each.kind == "FileNotFoundError")
        for text in dict.fromkeys(filter(None, map(self._delivery.missed, messages))):
            self._note(text, level="warning")

    def restart_in_place(self, number: int) -> None:
        """Begin another attempt with the same agents and places."""
        self.number = number
        self.started = False
        if self._roster.collection.collectors:  # its files are to be what came home last
            self._delivery, self._delivered = None, False
            self._roster.prepared.clear()
            self._roster.collection.collectors.clear()
        if self.plan:
            self._record(self.plan)
        self.advance()

    def restart_with_new_agents(self, number: int) -> None:
        """Begin another attempt, with agents that have yet to join."""
        self.number = number
        self.started = self._reach_sent = self._delivered = False
        self.plan, self._meeting, self._delivery = self._initial_plan, None, None
        self._roster.reset()

    @property
    def delivery(self) -> Delivery | None:
        """The delivery of the run's files that goes on; None if there is none."""
        return self._delivery if self._delivery and not self._delivery.complete else None

    def too_late(self, limit_s: float) -> LauncherError:
        """The error for agents that have not joined in time."""
        traits = self._spec.mode.traits
        if self.delivery is not None:
            late = listed(list(self.delivery.late), most=3)
            return CannotPlace(f"nothing more was heard of the run's files on their way to {late}")
        if self._roster.expected is None and not traits.scheduled:
            return CannotPlace(
                f"no room on {traits.place} within {limit_s:g} s", hint="--start-timeout waits longer"
            )
        expected = self._roster.expected
        agents = counted(expected, "agent") if expected else "the agents"
        came = f"{self._roster.joined} of {agents} came within {limit_s:g} s"
        return CannotPlace(came) if traits.scheduled else InternalError(came)

    def _plan_from_offers(self) -> Plan:
        hellos = self._roster.hellos
        ours = Versions(platform.python_version(), torch_version())
        if not self._spec.python:  # else agents know nothing of the ranks' interpreter
            for text in version_notes(hellos, ours, pickled=self._spec.target.pickled):
                self._note(text)
        return make_plan(
            self._spec, offers_of(hellos, self._spec), gpu_reason=gpu_reason(hellos, self.scheduler_reason)
        )

    def _record(self, plan: Plan) -> None:
        now = self._clock()
        self._writer.append(ev.GangPlaced(time=now, attempt=self.number, ranks=plan.ranks))
        if self.number:  # the notes were written with the first attempt
            return
        choice = self._choice
        self._writer.append(
            ev.FrameworkChosen(
                time=now,
                framework=choice.framework.name,
                asked=choice.asked,
                detected=choice.detected,
                whole=not self._spec.target.kind.called,
            )
        )
        for text in choice.notes(self._spec):
            self._note(text, level="warning")
        chosen = chosen_environ(self._spec, self._base)
        for text in filter(None, (*plan.notes, thread_note(plan, chosen))):
            self._note(text)

    def _note(self, text: str, level: str = "info") -> None:
        self._writer.append(ev.NoteMade(time=self._clock(), attempt=self.number, text=text, level=level))

    def _deliver(self) -> bool:
        """Bring the run's files to its hosts; whether they are there."""
        bundle = self._request.bundle
        if bundle is None or self._delivered:
            return True
        if self._delivery is None:
            self._delivery = Delivery(
                bundle,
                self._roster,
                self._clock,
                run=self._writer.folder,
                artifacts=self._writer.artifacts.kept,
                collect=self._spec.artifacts_limit > 0,
            )
        self._delivery.advance()
        if told := self._delivery.tell(self.number):
            self._writer.append(told)
        self._delivered = self._delivery.complete
        if self._delivered and not self.number:  # hosts of a later attempt lack the same
            for text in self._delivery.notes:
                self._note(text, level="warning")
        return self._delivered

    def _choose_meeting(self, plan: Plan) -> MeetingPoint | None:
        """The address of the rendezvous; None while agents are still trying to reach it."""
        hellos = {h.agent: h for h in self._roster.hellos if plan.on(h.agent)}
        first = hellos[plan.ranks[0].agent]
        if self._spec.mode.traits.one_host:
            return MeetingPoint(first.address, {})
        if not self._reach_sent:
            self._reach_sent = True
            self._roster.send(Kind.REACH, lambda _: {"addresses": _candidates(first), "port": first.port})
        reached = self._roster.reached
        if not hellos.keys() <= reached.keys():
            return None
        names = host_names(self._roster.hellos)
        hosts = {agent: names[agent] for agent in hellos}
        return choose_address(_candidates(first), reached, hosts, first=first.agent)

    def _start(self, plan: Plan, meeting: MeetingPoint) -> None:
        """Send every agent its order; rank 0's agent holds the store's port."""
        self.started = True
        self._roster.begin()
        rendezvous = Rendezvous(
            address=meeting.address,
            port=self._roster.ports[plan.ranks[0].agent],
            run_id=self._writer.id,
            restart_count=self.number,
            max_restarts=self._spec.max_restarts,
        )

        def order(agent: int) -> dict[str, Any]:
            return start_message(
                agent,
                plan,
                spec=self._spec,
                rendezvous=rendezvous,
                choice=self._choice,
                base=self._base,
                python=self._request.interpreter,
                path=self._request.path,
                interfaces=meeting.interfaces,
                attempt=self.number,
            )

        payload = self._request.payload
        self._roster.send(Kind.START, order, {Kind.PAYLOAD: payload} if payload else None)


def _candidates(first: Hello) -> list[str]:
    """Addresses of rank 0's host, first the one by which its agent reaches the engine."""
    return list(dict.fromkeys(filter(None, (first.address, *first.addresses))))


def shared_environ(request: Request) -> dict[str, str]:
    """The variables that all ranks share; those of other hosts add them to their own.

    On this machine ranks have the caller's whole environment, and on others what travels of it.
    """
    spec = request.spec
    if spec.mode.traits.inherits:
        return base_environ(request.environ, spec.env, python=request.interpreter)
    return {**carried_by(request), **spec.env}


def chosen_environ(spec: JobSpec, base: Mapping[str, str]) -> Mapping[str, str]:
    """The variables that the user has chosen, for which rankdeck must set no values of its own.

    Args:
        spec: the request.
        base: what all ranks share, as in `shared_environ`.

    The executors' own environment is left out: it holds an OMP_NUM_THREADS that Spark has set.
    """
    return base if spec.mode.traits.inherits else {**of_executors(spec), **base}


def start_message(
    agent: int,
    plan: Plan,
    *,
    spec: JobSpec,
    rendezvous: Rendezvous,
    choice: FrameworkChoice,
    base: Mapping[str, str],
    python: str = "",
    path: Sequence[str] = (),
    interfaces: Mapping[int, str] | None = None,
    origin: str = "",
    attempt: int = 0,
) -> dict[str, Any]:
    """The document of an agent's START; `ranks` is empty if the plan has none for it.

    Args:
        agent: the agent's number.
        plan: every rank's place.
        spec: the request.
        rendezvous: the address and identity of the gang's store.
        choice: the framework of the target.
        base: what all ranks share, as in `shared_environ`; on a cluster, agents add it to their own.
        python: the ranks' interpreter; empty for the agent's own.
        path: the caller's `sys.path`, if the target is a function of the caller's process.
        interfaces: the network interface of each agent, where known.
        origin: the folder on the caller's machine of which the agent gets a copy; empty without one.
        attempt: the number of the attempt, from 0.
    """
    inherits = spec.mode.traits.inherits
    chosen = chosen_environ(spec, base)
    interface = (interfaces or {}).get(agent, "")
    places = plan.on(agent)
    return {
        "program": {
            "target": to_plain(spec.target),
            "is_file": spec.target.is_file,
            "path": list(path),
            "foreign": bool(spec.python),
            "pickled_by": platform.python_version() if spec.target.pickled else "",
            "argv": arguments(places, rendezvous, spec, choice),
            "config": choice.config,
            "frameworks": watched(),
        },
        "python": python,
        "cwd": spec.workdir,
        "inherit": not inherits,
        "env": dict(base),
        "ranks": {
            str(p.rank): rank_environ(p, rendezvous, chosen, framework=choice.framework, interface=interface)
            for p in places
        },
        "yields": list(choice.framework.defaults(interface)),
        "shared_memory": choice.framework.shared_memory(rendezvous),
        "grace_s": spec.grace_s,
        "origin": origin,
        "attempt": attempt,
    }


def arguments(
    places: Sequence[Assignment], rendezvous: Rendezvous, spec: JobSpec, choice: FrameworkChoice
) -> dict[str, list[str]]:
    """A program's arguments by rank, for ranks whose framework changes them; a function's `sys.argv`."""
    args = () if spec.target.kind.called else spec.target.args
    call = Call(args, choice.source, CONFIG if choice.config else "")
    changed = {str(p.rank): list(choice.framework.argv(p, rendezvous, call)) for p in places}
    return {rank: own for rank, own in changed.items() if own != list(args)}
