"""The code that a run names: found in lines of output, and read where that is allowed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from console.data.code.source import MOST_BYTES, NotAtHand, Spot, file_of, read_lines, spot_in
from tests.console.scripted import Scripted

FIT = "def fit():\n    loss.backward()\n"


@pytest.fixture
def own(root: Path) -> Path:
    """The folder of a run that was launched here."""
    return Scripted(root, hosts=("node1",)).folder


@pytest.fixture
def file(tmp_path: Path, own: Path) -> Path:
    """A file that is older than the run."""
    path = tmp_path / "train.py"
    path.write_text(FIT)
    began = (own / "spec.json").stat().st_mtime
    os.utime(path, (began - 9, began - 9))
    return path


@pytest.mark.parametrize(
    ("line", "spot"),
    [
        ('  File "/w/train.py", line 41, in fit', Spot("/w/train.py", 41)),
        ('  File "/w/a b.py", line 41 in fit', Spot("/w/a b.py", 41)),
        ("/w/train.py:7: UserWarning: x", Spot("/w/train.py", 7)),
        ("at model.py:12 and at src/data.cpp:99:5", Spot("src/data.cpp", 99)),
        ("12:30:01 step 5 loss=0.1", None),
        ("http://head:4040 pool:9", None),
        ("train.py:99999999999", None),
        ("train.py:", None),
        ("x" * 100_000 + " train.py:1", None),
        ("/".join("a" * 16_384) + ".py:1", None),
    ],
)
def test_the_last_place_that_a_line_names_is_found(line: str, spot: Spot | None) -> None:
    assert spot == spot_in(line)


def test_lines_are_read_of_an_own_run_only(own: Path, root: Path, file: Path, tmp_path: Path) -> None:
    spot = Spot(str(file), 2, "fit")

    assert {spot: "loss.backward()"} == read_lines(own, [spot, Spot(str(file), 99)], root)
    assert file == file_of(own, spot, root)
    elsewhere = tmp_path / "elsewhere"
    assert {} == read_lines(own, [spot], elsewhere)
    with pytest.raises(NotAtHand, match="this run is from elsewhere"):
        file_of(own, spot, elsewhere)


def test_a_link_to_a_run_of_somebody_else_opens_nothing(root: Path, tmp_path: Path, file: Path) -> None:
    foreign = Scripted(tmp_path / "elsewhere", hosts=("node1",)).folder
    link = root / foreign.name.replace("abc", "abd")
    link.symlink_to(foreign)

    assert {} == read_lines(link, [Spot(str(file), 2)], root)


def test_a_file_that_was_changed_after_the_run_began_shows_no_line(own: Path, root: Path, file: Path) -> None:
    later = (own / "spec.json").stat().st_mtime + 5
    os.utime(file, (later, later))

    assert {} == read_lines(own, [Spot(str(file), 2)], root)
    assert file == file_of(own, Spot(str(file), 2), root), "an editor may still open it"


@pytest.mark.parametrize(
    "name",
    [
        "<string>",
        "<frozen importlib>",
        "",
        "a\0b",
        "\ud800.py",
        "x" * 5000,
        "/dev/zero",
        "/dev/tty",
        "/",
        "no.py",
    ],
)
def test_what_is_no_regular_file_is_neither_read_nor_opened(own: Path, root: Path, name: str) -> None:
    spot = Spot(name, 1)

    assert {} == read_lines(own, [spot], root)
    with pytest.raises(NotAtHand):
        file_of(own, spot, root)


def test_a_fifo_and_a_file_without_end_are_left_alone(own: Path, root: Path, tmp_path: Path) -> None:
    os.mkfifo(fifo := tmp_path / "fifo.py")
    (big := tmp_path / "big.py").touch()
    os.truncate(big, MOST_BYTES + 1)
    os.utime(big, (0, 0))

    assert {} == read_lines(own, [Spot(str(fifo), 1), Spot(str(big), 1)], root)


def test_bytes_that_are_no_text_are_shown_as_far_as_they_are(own: Path, root: Path, file: Path) -> None:
    file.write_bytes(b"\xff\xfe caf\xe9 " + b"y" * 16_384 + b"\n")
    os.utime(file, (0, 0))
    (line,) = read_lines(own, [Spot(str(file), 1)], root).values()

    assert line.startswith("\ufffd\ufffd caf\ufffd yyy")
    assert len(line) == 240
