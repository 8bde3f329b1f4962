"""Environments of frameworks are made once, whole or not at all, and do not pile up."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import framework_envs
from tests.commands import until
from tests.framework_envs import CannotInstall, Environment, ensure, environment, prune

pytestmark = pytest.mark.process

NOTHING = "# nothing at all\n"
MAKE = """
import sys
from pathlib import Path
from tests import framework_envs
pins, root = map(Path, sys.argv[1:])
framework_envs.PINS = pins
print("begun", flush=True)
framework_envs.ensure(framework_envs.environment("empty", root))
"""


@pytest.fixture
def pins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of pins of our own."""
    folder = tmp_path / "pins"
    folder.mkdir()
    (folder / "empty.txt").write_text(NOTHING)
    monkeypatch.setattr(framework_envs, "PINS", folder)
    return folder


def made(tmp_path: Path, name: str = "empty") -> Environment:
    return ensure(environment(name, tmp_path / "cache"))


def test_one_is_made_once(pins: Path, tmp_path: Path) -> None:
    first = made(tmp_path)
    own = first.folder / "own"
    own.touch()

    assert first == made(tmp_path)
    assert own.exists()
    assert subprocess.run([first.python, "-c", ""], check=True).returncode == 0


def test_other_pins_are_another_environment(pins: Path, tmp_path: Path) -> None:
    before = environment("empty", tmp_path)
    (pins / "empty.txt").write_text(NOTHING + "# and a second line\n")

    assert before.folder != environment("empty", tmp_path).folder


def test_one_that_was_not_finished_is_made_anew(pins: Path, tmp_path: Path) -> None:
    unfinished = environment("empty", tmp_path / "cache")
    (unfinished.folder / "half").mkdir(parents=True)

    assert unfinished == made(tmp_path)
    assert not (unfinished.folder / "half").exists()
    assert unfinished.whole.exists()


def test_while_one_process_makes_it_others_wait(pins: Path, tmp_path: Path) -> None:
    env = environment("empty", tmp_path / "cache")
    env.folder.parent.mkdir()
    with open(f"{env.folder}.lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        root = Path(__file__).parents[1]
        waiting = subprocess.Popen(
            [sys.executable, "-c", MAKE, pins, env.folder.parent], cwd=root, stdout=subprocess.PIPE
        )
        assert waiting.stdout is not None
        assert b"begun\n" == waiting.stdout.readline()
        until(lambda: f":{os.stat(file.fileno()).st_ino} " in _waiters())
        assert not env.folder.exists()

    assert 0 == waiting.wait(60)
    waiting.stdout.close()
    assert env.whole.exists()


def _waiters() -> str:
    """The kernel's list of those who wait for a lock."""
    lines = Path("/proc/locks").read_text().splitlines()
    return "\n".join(line for line in lines if "->" in line)


def test_what_cannot_be_installed_is_said_and_not_used(pins: Path, tmp_path: Path) -> None:
    (pins / "absent.txt").write_text(f"absent @ file://{tmp_path}/absent.whl\n")

    with pytest.raises(CannotInstall, match=r"pip cannot install absent: ERROR: .*absent\.whl"):
        made(tmp_path, "absent")
    assert not environment("absent", tmp_path / "cache").whole.exists()


def test_tests_are_skipped_where_there_is_none(
    pins: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (pins / "absent.txt").write_text(f"absent @ file://{tmp_path}/absent.whl\n")

    for _ in range(2):
        with pytest.raises(pytest.skip.Exception, match="pip cannot install absent"):
            framework_envs.made("absent")


def test_those_that_nobody_uses_are_removed(pins: Path, tmp_path: Path) -> None:
    root = tmp_path / "cache"
    old, unfinished, used = (Environment(name, root / name) for name in ("old", "unfinished", "used"))
    for env in (old, unfinished, used):
        env.folder.mkdir(parents=True)
        Path(f"{env.folder}.lock").touch()
    for env in (old, used):
        env.whole.touch()
    long_ago = time.time() - framework_envs.STALE_S - 60
    os.utime(old.whole, (long_ago, long_ago))
    os.utime(f"{unfinished.folder}.lock", (long_ago, long_ago))

    prune(root)

    assert ["used", "used.lock"] == sorted(path.name for path in root.iterdir())


def test_one_that_is_being_made_is_not_removed(pins: Path, tmp_path: Path) -> None:
    slow = Environment("slow", tmp_path / "cache" / "slow")
    slow.folder.mkdir(parents=True)
    with framework_envs.locked(slow.folder):
        prune(slow.folder.parent, now=time.time() + 2 * framework_envs.STALE_S)

        assert slow.folder.exists()


@pytest.mark.parametrize("name", ["torch-family", "colossalai"])
def test_everything_is_pinned(name: str) -> None:
    lines = (framework_envs.PINS / f"{name}.txt").read_text().splitlines()
    wanted = [line for line in lines if not line.startswith("#")]

    assert [] == [line for line in wanted if line.count("==") != 1]
    assert len(wanted) > 40
    assert "torch==2.13.0" in wanted


def test_the_time_that_it_takes_is_not_that_of_a_test() -> None:
    before = signal.getitimer(signal.ITIMER_REAL)[0]
    with framework_envs.off_the_clock():
        assert 0 == signal.getitimer(signal.ITIMER_REAL)[0]
    assert 0 < signal.getitimer(signal.ITIMER_REAL)[0] <= before
