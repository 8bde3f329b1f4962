"""One attempt at a run: the agents' hellos become hosts and a plan, and the plan each agent's START order.

joining    agents arrive; the backend reports how many are expected
placing    their offers become the plan, unless it was made beforehand
holding    agents hold ports for the ranks' framework, if it needs any
reaching   agents of several hosts report the addresses at which they reach rank 0's host
started    every agent has its order; if the framework has services, ranks wait until all are ready
released   the ranks that run the target have ended, and the services may
"""

from __future__ import annotations

import math
import os
import platform
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..agent.boot import base_environ
from ..agent.program import CONFIG
from ..agent.torch_build import torch_version
from ..channel.frames import Kind, WireError
from ..channel.handshake import Hello
from ..channel.network import Way
from ..errors import CannotPlace, InternalError, LauncherError, counted
from ..frameworks.base import Call, Framework, Peer, Rendezvous, ServiceCommand
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
from ..state.outcome_rules import SERVICES_LIMIT_S, listed, may_proceed, may_release
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
        services: the ranks beside which the framework has services.
        proceeded: whether ranks no longer wait for services.
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
        self.started = self.proceeded = self._released = False
        self.services: frozenset[int] = frozenset()
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
        self._reach_sent = self._hold_sent = False
        self._started_at = 0.0
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
        held = self._hold(self.plan)
        if held and self._meeting is None:
            self._meeting = self._choose_meeting(self.plan)
        if held and self._meeting is not None and delivered:
            self._start(self.plan, self._meeting)

    def guide_services(self) -> None:
        """Let the ranks start once all services are ready, and the services end after the ranks.

        Raises:
            CannotPlace: services are not ready in time.
        """
        state = self._writer.state
        if not self.started or not self.services:
            return
        if not self.proceeded and may_proceed(state, self.services):
            self.proceeded = True
            self._roster.send(Kind.PROCEED, lambda _: {})
        if self.proceeded and not self._released and may_release(state):
            self._released = True
            self._roster.send(Kind.RELEASE, lambda _: {})
        if self._clock() >= self.services_limit:
            late = [str(each.rank) for each in state.services if each.ready is None]
            raise CannotPlace(
                f"{self._choice.framework.name} was not ready within {SERVICES_LIMIT_S:g} s beside "
                f"rank{'s' * (len(late) > 1)} {listed(late)}"
            )

    @property
    def services_limit(self) -> float:
        """Until when services must be ready, on the engine's clock; infinite if none is waited for."""
        waits = self.started and self.services and not self.proceeded and self._writer.state.stop is None
        return self._started_at + SERVICES_LIMIT_S if waits else math.inf

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
        self.started = self.proceeded = self._released = self._hold_sent = False
        self._roster.held.clear()
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
        self.started = self.proceeded = self._released = False
        self._reach_sent = self._hold_sent = self._delivered = False
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
        world, role = len(plan.ranks), self._choice.framework.role
        roles = tuple(role(rank, world, self._spec) for rank in range(world))
        known = roles if any(roles) else ()
        self._writer.append(ev.GangPlaced(time=now, attempt=self.number, ranks=plan.ranks, roles=known))
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
        threads = thread_note(plan, chosen) if choice.framework.threads else None
        for text in filter(None, (*plan.notes, threads)):
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

    def _hold(self, plan: Plan) -> bool:
        """Have agents hold the framework's ports; whether they do."""
        agents = {rank.agent for rank in plan.ranks}
        if not (ports := self._choice.framework.ports):
            return True
        if not self._hold_sent:
            self._hold_sent = True
            for agent in agents:
                self._roster.send_to(agent, Kind.HOLD, {"count": ports * len(plan.on(agent))})
        for agent, numbers in self._roster.held.items():
            if len(numbers) != (need := ports * len(plan.on(agent))):
                raise WireError(f"agent {agent} holds {counted(len(numbers), 'port')} of {need}")
        return self._roster.held.keys() >= agents

    def _choose_meeting(self, plan: Plan) -> MeetingPoint | None:
        """The address of the rendezvous; None while agents are still trying to reach it."""
        hellos = {h.agent: h for h in self._roster.hellos if plan.on(h.agent)}
        first = hellos[plan.ranks[0].agent]
        if self._spec.mode.traits.one_host:
            return MeetingPoint(first.address)
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
        self.started, self._started_at = True, self._clock()
        self._roster.begin()
        first = plan.ranks[0].agent
        stores = {hello.agent for hello in self._roster.hellos if hello.store}
        rendezvous = Rendezvous(
            address=meeting.address,
            port=self._roster.ports[first],
            run_id=self._writer.id,
            restart_count=self.number,
            max_restarts=self._spec.max_restarts,
            peers=peers_of(plan, meeting, self._roster.held, self._choice.framework.ports),
            node_sizes=node_sizes(plan.ranks),
            roles=self._spec.roles,
            options=self._spec.ray_options,
            token=secrets.token_hex(),
            hosted=self._choice.framework.store and first in stores,
        )
        services = services_of(plan.ranks, rendezvous, self._choice.framework)
        self.services = frozenset(services)
        self.proceeded = not services

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
                ways=meeting.ways,
                services=services,
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
    ways: Mapping[int, Way] | None = None,
    services: Mapping[int, ServiceCommand] | None = None,
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
        ways: the way of each agent to rank 0's host, where known.
        services: the framework's services, by the rank beside which they run.
        origin: the folder on the caller's machine of which the agent gets a copy; empty without one.
        attempt: the number of the attempt, from 0.
    """
    inherits = spec.mode.traits.inherits
    chosen = chosen_environ(spec, base)
    interface = (ways or {}).get(agent, Way()).interface
    places = plan.on(agent)
    return {
        "program": {"path": list(path), **program_order(places, rendezvous, spec, choice)},
        "python": python,
        "cwd": spec.workdir,
        "inherit": not inherits,
        "env": dict(base),
        "ranks": {
            str(p.rank): rank_environ(p, rendezvous, chosen, framework=choice.framework, interface=interface)
            for p in places
        },
        "yields": list(choice.framework.defaults(interface)),
        "services": {
            str(p.rank): service_order(services[p.rank], is_rank=not choice.framework.leads(p.rank))
            for p in places
            if services and p.rank in services
        },
        "awaits": bool(services),
        "store": rendezvous.hosted and agent == plan.ranks[0].agent,
        "fresh": spec.fresh,
        "shared_memory": choice.framework.shared_memory(rendezvous),
        "grace_s": spec.grace_s,
        "origin": origin,
        "attempt": attempt,
    }


def program_order(
    places: Sequence[Assignment], rendezvous: Rendezvous, spec: JobSpec, choice: FrameworkChoice
) -> dict[str, Any]:
    """What an agent's ranks run, in its order."""
    return {
        "target": to_plain(spec.target),
        "is_file": spec.target.is_file,
        "foreign": bool(spec.python),
        "pickled_by": platform.python_version() if spec.target.pickled else "",
        "argv": arguments(places, rendezvous, spec, choice),
        "config": choice.config,
        "frameworks": watched(),
        "record_locals": spec.record_locals,
    }


