"""A Connect server that is not there, or only seems to be."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pytest

from launcher.backends.spark import connect
from launcher.errors import CannotPlace


@pytest.fixture
def tunnel() -> Iterator[str]:
    """What accepts connections and closes them at once, as a tunnel whose server is down; its address."""
    with socket.create_server(("127.0.0.1", 0)) as sock:

        def serve() -> None:
            while True:
                try:
                    sock.accept()[0].close()
                except OSError:
                    return

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{sock.getsockname()[1]}"
        sock.shutdown(socket.SHUT_RDWR)


def test_a_tunnel_to_a_server_that_is_down_is_told_without_a_long_wait(tunnel: str) -> None:
    pytest.importorskip("pyspark.sql.connect.session")
    with pytest.raises(CannotPlace, match="closes connections at once"):
        connect.connect_remote(f"sc://{tunnel}", limit_s=250.0)


def test_only_a_refusal_says_that_nobody_listens(tunnel: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
        assert connect.listens(f"sc://127.0.0.1:{port}")
    assert not connect.listens(f"sc://127.0.0.1:{port}")
    assert connect.listens(f"sc://{tunnel}")
    assert connect.listens("no address at all")
