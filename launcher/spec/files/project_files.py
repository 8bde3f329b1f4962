"""Which files of a folder travel with a program: its sources, and what small files it may read beside them.

Never: hidden files, what looks like a key, and anything of a folder that holds a person's whole work or other
people's, such as the home folder; of those only the sources beside the program travel.
"""

from __future__ import annotations

import fnmatch
import os
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path

from .file_search import find_files, open_file

LIMIT = 64 << 20
FILES = 10_000
_KEY_NAMES = (
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
    "*.ppk",
    "*.jks",
    "*.keystore",
    "*.kdbx",
    "*.gpg",
    "*.asc",
    "id_rsa*",
    "id_dsa*",
    "id_ecdsa*",
    "id_ed25519*",
    "credentials*",
    "*service*account*.json",
    "secrets.*",
)
_SYSTEM = (
    *("/bin", "/boot", "/dev", "/etc", "/lib", "/media", "/mnt", "/opt", "/run", "/sbin", "/srv", "/usr"),
    *("/usr/bin", "/usr/lib", "/usr/local", "/usr/local/bin", "/usr/share", "/var", "/var/lib", "/var/log"),
)
_KERNEL = ("/proc", "/sys")
_KEY_MARK = b"PRIVATE KEY"
_HEAD = 4096
_KEYS = re.compile("|".join(map(fnmatch.translate, _KEY_NAMES)))


@dataclass(frozen=True, slots=True)
class ProjectFiles:
    """What travels of a folder, and what does not although it might be needed.

    Attributes:
        files: what travels, the smallest first.
        left_out: files for which there was no room, each with its size in bytes; the largest first.
        keys: files that look like keys.
        linked: links to folders, each with where it leads: relative to its own folder if that is in this
            folder too, else absolute. What lies there does not travel.
        uncounted: whether the folder holds more files than were looked at.
    """

    files: tuple[Path, ...] = ()
    left_out: tuple[tuple[Path, int], ...] = ()
    keys: tuple[Path, ...] = ()
    linked: tuple[tuple[Path, str], ...] = ()
    uncounted: bool = False


def select_files(folder: Path, *, room: int = LIMIT) -> ProjectFiles:
    """The files of a folder and below that travel, as long as there is room for so many bytes.

    The smallest come first: a program's settings are small, and data that is large lies on shared storage or
    is named with ``--files``.
    """
    found = find_files(folder, FILES + 1)
    linked = {link: _where_it_leads(link, folder) for link in found[:FILES] if link.is_dir()}
    sizes = {file: size for file in found[:FILES] if file not in linked and (size := _size(file)) is not None}
    keys = {file: None for file in sizes if looks_like_a_key(file)}
    files: list[Path] = []
    left_out: list[tuple[Path, int]] = []
    for file, size in sorted(sizes.items(), key=lambda item: (item[1], item[0])):
        if file in keys:
            continue
        if size <= room:
            room -= size
            files.append(file)
        else:
            left_out.append((file, size))
    return ProjectFiles(
        tuple(files),
        tuple(reversed(left_out)),
        tuple(keys),
        tuple(linked.items()),
        uncounted=len(found) > FILES,
    )


def _where_it_leads(link: Path, folder: Path) -> str:
    """Where a link leads, for a copy of this folder that lies elsewhere."""
    real = os.path.realpath(link)
    inside = Path(real).is_relative_to(os.path.realpath(folder))
    return os.path.relpath(real, os.path.realpath(link.parent)) if inside else real


def is_private(folder: Path) -> bool:
    """Whether a folder holds far more than one program: the root, a home or system folder, one above it."""
    real = Path(os.path.realpath(folder))
    if str(real) in _SYSTEM or any(real.is_relative_to(place) for place in _KERNEL):
        return True
    homes = [Path(os.path.realpath(place)) for place in (os.path.expanduser("~"), tempfile.gettempdir())]
    return any(home == real or real in home.parents for home in homes)


def looks_like_a_key(file: Path) -> bool:
    """Whether a file looks like a key or like credentials, by its name or its first bytes.

    Of a link, the name of the file that it leads to counts too; a hidden one is a person's settings.
    """
    real = os.path.realpath(file) if file.is_symlink() else ""
    if _is_key_name(file.name) or _is_key_name(os.path.basename(real)) or os.path.basename(real)[:1] == ".":
        return True
    try:
        with open_file(file) as opened:
            return _KEY_MARK in opened.read(_HEAD)
    except OSError:
        return False  # it cannot be read, so it does not travel either


def _is_key_name(name: str) -> bool:
    return _KEYS.match(name.lower()) is not None


def _size(file: Path) -> int | None:
    try:
        return file.stat().st_size
    except OSError:
        return None
