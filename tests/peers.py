"""The agents' side of a secure channel, for tests: certificates, pairs of streams, and agents that join."""

from __future__ import annotations

import functools
import queue
import selectors
import socket
import time
from dataclasses import asdict
from typing import Any

from launcher.channel import frames, handshake
from launcher.channel.certificates import Issued, issue
from launcher.channel.connection import AgentConnection
from launcher.channel.dial import dial
from launcher.channel.frames import Decoder, Frame, Kind
from launcher.channel.listener import Listener, Refusal
from launcher.channel.tls import SecureStream, context
from tests.commands import until

TOKEN = "secret" * 8
HELLO = {"time": 0.0, "host": "alpha", "pid": 7, "python": "3.11.0", "port": 4000}


@functools.cache
def issued() -> Issued:
    """The certificates of the one run that tests make connections for."""
    return issue()


def ends(near: socket.socket, far: socket.socket) -> tuple[SecureStream, SecureStream]:
    """Both ends, engine first, before their handshake; non-blocking."""
    made = issued()
    for sock in (near, far):
        sock.setblocking(False)
    return (
        SecureStream(near, context(made.engine, server=True), made.engine.peer, server=True),
        SecureStream(far, context(made.agents, server=False), made.agents.peer, server=False),
    )


def secure_pair() -> tuple[SecureStream, SecureStream]:
    """Both ends of a channel with its TLS handshake behind them, engine first; non-blocking."""
    engine, agent = ends(*socket.socketpair())
    done = {engine: False, agent: False}
    while not all(done.values()):
        done = {end: over or end.shake() for end, over in done.items()}
    return engine, agent


def wait(stream: Any, events: int = selectors.EVENT_READ, timeout_s: float = 5.0) -> bool:
    """Whether the kernel says within the time that the stream is ready."""
    with selectors.DefaultSelector() as selector:
        selector.register(stream, events)
        return bool(selector.select(timeout_s))


class Joining:
    """An agent's first words, with whatever a liar would change of them."""

    def __init__(self, address: tuple[str, int], *, timeout_s: float = 10.0) -> None:
        self.stream = dial([address], asdict(issued().agents), timeout_s)
        self.stream.settimeout(timeout_s)
        self.nonce, self.theirs = handshake.new_nonce(), ""
        self._decoder = Decoder()

    def ready(self, agent: Any = 0, *, protocol: int = frames.PROTOCOL) -> Frame:
        self.say(Kind.READY, {"nonce": self.nonce, "agent": agent, "protocol": protocol})
        challenge = self.hear()
        self.theirs = challenge.document()["nonce"]
        return challenge

    def hello(self, agent: int = 0, *, token: str = TOKEN, **changes: Any) -> bytes:
        proof = handshake.proof(token, "agent", self.nonce, self.theirs, agent)
        return frames.document(Kind.HELLO, {**HELLO, "time": time.time(), "proof": proof, **changes})

    def join(self, agent: int = 0, *, token: str = TOKEN, **changes: Any) -> None:
        self.ready(agent)
        self.stream.sendall(self.hello(agent, token=token, **changes))

    def say(self, kind: Kind, value: Any) -> None:
        self.stream.sendall(frames.document(kind, value))

    def hear(self) -> Frame:
        """The next frame; ConnectionError at the end of the stream."""
        while True:
            data = self.stream.recv(1 << 16)
            if not data:
                raise ConnectionError("the engine closed the channel")
            for frame in self._decoder.feed(data):
                return frame

    def closed(self) -> bool:
        """Whether the engine ends this channel, and says nothing before."""
        try:
            return self.stream.recv(1 << 16) == b""
        except ConnectionError:
            return True

    def close(self) -> None:
        self.stream.close()


class Door:
    """A listener, and whom it has let in."""

    def __init__(self, host: str = "127.0.0.1", **options: Any) -> None:
        self._news: queue.Queue[AgentConnection] = queue.Queue()
        self._links: list[AgentConnection] = []
        self.listener = Listener(host, range(1), issued().engine, TOKEN, admit=self._news.put, **options)
        self.address = self.listener.address

    def admitted(self, timeout_s: float = 10.0) -> AgentConnection:
        """The next agent that is let in."""
        self._links.append(self._news.get(timeout=timeout_s))
        return self._links[-1]

    def refuses(self, why: Refusal, count: int = 1) -> None:
        """Wait until so many were refused for that reason."""
        until(lambda: self.listener.refused.get(why, 0) >= count, 20.0)

    def is_open(self, agent: int = 9, *, timeout_s: float = 10.0) -> None:
        """A true agent joins, and leaves again."""
        joining = Joining(self.address, timeout_s=timeout_s)
        joining.join(agent)
        link = self.admitted(timeout_s)
        assert agent == link.agent
        link.close()
        joining.close()

    def plain(self) -> socket.socket:
        """A connection that has said nothing."""
        return socket.create_connection(self.address, timeout=10)

    def close(self) -> None:
        self.listener.close()
        while not self._news.empty():
            self._links.append(self._news.get())
        for link in self._links:
            link.close()
