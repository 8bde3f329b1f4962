"""Which files of a folder are a person's own work: those that git does not ignore.

Git itself is asked where it can be; elsewhere the rules of ``.gitignore`` are applied here.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import subprocess
from collections.abc import Callable, Iterable
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

_FOREIGN = {"__pycache__", "node_modules", "site-packages"}


def open_file(path: str | os.PathLike[str]) -> BufferedReader:
    """Open a regular file to be read. A pipe or device is refused: its end may never come.

    Raises:
        OSError: it cannot be read, or is no regular file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no regular file", os.fspath(path))
    return open(descriptor, "rb")


def find_sources(workdir: Path, limit: int = 2000) -> list[Path]:
    """Python files below a folder that are not ignored by git, and in no virtual environment.

    At most `limit` files, the shallowest first.
    """
    files = _listed_by_git(workdir, "*.py", _is_source) or _walked(workdir, limit, _is_source)
    return _shallowest(files, limit)


def find_files(folder: Path, limit: int) -> list[Path]:
    """The same for files of any kind, and for links to folders, which are not followed; without hidden ones.

    Those of git repositories below are included.
    """
    files = _listed_by_git(folder, ".", _is_entry) or _walked(folder, limit, _is_entry)
    return _shallowest((file for file in files if not file.name.startswith(".")), limit)


def _is_source(path: str) -> bool:
    return path.endswith(".py") and os.path.isfile(path)


def _is_entry(path: str) -> bool:
    return os.path.isfile(path) or (os.path.islink(path) and os.path.isdir(path))


def _shallowest(files: Iterable[Path], limit: int) -> list[Path]:
    return sorted(files, key=_by_depth)[:limit]


def _by_depth(file: Path) -> tuple[int, list[str]]:
    parts = os.fspath(file).split("/")
    return len(parts), parts


def _listed_by_git(workdir: Path, pattern: str, wanted: Callable[[str], bool]) -> list[Path]:
    """What matches a pattern of git's and is wanted. Of a repository below, git lists only its folder."""
    command = ["git", "-C", str(workdir), "ls-files", "-coz", "--exclude-standard", "--", pattern]
    try:
        done = subprocess.run(command, capture_output=True, timeout=5, stdin=subprocess.DEVNULL, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    names = {os.fsdecode(name).rstrip("/") for name in done.stdout.split(b"\0") if name}
    foreign = _foreign_below(workdir, names)
    own = [os.path.join(workdir, name) for name in names if os.path.dirname(name) not in foreign]
    inner = [p for p in own if os.path.isdir(p) and not os.path.islink(p) and not _foreign(p)]
    below = [file for folder in inner for file in _listed_by_git(Path(folder), pattern, wanted)]
    return [Path(p) for p in own if wanted(p)] + below


def _foreign_below(workdir: Path, names: Iterable[str]) -> set[str]:
    """The folders of these files, relative to theirs, that are foreign or lie in one that is."""
    folders: set[str] = set()
    for name in names:
        folder = os.path.dirname(name)
        while folder and folder not in folders:
            folders.add(folder)
            folder = os.path.dirname(folder)
    foreign: set[str] = set()
    for folder in sorted(folders, key=len):  # what is above comes first
        if os.path.dirname(folder) in foreign or _foreign(os.path.join(workdir, folder)):
            foreign.add(folder)
    return foreign


def _foreign(folder: str) -> bool:
    """Whether a folder's files were installed or generated rather than written."""
    name = os.path.basename(folder)
    return name.startswith(".") or name in _FOREIGN or os.path.exists(f"{folder}/pyvenv.cfg")


def _walked(workdir: Path, limit: int, wanted: Callable[[str], bool]) -> list[Path]:
    """What is wanted, found without git, level by level, so that the limit cuts off the deepest."""
    found: list[Path] = []
    level, seen = [(workdir, IgnoreRules().within(str(workdir)))], 0
    while level and len(found) < limit and seen < 10 * limit:
        seen += len(level)
        below = []
        for folder, rules in level:
            for entry in _entries(folder):
                if entry.is_dir(follow_symlinks=False):
                    if not _foreign(entry.path) and not rules.ignore(entry.path, is_folder=True):
                        below.append((Path(entry.path), rules.within(entry.path)))
                elif wanted(entry.path) and not rules.ignore(entry.path, is_folder=False):
                    found.append(Path(entry.path))
        level = below
    return found


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []  # a folder that cannot be listed is skipped


FILE = ".gitignore"


_MOST_BYTES = 1 << 18


class IgnoreRules:
    """The rules of ``.gitignore`` files for a folder: those of the folders above it, then its own."""

    def __init__(self, levels: tuple[tuple[str, GitIgnoreSpec], ...] = ()) -> None:
        self._levels = levels

    def within(self, folder: str) -> IgnoreRules:
        """The rules for the entries of a folder, with those of its own file added."""
        text = _read_rules(os.path.join(folder, FILE))
        return IgnoreRules((*self._levels, (folder, _parsed(text)))) if text.strip() else self

    def ignore(self, path: str, *, is_folder: bool) -> bool:
        """Whether a path is ignored, by the last rule that matches it."""
        ignored = False
        for folder, spec in self._levels:
            found = spec.check_file(os.path.relpath(path, folder) + "/" * is_folder).include
            ignored = ignored if found is None else found
        return ignored


def _parsed(text: str) -> GitIgnoreSpec:
    """The rules of a file; a line that is no pattern is skipped."""
    from pathspec import GitIgnoreSpec  # imported here because it is needed only where git is missing

    lines = []
    for line in text.splitlines():
        with contextlib.suppress(ValueError):
            GitIgnoreSpec.from_lines([line])
            lines.append(line)
    return GitIgnoreSpec.from_lines(lines)


def _read_rules(path: str) -> str:
    try:
        with open(path, "rb") as file:
            return file.read(_MOST_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""  # most folders have none
