"""Finding runs by what a person types."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from launcher.errors import RecordError, RunNotFound, SpecError
from launcher.runs import paths
from launcher.runs.catalog import create_folder, find_run, list_runs, new_id, remove_run, run_ids
from launcher.runs.status import Owner, Status, write_status
from launcher.state.run_state import Phase

CALM = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a busy machine is no defect
IDS = ("20260101-120000-000abc", "20260101-120000-001def", "20260102-080000-500abc")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in IDS:
        (tmp_path / name).mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (IDS[0], IDS[0]),
        ("20260102", IDS[2]),
        ("20260101-120000-001", IDS[1]),
        ("001def", IDS[1]),
        ("last", IDS[2]),
    ],
)
def test_a_run_is_found_by_its_start_its_last_part_or_last(root: Path, wanted: str, expected: str) -> None:
    assert root / expected == find_run(root, wanted)


@pytest.mark.parametrize("wanted", ["20260101", "2026", "20260101-120000-00"])
def test_what_means_several_runs_is_refused_and_names_them(root: Path, wanted: str) -> None:
    with pytest.raises(RunNotFound, match=IDS[1]) as caught:
        find_run(root, wanted)
    assert 2 == caught.value.exit_code


@pytest.mark.parametrize(
    "wanted", ["", "1999", "def", "LAST", "../" + IDS[0], f"{IDS[0]}/", "*", ".", "abc\0"]
)
def test_what_means_none_is_refused(root: Path, wanted: str) -> None:
    with pytest.raises(RunNotFound, match="no run is called"):
        find_run(root, wanted)


@pytest.mark.parametrize("folder", ["", "nothing"])
def test_without_runs_there_is_no_last(tmp_path: Path, folder: str) -> None:
    with pytest.raises(RunNotFound, match="there is no run yet"):
        find_run(tmp_path / folder, "last")


def test_only_what_is_named_like_a_run_is_listed_newest_first(root: Path) -> None:
    for name in ("notes", ".20260101-120000-000abc", "20260101-120000-000abcd", "20260101-120000-000ABC"):
        (root / name).mkdir()
    assert sorted(IDS, reverse=True) == run_ids(root)


@pytest.mark.parametrize("text", ["[]", "{", "null", '{"id": 1, "owner": 2}'])
def test_one_unreadable_status_hides_no_other_run(root: Path, text: str) -> None:
    write_status(root / IDS[1], Status(IDS[1], name="good"))
    (root / IDS[0] / paths.STATUS).write_text(text)
    listed = list(list_runs(root))
    assert [(IDS[2], ""), (IDS[1], "good"), (IDS[0], "")] == [(s.id, s.name) for s in listed]


@CALM
@given(st.floats(0, 4e9), st.floats(0, 4e9))
def test_ids_sort_by_start_time(one: float, other: float) -> None:
    early, late = sorted((one, other))
    assert new_id(early, "abc") <= new_id(late, "abc")
    assert paths.is_run_id(new_id(early, "abc"))


def test_a_new_folder_is_private_and_its_own(tmp_path: Path) -> None:
    root = tmp_path / "a" / "runs"
    folders = {create_folder(root, 1e9) for _ in range(50)}
    assert 50 == len(folders)
    assert {0o700} == {stat.S_IMODE(f.stat().st_mode) for f in (root, *folders)}
    assert all(paths.is_run_id(f.name) for f in folders)


def test_a_root_that_is_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("")
    for root in (tmp_path / "runs", tmp_path / "runs" / "deeper"):
        with pytest.raises(RecordError, match="cannot make a run folder"):
            create_folder(root, 1e9)
    with pytest.raises(RecordError, match="cannot read"):
        run_ids(tmp_path / "runs")


def test_a_run_that_goes_on_is_not_removed(root: Path) -> None:
    write_status(root / IDS[0], Status(IDS[0], state=Phase.RUNNING, owner=Owner.this()))
    with pytest.raises(SpecError, match="is running"):
        remove_run(root / IDS[0])
    assert (root / IDS[0]).exists()


def test_a_run_whose_owner_died_can_be_removed(root: Path) -> None:
    owner = Owner(Owner.this().host, os.getpid(), 1)
    write_status(root / IDS[0], Status(IDS[0], state=Phase.RUNNING, owner=owner))
    remove_run(root / IDS[0])
    assert not (root / IDS[0]).exists()


def test_a_run_without_a_status_can_be_removed(root: Path) -> None:
    remove_run(root / IDS[2])
    assert sorted(IDS[:2], reverse=True) == run_ids(root)


def test_home_is_where_the_variable_says(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RANKDECK_HOME", str(tmp_path))
    assert tmp_path / "runs" == paths.runs_root()
    monkeypatch.delenv("RANKDECK_HOME")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert tmp_path / "rankdeck" / "runs" == paths.runs_root()
