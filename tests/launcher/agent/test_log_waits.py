"""Which ranks wait for their output to be read, by real pipes."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from launcher.agent.log_waits import LOOK_S, LogWaits, is_full
from launcher.distributor import Distributor
from launcher.runs import paths
from launcher.runs.logs.writer import LogWriter, Pieces
from launcher.state import events as ev
from tests.spark_runs import facts


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    with ExitStack() as opened:
        reader, writer = os.pipe()
        opened.callback(os.close, reader)
        opened.callback(os.close, writer)
        os.set_blocking(writer, False)
        yield reader, writer


def fill(writer: int) -> None:
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writer, b"x" * 100)


def test_a_pipe_is_full_when_a_line_does_not_fit(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    os.write(writer, b"x" * 1000)
    assert not is_full(reader)
    fill(writer)
    assert is_full(reader)


def test_a_rank_waits_whose_pipe_stays_full(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    waits, pipes = LogWaits(), [(3, reader)]
    assert [] == list(waits.look(100.0, pipes))
    assert waits.timeout(100.0) is None

    fill(writer)
    waits.begin(100.0)
    assert LOOK_S == waits.timeout(100.0)
    assert [] == list(waits.look(100.1, pipes))
    assert [] == list(waits.look(100.6, pipes))  # for a moment any pipe may be full
    assert [(3, True)] == list(waits.look(101.2, pipes))
    assert [] == list(waits.look(101.8, pipes))

    os.read(reader, 1 << 20)
    assert [(3, False)] == list(waits.look(102.4, pipes))
    assert waits.timeout(102.4) is None


def test_a_rank_whose_pipe_is_gone_waits_no_longer(pipe: tuple[int, int]) -> None:
    reader, writer = pipe
    fill(writer)
    waits = LogWaits()
    waits.begin(0.0)
    assert [] == list(waits.look(1.0, [(3, reader)]))
    assert [(3, True)] == list(waits.look(2.0, [(3, reader)]))
    assert [(3, False)] == list(waits.look(3.0, []))


@pytest.mark.process
@pytest.mark.usefixtures("mark")
def test_a_rank_that_writes_more_than_the_disk_takes_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script, append = tmp_path / "chatty.py", LogWriter.append
    script.write_text("import sys\nfor _ in range(12):\n    sys.stdout.write('x' * 1_000_000)\n")

    def slow(self: LogWriter, pieces: Pieces) -> None:
        time.sleep(0.3)  # as a disk that takes a few megabytes a second
        append(self, pieces)

    monkeypatch.setattr(LogWriter, "append", slow)
    job = Distributor(1).start(str(script))

    assert 0 == job.wait(120).exit_code
    assert not facts(job, ev.LogAwaited)[0].over
    assert 12_000_000 == paths.log_file(job.folder, 0, 0, paths.STDOUT).stat().st_size
