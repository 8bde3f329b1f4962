"""The control socket: the same user and nobody else, and no client can harm or hold up a run."""

from __future__ import annotations

import errno
import json
import os
import select
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from launcher import runtime_dir
from launcher.errors import AgentLost, LauncherError, SpecError
from launcher.supervisor import control
from launcher.supervisor.control import LIMIT, ControlServer, control_addresses, send_command
from tests.another_user import as_nobody, as_root


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / f"20260101-120000-{os.getpid() % 1000:03d}abc"
    folder.mkdir(mode=0o700)
    return folder


def address(run: Path) -> Path:
    return control_addresses(run)[0]


class Owner:
    """A run's owner: it serves in a thread, and remembers what it was told."""

    def __init__(self, run: Path, obey: Callable[[dict[str, Any]], None] | None = None) -> None:
        self.told: list[dict[str, Any]] = []
        self.errors: list[BaseException] = []
        self._obey = obey
        self.server = ControlServer(run, self._handle)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _handle(self, command: dict[str, Any]) -> None:
        if self._obey:
            self._obey(command)
        self.told.append(command)

    def _serve(self) -> None:
        while not self._over.is_set():
            if select.select([self.server], [], [], 0.05)[0]:
                try:
                    self.server.serve()
                except BaseException as error:  # noqa: BLE001  the test says what it was
                    self.errors.append(error)

    def close(self) -> None:
        self._over.set()
        self._thread.join(60)
        self.server.close()


@contextmanager
def owning(run: Path, obey: Callable[[dict[str, Any]], None] | None = None) -> Iterator[Owner]:
    owner = Owner(run, obey)
    try:
        yield owner
    finally:
        owner.close()
    assert [] == owner.errors


def dial(run: Path) -> socket.socket:
    return runtime_dir.connect(address(run), socket.SOCK_SEQPACKET, 10)


def test_a_command_reaches_the_owner(run: Path) -> None:
    with owning(run) as owner:
        send_command(run, {"reason": "é", "force": True})
        assert [{"reason": "é", "force": True}] == owner.told


def test_commands_come_one_after_the_other(run: Path) -> None:
    with owning(run) as owner:
        for i in range(20):
            send_command(run, {"i": i})
        assert [{"i": i} for i in range(20)] == owner.told


def test_a_run_without_an_owner_is_told(run: Path) -> None:
    with pytest.raises(AgentLost, match="no process on this machine owns"):
        send_command(run, {})


def test_an_owner_that_is_gone_leaves_no_name_behind(run: Path) -> None:
    with owning(run):
        pass
    with pytest.raises(AgentLost):
        send_command(run, {})
    with owning(run):
        send_command(run, {})


def test_two_owners_of_one_run_cannot_be(run: Path) -> None:
    with owning(run) as first:
        with pytest.raises(LauncherError, match="cannot listen for commands"):
            ControlServer(run, lambda _: None)
        send_command(run, {"to": "first"})
        assert [{"to": "first"}] == first.told


GARBAGE = [
    b"{",
    b"\xff\xfe",
    b"[]",
    b"3",
    b"null",
    b'"text"',
    b"\0",
    b"x" * LIMIT,
    b"x" * (2 * LIMIT),
    b"[" * (LIMIT - 1),
    b'{"exit_code": Infinity}',
    b'{"exit_code": NaN}',
    b'{"exit_code": "many"}',
    b'{"exit_code": [1]}',
    b'{"exit_code": ' + b"9" * 5000 + b"}",
]


def obey(command: dict[str, Any]) -> None:
    """What the supervisor makes of a command."""
    str(command.get("reason", ""))
    int(command.get("exit_code", 143))


@pytest.mark.parametrize("garbage", GARBAGE, ids=lambda g: repr(g[:24]))
def test_garbage_is_not_accepted_and_harms_nobody(run: Path, garbage: bytes) -> None:
    with owning(run, obey) as owner:
        with dial(run) as stranger:
            stranger.send(garbage)
            assert ["error"] == list(json.loads(stranger.recv(LIMIT)))
        send_command(run, {"reason": "still here"})
        assert [{"reason": "still here"}] == owner.told


@pytest.mark.parametrize(
    "error",
    [
        KeyError("x"),
        OverflowError("x"),
        RuntimeError("x"),
        SpecError("x"),
        OSError("x"),
        ValueError("x" * 10**6),
    ],
)
def test_a_command_that_the_owner_cannot_carry_out_is_not_accepted(run: Path, error: Exception) -> None:
    def refuse(_: dict[str, Any]) -> None:
        raise error

    with owning(run, refuse) as owner:
        with pytest.raises(LauncherError, match=f"did not accept the command: {type(error).__name__}"):
            send_command(run, {})
        assert [] == owner.told


def test_a_client_that_says_nothing_is_dropped_soon(run: Path) -> None:
    with owning(run) as owner, dial(run) as silent:
        began = time.monotonic()
        send_command(run, {"after": "silence"})
        assert time.monotonic() - began < 4
        assert [{"after": "silence"}] == owner.told
        assert b"" == silent.recv(LIMIT)


