"""The last lines of a rank's output, for the error of a rank that failed and for reports."""

from __future__ import annotations

from pathlib import Path

import pytest

from launcher.runs import paths
from launcher.runs.logs.tail import TAIL_BYTES, tail_of


def tail(run: Path, data: bytes) -> list[bytes]:
    """The last 20 lines that rank 0 wrote to stderr."""
    path = paths.log_file(run, 0, 0, paths.STDERR)
    path.parent.mkdir(parents=True)
    path.write_bytes(data)
    return tail_of(run, 0, 0, paths.STDERR, most=20)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", []),
        (b"no newline", [b"no newline"]),
        (b"a\nb\n", [b"a", b"b"]),
        (b"10 %\r20 %\n", [b"20 %"]),
        (b"\xff\xfe", [b"\xff\xfe"]),
        (b"".join(b"%d\n" % i for i in range(100)), [b"%d" % i for i in range(80, 100)]),
    ],
    ids=["empty", "open", "short", "overwritten", "bytes", "long"],
)
def test_it_is_the_last_lines_whatever_the_bytes(tmp_path: Path, data: bytes, expected: list[bytes]) -> None:
    assert expected == tail(tmp_path, data)


def test_a_line_that_is_cut_is_left_out(tmp_path: Path) -> None:
    assert [b"z" * 9000] == tail(tmp_path, b"y" * 9000 + b"\n" + b"z" * 9000 + b"\n")


def test_one_monstrous_line_is_cut(tmp_path: Path) -> None:
    assert [b"x" * TAIL_BYTES] == tail(tmp_path, b"x" * (5 << 20))


def test_a_rank_that_wrote_nothing_has_none(tmp_path: Path) -> None:
    assert [] == tail_of(tmp_path, 0, 0, paths.STDERR, most=20)


def test_a_link_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    path = paths.log_file(tmp_path / "run", 0, 0, paths.STDERR)
    path.parent.mkdir(parents=True)
    path.symlink_to(tmp_path / "secret")
    assert [] == tail_of(tmp_path / "run", 0, 0, paths.STDERR, most=20)
