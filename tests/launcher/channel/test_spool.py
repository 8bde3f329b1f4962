"""A connection through files: exact bytes, bounded room, and nothing left whoever dies."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher.channel import spool
from launcher.channel.spool import (
    DOWN,
    MOST_PIECES,
    UP,
    EngineHeartbeat,
    FilePump,
    Spool,
    check_spool,
    clear_dead,
    connect_by_files,
    why_not_shared,
)
from launcher.errors import SpecError
from tests.commands import until


@pytest.fixture
def engine() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        sock.settimeout(20)
        yield sock


@pytest.fixture
def near(tmp_path: Path, engine: socket.socket) -> Iterator[Spool]:
    made = Spool(str(tmp_path), "run-1", 0)
    made.open(engine.getsockname())
    yield made
    made.close()
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("folder", ["relative/spool", "/nowhere/at/all", __file__, "/proc"])
def test_what_cannot_be_a_spool_folder_is_refused(folder: str) -> None:
    with pytest.raises(SpecError, match="spool folder"):
        check_spool(folder)


def test_only_its_owner_may_look(near: Spool) -> None:
    assert 0o700 == stat.S_IMODE(near.folder.stat().st_mode)


def test_bytes_pass_both_ways_and_each_half_ends_by_itself(near: Spool, engine: socket.socket) -> None:
    up, down = os.urandom(5 << 20), os.urandom(3 << 20)
    agent = connect_by_files(str(near.folder), 3)
    there, peer = engine.accept()
    until(lambda: near.brings(peer))
    heard = bytearray()
    reader = threading.Thread(target=lambda: heard.extend(_all(there)))
    reader.start()
    agent.sendall(up)
    agent.shutdown(socket.SHUT_WR)
    reader.join()
    assert up == heard
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(_all(agent)))
    reader.start()
    there.sendall(down)
    there.close()
    reader.join()
    assert [down] == got
    agent.close()
    until(lambda: not [name for name in os.listdir(near.folder) if name.startswith(spool.AGENT)])


def _all(sock: socket.socket) -> bytes:
    return b"".join(iter(lambda: sock.recv(1 << 16), b""))


def test_a_reader_that_does_not_read_bounds_the_room(tmp_path: Path) -> None:
    folder = tmp_path / "agent-0"
    for name in (UP, DOWN):
        (folder / name).mkdir(parents=True)
    near, far = socket.socketpair()
    near.setblocking(False)
    pump = FilePump(far, str(folder), out=UP, into=DOWN)
    sent = 0
    while pump.transfer() or sent == 0:
        try:
            while True:
                sent += near.send(bytes(1 << 16))
        except BlockingIOError:
            pass
    assert MOST_PIECES == len(os.listdir(folder / UP))
    assert not pump.wants_to_read
    near.close()
    pump.close()


def test_what_cannot_be_written_now_is_written_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "agent-0"
    for name in (UP, DOWN):
        (folder / name).mkdir(parents=True)
    near, far = socket.socketpair()
    pump = FilePump(far, str(folder), out=UP, into=DOWN)
    with monkeypatch.context() as full:
        full.setattr(os, "fsync", _no_room)
        near.sendall(b"kept")
        assert not pump.transfer()
        assert not pump.transfer()
    near.sendall(b" all")
    assert pump.transfer()
    assert b"kept all" == b"".join((folder / UP / n).read_bytes() for n in sorted(os.listdir(folder / UP)))
    near.close()
    pump.close()


def _no_room(_: int) -> None:
    raise OSError(28, "No space left on device")


def test_an_agent_that_goes_is_seen_and_its_folder_goes_too(near: Spool, engine: socket.socket) -> None:
    agent = connect_by_files(str(near.folder), 0)
    there, _ = engine.accept()
    agent.close()
    assert b"" == there.recv(1)
    there.close()
    until(lambda: not [name for name in os.listdir(near.folder) if name.startswith(spool.AGENT)])


def test_a_folder_that_is_removed_ends_the_connection(tmp_path: Path, engine: socket.socket) -> None:
    made = Spool(str(tmp_path), "run-2", 0)
    made.open(engine.getsockname())
    agent = connect_by_files(str(made.folder), 0)
    there, _ = engine.accept()
    made.close()
    agent.settimeout(20)
    assert b"" == agent.recv(1)
    there.close()
    agent.close()


def test_a_dead_engine_is_noticed_and_what_it_left_is_removed(tmp_path: Path) -> None:
    dead = tmp_path / "rankdeck-run-0"
    dead.mkdir()
    (dead / spool.BEAT).write_bytes(b"1")
    agent = connect_by_files(str(dead), 0, lease_s=1.5)
    agent.settimeout(20)
    assert b"" == agent.recv(1)
    until(lambda: not dead.exists())
    agent.close()


def test_a_number_that_cannot_be_read_is_not_held_against_the_engine(tmp_path: Path) -> None:
    beat = tmp_path / "beat"
    beat.mkdir()
    watch = EngineHeartbeat(str(beat), 3.0)
    base = watch._read_at
    assert not any(watch.lost(base + 2.0 * n) for n in range(1, 20))
    beat.rmdir()
    with pytest.raises(FileNotFoundError):
        watch.lost(base + 100)


def test_a_pause_of_our_own_counts_as_two_looks_at_most(tmp_path: Path) -> None:
    beat = tmp_path / "beat"
    beat.write_bytes(b"1")
    watch = EngineHeartbeat(str(beat), 5.0)
    base = watch._read_at
    assert not watch.lost(base + 2)
    assert not watch.lost(base + 1000)
    assert not watch.lost(base + 1002)
    assert watch.lost(base + 1004)


def test_what_a_killed_engine_left_is_removed_by_the_next_and_nothing_else(tmp_path: Path) -> None:
    program = (
        "import os, sys; from launcher.channel.spool import Spool; "
        "Spool(sys.argv[1], 'killed', 0); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False)
    mine = Spool(str(tmp_path), "living", 0)
    (tmp_path / "rankdeck-notes").mkdir()
    elsewhere = tmp_path / "rankdeck-elsewhere-0"
    shutil.copytree(mine.folder, elsewhere)
    (elsewhere / "owner").write_text('{"machine": "another", "pid": 1, "born": "1"}')
    clear_dead(tmp_path)
    found = {path.name for path in tmp_path.iterdir()}
    assert {"rankdeck-living-0", "rankdeck-notes", "rankdeck-elsewhere-0"} == found
    mine.close()


def test_it_is_known_by_its_marker(near: Spool, tmp_path: Path) -> None:
    assert "" == why_not_shared(str(near.folder), near.marker)
    assert "another folder" in why_not_shared(str(near.folder), "something else")
    assert "not shared" in why_not_shared(str(tmp_path / "nowhere"), near.marker)
