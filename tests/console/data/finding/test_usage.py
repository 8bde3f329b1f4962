"""What was used is remembered, fades, stays small, and survives whatever is in its file."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from console.data.finding.usage import MOST, UseRecord, Uses, read_uses, used, weights

DAY = 86400.0


def test_a_use_counts_one_and_half_as_much_after_two_weeks() -> None:
    uses: Uses = {}
    for _ in range(3):
        uses = used(uses, "run:a", 0.0)
    uses = used(uses, "run:b", 28 * DAY)

    assert {"run:a": 0.75, "run:b": 1.0} == weights(uses, 28 * DAY)
    assert 1.0 == weights(uses, 0.0)["run:b"], "a clock that was put back adds nothing"


def test_only_so_many_are_remembered_and_those_of_the_least_weight_are_forgotten() -> None:
    uses: Uses = {}
    for number in range(MOST + 50):
        uses = used(uses, f"run:{number}", float(number))
        uses = used(uses, "theme:kept", float(number))

    assert MOST == len(uses)
    assert {"theme:kept", f"run:{MOST + 49}"} <= set(uses)
    assert "run:0" not in uses
    assert used(uses, "run:" + "x" * 16_384, 1.0).keys() == uses.keys(), "a name of any length is not kept"


def record(path: Path, now: float = 100.0) -> UseRecord:
    return UseRecord(lambda: path, lambda: now)


def test_two_consoles_add_up(tmp_path: Path) -> None:
    path = tmp_path / "state" / "uses.json"
    one, other = record(path), record(path)
    one.read()
    other.read()
    one.note("run:a")
    other.note("run:b")
    one.note("run:a")

    assert {"run:a": 2.0, "run:b": 1.0} == one.weights()
    assert 0o600 == path.stat().st_mode & 0o777


GARBAGE: list[bytes] = [
    b"",
    b"\x00\xff\xfe",
    b"[" * 100_000,
    b"[1, 2]",
    b'{"used": 3}',
    b'{"used": {"run:a": "often", "run:b": [1], "run:c": [NaN, 1], "run:d": [1, Infinity], "e": [true, 1]}}',
    b'{"used": {"run:a": [-1, 1], "run:b": [1e999, 1], "run:c": [{}, []], "run:d": null}}',
    b'{"used": {"run:a": [1' + b"0" * 20_000 + b", 1]}}",
    json.dumps({"used": {f"run:{n}": [1, 1] for n in range(20_000)}}).encode(),
]


@pytest.mark.parametrize("data", GARBAGE, ids=range(len(GARBAGE)))
def test_a_spoiled_file_is_ignored_and_mended(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "uses.json"
    path.write_bytes(data)
    kept = record(path)
    kept.read()

    assert {} == kept.weights()
    kept.note("theme:paper")
    assert {"theme:paper": (1.0, 100.0)} == read_uses(path)


def test_what_is_right_in_a_file_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "uses.json"
    path.write_text('{"used": {"run:a": [2, 50], "run:b": "x", "run:c": [1e300, 50]}}')

    assert {"run:a": (2.0, 50.0)} == read_uses(path)


def test_no_file_a_folder_a_pipe_and_a_link_have_no_uses(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "target").write_text('{"used": {"run:a": [2, 50]}}')
    (tmp_path / "link").symlink_to(tmp_path / "target")

    assert [{}] * 4 == [read_uses(tmp_path / name) for name in ("none", "folder", "pipe", "link")]


def test_where_nothing_can_be_written_the_use_counts_for_this_console(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    kept = record(tmp_path / "file" / "uses.json")
    kept.note("run:a")

    assert {"run:a": 1.0} == kept.weights()
