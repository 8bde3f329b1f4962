"""What ``--files`` names: files and folders of any kind and size, with what the links in them lead to."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ...errors import SpecError
from .project_files import is_private, looks_like_a_key

MOST = 100_000


@dataclass(frozen=True, slots=True)
class NamedFiles:
    """The files of one of ``--files``.

    Attributes:
        files: each by its path below what was named; empty for the file that was named itself.
        keys: how many were left out because they look like keys.
    """

    files: dict[str, Path]
    keys: int = 0


def find_named(path: Path) -> NamedFiles:
    """The regular files that a path names. One that looks like a key travels only if it is named itself.

    Raises:
        SpecError: it is no file and no folder, holds far more than a program's files, or cannot be listed.
    """
    if path.is_file():
        return NamedFiles({"": path})
    if not path.is_dir():
        raise SpecError(f"--files takes files and folders, and {path} is neither")
    _require_own(path)
    files: dict[str, Path] = {}
    keys = 0
    for below in _below(path):
        if looks_like_a_key(path / below):
            keys += 1
        else:
            files[below] = path / below
        if len(files) > MOST:
            raise SpecError(f"--files: {path} holds more than {MOST:,} files", hint="send one archive")
    return NamedFiles(files, keys)


def _require_own(folder: Path) -> None:
    if is_private(folder):
        raise SpecError(
            f"--files: {folder} holds far more than a program's files", hint="name what the program reads"
        )


def _below(folder: Path) -> Iterator[str]:
    """The paths of the files below a folder. Links are followed, except into a folder that they lie in."""
    pending: list[tuple[str, tuple[str, ...]]] = [("", (os.path.realpath(folder),))]
    seen = 0
    while pending:
        place, above = pending.pop()
        for entry in _entries(folder / place):
            below = os.path.join(place, entry.name)
            if entry.is_dir():
                real = os.path.realpath(entry.path)
                if entry.is_symlink():
                    _require_own(Path(real))
                if entry.name != ".git" and real not in above:
                    pending.append((below, (*above, real)))
            elif entry.is_file():
                yield below
        seen += 1
        if seen > MOST:
            raise SpecError(f"--files: {folder} holds more than {MOST:,} folders")


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        raise SpecError(f"--files: {folder} cannot be listed: {error.strerror}") from error
