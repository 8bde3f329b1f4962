"""Workers' zygotes without Spark: a process that forks workers, as the Python daemon of an executor does."""

from __future__ import annotations

import os
import select
import socket
import struct
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import cloudpickle
import pytest

from launcher.agent.boot import Boot
from launcher.agent.warm import client
from launcher.backends.spark import forked_agents
from launcher.backends.spark.launcher_zip import by_value
from launcher.channel import certificates
from launcher.channel.connecting import Endpoint
from launcher.serialization import to_plain
from tests.commands import LIMIT_S, until

CANNOT_CONNECT, NONE = 69, 8

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("mark")]

DAEMON = """
import os, pickle, sys
with open(sys.argv[1], "rb") as file:
    rounds = pickle.load(file)
codes = []
for number, (forks, document) in enumerate(rounds):
    for each, fork in enumerate(forks):
        if not os.fork():
            with open(f"{sys.argv[2]}/{number}.{each}.err", "wb") as errors:
                agent = fork(document, errors, dict(os.environb))
            assert "launcher" not in sys.modules, "something is left in the worker"
            os._exit(8 if agent is None else agent.wait())
    codes += [os.waitstatus_to_exitcode(os.wait()[1]) for _ in forks]
print(os.getpid(), *codes, flush=True)
sys.stdin.read()
"""


def daemon(tmp_path: Path, *rounds: list[dict[str, Any]]) -> subprocess.Popen[str]:
    """A daemon with workers for the needs of each round, whose agents cannot reach their engine."""
    with socket.create_server(("127.0.0.1", 0)) as closed:
        endpoints = (Endpoint("127.0.0.1", closed.getsockname()[1]),)
    credentials = to_plain(certificates.issue().agents)
    document = to_plain(Boot(0, "token", endpoints=endpoints, credentials=credentials))
    forks = [[forked_agents.forker(by_value(), need) for need in needs] for needs in rounds]
    (tmp_path / "task").write_bytes(cloudpickle.dumps([(each, document) for each in forks]))
    return subprocess.Popen(
        [sys.executable, "-P", "-c", DAEMON, tmp_path / "task", tmp_path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
    )


def need(**fields: Any) -> dict[str, Any]:
    """What a run needs that is of no other test's family."""
    return {"family": uuid.uuid4().hex[:8], "key": "key", "environ": {}, "modules": (), **fields}


def address(pid: int, family: str, key: str = "") -> str:
    """What the address of a daemon's zygote says after its first byte; without a key, how it begins."""
    return f"rankdeck-zygote-{os.getuid()}-{pid}-{family}-{key}"


def served_by(pid: int, family: str) -> dict[str, int]:
    """The addresses at which zygotes of this family serve the workers of a daemon, and whose they are."""
    found = {}
    for name in client._bound(address(pid, family)):
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line:
            if not line.connect_ex(f"\0{name}"):
                seen = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
                found[name.rpartition("-")[2]] = struct.unpack("3i", seen)[0]
    return found


def answer(process: subprocess.Popen[str]) -> list[int]:
    """The daemon's pid, and the codes with which its workers' agents ended."""
    assert process.stdout is not None
    return [int(word) for word in process.stdout.readline().split()]


def test_workers_share_one_that_ends_with_their_daemon(tmp_path: Path) -> None:
    wants = need()
    with daemon(tmp_path, [wants, wants, wants]) as process:
        pid, *codes = answer(process)
        served = served_by(pid, wants["family"])
        errors = [path.read_text() for path in tmp_path.glob("0.*.err")]

    assert [CANNOT_CONNECT] * 3 == codes
    assert 3 == len(errors)
    assert all("cannot reach the engine" in text for text in errors), errors
    assert ["key"] == list(served)
    until(lambda: not served_by(pid, wants["family"]))


def test_one_of_another_kind_replaces_it(tmp_path: Path) -> None:
    first = need(key="first")
    with daemon(tmp_path, [first], [{**first, "key": "second"}], [need(key="other")]) as process:
        pid, *codes = answer(process)
        until(lambda: ["second"] == list(served_by(pid, first["family"])))

    assert [CANNOT_CONNECT] * 3 == codes


def test_one_retires_whose_successor_has_left_without_its_greeting(tmp_path: Path) -> None:
    first = need(key="first")
    with daemon(tmp_path, [first]) as process:
        pid, _ = answer(process)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line:
            line.connect(f"\0{address(pid, first['family'], 'first')}")
            assert select.select([line], [], [], LIMIT_S)[0]
            line.send(b'{"retire": true}')
        until(lambda: not served_by(pid, first["family"]))


def test_one_that_prints_when_it_imports_is_of_no_use(tmp_path: Path) -> None:
    (tmp_path / "chatty.py").write_text("print('hello')\n")
    wants = need(modules=("chatty",), environ={"PYTHONPATH": str(tmp_path)})
    with daemon(tmp_path, [wants]) as process:
        _, *codes = answer(process)

    assert [NONE] == codes
