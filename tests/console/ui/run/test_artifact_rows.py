"""Files that came home, and those on their way, on the run screen and in the history."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from console.ui.run.header import headline_rows
from console.ui.run.result import result_rows
from launcher.runs import paths
from launcher.state import events as ev
from launcher.state.artifacts import Artifact
from tests.console.run_views import view_of, words
from tests.console.scripted import START, Scripted

HOSTS = ("alpha", "beta")


@pytest.fixture
def run(root: Path) -> Scripted:
    """Four ranks on two hosts that have written files."""
    made = Scripted(root, hosts=HOSTS)
    made.place(1.0)
    return made


def keep(run: Scripted, path: str, data: bytes, **more: object) -> None:
    entry = Artifact(path, "alpha", len(data), time=START + 5, **more)  # type: ignore[arg-type]
    incoming = run.writer.artifacts.begin(entry)
    run.writer.artifacts.write(incoming, memoryview(data))
    run.writer.artifacts.finish(incoming, hashlib.sha256(data).hexdigest())


def tell(run: Scripted) -> None:
    store = run.writer.artifacts
    run.add(
        ev.ArtifactsKept(
            time=6.0, host="alpha", files=1, size=1, total_files=store.count, total_size=store.size
        )
    )


def test_files_that_came_home_are_listed_beside_the_results(run: Scripted) -> None:
    keep(run, "out/snapshot.pt", b"x" * 2048, rank=0)
    keep(run, "evil\x1b[2J\n", b"1")
    tell(run)
    rows = words(result_rows(view_of(run), 200))
    assert rows[0].startswith("2 files, 2.0 KiB, came home rankdeck artifacts ")
    assert any(row.startswith("out/snapshot.pt 2.0 KiB rank 0 ") for row in rows)
    assert any(row.startswith("evil [2J 1 B alpha ") for row in rows)


def test_of_many_files_the_newest_are_listed(run: Scripted) -> None:
    for i in range(60):
        keep(run, f"{i}.bin", b"1")
    tell(run)
    rows = words(result_rows(view_of(run), 200))
    assert "and 10 files more" in rows


def test_files_on_their_way_are_the_headline_once_the_ranks_have_ended(run: Scripted) -> None:
    run.add(*(ev.RankExited(time=7.0, rank=rank, exit_code=0) for rank in range(4)))
    run.add(ev.ArtifactsAwaited(time=8.0, host="beta", files=3, size=5 << 30))
    assert words(headline_rows(view_of(run), 200)) == ["3 files, 5.0 GiB, are coming home from beta"]


def test_an_index_that_cannot_be_read_is_named_and_nothing_else_is_lost(run: Scripted) -> None:
    keep(run, "a", b"1")
    tell(run)
    index = run.folder / paths.ARTIFACT_INDEX
    index.rename(run.folder / "moved")
    index.symlink_to(run.folder / "moved")
    view = view_of(run)
    assert view.artifacts == {}
    assert [part.file for part in view.state.unreadable] == [paths.ARTIFACT_INDEX]


@pytest.mark.parametrize("kept", [True, False])
def test_what_did_not_come_home_is_told_and_other_notes_are_not(run: Scripted, kept: bool) -> None:
    if kept:
        keep(run, "a.bin", b"1")
        tell(run)
    run.add(ev.NoteMade(time=6.0, text="no GPU found"))
    run.add(ev.NoteMade(time=6.0, text="4 files did not come home,\x1b[2J the disk is full", level="warning"))
    rows = words(result_rows(view_of(run), 24))
    assert "! 4 files did not come home, the disk is full" == " ".join(rows[-2:])
    assert not any("GPU" in row for row in rows)
