"""A lock that a killed build left is taken over; one that a process holds is waited for."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from launcher.agent import build_locks
from launcher.agent.build_locks import clear_stale_locks, is_shared, remove_if_stale


class WaitsForEver(Exception):
    """Torch's own waiting was begun, which only the lock's removal ends."""


def baton(folder: Path) -> type:
    """A class with the protocol of torch's."""

    class Baton:
        def __init__(self) -> None:
            self.lock_file_path = str(folder / "lock")
            self.descriptor: int | None = None

        def try_acquire(self) -> bool:
            try:
                self.descriptor = os.open(self.lock_file_path, os.O_CREAT | os.O_EXCL)
            except FileExistsError:
                return False
            return True

        def wait(self) -> None:
            raise WaitsForEver

    clear_stale_locks(Baton)
    return Baton


@contextmanager
def builder(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that holds the lock, and removes it when its input ends."""
    build = """if True:
        import os, sys
        os.open(sys.argv[1], os.O_CREAT | os.O_EXCL); print(flush=True)
        sys.stdin.read()
        os.remove(sys.argv[1])
    """
    command = [sys.executable, "-c", build, str(folder / "lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process


@pytest.fixture
def local(monkeypatch: pytest.MonkeyPatch) -> None:
    """The file system under test, whatever it is, has no clients elsewhere."""
    monkeypatch.setattr(build_locks, "_on_shared_storage", lambda _: False)


@pytest.mark.usefixtures("local")
def test_a_lock_that_nobody_holds_is_taken_over(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "lock").touch()

    assert baton(tmp_path)().try_acquire()
    assert f"removed {tmp_path}/lock" in capsys.readouterr().err


@pytest.mark.usefixtures("local")
def test_a_lock_that_a_process_holds_is_kept(tmp_path: Path) -> None:
    with builder(tmp_path) as holder:
        assert not baton(tmp_path)().try_acquire()
        holder.kill()
    assert baton(tmp_path)().try_acquire()


@pytest.mark.usefixtures("local")
def test_of_many_ranks_that_find_a_stale_lock_one_builds(tmp_path: Path) -> None:
    for _ in range(5):
        (tmp_path / "lock").touch()
        batons = [baton(tmp_path)() for _ in range(8)]
        with ThreadPoolExecutor(8) as pool:
            got = list(pool.map(lambda one: one.try_acquire(), batons))

        assert 1 == sum(got)
        for one in batons:
            if one.descriptor is not None:
                os.close(one.descriptor)
        (tmp_path / "lock").unlink()


@pytest.mark.usefixtures("local")
def test_a_builder_that_is_just_done_removes_its_lock_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def at_the_pause(happens: Callable[[], object]) -> None:
        # the module's own `time`: a thread that an earlier test's library left may sleep too
        monkeypatch.setattr(build_locks, "time", SimpleNamespace(sleep=lambda _: happens()))

    lock = tmp_path / "lock"
    lock.touch()
    at_the_pause(lock.unlink)
    assert remove_if_stale(lock)

    lock.touch()
    (tmp_path / "next").touch()
    at_the_pause(lambda: (tmp_path / "next").rename(lock))
    assert not remove_if_stale(lock)
    assert lock.exists()


def test_a_lock_on_storage_that_hosts_share_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lock").touch()
    monkeypatch.setattr(build_locks, "_on_shared_storage", lambda _: True)

    assert not remove_if_stale(tmp_path / "lock")
    assert (tmp_path / "lock").exists()


@pytest.mark.usefixtures("local")
def test_ranks_that_wait_for_a_build_go_on_when_it_is_done_and_fail_when_it_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(build_locks, "_LOOK_S", 0.3)
    with ThreadPoolExecutor(4) as pool, builder(tmp_path) as process:
        waiting = [pool.submit(baton(tmp_path)().wait) for _ in range(4)]
        with pytest.raises(TimeoutError):
            waiting[0].result(1.5)
        process.communicate()
        assert [None] * 4 == [one.result(30) for one in waiting]

    with ThreadPoolExecutor(4) as pool, builder(tmp_path) as process:
        waiting = [pool.submit(baton(tmp_path)().wait) for _ in range(4)]
        process.kill()
        for one in waiting:
            with pytest.raises(RuntimeError, match=f"building in {tmp_path} was killed"):
                one.result(30)
    assert baton(tmp_path)().try_acquire()


def test_a_builder_that_cannot_be_seen_is_waited_for_as_torch_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lock").touch()
    monkeypatch.setattr(build_locks, "_on_shared_storage", lambda _: True)
    with pytest.raises(WaitsForEver):
        baton(tmp_path)().wait()

    monkeypatch.setattr(build_locks, "_on_shared_storage", lambda _: False)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(WaitsForEver):
        baton(tmp_path)().wait()
    assert not baton(tmp_path)().try_acquire()


@pytest.mark.parametrize(
    ("mount", "shared"),
    [
        ("29 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw", False),
        ("29 1 254:0 / /scratch rw - xfs /dev/vda rw", False),
        ("29 1 254:0 / /home rw shared:7 - nfs4 host:/home rw", True),
        ("29 1 254:0 / /data rw - fuse.sshfs host: rw", True),
        ("29 1 254:0 /var/volumes/7 /root/.cache rw - ext4 /dev/vda rw", True),  # of a container's host
        ("29 1 254:9 / / rw - ext4 /dev/vdb rw", True),  # it is not among the mounts
    ],
)
def test_storage_is_private_if_only_processes_of_this_host_use_it(mount: str, shared: bool) -> None:
    others = "22 27 0:21 / /proc rw,relatime - proc proc rw\n"

    assert shared is is_shared(others + mount, os.makedev(254, 0))


def test_a_lock_that_is_gone_is_no_obstacle(tmp_path: Path) -> None:
    assert remove_if_stale(tmp_path / "lock")
