"""The processes of ranks: who has a file open, and who is about to end."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from launcher.agent.files.writers import Look, Writers

_OPEN = "import sys; f = open(sys.argv[1], 'wb'); print(flush=True); sys.stdin.read()"


@contextmanager
def writing(folder: Path, name: str, **env: str) -> Iterator[None]:
    """A process that works in a folder and has a file open."""
    command = [sys.executable, "-c", _OPEN, name]
    with subprocess.Popen(
        command, cwd=folder, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield
        process.communicate()


def test_it_is_the_rank_whose_process_has_it_open(tmp_path: Path) -> None:
    with (
        writing(tmp_path, "a", RANK="3", LOCAL_WORLD_SIZE="2"),
        writing(tmp_path, "b", RANKDECK_RANK="4", RANKDECK_LOCAL_WORLD_SIZE="2", OTHER_RANK="9"),
    ):
        now = iter(range(100))
        writers = Writers(str(tmp_path), lambda: float(next(now)))
        assert writers.rank_with(str(tmp_path / "a")) == 3
        assert writers.rank_with(str(tmp_path / "b")) == 4
        assert writers.rank_with(str(tmp_path / "c")) is None


def test_a_process_without_a_rank_or_elsewhere_counts_as_none(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    target = tmp_path / "work/a"
    with writing(tmp_path / "work", "a"), writing(tmp_path, str(target), RANK="1", LOCAL_WORLD_SIZE="1"):
        assert Writers(str(tmp_path / "work"), lambda: 0.0).rank_with(str(target)) is None


def test_it_does_not_look_all_the_time(tmp_path: Path) -> None:
    with writing(tmp_path, "a", RANK="0", LOCAL_WORLD_SIZE="1"):
        times = [0.0]
        writers = Writers(str(tmp_path), lambda: times[-1])

        def look(now: float) -> int | None:
            times.append(now)
            return writers.rank_with(str(tmp_path / "a"))

        found = [look(now) for now in (0.0, 0.01, 0.2)]
        assert found == [0, None, 0]


def test_a_rank_that_was_killed_is_not_alive(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _OPEN, "a"]
    with subprocess.Popen(
        command,
        cwd=tmp_path,
        env={"RANK": "0", "LOCAL_WORLD_SIZE": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        writers = Writers(str(tmp_path), lambda: 0.0)
        assert writers.look() == Look(frozenset({0}), 1)
        process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert writers.look() == Look(frozenset(), 1)  # a zombie
        process.communicate()
        assert writers.look() == Look(frozenset(), 1)


def test_each_rank_knows_how_many_there_are(tmp_path: Path) -> None:
    with writing(tmp_path, "a", RANK="0", LOCAL_WORLD_SIZE="2"):
        now = iter(range(100))
        writers = Writers(str(tmp_path), lambda: float(next(now)))
        assert writers.look() == Look(frozenset({0}), 2)
        with writing(tmp_path, "b", RANK="1", LOCAL_WORLD_SIZE="2"):
            assert writers.look() == Look(frozenset({0, 1}), 2)


def test_where_there_is_no_rank_none_is_alive(tmp_path: Path) -> None:
    assert Writers(str(tmp_path), lambda: 0.0).look() == Look(frozenset(), 0)
