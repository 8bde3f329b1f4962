"""`report` and `publish`: telemetry ends no training, and a value arrives bit for bit or not at all."""

from __future__ import annotations

import math
import os
import pickle
import signal
import socket
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from launcher.agent import rank_pipe, report
from launcher.agent.rank_pipe import RankPipe
from launcher.agent.report import Reporter, UnpicklableResult
from launcher.testing import FakeClock
from tests.commands import until


@pytest.fixture
def agent() -> Iterator[socket.socket]:
    """The agent's end of this process's line."""
    near, far = rank_pipe.pair()
    report.install(RankPipe(far, os.getpid()))
    yield near
    report._reporter = None
    near.close()
    far.close()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeClock:
    clock = FakeClock(1000.0)
    monkeypatch.setattr(report, "time", SimpleNamespace(time=time.time, monotonic=clock, sleep=time.sleep))
    return clock


def reporter() -> Reporter:
    assert report._reporter is not None
    return report._reporter


def packets(near: socket.socket) -> list[tuple[bytes, bytes]]:
    found = []
    while isinstance(packet := rank_pipe.receive(near), tuple):
        found.append(packet)
    return found


def reports(near: socket.socket) -> list[tuple[int | None, dict[str, float]]]:
    documents = [rank_pipe.parse(data) for kind, data in packets(near) if kind == rank_pipe.FACT]
    return [(d["step"], d["metrics"]) for d in documents]


# --- pauses


def pauses(near: socket.socket) -> list[tuple[str, str, bool]]:
    found = [rank_pipe.parse(data) for kind, data in packets(near) if kind == rank_pipe.FACT]
    return [(d["event"], d.get("reason", ""), d.get("over", False)) for d in found]


def test_a_pause_is_told_with_its_end_however_it_ends(agent: socket.socket) -> None:
    with pytest.raises(KeyError), report.pause("debugging\nthe loss " + "x" * 500):
        raise KeyError
    begun, over = pauses(agent)
    assert ("rank_paused", False) == (begun[0], begun[2])
    assert begun[1].startswith("debugging the loss xxx")
    assert 100 == len(begun[1])
    assert over[2]


def test_of_nested_pauses_the_outermost_counts(agent: socket.socket) -> None:
    with report.pause("outer"):
        with report.pause("inner"):
            assert [("rank_paused", "outer", False)] == pauses(agent)
        assert [] == pauses(agent)
    assert [("rank_paused", "outer", True)] == pauses(agent)


def test_progress_before_a_pause_comes_before_it(agent: socket.socket, clock: FakeClock) -> None:
    for step in range(100):  # more than are sent at once
        report.report(step=step)
    packets(agent)
    with report.pause():
        assert ["rank_reported", "rank_paused"] == [name for name, _, _ in pauses(agent)]


def test_outside_a_run_a_pause_does_nothing() -> None:
    with report.pause("debugging"):
        pass


# --- report


def test_outside_a_run_nothing_happens() -> None:
    assert report._reporter is None
    report.report(step=1, loss=0.5)
    report.publish(object())
    report.log_message("hello")


def test_a_report_is_sent_at_once(agent: socket.socket) -> None:
    report.report(step=3, loss=0.5, lr=1)
    assert [(3, {"loss": 0.5, "lr": 1.0})] == reports(agent)


def test_a_long_burst_is_thinned_and_the_newest_is_kept(agent: socket.socket, clock: FakeClock) -> None:
    for step in range(100):
        report.report(step=step, loss=float(step))
    report.report(lr=0.1)
    assert [(step, {"loss": float(step)}) for step in range(report.AT_ONCE)] == reports(agent)
    clock.advance(report.EACH_S)
    report.report(step=100)
    assert [(100, {"loss": 99.0, "lr": 0.1})] == reports(agent)


def test_what_was_kept_back_arrives_in_the_end(agent: socket.socket, clock: FakeClock) -> None:
    for step in range(report.AT_ONCE + 5):
        report.report(step=step)
    assert report.AT_ONCE == len(reports(agent))
    reporter().flush()
    reporter().flush()
    assert [(report.AT_ONCE + 4, {})] == reports(agent)