def service_order(command: ServiceCommand, *, is_rank: bool) -> dict[str, Any]:
    """A service in an agent's order; `is_rank` if the rank beside it has nothing else to do."""
    settings = dict(command.settings)
    return {"name": command.name, "module": command.module, "settings": settings, "is_rank": is_rank}


def peers_of(
    plan: Plan, meeting: MeetingPoint, held: Mapping[int, Sequence[int]], ports: int
) -> tuple[Peer, ...]:
    """How ranks reach each other; none if their framework asks for no ports."""
    if not ports:
        return ()
    left = {agent: list(numbers) for agent, numbers in held.items()}
    peers = []
    for rank in plan.ranks:
        own, left[rank.agent] = left[rank.agent][:ports], left[rank.agent][ports:]
        way = meeting.ways.get(rank.agent, Way())
        peers.append(Peer(way.source or meeting.address, tuple(own)))
    return tuple(peers)


def node_sizes(ranks: Sequence[Assignment]) -> tuple[int, ...]:
    """How many ranks each host has, by its node rank."""
    sizes = {rank.node_rank: rank.local_world_size for rank in ranks}
    return tuple(sizes[node] for node in sorted(sizes))


def services_of(
    ranks: Sequence[Assignment], rendezvous: Rendezvous, framework: Framework
) -> dict[int, ServiceCommand]:
    """The framework's services, by the rank beside which they run."""
    commands = {rank.rank: framework.service(rank, rendezvous) for rank in ranks}
    return {rank: command for rank, command in commands.items() if command is not None}


def arguments(
    places: Sequence[Assignment], rendezvous: Rendezvous, spec: JobSpec, choice: FrameworkChoice
) -> dict[str, list[str]]:
    """A program's arguments by rank, for ranks whose framework changes them; a function's `sys.argv`."""
    args = () if spec.target.kind.called else spec.target.args
    call = Call(args, choice.source, CONFIG if choice.config else "")
    changed = {str(p.rank): list(choice.framework.argv(p, rendezvous, call)) for p in places}
    return {rank: own for rank, own in changed.items() if own != list(args)}
