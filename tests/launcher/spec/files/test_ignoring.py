"""``.gitignore`` where git does not know the folder: the same as git itself says."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from launcher.spec.files import file_search
from launcher.spec.files.file_search import IgnoreRules

PATHS = (
    "a.py",
    "b.py",
    "out/a.py",
    "out/sub/b.py",
    "src/out/a.py",
    "src/a.py",
    "src/sub/deep/b.py",
    "[x].py",
)


def fill(folder: Path, *lines: str, below: str = ".") -> None:
    for name in PATHS:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    (folder / below / ".gitignore").write_text("\n".join(lines))


def walked(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in file_search._walked(folder, 1000, file_search._is_source)}


def by_git(folder: Path) -> set[str]:
    subprocess.run(["git", "-C", str(folder), "init", "-q"], check=True)
    return {str(p.relative_to(folder)) for p in file_search._listed_by_git(folder, "*.py", os.path.isfile)}


LINES = [
    "out/", "out", "/out", "src/out", "**/out/", "src/**", "src/**/b.py", "*.py", "!a.py", "a.*", "# a.py",
    "", "\\[x\\].py", "[ab].py", "[!a].py", "sub/", "/src/*", "!src/a.py", "?.py", "deep ", "/*.py", "[",
    "!", "\\", "a\\", "/", "!out/", "!src/out", "o*t/", "src/*/b.py", "[a-b].py", "\\!a.py", "**/deep/**",
]  # fmt: skip


@pytest.mark.parametrize("line", LINES)
def test_a_line_means_what_git_takes_it_for(tmp_path: Path, line: str) -> None:
    fill(tmp_path, line)

    assert walked(tmp_path) == by_git(tmp_path)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(LINES), max_size=4), st.sampled_from([".", "src"]))
def test_lines_together_too(tmp_path_factory: pytest.TempPathFactory, lines: list[str], below: str) -> None:
    folder = tmp_path_factory.mktemp("work")
    fill(folder, *lines, below=below)

    assert walked(folder) == by_git(folder)


def test_without_files_nothing_is_ignored(tmp_path: Path) -> None:
    rules = IgnoreRules()

    assert rules.within(str(tmp_path)) is rules