def test_a_client_that_leaves_at_once_is_nothing(run: Path) -> None:
    with owning(run) as owner:
        dial(run).close()
        with dial(run) as hasty:
            hasty.send(b"{}")
        send_command(run, {"after": "haste"})
        assert {"after": "haste"} == owner.told[-1]


def test_an_owner_that_hangs_is_told(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "_ANSWER_S", 0.05)
    server = ControlServer(run, lambda _: None)
    with pytest.raises(AgentLost, match="does not answer"):
        send_command(run, {})
    server.close()


def test_a_command_whose_sender_has_given_up_is_not_obeyed(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "_ANSWER_S", 0.05)
    told: list[dict[str, Any]] = []
    server = ControlServer(run, told.append)
    with pytest.raises(AgentLost, match="does not answer"):
        send_command(run, {"reason": "too late"})

    server.serve()

    assert [] == told
    server.close()


def test_serving_without_a_client_returns_at_once(run: Path) -> None:
    server = ControlServer(run, lambda _: None)
    server.serve()
    server.close()


def test_the_kernel_says_who_is_there() -> None:
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with near, far:
        assert (os.getpid(), os.getuid()) == runtime_dir.peer(near)


@pytest.fixture
def reachable(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A run in a short home that everybody could enter, were it not for our own folders in it."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o777)
        monkeypatch.setenv("RANKDECK_HOME", folder)
        run = Path(folder, "20260101-120000-000abc")
        run.mkdir(mode=0o700)
        yield run


def intrude(name: str) -> str:
    """What another user gets for an answer."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
        sock.settimeout(10)
        try:
            sock.connect(name)
            sock.send(json.dumps({"reason": "mine now"}).encode())
            return "heard" if sock.recv(LIMIT) else "ignored"
        except PermissionError:
            return "kept out"
        except OSError:
            return "ignored"


@as_root
def test_another_user_cannot_even_connect(reachable: Path) -> None:
    with owning(reachable) as owner:
        assert 0 == as_nobody(lambda: intrude(str(address(reachable))) == "kept out")
        assert [] == owner.told


@as_root
def test_another_user_who_gets_in_is_not_obeyed(reachable: Path) -> None:
    with owning(reachable) as owner:
        address(reachable).chmod(0o777)
        reachable.chmod(0o777)
        assert 0 == as_nobody(lambda: intrude(str(address(reachable))) == "ignored")
        send_command(reachable, {"reason": "ours"})
        assert [{"reason": "ours"}] == owner.told


@as_root
def test_a_command_is_not_told_to_another_user(reachable: Path) -> None:
    """Somebody else has taken the run's address, and must not learn what we would have said."""
    reachable.chmod(0o777)
    ready, tell_ready = os.pipe()

    def squat() -> bool:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
            sock.bind(str(address(reachable)))
            sock.listen(1)
            os.write(tell_ready, b"!")
            sock.settimeout(10)
            client, _ = sock.accept()
            with client:
                client.settimeout(10)
                return client.recv(LIMIT) == b""

    result: list[int] = []
    squatter = threading.Thread(target=lambda: result.append(as_nobody(squat)))
    squatter.start()
    os.read(ready, 1)
    with pytest.raises(SpecError, match="held by another user"):
        send_command(reachable, {"reason": "secret"})
    squatter.join(60)
    os.close(ready)
    os.close(tell_ready)
    assert [0] == result


def test_what_a_killed_owner_left_gives_way(run: Path) -> None:
    left = runtime_dir.bind(address(run), socket.SOCK_SEQPACKET)
    left.close()  # without the name's removal
    assert address(run).exists()
    with pytest.raises(AgentLost):
        send_command(run, {})
    with owning(run) as owner:
        send_command(run, {"to": "the new one"})
        assert [{"to": "the new one"}] == owner.told
    assert not address(run).exists()


def test_where_a_folder_takes_no_socket_there_is_another_place(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bind = runtime_dir.bind

    def without_sockets(path: Path, kind: socket.SocketKind) -> socket.socket:
        if path.parent == run:
            raise OSError(errno.EOPNOTSUPP, "not here")
        return bind(path, kind)

    monkeypatch.setattr(runtime_dir, "bind", without_sockets)
    with owning(run) as owner:
        assert not address(run).exists()
        assert control_addresses(run)[1].exists()
        send_command(run, {"by": "the other way"})
        assert [{"by": "the other way"}] == owner.told
    assert not control_addresses(run)[1].exists()


def test_the_folder_for_sockets_may_vanish_while_a_run_goes_on(run: Path) -> None:
    """As it does when a user logs out."""
    with owning(run) as owner:
        shutil.rmtree(runtime_dir.runtime_folder())
        send_command(run, {"still": "here"})
        assert [{"still": "here"}] == owner.told


@pytest.mark.parametrize("answer", [b"[" * 50_000, b"{", b"[]", b'"yes"', b"\xff"])
def test_an_answer_that_makes_no_sense_is_told(answer: bytes) -> None:
    assert "its answer is invalid" == control._refusal(answer)


def test_what_an_owner_says_is_understood() -> None:
    assert "it sent no answer" == control._refusal(b"")
    assert "busy" == control._refusal(b'{"error": "busy"}')
    assert "" == control._refusal(b'{"ok": true}')
