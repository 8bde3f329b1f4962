"""The store of Horovod's ranks: what a client of Horovod asks of it, and clients that are none."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from launcher.agent.services import horovod_store
from launcher.agent.services.horovod_store import Store
from launcher.channel import network

MEMBERS = {"global": 3, "local_node0": 2, "cross_0": 1}


@pytest.fixture
def store() -> Iterator[Store]:
    held = network.hold_port()
    with held.sock, Store(held.number, MEMBERS) as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.01,))
        thread.start()
        yield made
        made.shutdown()
        thread.join()


def ask(store: Store, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", store.server_address[1], timeout=10)
    try:
        connection.request(method, path, body)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_a_value_is_there_once_somebody_has_put_it(store: Store) -> None:
    assert 404 == ask(store, "GET", "/global/0")[0]
    assert 200 == ask(store, "PUT", "/global/0", b"\0address")[0]
    assert (200, b"\0address") == ask(store, "GET", "/global/0")
    assert (200, b"") == ask(store, "DELETE", "/global/0")
    assert (200, b"\0address") == ask(store, "GET", "/global/0")  # a rank that comes late needs it
    assert 404 == ask(store, "GET", "/local/0")[0]


def test_a_scope_is_emptied_once_all_its_ranks_have_met(store: Store) -> None:
    """Or ranks that initialise again after a shutdown find the addresses of before."""
    for rank in range(3):
        ask(store, "PUT", f"/global/{rank}", b"old")
    for rank in (0, 0, 2):  # one says it twice
        ask(store, "DELETE", f"/global/{rank}")
    assert (200, b"old") == ask(store, "GET", "/global/2")
    ask(store, "DELETE", "/global/1")

    assert [404] * 3 == [ask(store, "GET", f"/global/{rank}")[0] for rank in range(3)]
    ask(store, "PUT", "/global/0", b"new")
    ask(store, "DELETE", "/global/0")
    assert (200, b"new") == ask(store, "GET", "/global/0")


def test_a_value_of_any_other_scope_is_removed_alone(store: Store) -> None:
    for name in ("a", "b"):
        ask(store, "PUT", f"/process_set/{name}", name.encode())
    assert [200, 200] == [ask(store, "DELETE", f"/process_set/{name}")[0] for name in ("a", "absent")]

    assert [404, 200] == [ask(store, "GET", f"/process_set/{name}")[0] for name in ("a", "b")]


def test_an_empty_value_is_a_value(store: Store) -> None:
    assert 200 == ask(store, "PUT", "/a/b", b"")[0]
    assert (200, b"") == ask(store, "GET", "/a/b")


def test_a_hundred_ranks_at_once(store: Store) -> None:
    def exchange(rank: int) -> bytes:
        ask(store, "PUT", f"/global/{rank}", str(rank).encode() * 1000)
        return ask(store, "GET", f"/global/{rank}")[1]

    with ThreadPoolExecutor(32) as pool:
        assert [str(rank).encode() * 1000 for rank in range(100)] == list(pool.map(exchange, range(100)))


@pytest.mark.parametrize(
    "sent",
    [
        b"PUT /a/b HTTP/1.1\r\nContent-Length: -5\r\n\r\n",
        b"PUT /a/b HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n",
        b"PUT /a/b HTTP/1.1\r\n\r\n",
        b"PUT /a/b HTTP/1.1\r\nContent-Length: 100\r\n\r\nshort",
        b"\0\1\2\3" * 5000 + b"\r\n\r\n",
        b"",
    ],
)
def test_nonsense_stores_nothing_and_stops_nobody(
    store: Store, sent: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.create_connection(("127.0.0.1", store.server_address[1]), timeout=10) as peer:
        peer.sendall(sent)
        peer.shutdown(socket.SHUT_WR)
        while peer.recv(4096):
            pass
    assert store.get("a", "b") is None
    assert 200 == ask(store, "PUT", "/a/b", b"x")[0]
    assert ("", "") == capfd.readouterr()


def test_ipv6_clients_are_served(store: Store) -> None:
    with socket.create_connection(("::1", store.server_address[1]), timeout=10) as peer:
        peer.sendall(b"GET /a/b HTTP/1.0\r\n\r\n")
        assert b" 404 " in peer.recv(4096)


def test_it_is_ready_once_it_listens_and_ends_once_it_is_released() -> None:
    held, (agent, service) = network.hold_port(), socket.socketpair()
    said: list[str] = []

    class Line:
        def fileno(self) -> int:
            return service.fileno()

        def ready(self, url: str = "") -> None:
            socket.create_connection(("127.0.0.1", held.number), timeout=10).close()
            said.append("ready")
            agent.shutdown(socket.SHUT_WR)

        def lost(self, reason: str) -> None:
            said.append(reason)

    with held.sock, agent, service:
        horovod_store.serve(Line(), held.number, MEMBERS)
    assert ["ready"] == said
