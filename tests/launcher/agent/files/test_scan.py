"""Scanning a folder, and what the kernel reports of it."""

from __future__ import annotations

import ctypes
import os
import select
from pathlib import Path

import pytest  # noqa: TC002  its fixtures are resolved at run time

from launcher.agent.files import folder_events
from launcher.agent.files.folder_events import FolderEvents
from launcher.agent.files.scan import scan, stamp_at


def test_it_finds_files_and_links_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "a/b/model.pt").write_bytes(b"12345")
    (tmp_path / "run.sh").touch(mode=0o755)
    (tmp_path / "latest").symlink_to("a/b/model.pt")
    (tmp_path / "away").symlink_to("/etc")
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__/x.pyc").touch()
    os.mkfifo(tmp_path / "pipe")
    found, whole = scan(str(tmp_path))
    assert whole
    assert sorted(found) == ["a/b/model.pt", "away", "latest", "run.sh"]
    assert (found["a/b/model.pt"].size, found["latest"].link, found["run.sh"].executable) == (
        5,
        "a/b/model.pt",
        True,
    )
    assert found["away"].link == "/etc"


def test_names_of_any_bytes_are_found(tmp_path: Path) -> None:
    name = b"a\nb\xff\x1b[31m"
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).touch()
    assert [os.fsencode(path) for path in scan(str(tmp_path)).found] == [name]


def test_a_folder_that_is_gone_makes_the_scan_incomplete(tmp_path: Path) -> None:
    assert scan(str(tmp_path / "none")) == ({}, False)


def test_a_write_changes_the_stamp(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"1")
    before = stamp_at(str(path))
    path.write_bytes(b"22")
    assert before != stamp_at(str(path))
    path.unlink()
    assert stamp_at(str(path)) is None


def reported(events: FolderEvents) -> folder_events.Changes:
    select.select([events], [], [], 10)
    return events.take()


def test_a_file_is_reported_when_it_is_made_and_when_it_is_closed(tmp_path: Path) -> None:
    events = FolderEvents(str(tmp_path))
    with open(tmp_path / "model.pt", "wb") as file:
        assert reported(events).made == ["model.pt"]
        file.write(b"1")
    assert reported(events).closed == ["model.pt"]
    events.close()


def test_a_file_that_gets_its_name_later_is_reported_with_both(tmp_path: Path) -> None:
    events = FolderEvents(str(tmp_path))
    (tmp_path / "model.tmp").write_bytes(b"1")
    (tmp_path / "model.tmp").rename(tmp_path / "model.pt")
    changes = reported(events)
    assert changes.closed == ["model.tmp", "model.pt"]
    assert changes.renamed == {"model.pt": "model.tmp"}
    events.close()


def test_new_folders_and_those_in_them_are_watched(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    events = FolderEvents(str(tmp_path))
    (tmp_path / "new/deep").mkdir(parents=True)
    reported(events)
    (tmp_path / "new/deep/a").touch()
    (tmp_path / "old/b").write_bytes(b"1")
    assert {"new/deep/a", "old/b"} == set(reported(events).closed)
    events.close()


def test_reading_is_not_reported(tmp_path: Path) -> None:
    (tmp_path / "data").write_bytes(b"1")
    events = FolderEvents(str(tmp_path))
    (tmp_path / "data").read_bytes()
    assert events.take() == folder_events.Changes()
    events.close()


def test_without_inotify_there_is_no_descriptor_and_no_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refusing:
        def inotify_init1(self, _: int) -> int:
            return -1

    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: Refusing())
    events = FolderEvents(str(tmp_path))
    assert (events.fileno(), events.take()) == (-1, folder_events.Changes())
    events.close()
