"""Who comes to an engine and means no good, or nothing at all: it harms nobody and leaves nothing."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from launcher.agent.linux import resident
from launcher.engine.address import key_for
from launcher.engine.client import reach, start_detached, submit
from launcher.engine.protocol import Conversation, pack_request
from launcher.errors import InternalError
from launcher.runs.paths import home, runs_root
from launcher.runs.reader import status_of
from launcher.runtime_dir import connect, runtime_folder
from launcher.spec.job import JobSpec, Target, TargetKind
from launcher.spec.request import Request
from launcher.state.run_state import Phase
from launcher.supervisor.control import control_addresses
from tests import engines
from tests.another_user import as_nobody, as_root
from tests.commands import COMMAND, Gate, until
from tests.engines import pids

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("mark")]


def script(path: Path, *args: object) -> Request:
    return Request(JobSpec(Target(TargetKind.SCRIPT, str(path), args=tuple(map(str, args))), workdir="/"))


@pytest.fixture
def request_(targets: Path) -> Request:
    return script(targets / "hello.py")


@pytest.fixture
def place(request_: Request) -> Path:
    """The address of an engine that is there, and has carried a run."""
    carried(request_)
    return runtime_folder() / f"engine-{key_for(request_).digest}.sock"


def carried(request: Request) -> None:
    run = submit(request, on_disconnect="stop")
    while not run.done:
        run.wait_for_news()
    run.close()
    assert run.ended is not None
    assert 0 == run.ended["exit_code"]


def descriptors() -> int:
    return len(os.listdir(f"/proc/{pids()[0]}/fd"))


def dial(place: Path) -> socket.socket:
    return connect(place, socket.SOCK_STREAM, 20)


def greeted(place: Path) -> tuple[socket.socket, str]:
    sock = dial(place)
    return sock, json.loads(sock.makefile("rb").readline())["build"]


# --- those who say what nobody says

GARBAGE = [
    b"",
    b"\0" * 100,
    b"\n",
    b"GET / HTTP/1.1\r\n\r\n",
    b"{}\n",
    b"[]\n",
    b"7\n",
    b'"x"\n',
    b"[" * 100_000 + b"\n",
    b"x" * (1 << 20),
    b'{"op": "status"',
    b'{"blobs": 7}\n',
    b'{"blobs": ["x"]}\n',
    b'{"blobs": [-1]}\n',
    b'{"blobs": [1e999]}\n',
    b'{"blobs": [' + b"9" * 5000 + b"]}\n",
    b'{"blobs": [4000000000, 4000000000]}\nfew',
    b'{"blobs": [99999999999999]}\n',
]


@pytest.mark.parametrize("garbage", GARBAGE, ids=lambda g: repr(g[:32]))
def test_garbage_and_halves_harm_nobody(place: Path, request_: Request, garbage: bytes) -> None:
    engine, before = pids(), descriptors()
    sock, _ = greeted(place)
    sock.sendall(garbage)
    sock.shutdown(socket.SHUT_WR)
    said = sock.makefile("rb").read()
    sock.close()

    assert b"" == said or "error" in json.loads(said)
    carried(request_)
    assert engine == pids()
    until(lambda: descriptors() <= before)
    assert b"Traceback" not in next((home() / "engine").glob("*.log")).read_bytes()


NONSENSE = [
    {},
    {"op": "dance"},
    {"op": None},
    {"op": "submit"},
    {"op": "submit", "spec": 7},
    {"op": "submit", "spec": {}, "environ": 7},
]


@pytest.mark.parametrize("nonsense", NONSENSE, ids=str)
def test_nonsense_is_answered_with_an_error(place: Path, nonsense: dict[str, object]) -> None:
    sock, build = greeted(place)
    talk = Conversation(sock)
    talk.send({**nonsense, "build": build})
    assert {"error", "message"} <= set(talk.receive().document)
    talk.close()


@pytest.mark.parametrize(
    "wrong",
    [
        {"environ": {"A": 7}},
        {"environ": [1]},
        {"python": 7},
        {"python": "/no/such/python"},
        {"root": 7},
        {"path": 7},
        {"inherited": {"umask": "x", "limits": {"NOFILE": "x", "SHOES": 3}, "cores": [99999], "nice": "y"}},
        {"payload": True},
    ],
    ids=str,
)
def test_a_request_with_a_wrong_field_ends_with_an_error_or_a_verdict(
    place: Path, request_: Request, wrong: dict[str, object]
) -> None:
    sock, build = greeted(place)
    talk = Conversation(sock)
    document = {**pack_request(request_).document, "op": "submit", "build": build, "root": str(runs_root())}
    talk.send({**document, **wrong})
    answer = talk.receive().document
    talk.close()
    if "error" not in answer:
        until(lambda: status_of(Path(answer["folder"])).state.final)
    carried(request_)
    assert 1 == len(pids())


def test_one_who_asks_on_and_never_listens_holds_nothing_up(
    place: Path, targets: Path, tmp_path: Path
) -> None:
    gate = Gate(tmp_path / "gate")
    request = script(targets / "waiting.py", "gate", gate.path)
    sock, build = greeted(place)
    talk = Conversation(sock)
    document = {**pack_request(request).document, "op": "submit", "build": build, "hold": True}
    talk.send({**document, "root": str(runs_root()), "on_disconnect": "detach"})
    run = runs_root() / talk.receive().document["run"]
    sock.settimeout(5)
    try:
        for _ in range(20_000):
            sock.sendall(b'{"op": "next"}\n')
    except OSError:
        pass  # it has let us go, or hears us no more
    gate.open()
    until(lambda: status_of(run).state is Phase.SUCCEEDED)
    talk.close()


# --- those who say nothing


def test_two_hundred_who_only_sit_there_are_let_go(place: Path, request_: Request) -> None:
    before, memory = descriptors(), resident(pids()[0])
    with ExitStack() as stay:
        guests = [stay.enter_context(dial(place)) for _ in range(200)]
        carried(request_)
        until(lambda: descriptors() <= before, within=60)
        assert guests[0].makefile("rb").read().count(b"\n") == 1  # its greeting, and the end

    carried(request_)
    assert 1 == len(pids())
    assert resident(pids()[0]) < memory + (32 << 20)


def test_more_guests_than_it_has_descriptors_for(targets: Path, tmp_path: Path) -> None:
    gate = Gate(tmp_path / "gate")
    words = f"ulimit -n 96; exec {COMMAND} run --detach {targets}/waiting.py -- gate {gate.path}"
    done = subprocess.run(["bash", "-c", words], capture_output=True, text=True, check=True)
    run = runs_root() / done.stdout.strip()
    engine = pids()
    place = next(runtime_folder().glob("engine-*.sock"))
    with ExitStack() as stay:
        for _ in range(120):
            stay.enter_context(dial(place))
        gate.open()
        until(lambda: status_of(run).state.final)
        assert Phase.SUCCEEDED is status_of(run).state
    carried(script(targets / "hello.py"))

    assert engine == pids()


# --- another user


@pytest.fixture
def reachable(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home below folders that everybody may enter, made by us."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        place = Path(folder, "home")
        monkeypatch.setenv("RANKDECK_HOME", str(place))
        before = os.umask(0)
        try:
            yield place
        finally:
            os.umask(before)
            engines.end_all()


def refused(place: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
        try:
            sock.connect(str(place))
        except PermissionError:
            return True
        return False


def readable(top: Path) -> list[str]:
    """Files below that this process can read."""
    found = []
    for folder, _, files in os.walk(top):
        for name in files:
            try:
                Path(folder, name).read_bytes()
            except OSError:
                continue
            found.append(name)
    return found


@as_root
def test_another_user_can_neither_connect_nor_read(reachable: Path, targets: Path) -> None:
    carried(script(targets / "hello.py"))
    run = start_detached(script(targets / "waiting.py", "plain"))
    until(lambda: status_of(runs_root() / run).state is Phase.RUNNING)
    sockets = [*runtime_folder().glob("*.sock"), control_addresses(runs_root() / run)[0]]
    assert 2 == len(sockets)

    assert 0 == as_nobody(lambda: [refused(path) for path in sockets] == [True, True])
    assert 0 == as_nobody(lambda: readable(reachable) == [])
    assert len(readable(reachable)) > 10
    for folder, folders, files in os.walk(reachable):
        for name in folders + files:
            path = Path(folder, name)
            if path.parent != reachable:
                assert 0 == path.lstat().st_mode & 0o077, path


@as_root
def test_another_user_who_gets_in_is_told_nothing(reachable: Path, targets: Path) -> None:
    carried(script(targets / "hello.py"))
    place = next(runtime_folder().glob("engine-*.sock"))

    def intrude() -> bool:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(10)
            sock.connect(str(place))
            return sock.recv(100) == b""

    for path in (place, place.parent):
        path.chmod(0o777)
    assert 0 == as_nobody(intrude)
    carried(script(targets / "hello.py"))
    assert 1 == len(pids())


@as_root
def test_an_engine_of_another_user_is_not_spoken_to(reachable: Path, targets: Path) -> None:
    """Somebody listens at our engine's address: our environment is not for them."""
    request = script(targets / "hello.py")
    place = runtime_folder() / f"engine-{key_for(request).digest}.sock"
    heard, tell = os.pipe()
    os.chmod(place.parent, 0o777)

    def squat() -> bool:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.bind(str(place))
            sock.listen()
            os.write(tell, b"!")
            client, _ = sock.accept()
            with client:
                client.settimeout(10)
                return client.recv(100) == b""

    results: list[int] = []
    thread = threading.Thread(target=lambda: results.append(as_nobody(squat)))
    thread.start()
    os.read(heard, 1)
    try:
        with pytest.raises(InternalError, match="is held by another user"):
            reach(place)
    finally:
        thread.join(60)
        os.close(heard)
        os.close(tell)
        place.unlink(missing_ok=True)
    assert [0] == results