def test_what_was_kept_back_arrives_while_the_rank_waits(
    agent: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "LATE_S", 0.05)
    for step in range(report.AT_ONCE + 5):
        report.report(step=step)
    agent.settimeout(10.0)
    steps = [rank_pipe.parse(agent.recv(rank_pipe.PACKET)[1:])["step"] for _ in range(report.AT_ONCE + 1)]
    assert report.AT_ONCE + 4 == steps[-1]
    until(lambda: "rankdeck-report" not in {thread.name for thread in threading.enumerate()})


def test_a_rank_that_may_start_no_thread_reports_all_the_same(
    agent: socket.socket, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    for step in range(report.AT_ONCE + 1):
        report.report(step=step)
    assert report.AT_ONCE == len(reports(agent))
    clock.advance(report.EACH_S)
    report.report(step=99)
    assert [(99, {})] == reports(agent)


def test_a_clock_that_is_set_back_silences_nobody(
    agent: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    wall, monotonic = FakeClock(2e9), FakeClock(1000.0)
    monkeypatch.setattr(report, "time", SimpleNamespace(time=wall, monotonic=monotonic))
    report.report(step=0)
    wall.advance(-1e9)
    monotonic.advance(1.0)
    report.report(step=1)
    assert [(0, {}), (1, {})] == reports(agent)


def test_a_busy_agent_gets_the_newest_once_it_listens(agent: socket.socket, clock: FakeClock) -> None:
    line = reporter()._line
    while line.offer_fact("rank_reported", {"step": None, "metrics": {}}):
        pass
    for step in range(3):
        clock.advance(1.0)
        report.report(step=step, **{f"m{step}": 1.0})
    packets(agent)
    clock.advance(1.0)
    report.report(step=3)
    assert [(3, {"m0": 1.0, "m1": 1.0, "m2": 1.0})] == reports(agent)


def test_an_agent_that_is_gone_is_no_error(agent: socket.socket) -> None:
    agent.close()
    report.report(step=1)
    reporter().flush()
    report.publish({"a": 1})


class Hostile:
    def __float__(self) -> float:
        raise KeyError("no number")

    def __int__(self) -> int:
        raise KeyError("no number")


@pytest.mark.parametrize(
    "value", [None, "text", [], {}, object(), Hostile(), 10**400, b"x", 1j], ids=lambda v: type(v).__name__
)
def test_what_is_no_number_is_left_out(agent: socket.socket, value: Any) -> None:
    report.report(step=value, loss=value, other=value, good=1.0)
    assert [(None, {"good": 1.0})] == reports(agent)


@pytest.mark.parametrize("step", [math.nan, math.inf, -math.inf])
def test_a_step_that_is_no_whole_number_is_left_out(agent: socket.socket, step: Any) -> None:
    report.report(step=step)
    assert [(None, {})] == reports(agent)


def test_numbers_that_json_has_not_arrive(agent: socket.socket) -> None:
    report.report(loss=math.nan, lr=math.inf)
    ((_, metrics),) = reports(agent)
    assert math.isnan(metrics["loss"])
    assert math.inf == metrics["lr"]


def test_scalars_of_numpy_and_torch_are_numbers(agent: socket.socket) -> None:
    np, torch = pytest.importorskip("numpy"), pytest.importorskip("torch")
    report.report(step=np.int64(3), loss=torch.tensor(0.5), lr=np.float32(0.25))
    assert [(3, {"loss": 0.5, "lr": 0.25})] == reports(agent)


@pytest.mark.parametrize("name", ["metric", "m" * 1000, "\U0001f600" * 90], ids=["short", "long", "wide"])
def test_more_metrics_than_a_packet_holds_are_no_error(
    agent: socket.socket, clock: FakeClock, name: str
) -> None:
    report.report(step=1, **{f"{i}{name}": 0.1 for i in range(20_000)})
    clock.advance(1.0)
    report.report(step=2)
    *_, last = reports(agent)
    assert (2, {}) == last


def test_threads_may_report_at_once(agent: socket.socket, clock: FakeClock) -> None:
    def work(name: str) -> None:
        for i in range(500):
            report.report(step=i, **{name: float(i)})

    threads = [threading.Thread(target=work, args=(f"t{i}",)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    reporter().flush()
    merged: dict[str, float] = {}
    for _, metrics in reports(agent):
        merged |= metrics
    assert {f"t{i}": 499.0 for i in range(4)} == merged


def in_child(work: Any) -> int:
    """The status of a forked child that does `work`; a deadlock ends it by SIGALRM."""
    pid = os.fork()
    if not pid:
        signal.alarm(5)
        work()
        os._exit(0)
    return os.waitpid(pid, 0)[1]


def speak() -> None:
    report.report(step=1)
    reporter().flush()
    report.publish([1, 2])


def test_a_forked_child_is_silent(agent: socket.socket) -> None:
    assert 0 == in_child(speak)
    assert [] == packets(agent)


def test_a_child_that_was_forked_while_a_thread_reported_does_not_hang(agent: socket.socket) -> None:
    with reporter()._lock, reporter()._publishing:
        assert 0 == in_child(speak)
    assert [] == packets(agent)


# --- publish


class Receiver:
    """Reads the line in a thread, because a large value waits for its reader."""

    def __init__(self, near: socket.socket) -> None:
        near.setblocking(True)
        self._near = near
        self.packets: list[tuple[bytes, bytes]] = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while isinstance(packet := rank_pipe.receive(self._near), tuple):
            self.packets.append(packet)
            if packet[0] in (rank_pipe.RESULT_END, rank_pipe.RESULT_ABORT):
                return

    def done(self) -> list[tuple[bytes, bytes]]:
        self._thread.join(60)
        assert not self._thread.is_alive()
        return self.packets


def published(near: socket.socket, value: object) -> tuple[bytes, dict[str, Any]]:
    receiver = Receiver(near)
    report.publish(value)
    got = receiver.done()
    kinds = [kind for kind, _ in got]
    assert [rank_pipe.RESULT_BEGIN, rank_pipe.RESULT_END] == [kinds[0], kinds[-1]]
    assert {rank_pipe.RESULT_DATA} >= set(kinds[1:-1])
    assert max(len(data) for _, data in got) <= rank_pipe.DATA
    return b"".join(data for _, data in got[1:-1]), rank_pipe.parse(got[-1][1])


@pytest.mark.parametrize(
    "value",
    [
        None,
        {"loss": 0.5},
        b"",
        os.urandom(rank_pipe.DATA - 1),
        os.urandom(rank_pipe.DATA),
        os.urandom(rank_pipe.DATA + 1),
        os.urandom(5 << 20),
        [os.urandom(n) for n in range(0, 200_000, 20_011)],
        list(range(100_000)),
        bytearray(b"x" * 300_000),
        "é" * 300_000,
    ],
    ids=lambda v: f"{type(v).__name__}-{len(v) if hasattr(v, '__len__') else ''}",
)
def test_a_value_arrives_bit_for_bit(agent: socket.socket, value: object) -> None:
    data, end = published(agent, value)
    assert value == pickle.loads(data)
    assert len(data) == end["size"]


def test_arrays_of_any_layout_arrive_bit_for_bit(agent: socket.socket) -> None:
    np = pytest.importorskip("numpy")
    whole = np.arange(600_000, dtype=np.float64).reshape(600, 1000)
    value = [whole, np.asfortranarray(whole), whole[::2, ::3], np.zeros((0, 3)), pickle.PickleBuffer(whole)]
    data, _ = published(agent, value)
    for expected, got in zip(value[:4], pickle.loads(data)[:4], strict=True):
        assert np.array_equal(expected, got)


def test_a_summary_comes_with_the_value(agent: socket.socket) -> None:
    _, end = published(agent, {"loss": 0.5})
    assert ("dict", True, {"loss": 0.5}) == (end["type"], end["json"], end["value"])


@pytest.mark.parametrize(
    "value",
    [["x" * 4000] * 50, 10**5000, {"k" * 100_000: 1}, b"x" * 200_000],
    ids=["texts", "int", "key", "bytes"],
)
def test_a_summary_always_fits_its_packet(agent: socket.socket, value: object) -> None:
    data, end = published(agent, value)
    assert not end["json"]
    assert value == pickle.loads(data)


class Closed:
    def __reduce__(self) -> Any:
        raise RuntimeError("it holds a file")


class HostileError(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


class Mute:
    def __reduce__(self) -> Any:
        raise HostileError


@pytest.mark.parametrize(
    "value", [threading.Lock(), Closed(), (letter for letter in "abc"), [1, [Closed()]], Mute()]
)
def test_what_cannot_be_pickled_is_named_and_withdrawn(agent: socket.socket, value: object) -> None:
    receiver = Receiver(agent)
    with pytest.raises(UnpicklableResult, match=type(value).__name__):
        report.publish(value)
    assert rank_pipe.RESULT_ABORT == receiver.done()[-1][0]


def test_values_of_two_threads_do_not_mix(agent: socket.socket) -> None:
    agent.setblocking(True)
    values = [bytes([i]) * 500_000 for i in range(3)]
    threads = [threading.Thread(target=report.publish, args=(v,)) for v in values]
    for thread in threads:
        thread.start()
    seen = []
    for _ in threads:
        data = b""
        while (packet := rank_pipe.receive(agent))[0] != rank_pipe.RESULT_END:
            assert isinstance(packet, tuple)
            data += packet[1]
        seen.append(pickle.loads(data))
    for thread in threads:
        thread.join()
    assert values == sorted(seen)


def test_the_first_nan_is_told_with_its_own_step_and_later_ones_in_their_turn(agent: socket.socket) -> None:
    for step in range(100):
        report.report(step=step, loss=float("nan") if step >= 30 else 1.0, lr=0.1)

    told = [(step, str(metrics["loss"])) for step, metrics in reports(agent)]
    assert [*((step, "1.0") for step in range(report.AT_ONCE)), (30, "nan")] == told


# --- messages


def messages(near: socket.socket) -> list[str]:
    documents = [rank_pipe.parse(data) for kind, data in packets(near) if kind == rank_pipe.FACT]
    return [d["text"] for d in documents if d["event"] == "message_logged"]


def test_messages_are_neither_merged_nor_delayed(agent: socket.socket) -> None:
    for text in ("one", "one", ""):
        report.log_message(text)
    assert ["one", "one", ""] == messages(agent)


@pytest.mark.parametrize("character", ["a", "\0", "\ud800", "\U0001f600"])
def test_a_long_message_is_cut_where_documented_and_fits_a_packet(
    agent: socket.socket, character: str
) -> None:
    for size in (report.MESSAGE, report.MESSAGE + 1, 1 << 20):
        report.log_message(character * size)
    cut = f"{character * (report.MESSAGE - 1)}…"
    assert [character * report.MESSAGE, cut, cut] == messages(agent)


def test_a_message_waits_for_room(agent: socket.socket) -> None:
    """A report would be dropped; who reads slowly gets all messages."""
    total = 500  # a socket holds fewer

    def send() -> None:
        for _ in range(total):
            report.log_message("x" * 4000)

    sender = threading.Thread(target=send)
    sender.start()
    received = 0
    agent.setblocking(True)
    while received < total:
        received += agent.recv(rank_pipe.PACKET)[:1] == rank_pipe.FACT
    sender.join()
    assert [] == packets_left(agent)


def packets_left(near: socket.socket) -> list[tuple[bytes, bytes]]:
    near.setblocking(False)
    return packets(near)


def test_a_fork_of_the_rank_sends_no_message(agent: socket.socket) -> None:
    if not (child := os.fork()):
        report.log_message("child")
        os._exit(0)
    os.waitpid(child, 0)
    assert [] == messages(agent)
