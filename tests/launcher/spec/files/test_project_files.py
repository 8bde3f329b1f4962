"""Which files travel of a project folder, and which of those that --files names."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from functools import partial
from pathlib import Path

import pytest

from launcher.errors import SpecError
from launcher.spec.files import file_search, named_files, packing, project_files
from launcher.spec.files.bundle import SOURCES, Bundle
from launcher.spec.files.file_search import open_file
from launcher.spec.files.named_files import find_named
from launcher.spec.files.packing import make_bundle, with_bundle
from launcher.spec.files.project_files import is_private, looks_like_a_key, select_files
from launcher.spec.job import JobSpec, Target, TargetKind
from launcher.spec.modes import Mode
from launcher.spec.request import Request
from tests.another_user import as_nobody, as_root


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A project with a setting beside its program, and no key in it."""
    folder = tmp_path / "project"
    write(folder, {"train.py": "", "conf/run.yaml": "lr: 1\n"})
    return folder


def selected(folder: Path, **options: int) -> set[str]:
    return {str(file.relative_to(folder)) for file in select_files(folder, **options).files}


def bundle(work: Path, *named: Path | str, **options: str) -> Bundle:
    target = Target(TargetKind.SCRIPT, str(work / "train.py"))
    files = tuple(map(str, named))
    return make_bundle(JobSpec(target, mode=Mode.CLUSTER, files=files, **{"workdir": str(work), **options}))  # type: ignore[arg-type]


def places(bundle: Bundle, work: Path) -> set[str]:
    return {file.place.removeprefix(f"{SOURCES}{work}/") for file in bundle.manifest.files}


# --- of the project


@pytest.mark.parametrize("repository", [True, False], ids=["git", "no git"])
def test_what_is_ignored_hidden_or_installed_stays(work: Path, repository: bool) -> None:
    write(work, {".gitignore": "out/\n*.ckpt\n", "out/log.txt": "", "a.ckpt": "", ".env": "A=1"})
    write(work, {".cache/x.txt": "", "venv/pyvenv.cfg": "", "venv/lib/x.py": "", "new.json": "{}"})
    if repository:
        git(work, "init", "-q")
        git(work, "add", "train.py", "conf")

    assert {"train.py", "conf/run.yaml", "new.json"} == selected(work)


def test_a_repository_below_is_looked_into_by_its_own_rules(work: Path) -> None:
    write(work, {"lib/.gitignore": "*.bin\n", "lib/a.txt": "", "lib/b.bin": ""})
    for folder in (work, work / "lib"):
        git(folder, "init", "-q")

    assert {"train.py", "conf/run.yaml", "lib/a.txt"} == selected(work)


