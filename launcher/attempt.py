"""One attempt at a gang, from the agents' arrival to the order that starts the ranks.

joining    agents arrive; the backend says how many will
placing    what they offer becomes the plan, unless that was made beforehand
reaching   agents of several hosts say at which address they reach rank 0's host
started    every agent has its order
"""

from __future__ import annotations

import os
import platform
from collections.abc import Callable
from typing import Any

from launcher import events as ev
from launcher.channel.link import Hello
from launcher.errors import CannotPlace, InternalError, LauncherError
from launcher.frameworks.torch import Rendezvous
from launcher.hosts import (
    Meeting,
    Versions,
    choose_address,
    gpu_reason,
    host_names,
    offers_of,
    version_notes,
)
from launcher.orders import chosen_environ, order_for
from launcher.origin import user_name
from launcher.plan import Plan, make_plan, thread_note
from launcher.request import Request
from launcher.roster import Roster
from launcher.runs.writer import RunWriter
from launcher.spec import Mode
from launcher.worker.environ import base_environ
from launcher.worker.greeting import torch_version
from launcher.worker.wire import Kind


def submission(request: Request, time: float) -> ev.RunSubmitted:
    """A run's first fact: that it exists, and whose it is."""
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
    """What must be so before ranks can start, in order; `advance` goes as far as it can.

    Attributes:
        number: 0 for the first.
        plan: every rank's place, once that is known.
        started: whether the ranks have been ordered to start.
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
        self._request = request
        self._spec = request.spec
        self.plan = self._given = plan
        self._base = base_environ(request.environ, request.spec.env, python=request.python)
        self._writer = writer
        self._roster = roster
        self._clock = clock
        self._meeting: Meeting | None = None
        self._asked = self._delivered = False

    def place(self) -> None:
        """Record the plan, if there is one already: the agents that it needs are being started."""
        if self.plan and not self._writer.state.ranks:
            self._record(self.plan)

    def advance(self) -> None:
        """Go on if the next step's conditions are met.

        Raises:
            CannotPlace: the agents cannot hold the gang, or cannot reach each other.
        """
        if self.started or not self._roster.complete:
            return
        if self.plan is None:
            self.plan = self._made_from_offers()
            self._record(self.plan)
        if self._meeting is None:
            self._meeting = self._met(self.plan)
        if self._meeting is not None:
            self._start(self.plan, self._meeting)

    def again(self, number: int) -> None:
        """Another attempt with the same agents in the same places."""
        self.number = number
        self.started = False
        if self.plan:
            self._record(self.plan)
        self.advance()

    def anew(self, number: int) -> None:
        """Another attempt, with agents that are still to come."""
        self.number = number
        self.started = self._asked = self._delivered = False
        self.plan, self._meeting = self._given, None
        self._roster.reset()

    def too_late(self, limit_s: float) -> LauncherError:
        """The error for agents that have not come in time."""
        if self._roster.expected is None and self._spec.mode is Mode.LOCAL:
            return CannotPlace(
                f"no room on this machine within {limit_s:g} s", hint="--start-timeout waits longer"
            )
        came = f"{self._roster.joined} of {self._roster.expected or 'the'} agents came within {limit_s:g} s"
        return InternalError(came) if self._spec.mode is Mode.LOCAL else CannotPlace(came)

    def _made_from_offers(self) -> Plan:
        hellos = self._roster.hellos
        ours = Versions(platform.python_version(), torch_version())
        for text in version_notes(hellos, ours, pickled=self._spec.target.pickled):
            self._note(text)
        return make_plan(self._spec, offers_of(hellos, self._spec), gpu_reason=gpu_reason(hellos))

    def _record(self, plan: Plan) -> None:
        now = self._clock()
        self._writer.append(ev.GangPlaced(time=now, attempt=self.number, ranks=plan.ranks))
        if self.number:  # said with the first attempt
            return
        chosen = chosen_environ(self._spec, self._base)
        for text in filter(None, (*plan.notes, thread_note(plan, chosen))):
            self._note(text)

    def _note(self, text: str) -> None:
        self._writer.append(ev.NoteMade(time=self._clock(), attempt=self.number, text=text))

    def _met(self, plan: Plan) -> Meeting | None:
        """Where the ranks meet; None while agents are still trying."""
        hellos = {h.agent: h for h in self._roster.hellos if plan.on(h.agent)}
        first = hellos[plan.ranks[0].agent]
        if self._spec.mode is Mode.LOCAL:
            return Meeting(first.address, {})
        if not self._asked:
            self._asked = True
            self._roster.send(Kind.REACH, lambda _: {"addresses": _candidates(first), "port": first.port})
        reached = self._roster.reached
        if not hellos.keys() <= reached.keys():
            return None
        names = host_names(self._roster.hellos)
        hosts = {agent: names[agent] for agent in hellos}
        return choose_address(_candidates(first), reached, hosts, first=first.agent)

    def _start(self, plan: Plan, meeting: Meeting) -> None:
        """Every agent gets its ranks; rank 0's agent holds the port of the store."""
        self.started = True
        self._roster.begin()
        rendezvous = Rendezvous(
            address=meeting.address,
            port=self._roster.ports[plan.ranks[0].agent],
            run_id=self._writer.id,
            restart_count=self.number,
            max_restarts=self._spec.max_restarts,
        )
        bundle = None if self._delivered else self._request.bundle  # which agents keep
        pieces = {Kind.PAYLOAD: self._request.payload, Kind.BUNDLE: bundle}
        self._delivered = True

        def order(agent: int) -> dict[str, Any]:
            return order_for(
                agent,
                plan,
                spec=self._spec,
                rendezvous=rendezvous,
                base=self._base,
                python=self._request.python,
                path=self._request.path,
                interfaces=meeting.interfaces,
                attempt=self.number,
            )

        self._roster.send(Kind.START, order, {kind: data for kind, data in pieces.items() if data})


def _candidates(first: Hello) -> list[str]:
    """Rank 0's addresses, the one first by which it reaches the engine."""
    return list(dict.fromkeys(filter(None, (first.address, *first.addresses))))
