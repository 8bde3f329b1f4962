"""The back end of an engine that stands beside the agents: they come to its own door, and it has no stage.

What it cannot do is to get new agents. Those are the stage's, and the stage is the home engine's.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from launcher.backends import Expect, News, Over
from launcher.backends.newsbox import Newsbox
from launcher.backends.standing import Standing
from launcher.channel.listener import Listener
from launcher.errors import AgentLost
from launcher.events import DeliveryChosen, StopRequested
from launcher.plan import Plan
from launcher.request import Request
from launcher.spec import Offer
from launcher.worker import network
from launcher.worker.boot import Endpoint


class FieldBackend:
    """Agents that are told where to come once it is made.

    Args:
        standing: the run.
        token: what its agents prove that they hold.

    Raises:
        CannotPlace: it cannot listen.
    """

    def __init__(self, standing: Standing, token: str) -> None:
        self._box: Newsbox[News] = Newsbox()
        self._tasks = standing.tasks
        self._delivery: DeliveryChosen | None = None
        self._launched = False
        host, self._told = _door()
        self._listener = Listener(
            host,
            range(1),
            standing.credentials,
            token,
            admit=self._box.put,
            agents=standing.tasks,
            lost_after_s=standing.spec.spark.lost_after_s,
        )

    @property
    def endpoints(self) -> tuple[Endpoint, ...]:
        """Where agents reach it."""
        return tuple(Endpoint(host, self._listener.address[1]) for host in self._told)

    def choose(self, way: str, reason: str) -> None:
        """How what it records comes home. To be said before the run begins."""
        self._delivery = DeliveryChosen(time=time.time(), way=way, reason=reason)

    def end(self) -> None:
        """The agent beside it has ended, and with it the stage."""
        self._box.put(Over())

    def offers(self, request: Request) -> tuple[Sequence[Offer] | None, str]:
        """Only agents can tell what their hosts have."""
        del request
        return None, ""

    def launch(self, request: Request, plan: Plan | None, folder: Path, *, attempt: int) -> None:
        """Expect the agents of the stage that there is.

        Raises:
            AgentLost: a second one is asked for.
        """
        del request, plan, folder, attempt
        if self._launched:
            raise AgentLost("new agents need a new stage")
        self._launched = True
        if self._delivery is not None:
            self._box.put(self._delivery)
        self._box.put(Expect(self._tasks))

    def fileno(self) -> int:
        """Readable while there is news."""
        return self._box.fileno()

    def news(self) -> list[News]:
        """Agents that joined, and the end."""
        return self._box.take()

    def relay(self, request: StopRequested) -> None:
        """There is no other engine."""
        del request

    def abort(self) -> None:
        """Let nobody in any more: who comes late finds the door closed, and leaves."""
        self._listener.close()
        self.end()

    def close(self, timeout_s: float) -> bool:
        """Let go of everything; the agents' processes are Spark's tasks'."""
        del timeout_s
        self._listener.close()
        self._box.close()
        return True

    def complaint(self) -> str:
        """What agents wrote to their own stderr is told by their tasks."""
        return ""


def _door() -> tuple[str, tuple[str, ...]]:
    """The address to bind, and those that agents try: this host's one address, or all that it has.

    Which of several leads to the other executors, only they can find out.
    """
    everything = [address for _, address in network.addresses()]
    outward = [a for a in everything if not a.startswith("127.") and a != "::1"] or everything[:1]
    if len(outward) == 1:
        return outward[0], tuple(outward)
    four = tuple(a for a in outward if ":" not in a)
    return ("0.0.0.0", four) if four else ("::", tuple(outward))