def test_without_the_git_program_the_rules_hold_too(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(work, {".gitignore": "*.ckpt\n", "a.ckpt": ""})
    git(work, "init", "-q")
    monkeypatch.setenv("PATH", str(work))

    assert {"train.py", "conf/run.yaml"} == selected(work)


@pytest.mark.parametrize(
    "name",
    ["id_rsa", "server.pem", "credentials.json", "Secrets.yaml", "my-service-account-1.json", "x.KEY"],
)
def test_a_key_stays_by_its_name(work: Path, name: str) -> None:
    write(work, {name: "x"})

    assert name not in selected(work)
    assert (work / name,) == select_files(work).keys


def test_a_key_stays_by_its_text_and_by_what_a_link_leads_to(work: Path, tmp_path: Path) -> None:
    write(work, {"deploy.txt": "-----BEGIN OPENSSH PRIVATE KEY-----\n"})
    write(tmp_path, {"home/.netrc": "x", "home/id_rsa": "x", "home/tokens.json": "{}"})
    for name, leads_to in (("net", ".netrc"), ("mine", "id_rsa"), ("tokens.json", "tokens.json")):
        (work / name).symlink_to(tmp_path / "home" / leads_to)

    assert {"train.py", "conf/run.yaml", "tokens.json"} == selected(work)


def test_the_smallest_come_first_and_what_is_too_large_is_told_with_its_size(work: Path) -> None:
    write(work, {"a.bin": "x" * 100, "b.bin": "x" * 60, "c.bin": "x" * 500})
    found = select_files(work, room=100)

    assert {"train.py", "conf/run.yaml", "b.bin"} == {str(f.relative_to(work)) for f in found.files}
    assert ((work / "c.bin", 500), (work / "a.bin", 100)) == found.left_out


def test_what_is_too_large_and_named_is_not_told(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(work, {"a.bin": "x" * 100, "b.bin": "x" * 500})
    monkeypatch.setattr(packing, "select_files", partial(select_files, room=50))

    assert ((str(work / "b.bin"), 500), (str(work / "a.bin"), 100)) == bundle(work).manifest.left_out
    assert ((str(work / "b.bin"), 500),) == bundle(work, "a.bin").manifest.left_out


@pytest.mark.parametrize("by", ["git", "rankdeck"])
def test_a_link_to_a_folder_is_told_and_nothing_of_it_travels(work: Path, tmp_path: Path, by: str) -> None:
    write(tmp_path, {"store/a.bin": "a"})
    (work / "data").symlink_to(tmp_path / "store")
    (work / "conf/own").symlink_to(work / "conf")
    (work / "gone").symlink_to(tmp_path / "nowhere")
    if by == "git":
        subprocess.run(["git", "init", "-q", work], check=True)
    found = bundle(work)

    assert {"train.py", "conf/run.yaml"} == places(found, work)
    assert ((f"{SOURCES}{work}/data", str(tmp_path / "store")),) == found.manifest.linked
    assert [(str(tmp_path / "store"), str(work / "data"))] == found.manifest.unsent_folders
    assert ((f"{SOURCES}{work}/conf/own", "."),) == found.manifest.links


def test_a_link_that_is_named_travels_as_the_folder_that_it_leads_to(work: Path, tmp_path: Path) -> None:
    write(tmp_path, {"store/a.bin": "a"})
    (work / "data").symlink_to(tmp_path / "store")
    found = bundle(work, "data")

    assert {"train.py", "conf/run.yaml", "data/a.bin"} == places(found, work)
    assert () == found.manifest.linked


def test_more_files_than_are_looked_at_are_told(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(project_files, "FILES", 1)

    assert (1, True) == (len(select_files(work).files), select_files(work).uncounted)
    assert bundle(work).manifest.uncounted


def test_what_is_no_regular_file_stays(work: Path) -> None:
    os.mkfifo(work / "pipe")
    (work / "gone").symlink_to(work / "nowhere")
    (work / "self").symlink_to(work / "self")
    (work / "up").symlink_to(work.parent)
    before = os.getcwd()
    os.chdir(work)  # the path of a socket is short
    try:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.bind("sock")
            assert {"train.py", "conf/run.yaml"} == selected(work) == places(bundle(work), work)
    finally:
        os.chdir(before)


@pytest.mark.parametrize("repository", [True, False], ids=["git", "no git"])
def test_any_name_that_is_text_travels(work: Path, repository: bool) -> None:
    write(work, {"a\nb.txt": "", "-n": "", "ü \t'\".txt": "", "*": "", ":(top)x": ""})
    Path(os.fsdecode(os.fsencode(work) + b"/\xff.txt")).write_text("")
    if repository:
        git(work, "init", "-q")

    assert {"a\nb.txt", "-n", "ü \t'\".txt", "*", ":(top)x"} <= places(bundle(work), work)
    assert 7 == len(bundle(work).manifest.files)  # and the script, and its setting


def let_everybody_in(folder: Path) -> None:
    """Open a folder, and those above it that tests have made."""
    temporary = Path(tempfile.gettempdir())
    for above in (folder, *folder.parents):
        if above != temporary and above.is_relative_to(temporary):
            above.chmod(0o755)


@as_root
def test_what_cannot_be_read_stays(work: Path) -> None:
    write(work, {"secret.txt": "", "closed/a.txt": ""})
    (work / "secret.txt").chmod(0)
    (work / "closed").chmod(0)
    let_everybody_in(work)

    assert 0 == as_nobody(lambda: {"train.py", "conf/run.yaml"} == places(bundle(work), work))
    (work / "closed").chmod(0o755)


def test_of_a_home_folder_only_the_sources_beside_the_program_travel(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(work, {"other/secret.py": "", "pkg/__init__.py": ""})
    monkeypatch.setenv("HOME", str(work))
    found = bundle(work)

    assert {"train.py", "pkg/__init__.py"} == places(found, work)
    assert str(work) == found.manifest.private


def test_a_program_below_the_home_folder_brings_its_own_folder(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(work.parent))
    found = bundle(work, workdir=str(work.parent))

    assert ({"train.py", "conf/run.yaml"}, str(work)) == (places(found, work), found.manifest.workdir)


@pytest.mark.parametrize("folder", ["/", "/etc", "/usr", "/usr/bin", "/proc/self", "/sys", "~", "~/.."])
def test_what_holds_more_than_a_program_is_private(folder: str) -> None:
    assert is_private(Path(os.path.expanduser(folder)))
    assert is_private(Path(tempfile.gettempdir()))


def test_a_project_is_not_private(work: Path) -> None:
    assert not is_private(work)
    assert not is_private(Path("/usr/src/app"))


def test_nothing_waits_for_the_end_of_a_pipe(work: Path) -> None:
    os.mkfifo(work / "pipe")
    with pytest.raises(OSError, match="no regular file"):
        open_file(work / "pipe")
    with pytest.raises(OSError, match="no regular file"):
        open_file(work)

    assert not looks_like_a_key(work / "pipe")


def test_a_file_that_becomes_a_pipe_before_it_is_read_is_left_out(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def swapped(folder: Path) -> project_files.ProjectFiles:
        found = select_files(folder)
        (work / "conf/run.yaml").unlink()
        os.mkfifo(work / "conf/run.yaml")
        return found

    monkeypatch.setattr(packing, "select_files", swapped)

    assert {"train.py"} == places(bundle(work), work)


# --- of what --files names


def test_what_is_below_keeps_its_path_and_what_is_not_lies_there_by_its_name(
    work: Path, tmp_path: Path
) -> None:
    write(work, {".gitignore": "data/\n", "data/deep/a.bin": "a"})
    write(tmp_path, {"else/vocab.txt": "v", "else/more/.hidden": "h"})
    found = bundle(work, "data/deep/a.bin", tmp_path / "else/vocab.txt", tmp_path / "else/more")

    sent = {"train.py", "conf/run.yaml", "data/deep/a.bin", "vocab.txt", "more/.hidden"}
    assert sent == places(found, work)
    assert ((f"{SOURCES}{work}/a.bin", "data/deep/a.bin"),) == found.manifest.links
    assert found.manifest.own_folder


def test_the_working_directory_itself_keeps_all_paths(work: Path) -> None:
    write(work, {".env": "A=1", ".gitignore": "*.bin", "a.bin": ""})
    found = bundle(work, ".")

    assert {"train.py", "conf/run.yaml", ".env", ".gitignore", "a.bin"} == places(found, work)
    assert not found.manifest.own_folder


def test_a_large_file_is_hashed_and_not_kept(work: Path) -> None:
    (work / "large.bin").write_bytes(bytes(packing.LARGE + 1))
    found = bundle(work, "large.bin")
    large = next(file for file in found.manifest.files if file.place.endswith("large.bin"))

    assert (packing.LARGE + 1, str(work / "large.bin")) == (large.size, large.origin)
    assert len(found.contents) < packing.LARGE


def test_what_is_named_twice_is_sent_once(work: Path, tmp_path: Path) -> None:
    write(tmp_path, {"vocab.txt": "v"})
    found = bundle(work, tmp_path / "vocab.txt", "../vocab.txt", "conf", "conf/run.yaml")

    assert {"train.py", "conf/run.yaml", "vocab.txt"} == places(found, work)
    assert 3 == len(found.manifest.files)


@pytest.mark.parametrize(
    "named",
    [
        ("../else/vocab.txt", "../other/vocab.txt"),
        ("../else/more", "../other/more"),
        ("../else/train.py",),
        ("../else/conf",),
    ],
    ids=["two files", "two folders", "a file of the project", "a folder of the project"],
)
def test_two_things_cannot_lie_in_one_place(work: Path, tmp_path: Path, named: tuple[str, ...]) -> None:
    for place in ("else", "other"):
        write(tmp_path / place, {"vocab.txt": "v", "more/a": "a", "train.py": "", "conf/b": ""})

    with pytest.raises(SpecError, match=f"{Path(named[-1]).name} would lie where .* lies"):
        bundle(work, *named)


def test_a_linked_working_directory_is_the_folder_that_it_leads_to(work: Path, tmp_path: Path) -> None:
    write(work, {"sub/data.bin": "d"})
    (tmp_path / "link").symlink_to(work)
    found = bundle(work, "sub/data.bin", workdir=str(tmp_path / "link"))

    assert ({"train.py", "conf/run.yaml", "sub/data.bin"}, str(work)) == (
        places(found, work),
        found.manifest.workdir,
    )
    assert not found.manifest.own_folder


def test_links_of_a_named_folder_are_followed_and_loops_are_not(work: Path, tmp_path: Path) -> None:
    write(tmp_path, {"store/train/a.bin": "a", "data/b.bin": "b"})
    (tmp_path / "data/train").symlink_to(tmp_path / "store/train")
    (tmp_path / "store/train/back").symlink_to(tmp_path / "data")
    (tmp_path / "data/self").symlink_to(tmp_path / "data")
    (tmp_path / "data/gone").symlink_to(tmp_path / "nowhere")

    assert {"b.bin", "train/a.bin"} == find_named(tmp_path / "data").files.keys()


@pytest.mark.parametrize("place", ["/", "~", "/proc", "/etc"])
def test_a_whole_machine_or_home_is_refused(work: Path, place: str, tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="far more than a program's files"):
        bundle(work, place)
    (work / "data").mkdir()
    (work / "data/all").symlink_to(os.path.expanduser(place))
    with pytest.raises(SpecError, match="far more than a program's files"):
        bundle(work, "data")


def test_what_is_no_file_and_no_folder_is_refused(work: Path) -> None:
    os.mkfifo(work / "pipe")
    for named in ("pipe", "/dev/zero"):
        with pytest.raises(SpecError, match="takes files and folders"):
            bundle(work, named)
    with pytest.raises(SpecError, match=r"there is no .*nowhere"):
        bundle(work, "nowhere")


def test_too_many_files_or_folders_are_refused(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named_files, "MOST", 3)
    write(work, {f"data/{n}": "" for n in range(4)})
    for n in range(4):
        (work / f"deep/{n}").mkdir(parents=True)

    for named, what in (("data", "files"), ("deep", "folders")):
        with pytest.raises(SpecError, match=f"more than 3 {what}"):
            bundle(work, named)


def test_a_key_in_a_named_folder_stays_and_one_that_is_named_travels(work: Path, tmp_path: Path) -> None:
    write(tmp_path, {"data/id_rsa": "x", "data/a": "a"})
    found = bundle(work, tmp_path / "data")
    assert ({"train.py", "conf/run.yaml", "data/a"}, 1) == (places(found, work), found.manifest.keys)

    write(work, {"server.pem": "x"})
    assert (1, 0) == (bundle(work).manifest.keys, bundle(work, "server.pem").manifest.keys)


@as_root
def test_what_is_named_and_cannot_be_read_is_told(work: Path) -> None:
    write(work, {"data/a": "", "closed/b": ""})
    (work / "data/a").chmod(0)
    (work / "closed").chmod(0)
    let_everybody_in(work)

    def refuses(named: str, why: str) -> bool:
        with pytest.raises(SpecError, match=why):
            bundle(work, named)
        return True

    assert 0 == as_nobody(lambda: refuses("data", "data/a cannot be read"))
    assert 0 == as_nobody(lambda: refuses("closed", "closed cannot be listed"))
    (work / "closed").chmod(0o755)


# --- where nothing travels


def test_on_this_machine_nothing_is_packed(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> Bundle:
        raise AssertionError

    for module, name in ((packing, "make_bundle"), (packing, "select_files"), (file_search, "find_files")):
        monkeypatch.setattr(module, name, never)
    request = Request(JobSpec(Target(TargetKind.SCRIPT, "train.py"), workdir=str(work)))

    assert with_bundle(request) is request


def test_on_this_machine_files_are_refused(work: Path) -> None:
    spec = JobSpec(Target(TargetKind.SCRIPT, "train.py"), workdir=str(work), files=("conf",))
    with pytest.raises(SpecError, match="the mode is local"):
        with_bundle(Request(spec))


def test_a_folder_that_is_gone_is_empty(tmp_path: Path) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    shutil.rmtree(folder)

    assert ((), ()) == (select_files(folder).files, select_files(folder).left_out)


def test_a_file_that_takes_a_while_to_be_read_is_told(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "SLOW", 9)
    write(work, {"data/large.bin": "x" * 10, "data/small.bin": "x" * 9})
    told: list[str] = []
    target = Target(TargetKind.SCRIPT, str(work / "train.py"))
    make_bundle(JobSpec(target, mode=Mode.CLUSTER, files=("data",), workdir=str(work)), told.append)

    assert [f"reading {work}/data/large.bin, 10 B, to name it by its content"] == told
