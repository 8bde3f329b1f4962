"""Simulated agents in one process: what they send, real; what they would run, nothing.

python -m tests.bench.simulated_gang PORT TOKEN AGENTS

Once a second each agent sends a sample of its devices and ranks, and each rank reports a step; ten times a
second each rank writes a line. The agents' seconds are spread over the second.
"""

from __future__ import annotations

import resource
import selectors
import socket
import sys
import time
from collections.abc import Iterator

from launcher.channel import frames
from launcher.channel.frames import Frame, Kind
from launcher.state import events as ev
from launcher.testing import ScriptedAgent
from tests.bench.busy_run import PER_HOST, second_of_host

LINES_PER_S = 10
LINE = b"step 1234 loss 2.1134 lr 1.98e-04 tok/s 489k grad 0.0031 time 0.1021\n"


def main(port: int, token: str, count: int) -> None:
    """Join, start, and send until the engine is gone or says so."""
    agents = [_joined(port, token, number) for number in range(count)]
    for agent in agents:
        agent.expect(Kind.START)
    for agent in agents:
        for rank in ranks_of(agent):
            agent.fact(ev.RankStarted, rank=rank, pid=2000 + rank)
            agent.fact(ev.RankEntered, rank=rank)
    print("started", flush=True)
    _send_until_told(agents)
    for agent in agents:
        for rank in ranks_of(agent):
            agent.fact(ev.RankExited, rank=rank, exit_code=0)
        agent.fact(ev.CleanupProven)
        agent.send(Kind.IDLE, {})
    for agent in agents:
        agent.expect(Kind.QUIT)


def _joined(port: int, token: str, number: int) -> ScriptedAgent:
    sock = socket.create_connection(("127.0.0.1", port))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    agent = ScriptedAgent(number, sock, token, f"gpu-{number:04}")
    agent.join(address="127.0.0.1")
    return agent


def ranks_of(agent: ScriptedAgent) -> range:
    """The numbers of an agent's ranks."""
    return range(agent.agent * PER_HOST, (agent.agent + 1) * PER_HOST)


def _send_until_told(agents: list[ScriptedAgent]) -> None:
    """Send what is due, agent by agent, until somebody writes to this process's standard input."""
    selector = selectors.DefaultSelector()
    selector.register(sys.stdin, selectors.EVENT_READ)
    pause = 1 / LINES_PER_S / len(agents)
    due, turn, late = time.monotonic(), 0, 0.0
    while not selector.select(max(0.0, due - time.monotonic())):
        late = max(late, time.monotonic() - due)
        lap, number = divmod(turn, len(agents))
        agent = agents[number]
        reports = lap % LINES_PER_S == number % LINES_PER_S
        agent.sock.sendall(b"".join(_second(agent, 1 + lap // LINES_PER_S) if reports else _lines(agent)))
        turn, due = turn + 1, due + pause
    print(f"late {late:.3f}", flush=True)


def _lines(agent: ScriptedAgent) -> Iterator[bytes]:
    now = time.time_ns()
    for rank in ranks_of(agent):
        yield frames.encode(Frame(Kind.OUTPUT, LINE, rank, frames.STDOUT, now))


def _second(agent: ScriptedAgent, step: int) -> Iterator[bytes]:
    yield from _lines(agent)
    for fact in second_of_host(agent.agent, ranks_of(agent), step, time.time()):
        yield frames.document(Kind.FACT, ev.to_wire(fact))


if __name__ == "__main__":
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
