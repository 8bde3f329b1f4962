"""Files that came home: each is whole, or not there."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
from pathlib import Path

import pytest

from launcher.errors import RecordError
from launcher.runs import paths
from launcher.runs.artifacts import (
    ArtifactStore,
    Refused,
    export_artifacts,
    place_of,
    read_artifacts,
    remove_partial,
)
from launcher.runs.files import Growing
from launcher.state.artifacts import Artifact, merged

LIMIT = 1 << 20


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = tmp_path / "20260101-120000-000abc"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def store(run: Path) -> ArtifactStore:
    return ArtifactStore(run, LIMIT)


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def keep(store: ArtifactStore, path: str, data: bytes = b"data", host: str = "a", **more: object) -> None:
    incoming = store.begin(Artifact(path, host, len(data), **more))  # type: ignore[arg-type]
    for start in range(0, len(data), 3):
        store.write(incoming, memoryview(data[start : start + 3]))
    store.finish(incoming, digest(data))


def files(run: Path) -> dict[str, bytes]:
    """All that lies in the folder of artifacts."""
    folder = run / paths.ARTIFACTS
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_file_is_kept_by_host_and_path_and_is_private(store: ArtifactStore, run: Path) -> None:
    keep(store, "out/model.pt", executable=True)
    keep(store, "/home/ann/x", b"beside")
    assert files(run) == {"a/out/model.pt": b"data", "a/.outside/home/ann/x": b"beside"}
    for path in (run / paths.ARTIFACTS).rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0
    assert [(each.path, each.digest) for each in read_artifacts(run)] == [
        ("/home/ann/x", digest(b"beside")),
        ("out/model.pt", digest(b"data")),
    ]


@pytest.mark.parametrize("host", ["10.0.0.1 (2)", "../x", "a/b", ".hidden", "", "x" * 500, "ü"])
def test_hosts_of_any_name_get_a_folder_of_their_own(store: ArtifactStore, run: Path, host: str) -> None:
    keep(store, "f", host=host)
    [place] = [p for p in (run / paths.ARTIFACTS).rglob("*") if p.is_file()]
    assert place.parent.parent == run / paths.ARTIFACTS
    assert place == place_of(run, read_artifacts(run)[0])


def test_the_last_whole_version_wins(store: ArtifactStore, run: Path) -> None:
    keep(store, "model.pt", b"first")
    torn = store.begin(Artifact("model.pt", "a", 6))
    store.write(torn, memoryview(b"sec"))
    store.discard(torn)
    assert files(run) == {"a/model.pt": b"first"}
    keep(store, "model.pt", b"third")
    assert files(run) == {"a/model.pt": b"third"}
    assert (store.count, store.size) == (1, 5)


@pytest.mark.parametrize("data", [b"shor", b"wrong"])
def test_what_is_not_what_was_announced_is_dropped(store: ArtifactStore, run: Path, data: bytes) -> None:
    incoming = store.begin(Artifact("f", "a", 5))
    store.write(incoming, memoryview(data))
    store.finish(incoming, digest(b"right"))
    assert files(run) == {}
    assert store.count == 0


def test_a_file_that_is_longer_than_announced_is_refused(store: ArtifactStore, run: Path) -> None:
    incoming = store.begin(Artifact("f", "a", 2))
    with pytest.raises(Refused, match="longer"):
        store.write(incoming, memoryview(b"123"))
    assert files(run) == {}


def test_the_limit_counts_what_is_here_and_not_what_was_replaced(store: ArtifactStore) -> None:
    half = b"x" * (LIMIT // 2)
    for _ in range(3):
        keep(store, "a", half)
    keep(store, "b", half)
    with pytest.raises(Refused, match="--artifacts-limit is reached"):
        store.begin(Artifact("c", "a", 1))
    assert store.refused == {("a", "c"): "--artifacts-limit is reached"}
    store.gone("a", ["a"], 1.0)
    keep(store, "c", b"1")
    assert store.refused == {}


def test_a_disk_that_is_nearly_full_takes_no_file(
    store: ArtifactStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = os.statvfs("/")
    full = os.statvfs_result((*whole[:3], 10, 10, *whole[5:]))
    monkeypatch.setattr(os, "statvfs", lambda _: full)
    with pytest.raises(Refused, match="the disk is full"):
        store.begin(Artifact("a", "a", 1 << 20))


def test_a_write_that_fails_leaves_the_last_version(
    store: ArtifactStore, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(store, "model.pt", b"first")

    def failing(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(Growing, "write", failing)
    with pytest.raises(Refused, match="Input/output error"):
        keep(store, "model.pt", b"second")
    monkeypatch.undo()
    assert files(run) == {"a/model.pt": b"first"}
    assert [each.size for each in read_artifacts(run)] == [5]


def test_a_file_may_become_a_folder_and_a_folder_a_file(store: ArtifactStore, run: Path) -> None:
    keep(store, "out", b"file")
    keep(store, "out/deep/model.pt", b"below")
    assert files(run) == {"a/out/deep/model.pt": b"below"}
    keep(store, "out", b"again")
    assert files(run) == {"a/out": b"again"}


def test_links_are_noted_and_not_made(store: ArtifactStore, run: Path) -> None:
    keep(store, "latest", b"1")
    store.link(Artifact("latest", "a", link="/etc/passwd"))
    assert files(run) == {}
    assert [(each.path, each.link) for each in read_artifacts(run)] == [("latest", "/etc/passwd")]


@pytest.mark.parametrize("path", ["../x", "a/../../x", "", "a\0b"])
def test_a_path_that_leads_out_is_refused(store: ArtifactStore, run: Path, path: str) -> None:
    with pytest.raises(Refused, match="cannot be used"):
        store.begin(Artifact(path, "a", 1))
    with pytest.raises(Refused):
        place_of(run, Artifact(path, "a"))


def test_deleted_files_go_and_unknown_ones_are_ignored(store: ArtifactStore, run: Path) -> None:
    keep(store, "a")
    keep(store, "b")
    store.gone("a", ["a", "never"], 5.0)
    assert files(run) == {"a/b": b"data"}
    assert [each.path for each in read_artifacts(run)] == ["b"]


def test_what_was_incomplete_goes_with_the_writer_or_after_it(store: ArtifactStore, run: Path) -> None:
    store.begin(Artifact("a", "a", 9))
    keep(store, "b")
    remove_partial(run)
    assert files(run) == {"a/b": b"data"}
    store.begin(Artifact("c", "a", 9))
    store.close()
    assert files(run) == {"a/b": b"data"}


def test_lines_of_the_index_that_cannot_be_read_are_left_out(store: ArtifactStore, run: Path) -> None:
    keep(store, "good")
    spoiled = [b"{", b"[]", b'{"path": 5, "host": "a"}', b'{"path": "../up", "host": "a"}', b"x" * 100_000]
    with open(run / paths.ARTIFACT_INDEX, "ab") as index:
        index.write(b"\n".join(spoiled) + b"\n" + json.dumps({"path": "next", "host": "a"}).encode())
    assert [each.path for each in read_artifacts(run)] == ["good", "next"]


def test_a_run_without_files_has_none_and_a_linked_index_is_refused(run: Path, tmp_path: Path) -> None:
    assert read_artifacts(run) == []
    (tmp_path / "elsewhere").write_text("{}")
    (run / paths.ARTIFACT_INDEX).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RecordError):
        read_artifacts(run)


def test_an_index_on_a_full_disk_is_completed_later(
    store: ArtifactStore, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Growing, "whole", full)
    keep(store, "a")
    monkeypatch.undo()
    keep(store, "b")
    assert [each.path for each in read_artifacts(run)] == ["a", "b"]


def test_news_say_what_is_new(store: ArtifactStore) -> None:
    keep(store, "a", b"1")
    keep(store, "a", b"22")
    assert store.has_new
    assert [(each.size, again) for each, again in store.take_news()] == [(2, False)]
    keep(store, "a", b"333")
    assert (store.has_news, store.has_new) == (True, False)
    assert [(each.size, again) for each, again in store.take_news()] == [(3, True)]
    assert not store.has_news


def test_files_are_exported_as_one_tree_with_links_that_stay_in_it(
    store: ArtifactStore, run: Path, tmp_path: Path
) -> None:
    keep(store, "log", b"a", host="a")
    keep(store, "log", b"b", host="b", first_rank=2)
    keep(store, "out/run.sh", b"#!", executable=True)
    store.link(Artifact("out/latest", "a", link="run.sh"))
    store.link(Artifact("out/away", "a", link="../../../etc/passwd"))
    store.link(Artifact("root", "a", link="/etc"))
    out = tmp_path / "out"
    assert export_artifacts(run, merged(read_artifacts(run)), out) == 4
    found = {str(p.relative_to(out)) for p in out.rglob("*") if not p.is_dir()}
    assert found == {"log", "rank-2/log", "out/run.sh", "out/latest"}
    assert (out / "rank-2/log").read_bytes() == b"b"
    assert os.access(out / "out/latest", os.X_OK)


def test_a_file_that_was_changed_since_is_not_exported(
    store: ArtifactStore, run: Path, tmp_path: Path
) -> None:
    keep(store, "model.pt")
    place_of(run, read_artifacts(run)[0]).write_bytes(b"evil")
    with pytest.raises(RecordError, match="no longer what came home"):
        export_artifacts(run, merged(read_artifacts(run)), tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []
