"""Floods: agents come in while thousands of strangers do not, and the listener does not grow."""

from __future__ import annotations

import contextlib
import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher.channel import listener
from launcher.channel.listener import Refusal
from tests.commands import until
from tests.peers import Door

STRANGERS = 20_000
SPARE = 24  # descriptors that the process may still open; some numbers below its highest may be free too

pytestmark = pytest.mark.process

# Strangers in a process of their own: waves of connections, each with other words; half of a wave stays
# until the next. The first line of output says that they have begun, the second how many there were.
FLOOD = """
import random, socket, sys
port, total, wave = map(int, sys.argv[1:])
words = [b"", b"\\x16", b"\\x16\\x03\\x01\\x02\\x00\\x01\\x00\\x01\\xfc\\x03\\x03" + bytes(40)]
words += [b"GET / HTTP/1.0", bytes(2000)]
random.seed(1)
made, kept = 0, []
while made < total:
    fresh = []
    for _ in range(wave):
        sock = socket.socket()
        sock.settimeout(10)
        try:
            sock.connect(("127.0.0.1", port))
            sock.send(random.choice(words))
        except OSError:
            pass
        fresh.append(sock)
        made += 1
        if made == wave:
            print("begun", flush=True)
    for sock in kept + fresh[::2]:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\\1\\0\\0\\0\\0\\0\\0\\0")
        sock.close()
    kept = fresh[1::2]
print(made, flush=True)
"""

# Each of these says one byte of a true beginning every half second, as long as anybody listens.
LORIS = """
import select, socket, sys, time
port, count = map(int, sys.argv[1:])
words = b"\\x16\\x03\\x01\\x02\\x00\\x01\\x00\\x01\\xfc\\x03\\x03" + bytes(400)
socks = []
for _ in range(count):
    socks.append(socket.create_connection(("127.0.0.1", port)))
print("begun", flush=True)
said, ended = 0, 0
while socks:
    for sock in list(socks):
        try:
            sock.send(words[said:said + 1])
        except OSError:
            socks.remove(sock)
            ended += 1
    said += 1
    time.sleep(0.5)
print(ended, flush=True)
"""

# They come when they are told to, and stay until they are killed.
CROWD = """
import socket, sys
port, count = map(int, sys.argv[1:])
print("begun", flush=True)
sys.stdin.readline()
socks = [socket.create_connection(("127.0.0.1", port)) for _ in range(count)]
print(count, flush=True)
sys.stdin.readline()
"""


@pytest.fixture
def door() -> Iterator[Door]:
    made = Door()
    yield made
    made.close()


@contextlib.contextmanager
def strangers(code: str, *args: int) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", code, *map(str, args)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "begun\n" == process.stdout.readline()
        try:
            yield process
        finally:
            process.kill()


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def resident() -> int:
    """Bytes of memory that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def test_agents_come_in_while_twenty_thousand_strangers_do_not(door: Door) -> None:
    door.is_open(0)
    files, memory, slowest = descriptors(), resident(), 0.0
    most_files, joined = 0, 1
    with strangers(FLOOD, door.address[1], STRANGERS, 500) as flood:
        while flood.poll() is None:
            began = time.monotonic()
            door.is_open(joined, timeout_s=20)
            slowest = max(slowest, time.monotonic() - began)
            joined += 1
            most_files = max(most_files, descriptors())
        assert flood.stdout is not None
        assert STRANGERS == int(flood.stdout.read())
    assert slowest < 10
    assert joined > 1
    assert most_files <= files + listener.CROWD + 10
    until(lambda: sum(door.listener.refused.values()) >= 0.9 * STRANGERS)
    until(lambda: descriptors() <= files)
    assert resident() - memory < 64 << 20
    door.is_open(joined)


def test_slow_talkers_are_ended_in_time_and_hold_up_nobody() -> None:
    door = Door(handshake_s=1.0)
    try:
        with strangers(LORIS, door.address[1], 200) as loris:
            for agent in range(5):
                door.is_open(agent, timeout_s=5)
            assert loris.stdout is not None
            assert "200\n" == loris.stdout.readline()
        assert 200 == sum(door.listener.refused.values())
    finally:
        door.close()


def test_without_descriptors_it_neither_spins_nor_dies(door: Door) -> None:
    door.is_open(0)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    held: list[int] = []
    with strangers(CROWD, door.address[1], 100) as crowd:
        assert crowd.stdin is not None
        assert crowd.stdout is not None
        highest = max(map(int, os.listdir("/proc/self/fd")))
        resource.setrlimit(resource.RLIMIT_NOFILE, (highest + SPARE, hard))
        try:
            with contextlib.suppress(OSError):
                while True:
                    held.append(os.dup(0))
            crowd.stdin.write("come\n")
            crowd.stdin.flush()
            assert "100\n" == crowd.stdout.readline()
            began, used = time.monotonic(), time.process_time()
            until(lambda: time.monotonic() > began + 1.0)
            assert time.process_time() - used < 0.5
            assert {} == door.listener.refused
            for _ in range(6):
                os.close(held.pop())
            door.refuses(Refusal.CROWDED, 90)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
            for descriptor in held:
                os.close(descriptor)
        door.is_open(1)
