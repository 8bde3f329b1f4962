"""Which runs are let go: by number, age and bytes, oldest first, and never one that goes on."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.errors import RecordError, SpecError
from launcher.runs.catalog import Stored, choose_expired, folder_bytes, prune, remove_run, run_ids
from launcher.runs.status import Owner, Status, write_status
from launcher.settings import Policy
from launcher.state.run_state import Phase

NOW = 1_800_000_000.0
DAY = 86400.0
KEEP_ALL = Policy(None, None, None)


def runs(*ended: float | None, bytes: int = 0) -> list[Stored]:  # noqa: A002
    """Runs `r0`, the oldest, and so on, that ended so many days ago."""
    return [Stored(f"r{i}", None if ago is None else NOW - ago * DAY, bytes) for i, ago in enumerate(ended)]


@pytest.mark.parametrize(
    ("stored", "policy", "gone"),
    [
        (runs(3, 2, 1), KEEP_ALL, []),
        (runs(3, 2, 1), Policy(2, None, None), ["r0"]),
        (runs(3, 2, 1), Policy(0, None, None), ["r0", "r1", "r2"]),
        (runs(None, 2, 1), Policy(1, None, None), ["r1"]),
        (runs(3, None, 1), Policy(None, 1.5 * DAY, None), ["r0"]),
        (runs(None, None), Policy(0, 0.0, 0), []),
        (runs(3, 2, 1, bytes=10), Policy(None, None, 20), ["r0"]),
        (runs(3, 2, 1, bytes=10), Policy(None, None, 30), []),
        (runs(3, 2, 1, bytes=10), Policy(None, None, 9), ["r0", "r1", "r2"]),
        (runs(None, 2, 1, bytes=10), Policy(None, None, 10), ["r1", "r2"]),
        (runs(9, 2, 1, bytes=10), Policy(None, 8 * DAY, 20), ["r0"]),
        (runs(-1, 2), Policy(None, DAY, None), ["r1"]),
    ],
)
def test_what_a_policy_lets_go(stored: list[Stored], policy: Policy, gone: list[str]) -> None:
    assert gone == choose_expired(stored, policy, NOW)
    assert gone == choose_expired(reversed(stored), policy, NOW)


def make(
    root: Path, name: str, state: Phase = Phase.SUCCEEDED, ended: float | None = NOW, size: int = 0
) -> Path:
    folder = root / name
    folder.mkdir(parents=True)
    (folder / "data").write_bytes(b"x" * size)
    write_status(folder, Status(name, state=state, ended=ended, owner=Owner.this()))
    return folder


def ids(count: int) -> list[str]:
    return [f"20270101-12000{i}-000abc" for i in range(count)]


def test_pruning_spares_the_newest_and_those_that_go_on(tmp_path: Path) -> None:
    a, b, c, d = ids(4)
    make(tmp_path, a, Phase.RUNNING, None)
    for name in (b, c, d):
        make(tmp_path, name)
    assert [b, c] == prune(tmp_path, Policy(1, None, None), now=NOW, dry_run=True)
    assert [d, c, b, a] == run_ids(tmp_path)
    assert [b, c] == prune(tmp_path, Policy(1, None, None), now=NOW)
    assert [d, a] == run_ids(tmp_path)


def test_pruning_by_age_goes_by_the_end(tmp_path: Path) -> None:
    long, short = "20200101-120000-000abc", "20200102-120000-000abc"
    make(tmp_path, long, ended=NOW - DAY)
    make(tmp_path, short, ended=NOW - 9 * DAY)
    assert [short] == prune(tmp_path, Policy(None, 3 * DAY, None), now=NOW)


def test_pruning_by_bytes_counts_what_is_on_disk(tmp_path: Path) -> None:
    a, b = ids(2)
    for name in (a, b):
        make(tmp_path, name, size=100_000)
    with open(tmp_path / b / "sparse", "wb") as file:
        file.truncate(10_000_000)
    assert 100_000 <= folder_bytes(tmp_path / b) < 200_000
    assert [a] == prune(tmp_path, Policy(None, None, 200_000), now=NOW)


def test_a_run_that_another_host_owns_is_never_pruned(tmp_path: Path) -> None:
    folder = make(tmp_path, ids(1)[0], Phase.RUNNING, None)
    status = Status(folder.name, state=Phase.RUNNING, owner=Owner("elsewhere", 1, 1))
    write_status(folder, status)
    assert [] == prune(tmp_path, Policy(0, 0.0, 0), now=NOW)
    write_status(folder, replace(status, owner=replace(Owner.this(), start=1)))
    assert [folder.name] == prune(tmp_path, Policy(0, 0.0, 0), now=NOW + DAY)


def test_what_a_cut_short_removal_left_goes_the_next_time(tmp_path: Path) -> None:
    name = ids(1)[0]
    left = tmp_path / f".{name}.removed"
    (left / "logs").mkdir(parents=True)
    mine = tmp_path / ".notes.removed"
    mine.mkdir()
    prune(tmp_path, KEEP_ALL, now=NOW)
    assert not left.exists()
    assert mine.exists()


def test_a_run_that_vanishes_meanwhile_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make(tmp_path, ids(1)[0])

    def vanish(path: Path) -> None:
        os.rename(path, path.with_name("elsewhere"))

    monkeypatch.setattr("launcher.runs.catalog.require_ended", vanish)
    remove_run(folder)


def test_removal_refuses_what_goes_on_and_tells_what_it_cannot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, ended = ids(2)
    make(tmp_path, running, Phase.RUNNING, None)
    make(tmp_path, ended)
    with pytest.raises(SpecError, match="is running"):
        remove_run(tmp_path / running)

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "rename", refuse)
    with pytest.raises(RecordError, match="Permission denied"):
        remove_run(tmp_path / ended)


def test_a_run_that_resists_stops_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = ids(2)
    for name in (a, b):
        make(tmp_path, name)
    rename = Path.rename

    def resist(path: Path, target: Path) -> Path:
        if path.name == a:
            raise PermissionError(13, "Permission denied")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", resist)
    with pytest.raises(RecordError, match=a):
        prune(tmp_path, Policy(0, None, None), now=NOW)
    assert [a] == run_ids(tmp_path)


def test_pruning_many_looks_into_few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for i in range(300):
        make(tmp_path, f"20270101-120000-{i:03d}abc")
    looked = []
    monkeypatch.setattr("launcher.runs.catalog.read_status", lambda run: looked.append(run))
    prune(tmp_path, Policy(290, None, None), now=NOW)
    assert 10 == len(looked)
