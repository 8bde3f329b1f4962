from __future__ import annotations

import os
import pwd
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from launcher.runs import provenance
from launcher.runs.provenance import begin_origin, find_origin, installed_versions, user_name, versions
from launcher.spec.job import JobSpec, Target, TargetKind
from launcher.spec.request import Request
from launcher.state.events import Event, OriginFound
from tests.commands import until

pytestmark = pytest.mark.process


def git(folder: Path, *words: str) -> str:
    """Run git as nobody in particular."""
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.org", "-c", "init.defaultBranch=trunk")
    done = subprocess.run(
        ["git", "-C", folder, *who, *words], capture_output=True, text=True, check=True, timeout=30
    )
    return done.stdout.strip()


def checkout(folder: Path, *names: str) -> Path:
    """A repository with some files committed."""
    folder.mkdir()
    for name in names:
        (folder / name).write_text("print()\n")
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "--allow-empty", "-m", "first")
    return folder


def request(target: Path | str, workdir: Path) -> Request:
    kind = TargetKind.SCRIPT if isinstance(target, Path) else TargetKind.FUNCTION
    return Request(
        JobSpec(Target(kind, str(target), "" if isinstance(target, Path) else "f"), workdir=str(workdir))
    )


@pytest.fixture
def fake_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Put a shell script in git's place."""

    def make(script: str) -> None:
        folder = tmp_path / "bin"
        folder.mkdir()
        (folder / "git").write_text(f"#!/bin/sh\n{script}\n")
        (folder / "git").chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")

    return make


def test_a_clean_checkout_is_told_by_revision_and_branch(tmp_path: Path) -> None:
    repo = checkout(tmp_path / "repo", "train.py")
    (repo / "notes.txt").write_text("nobody runs this")
    found = find_origin(request(repo / "train.py", repo))

    assert (git(repo, "rev-parse", "HEAD"), "trunk") == (found.revision, found.branch)
    assert (False, str(repo), None) == (found.dirty, found.root, found.beside)


@pytest.mark.parametrize("change", ["edited", "staged", "untracked"])
def test_code_that_no_revision_holds_is_dirty(tmp_path: Path, change: str) -> None:
    repo = checkout(tmp_path / "repo", "train.py", "model.py")
    target = repo / "train.py"
    if change == "untracked":
        target = repo / "new.py"
        target.write_text("print()\n")
    else:
        (repo / "model.py").write_text("print(1)\n")
    if change == "staged":
        git(repo, "add", "model.py")

    assert find_origin(request(target, repo)).dirty is True


@pytest.mark.parametrize("name", ["a[1]*.py", ":x.py", "ü b.py", "-n.py"])
def test_a_file_with_an_odd_name_is_found_in_its_revision(tmp_path: Path, name: str) -> None:
    repo = checkout(tmp_path / "repo", name)

    assert find_origin(request(repo / name, repo)).dirty is False


def test_a_name_is_no_pattern_for_other_files(tmp_path: Path) -> None:
    repo = checkout(tmp_path / "repo", "a1.py")
    (repo / "a[1].py").write_text("print()\n")

    assert find_origin(request(repo / "a[1].py", repo)).dirty is True


def test_without_a_branch_or_a_commit_what_is_known_is_told(tmp_path: Path) -> None:
    detached = checkout(tmp_path / "detached", "train.py")
    git(detached, "checkout", "-q", "--detach")
    unborn = tmp_path / "unborn"
    unborn.mkdir()
    git(unborn, "init", "-q")
    found = [find_origin(request(folder / "train.py", folder)) for folder in (detached, unborn)]

    assert [git(detached, "rev-parse", "HEAD"), ""] == [f.revision for f in found]
    assert ["", ""] == [f.branch for f in found]
    assert [False, True] == [f.dirty for f in found]


def test_the_working_directorys_checkout_stands_beside_that_of_the_code(tmp_path: Path) -> None:
    code, work = checkout(tmp_path / "code", "train.py"), checkout(tmp_path / "work", "data.txt")
    (work / "data.txt").write_text("changed")
    found = find_origin(request(code / "train.py", work))

    assert (str(code), False) == (found.root, found.dirty)
    assert found.beside is not None
    assert (str(work), git(work, "rev-parse", "HEAD"), True) == (
        found.beside.root,
        found.beside.revision,
        found.beside.dirty,
    )


def test_code_outside_any_checkout_leaves_that_of_the_working_directory(tmp_path: Path) -> None:
    work = checkout(tmp_path / "work", "data.txt")
    (tmp_path / "train.py").write_text("")
    found = find_origin(request(tmp_path / "train.py", work))

    assert (str(work), False, None) == (found.root, found.dirty, found.beside)


def test_a_module_is_found_where_ranks_will_import_it(tmp_path: Path) -> None:
    repo = checkout(tmp_path / "repo", "some_training.py")
    found = find_origin(request("some_training", repo))

    assert (str(repo), False) == (found.root, found.dirty)


def test_where_there_is_no_checkout_git_is_not_even_asked(
    tmp_path: Path, fake_git: Callable[[str], None]
) -> None:
    fake_git(f"touch {tmp_path}/asked")
    for target in (tmp_path / "train.py", tmp_path / "none" / "train.py", "no_such_module"):
        found = find_origin(request(target, tmp_path / "gone"))
        assert ("", None, "") == (found.revision, found.dirty, found.root)

    assert not (tmp_path / "asked").exists()


