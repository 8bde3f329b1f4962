"""The private folder for sockets: where it is, whose it must be, and addresses in it of any length."""

from __future__ import annotations

import errno
import os
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher.errors import InternalError
from launcher.runtime_dir import bind, connect, is_stale, locked, runtime_folder
from tests.commands import COMMAND

NOBODY = 65534
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can give a folder away")
STREAM = socket.SOCK_STREAM


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """Neither a home nor a runtime folder is given; the folder for temporary files is our own."""
    monkeypatch.delenv("RANKDECK_HOME")
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield tmp_path
    place = tmp_path / f"rankdeck-{os.getuid()}"
    if place.is_symlink() or (place.exists() and place.stat().st_uid != os.getuid()):
        place.rename(tmp_path / "refused")


def test_a_home_comes_first(home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert home / "run" == runtime_folder()
    assert 0o700 == (home / "run").stat().st_mode & 0o777


def test_then_the_folder_that_the_session_has(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (bare / "session").mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(bare / "session"))
    assert bare / "session" / "rankdeck" == runtime_folder()


@pytest.mark.parametrize("given", ["", "relative", "/no/such/folder", "/dev/null"])
def test_without_one_there_is_one_among_temporary_files(
    bare: Path, monkeypatch: pytest.MonkeyPatch, given: str
) -> None:
    monkeypatch.chdir(bare)
    (bare / "relative").mkdir()
    monkeypatch.setenv("XDG_RUNTIME_DIR", given)
    assert bare / f"rankdeck-{os.getuid()}" == runtime_folder()
    assert 0o700 == runtime_folder().stat().st_mode & 0o777


def test_one_that_may_not_be_written_is_none(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(bare))
    monkeypatch.setattr(os, "access", lambda path, mode: mode == os.R_OK)  # root may write everywhere
    assert bare / f"rankdeck-{os.getuid()}" == runtime_folder()


@as_root
def test_a_folder_of_somebody_else_is_not_used(bare: Path) -> None:
    theirs = bare / f"rankdeck-{os.getuid()}"
    theirs.mkdir(mode=0o777)
    os.chown(theirs, NOBODY, NOBODY)
    with pytest.raises(InternalError, match="belongs to somebody else"):
        runtime_folder()


def test_a_link_is_not_followed(bare: Path) -> None:
    (bare / "elsewhere").mkdir(mode=0o755)
    (bare / f"rankdeck-{os.getuid()}").symlink_to(bare / "elsewhere")
    with pytest.raises(InternalError, match="belongs to somebody else"):
        runtime_folder()
    assert 0o755 == (bare / "elsewhere").stat().st_mode & 0o777


def test_a_file_in_its_place_is_told(bare: Path) -> None:
    (bare / f"rankdeck-{os.getuid()}").write_text("")
    with pytest.raises(InternalError, match="cannot make"):
        runtime_folder()


@pytest.mark.process
@pytest.mark.usefixtures("mark")
def test_a_run_below_a_very_long_home(targets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANKDECK_HOME", str(tmp_path / ("long " + "x" * 150)))
    done = subprocess.run(
        [COMMAND, "run", targets / "hello.py", "--detach"], capture_output=True, text=True, check=False
    )
    assert (0, "") == (done.returncode, done.stderr)
    again = subprocess.run([COMMAND, "logs", "-f", "last"], capture_output=True, text=True, check=False)
    assert 0 == again.returncode
    assert len(os.fspath(next(runtime_folder().glob("*.sock")))) > 150


@pytest.mark.process
@pytest.mark.usefixtures("mark")
def test_a_run_where_nothing_is_given(
    bare: Path, targets: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.setenv("TMPDIR", str(bare))
    done = subprocess.run([COMMAND, "run", targets / "hello.py"], capture_output=True, text=True, check=False)
    assert 0 == done.returncode, done.stderr
    assert [f"rankdeck-{os.getuid()}"] == [path.name for path in bare.glob("rankdeck-*")]
    assert (tmp_path / "XDG_STATE_HOME" / "rankdeck" / "runs").is_dir()


# --- sockets and locks


def test_who_waits_to_be_let_in_is_not_sent_away(home: Path) -> None:
    """More connect at once than a listener's queue holds: they come in when there is room."""
    place = runtime_folder() / "a.sock"
    server = bind(place, STREAM)
    server.listen(0)
    first = connect(place, STREAM, 5)
    came: list[socket.socket] = []
    waiting = [threading.Thread(target=lambda: came.append(connect(place, STREAM, 20))) for _ in range(5)]
    for thread in waiting:
        thread.start()
    server.setblocking(True)
    let_in = [server.accept()[0] for _ in range(6)]
    for thread in waiting:
        thread.join(60)

    assert 5 == len(came)
    for sock in (server, first, *came, *let_in):
        sock.close()


def test_a_queue_that_stays_full_is_told(home: Path) -> None:
    place = runtime_folder() / "a.sock"
    with bind(place, STREAM) as server:
        server.listen(0)
        with connect(place, STREAM, 5):
            began = time.monotonic()
            with pytest.raises(BlockingIOError):
                connect(place, STREAM, 0.2)
            assert 0.1 < time.monotonic() - began < 10
            assert not is_stale(place, STREAM)


def test_a_name_gives_way_only_when_nobody_listens(home: Path) -> None:
    place = runtime_folder() / "a.sock"
    assert not is_stale(place, STREAM)
    with bind(place, STREAM):
        assert not is_stale(place, STREAM)
        with pytest.raises(OSError, match=os.strerror(errno.EADDRINUSE)):
            bind(place, STREAM)
    assert is_stale(place, STREAM)
    with bind(place, STREAM):
        connect(place, STREAM, 5).close()
    assert 0o600 == place.stat().st_mode & 0o777


def test_a_connection_has_its_time_limit(home: Path) -> None:
    place = runtime_folder() / "a.sock"
    with bind(place, STREAM), connect(place, STREAM, 0.05) as sock, pytest.raises(TimeoutError):
        sock.recv(1)


def test_a_lock_has_one_holder(home: Path) -> None:
    place = runtime_folder() / "a.lock"
    order: list[str] = []

    def wait() -> None:
        with locked(place) as free:
            order.append(f"second {free}")

    with locked(place) as free:
        thread = threading.Thread(target=wait)
        thread.start()
        with locked(place, wait=False) as at_once:
            assert (True, False) == (free, at_once)
        order.append("first")
    thread.join(60)
    assert ["first", "second True"] == order
    with locked(place, wait=False) as at_once:
        assert at_once


def test_a_lock_of_a_dead_process_is_free(home: Path) -> None:
    place = runtime_folder() / "a.lock"
    pid = os.fork()
    if not pid:
        with locked(place):
            os.kill(os.getpid(), 9)
    os.waitpid(pid, 0)
    with locked(place, wait=False) as free:
        assert free
