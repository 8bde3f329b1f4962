"""A task deals rows, others read them meanwhile, and nothing is left."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.data import shares
from launcher.data.rows import RowReader, SpooledShare
from launcher.data.shares import Agreed, ShareLedger, ShareWriter, dealt
from tests.launcher.data.shares import numbered, numbered_batches, task


@given(st.lists(st.integers(0, 40), max_size=8), st.integers(1, 7))
def test_no_share_is_ever_more_than_one_row_ahead(batches: list[int], count: int) -> None:
    total, held = 0, [0] * count
    for rows in batches:
        given_rows = dealt(total, rows, count)
        held = [a + b for a, b in zip(held, given_rows, strict=True)]
        total += rows

        assert rows == sum(given_rows)
        assert all(each >= 0 for each in given_rows)
        assert max(held) - min(held) <= 1
    assert total == sum(held)


def ids_of(writer: ShareWriter, share: int) -> list[int]:
    reader = RowReader(SpooledShare(ShareLedger(writer.path), share), 0, None)
    return [number for batch in reader.take(1 << 30) for number in batch.column("id").to_pylist()]


@pytest.mark.parametrize("count", [1, 3, shares.MAX_SHARES])
def test_each_row_is_in_one_share(tmp_path: Path, count: int) -> None:
    with task(tmp_path, count) as writer:
        for batch in numbered_batches(1000, 77):
            writer.write(batch)
        writer.finish()
        found = [ids_of(writer, share) for share in range(count)]

    assert sorted(number for share in found for number in share) == list(range(1000))
    assert all(share == sorted(share) for share in found)


def test_rows_can_be_read_before_the_next_ones_are_written(tmp_path: Path) -> None:
    with task(tmp_path) as writer:
        share = SpooledShare(ShareLedger(writer.path), 0)
        for start in (0, 10, 20):
            writer.write(numbered(start, 10))
            piece = share.pieces - 1

            assert not share.complete
            assert start + 10 == share.count
            assert [10] == [share.rows(piece)]
            assert list(range(start, start + 10)) == next(share.read(piece)).column("id").to_pylist()


def test_batches_without_rows_are_no_pieces(tmp_path: Path) -> None:
    with task(tmp_path) as writer:
        writer.write(numbered(0, 0))
        writer.finish()
        share = SpooledShare(ShareLedger(writer.path), 0)

        assert (0, 0, True, None) == (share.pieces, share.count, share.complete, share.example())


def test_the_first_row_is_an_example_for_others(tmp_path: Path) -> None:
    with task(tmp_path) as has, task(tmp_path) as lacks:
        has.write(numbered(7, 3))
        lacks.ledger.set_example(has.ledger.own_example)
        has.ledger.set_example(b"of another task")
        borrowed = SpooledShare(ShareLedger(lacks.path), 0).example()

        assert borrowed is not None
        assert {"id": [7], "x": [3.5]} == borrowed.to_pydict()
        assert b"of another task" != has.ledger.own_example


def test_a_very_large_row_is_no_example(tmp_path: Path) -> None:
    with task(tmp_path) as writer:
        writer.ledger.set_own_example(b"x" * (shares.EXAMPLE_LIMIT + 1))

        assert b"" == writer.ledger.own_example


def test_what_is_agreed_reaches_who_has_the_ledger(tmp_path: Path) -> None:
    with task(tmp_path) as writer:
        ShareLedger(writer.path).agree(Agreed(3, True, 2**40, False))

        assert Agreed(3, True, 2**40, False) == writer.ledger.agreed


def test_nothing_is_left_on_the_disk(tmp_path: Path) -> None:
    descriptors = len(os.listdir("/proc/self/fd"))
    with task(tmp_path, 4) as writer:
        writer.write(numbered(0, 100))
        path = writer.path

        assert [] == list(tmp_path.iterdir())
    with pytest.raises(OSError, match=r"ledger|No such file"):
        ShareLedger(path)
    assert descriptors == len(os.listdir("/proc/self/fd"))


@pytest.mark.parametrize("content", [b"", b"x" * 100, b"\0" * shares._SIZE])
def test_another_file_is_no_ledger(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "file"
    file.write_bytes(content)

    with pytest.raises(OSError, match="is no ledger"):
        ShareLedger(os.fspath(file))


@pytest.mark.parametrize("count", [0, shares.MAX_SHARES + 1])
def test_a_task_has_a_bounded_number_of_ranks(tmp_path: Path, count: int) -> None:
    with pytest.raises(ValueError, match="a task deals its rows to 1 to 128 ranks"):
        ShareWriter(os.fspath(tmp_path), count, b"{}")


def test_a_full_disk_is_an_error(tmp_path: Path) -> None:
    program = f"""
import resource, sys
sys.path.insert(0, {os.fspath(Path(__file__).parents[3])!r})
from tests.launcher.data.shares import numbered, task
resource.setrlimit(resource.RLIMIT_FSIZE, (2 << 20, 2 << 20))
import signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
from pathlib import Path
with task(Path({os.fspath(tmp_path)!r})) as writer:
    try:
        while True: writer.write(numbered(0, 10_000))
    except OSError as error:
        print("told:", error)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert "told:" in done.stdout, done.stderr
