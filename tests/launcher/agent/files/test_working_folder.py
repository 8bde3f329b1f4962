"""When a host's folder is the caller's own, and what copies look like."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from launcher.agent.files.content_cache import ContentCache
from launcher.agent.files.working_folder import Layout, is_shared, lay_out, misplaced_files, placed_files
from launcher.spec.files.bundle import Bundle, Manifest
from launcher.spec.files.packing import make_bundle
from launcher.spec.job import JobSpec, Target, TargetKind
from launcher.spec.modes import Mode
from tests.launcher.agent.files.test_content_cache import keep

FILES = {"train.py": "print(1)\n", "conf/run.yaml": "lr: 1\n", "empty.txt": "", "run.sh": "#!/bin/sh\n"}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "run.sh").chmod(0o755)
    return folder


def packed(work: Path, *named: str) -> Bundle:
    target = Target(TargetKind.SCRIPT, str(work / "train.py"))
    return make_bundle(JobSpec(target, mode=Mode.CLUSTER, workdir=str(work), files=named))


def manifest(work: Path, *named: str) -> Manifest:
    return packed(work, *named).manifest


def cache_with(bundle: Bundle, place: Path) -> ContentCache:
    cache = ContentCache({"TMPDIR": str(place)}, str(place / "own"))
    for piece in bundle.places().values():
        keep(cache, bundle.contents[piece])
    return cache


def laid_out(manifest: Manifest, folder: Path, cache: ContentCache) -> Layout:
    misplaced = misplaced_files(manifest, str(folder), shared=False)
    return lay_out(manifest, misplaced, str(folder), cache, shared=False)


def changed(path: Path, text: str, *, ago_s: float) -> None:
    path.write_text(text)
    for place in (path, path.parent):
        os.utime(place, (time.time() - ago_s,) * 2)


def test_the_same_files_are_the_callers_own_folder(work: Path) -> None:
    assert is_shared(manifest(work))
    assert [] == placed_files(manifest(work), shared=True)


@pytest.mark.parametrize("name", ["train.py", "run.sh"])
@pytest.mark.parametrize("ago_s", [3600.0, -5.0], ids=["older", "newer"])
def test_code_that_differs_makes_another_folder_of_it(work: Path, name: str, ago_s: float) -> None:
    packed = manifest(work)
    changed(work / name, "print(2)\n", ago_s=ago_s)

    assert not is_shared(packed)


def test_data_that_was_another_before_the_run_makes_another_folder_of_it(work: Path) -> None:
    packed = manifest(work)
    changed(work / "conf/run.yaml", "lr: 2\n", ago_s=3600.0)

    assert not is_shared(packed)


def test_data_that_a_program_writes_meanwhile_does_not(work: Path) -> None:
    packed = manifest(work)
    changed(work / "conf/run.yaml", "lr: 2\n", ago_s=-5.0)

    assert is_shared(packed)


def test_data_that_was_removed_meanwhile_does_not_and_data_that_was_never_there_does(work: Path) -> None:
    packed = manifest(work)
    (work / "conf/run.yaml").unlink()
    for ago_s, shared in ((-5.0, True), (3600.0, False)):
        os.utime(work / "conf", (time.time() - ago_s,) * 2)
        assert shared == is_shared(packed)


@pytest.mark.parametrize("there", ["nothing", "an empty folder", "the script alone"])
def test_a_folder_of_the_same_path_without_the_files_is_another(work: Path, there: str) -> None:
    packed = manifest(work)
    for name in FILES:
        if not (there == "the script alone" and name == "train.py"):
            (work / name).unlink()
    if there == "nothing":
        (work / "conf").rmdir()
        work.rmdir()
    else:
        os.utime(work, (1000, 1000))
        os.utime(work / "conf", (1000, 1000))

    assert not is_shared(packed)


def test_files_from_elsewhere_make_a_folder_of_its_own(work: Path, tmp_path: Path) -> None:
    (tmp_path / "vocab.txt").write_text("v")

    assert not is_shared(manifest(work, str(tmp_path / "vocab.txt")))
    assert is_shared(manifest(work, "conf"))


def test_no_file_at_all_is_nobodys_folder() -> None:
    assert not is_shared(Manifest("/"))


def test_copies_lie_under_the_same_paths_with_the_same_rights(work: Path, tmp_path: Path) -> None:
    bundle = packed(work, "conf/run.yaml")
    layout = laid_out(bundle.manifest, tmp_path / "host", cache_with(bundle, tmp_path))
    copy = Path(layout.cwd)

    assert copy == Path(f"{tmp_path}/host/src{work}")
    assert FILES == {name: (copy / name).read_text() for name in FILES}
    assert [0o700, 0o600] == [(copy / name).stat().st_mode & 0o777 for name in ("run.sh", "empty.txt")]
    assert (FILES["conf/run.yaml"], "conf/run.yaml") == (
        (copy / "run.yaml").read_text(),
        os.readlink(copy / "run.yaml"),
    )
    assert str(copy / "train.py") == layout.source


def test_what_ranks_write_into_a_copy_changes_no_content(work: Path, tmp_path: Path) -> None:
    bundle = packed(work)
    cache = cache_with(bundle, tmp_path)
    layout = laid_out(bundle.manifest, tmp_path / "one", cache)
    Path(layout.cwd, "conf/run.yaml").write_text("lr: 3\n")
    again = laid_out(bundle.manifest, tmp_path / "two", cache)

    assert "lr: 1\n" == Path(again.cwd, "conf/run.yaml").read_text()


def test_a_working_folder_without_files_is_there_all_the_same(tmp_path: Path) -> None:
    cache = ContentCache({"TMPDIR": str(tmp_path)}, str(tmp_path / "own"))
    layout = laid_out(Manifest("/w/o/r/k"), tmp_path / "host", cache)

    assert os.path.isdir(layout.cwd)


def test_a_content_that_is_gone_is_told(work: Path, tmp_path: Path) -> None:
    cache = ContentCache({"TMPDIR": str(tmp_path)}, str(tmp_path / "own"))
    with pytest.raises(FileNotFoundError):
        laid_out(manifest(work), tmp_path / "host", cache)


def test_a_link_to_a_folder_is_there_only_where_it_leads_to_something(work: Path, tmp_path: Path) -> None:
    """A program that makes the folder where the link would be finds no link in its way."""
    store = tmp_path / "store"
    store.mkdir()
    (work / "data").symlink_to(store)
    (work / "deep").mkdir()
    (work / "deep/up").symlink_to("../conf")
    (work / "conf/hidden").symlink_to("../.hidden")
    (work / ".hidden").mkdir()
    (work / "out").symlink_to(tmp_path / "gone")
    (tmp_path / "gone").mkdir()
    bundle = packed(work)
    (tmp_path / "gone").rmdir()
    layout = laid_out(bundle.manifest, tmp_path / "host", cache_with(bundle, tmp_path))
    copy = Path(layout.cwd)

    assert (str(store), "../conf") == (os.readlink(copy / "data"), os.readlink(copy / "deep/up"))
    absent = {bundle.manifest.unsent_folders[number] for number in layout.absent}
    assert {
        (str(tmp_path / "gone"), str(work / "out")),
        (str(work / ".hidden"), str(work / "conf/hidden")),
    } == absent
    assert not os.path.lexists(copy / "out")


def test_a_folder_that_ranks_made_is_not_replaced_by_a_link(work: Path, tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (work / "data").symlink_to(tmp_path / "store")
    bundle = packed(work)
    made = Path(f"{tmp_path}/host/src{work}/data")
    made.mkdir(parents=True)
    (made / "a.pt").write_text("a")
    laid_out(bundle.manifest, tmp_path / "host", cache_with(bundle, tmp_path))

    assert "a" == (made / "a.pt").read_text()
