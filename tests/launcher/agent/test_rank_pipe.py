"""The line between a rank and its agent: whole packets, and never an error of the training."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from launcher.agent import rank_pipe
from launcher.agent.rank_pipe import DATA, PACKET, RankPipe


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, RankPipe]]:
    near, far = rank_pipe.pair()
    with near, far:
        yield near, RankPipe(far, os.getpid())


def test_packets_stay_whole_and_in_order(ends: tuple[socket.socket, RankPipe]) -> None:
    near, line = ends
    line.send(rank_pipe.RESULT_BEGIN)
    line.send(rank_pipe.RESULT_DATA, b"a" * 10)
    line.send_document(rank_pipe.RESULT_END, {"size": 10})
    assert (b"B", b"") == rank_pipe.receive(near)
    assert (b"D", b"a" * 10) == rank_pipe.receive(near)
    packet = rank_pipe.receive(near)
    assert isinstance(packet, tuple)
    assert (b"Z", {"size": 10}) == (packet[0], rank_pipe.parse(packet[1]))


def test_the_largest_packet_arrives_whole(ends: tuple[socket.socket, RankPipe]) -> None:
    near, line = ends
    data = os.urandom(DATA)
    line.send(rank_pipe.RESULT_DATA, memoryview(data))
    assert (b"D", data) == rank_pipe.receive(near)
    assert PACKET == 1 + DATA


def test_an_empty_line_and_a_closed_one_are_told_apart(ends: tuple[socket.socket, RankPipe]) -> None:
    near, line = ends
    assert "empty" == rank_pipe.receive(near)
    line.send(rank_pipe.RESULT_BEGIN)
    line.sock.close()
    assert (b"B", b"") == rank_pipe.receive(near)
    assert "closed" == rank_pipe.receive(near)


def test_an_agent_that_is_gone_is_no_error(ends: tuple[socket.socket, RankPipe]) -> None:
    near, line = ends
    near.close()
    line.send(rank_pipe.RESULT_DATA, b"x")
    assert line.offer_fact("rank_reported", {"step": 1})


def test_a_line_that_the_user_closed_is_no_error(ends: tuple[socket.socket, RankPipe]) -> None:
    """Programs that turn themselves into daemons close every descriptor that they do not know."""
    _, line = ends
    os.close(os.dup(line.sock.fileno()))
    line.sock.close()
    line.send(rank_pipe.RESULT_DATA, b"x")
    assert line.offer_fact("rank_reported", {"step": 1})


def test_a_busy_agent_costs_a_report_and_no_time(ends: tuple[socket.socket, RankPipe]) -> None:
    near, line = ends
    sent = 0
    while line.offer_fact("rank_reported", {"step": sent}):
        sent += 1
    assert 0 < sent
    received = 0
    while isinstance(packet := rank_pipe.receive(near), tuple):
        assert {"event": "rank_reported", "step": received} == rank_pipe.parse(packet[1])
        received += 1
    assert sent == received
    assert line.offer_fact("rank_reported", {"step": sent})


def test_what_fits_no_packet_is_dropped_rather_than_kept(ends: tuple[socket.socket, RankPipe]) -> None:
    near, line = ends
    assert line.offer_fact("rank_reported", {"metrics": {f"m{i}": 0.5 for i in range(20_000)}})
    assert "empty" == rank_pipe.receive(near)


def test_a_forked_child_stays_silent(ends: tuple[socket.socket, RankPipe]) -> None:
    near, line = ends
    pid = os.fork()
    if not pid:
        line.send(rank_pipe.RESULT_BEGIN)
        line.send_fact("rank_raised", {})
        os._exit(1 if line.offer_fact("rank_reported", {"step": 1}) or line.mine else 0)
    assert 0 == os.waitpid(pid, 0)[1]
    assert "empty" == rank_pipe.receive(near)
    assert line.mine


def test_an_adopted_line_is_kept_from_children() -> None:
    near, far = rank_pipe.pair()
    with near:
        descriptor = far.detach()
        os.set_inheritable(descriptor, True)
        line = RankPipe.adopt(descriptor)
        assert not os.get_inheritable(line.sock.fileno())
        line.send(rank_pipe.RESULT_BEGIN)
        assert (b"B", b"") == rank_pipe.receive(near)
        line.sock.close()


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"3", b"null", b"\xff", b'{"a"'])
def test_a_packet_that_is_no_object_is_a_value_error(data: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  the message is the parser's
        rank_pipe.parse(data)


@pytest.mark.parametrize("value", [{}, {"a": [1, None, "\ud800"]}, {"é": 0.5}])
def test_documents_survive_the_trip(ends: tuple[socket.socket, RankPipe], value: dict[str, Any]) -> None:
    near, line = ends
    line.send_document(rank_pipe.RESULT_END, value)
    packet = rank_pipe.receive(near)
    assert isinstance(packet, tuple)
    assert value == rank_pipe.parse(packet[1])


def test_a_document_nested_too_deep_is_none() -> None:
    with pytest.raises(ValueError, match="nested too deep"):
        rank_pipe.parse(b"[" * 50_000 + b"]" * 50_000)
