"""How long what a rank wrote takes to come home from a host that shares nothing. ``pytest -m bench``."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from launcher.distributor import Distributor
from tests.bench.ledger import interleave, record

pytestmark = [pytest.mark.bench, pytest.mark.spark, pytest.mark.timeout(1200)]

BY_HAND = "`cp -r`, and `sha256sum` of the copies"
LARGE = ("a checkpoint of 1 GiB", 1, 1 << 30, 4.0)
SMALL = ("10,000 files of 1 KiB", 10_000, 1 << 10, 6.0)


@pytest.fixture
def elsewhere(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file from outside of the working directory: it gives ranks a folder of their own."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    (tmp_path / "vocab.txt").write_text("v")
    return tmp_path / "vocab.txt"


def write(number: int, size: int) -> float:
    """Write files; the time after the last byte."""
    import os  # imported here because the function travels alone
    import time

    data = os.urandom(min(size, 1 << 24))
    os.mkdir("out")
    for each in range(number):
        with open(f"out/{each}.bin", "wb") as file:
            file.writelines([data] * max(1, size >> 24))
    return time.time()


def nothing() -> int:
    return 1


write.__module__ = nothing.__module__ = "__main__"  # as from a cell of a notebook


def distributor(elsewhere: Path, **options: Any) -> Distributor:
    return Distributor(1, "cluster", gpu=False, files=[str(elsewhere)], **options)


def seconds(work: Callable[[], object]) -> float:
    begin = time.perf_counter()
    work()
    return time.perf_counter() - begin


@pytest.mark.parametrize(("what", "number", "size", "bound"), [LARGE, SMALL])
def test_from_the_last_byte_written_to_all_at_home(
    session: Any, elsewhere: Path, home: Path, what: str, number: int, size: int, bound: float
) -> None:
    source, copy = elsewhere.parent / "source", elsewhere.parent / "copy"
    source.mkdir()
    for each in range(number):
        (source / str(each)).write_bytes(os.urandom(size))

    def ours() -> float:
        written: float = distributor(elsewhere).run(write, number, size)
        took = time.time() - written
        found = [path for path in home.rglob("artifacts/**/*.bin") if path.stat().st_size == size]
        assert number == len(found)
        shutil.rmtree(home / "runs")
        return took

    def by_hand() -> float:
        shutil.rmtree(copy, ignore_errors=True)
        script = "cp -r source copy && find copy -type f -print0 | xargs -0 sha256sum > sums"
        return seconds(lambda: subprocess.run(script, shell=True, check=True, cwd=elsewhere.parent))

    result = interleave(ours, by_hand, rounds=3)
    record(f"host that shares nothing: {what}, last byte written to home", BY_HAND, result, bound=bound)

    assert result.ratio <= bound


def test_a_run_that_writes_nothing(session: Any, elsewhere: Path) -> None:
    result = interleave(
        lambda: seconds(lambda: distributor(elsewhere).run(nothing)),
        lambda: seconds(lambda: distributor(elsewhere, artifacts_limit=0).run(nothing)),
        rounds=9,
    )
    what = "host that shares nothing: a rank that writes no file, call to value"
    record(what, "`--artifacts-limit 0`", result, bound=1.1)

    assert result.ratio <= 1.1