@pytest.mark.usefixtures("mark")
def test_a_git_that_hangs_costs_the_limit_and_leaves_nothing(
    tmp_path: Path, fake_git: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = checkout(tmp_path / "repo", "train.py")
    monkeypatch.setattr(provenance, "LIMIT_S", 0.3)
    fake_git('case "$*" in *rev-parse*) echo abc; echo trunk;; *) sleep 600 & sleep 600;; esac')
    found = find_origin(request(repo / "train.py", repo))

    assert ("abc", "trunk", None) == (found.revision, found.branch, found.dirty)


def test_without_git_or_its_leave_the_place_alone_is_known(
    tmp_path: Path, fake_git: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    repo = checkout(tmp_path / "repo", "train.py")
    fake_git("echo 'fatal: detected dubious ownership' >&2; exit 128")
    refused = find_origin(request(repo / "train.py", repo))
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    missing = find_origin(request(repo / "train.py", repo))

    for found in (refused, missing):
        assert (str(repo), "", None) == (found.root, found.revision, found.dirty)


def test_looking_writes_nothing_and_runs_no_hook_of_the_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repo, other = checkout(tmp_path / "repo", "train.py"), checkout(tmp_path / "other")
    hook = tmp_path / "hook"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    hook.chmod(0o755)
    git(repo, "config", "core.fsmonitor", str(hook))
    os.utime(repo / "train.py", (1, 1))  # git would like to refresh its index
    index = (repo / ".git" / "index").read_bytes()
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    found = find_origin(request(repo / "train.py", repo))

    assert (str(repo), False) == (found.root, found.dirty)
    assert index == (repo / ".git" / "index").read_bytes()
    assert not (tmp_path / "ran").exists()


def test_it_is_found_on_a_thread_and_posted_once(tmp_path: Path) -> None:
    posted: list[Event] = []
    begin_origin(request(tmp_path / "train.py", tmp_path), posted.append)
    until(lambda: bool(posted))

    assert [OriginFound] == [type(fact) for fact in posted]


def test_the_user_is_the_systems_and_not_what_a_variable_says(monkeypatch: pytest.MonkeyPatch) -> None:
    assert pwd.getpwuid(os.getuid()).pw_name == user_name({"USER": "somebody else"})

    def unknown(_: int) -> None:
        raise KeyError

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert ["ada", str(os.getuid())] == [user_name({"USER": "ada"}), user_name({})]


def test_a_directory_service_that_hangs_keeps_no_launch_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()

    def hang(_: int) -> None:
        release.wait(60)
        raise KeyError

    monkeypatch.setattr(pwd, "getpwuid", hang)
    monkeypatch.setattr(provenance, "_NAME_LIMIT_S", 0.05)
    try:
        assert "ada" == user_name({"USER": "ada"})
    finally:
        release.set()


def test_versions_are_read_from_the_names_of_metadata(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    for folder, names in (
        (first, ("torch-2.5.1+cu124.dist-info", "PyTorch_Lightning-2.1.0.dist-info", "~orch-1.dist-info")),
        (
            second,
            ("torch-1.0.dist-info", "torchx-9.dist-info", "numpy-1.26.4-py3.11.egg-info", "ray.egg-info"),
        ),
    ):
        for name in names:
            (folder / name).mkdir(parents=True)
    (second / "ray.egg-info" / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: ray\nVersion: 9.1\n")
    (second / "jax.egg-info").write_bytes(b"\xff")

    assert {
        "numpy": "1.26.4",
        "pytorch-lightning": "2.1.0",
        "ray": "9.1",
        "torch": "2.5.1+cu124",
    } == versions([str(first), str(tmp_path / "none"), str(second), ""])


def test_our_own_interpreter_is_not_started_to_be_asked() -> None:
    version, packages = installed_versions(sys.executable, {}, (), limit_s=0.0)

    assert ".".join(map(str, sys.version_info[:3])) == version
    assert {"rankdeck", "torch", "textual"} & packages.keys() == {"rankdeck", "torch"}
    assert (version, packages) == installed_versions("", {}, (), limit_s=0.0)


@pytest.mark.parametrize(
    ("script", "version"),
    [
        ('echo noise; echo \'["3.12.1", ["{site}", ""]]\'', "3.12.1"),
        ("echo '[\"3.12.1\"]'", ""),
        ("echo nonsense", ""),
        ("exit 3", ""),
        ("exec sleep 600", ""),
    ],
)
@pytest.mark.usefixtures("mark")
def test_another_interpreter_is_asked_within_a_limit(tmp_path: Path, script: str, version: str) -> None:
    site = tmp_path / "site"
    (site / "torch-2.0.dist-info").mkdir(parents=True)
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\n" + script.replace("{site}", str(site)) + "\n")
    python.chmod(0o755)
    told, packages = installed_versions(str(python), dict(os.environ), (), limit_s=2.0)

    assert version == told
    assert ("2.0" if version else None) == packages.get("torch")
    assert "rankdeck" in packages
