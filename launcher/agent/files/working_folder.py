"""A run's files on a host: in place, if the host has the very same ones, else copies laid out from a bundle.

All agents of a host share one working folder, as ranks on one host do everywhere: what local rank 0
downloads, the others read.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ...spec.files.bundle import SOURCES, place_led_to

if TYPE_CHECKING:
    from ...spec.files.bundle import Manifest, SentFile
    from .content_cache import ContentCache

_SLACK_S = 2.0  # a file server's clock may be behind the caller's
_EMPTY = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC
_CODE = (".py", ".so", ".zip", ".whl", ".egg")


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the run's files are on this host.

    Attributes:
        source: the file to run instead of the target's path; empty if the target is no file.
        path: folders and zips to import from.
        lead: the first folder of the import path, if the target is no file.
        copied: the folder with the copies, below it by their paths on the caller's machine.
        cwd: the ranks' working directory if they do not run in the caller's.
        absent: what the caller's links to folders lead to and this host lacks, by numbers in the manifest.
    """

    source: str
    path: tuple[str, ...]
    lead: str
    copied: str
    cwd: str = ""
    absent: tuple[int, ...] = ()

    @property
    def shared(self) -> bool:
        """Whether the ranks work in the caller's own folder."""
        return not self.cwd


def is_shared(manifest: Manifest) -> bool:
    """Whether this host has the caller's own folder: every file under the same path, with the same content.

    A file that is no code may have changed since it was packed: programs write logs beside their sources.
    """
    if manifest.own_folder:
        return False
    same = 0
    for file in manifest.files:
        path = file.place.removeprefix(SOURCES)
        if not path.startswith("/"):
            continue
        if _is_same(path, file):
            same += 1
            continue
        is_code = path == manifest.main or file.executable or path.endswith(_CODE)
        if is_code or not _has_changed(path, manifest.made - _SLACK_S):
            return False
    return same > 0


def placed_files(manifest: Manifest, *, shared: bool) -> list[SentFile]:
    """The files of which this host needs copies."""
    if not shared:
        return list({file.place: file for file in manifest.all_files}.values())
    roots = tuple(f"{folder}/" for folder in manifest.copies)
    return [file for file in manifest.files if file.place.startswith(roots)] if roots else []


def lay_out(
    manifest: Manifest, misplaced: Sequence[SentFile], folder: str, cache: ContentCache, *, shared: bool
) -> Layout:
    """Lay out what is not in its place below `folder`, and the links of the caller's folder.

    Raises:
        OSError: there is no room, or a content is missing.
    """
    for file in misplaced:
        _place(file, os.path.join(folder, file.place), cache)
    absent = []
    if not shared:
        for place, leads_to in manifest.links:
            _link(leads_to, os.path.join(folder, place))
        for number, (place, leads_to) in enumerate(manifest.linked):
            if not _link_folder(leads_to, os.path.join(folder, place)):
                absent.append(number)
        os.makedirs(os.path.join(folder, f"{SOURCES}{manifest.workdir}"), mode=0o700, exist_ok=True)
    return replace(layout_of(manifest, folder, shared=shared), absent=tuple(absent))


def misplaced_files(manifest: Manifest, folder: str, *, shared: bool) -> list[SentFile]:
    """The files that are not in their places, or were changed there by ranks of an earlier attempt."""
    files = placed_files(manifest, shared=shared)
    return [file for file in files if not _is_same(os.path.join(folder, file.place), file)]


def _place(file: SentFile, target: str, cache: ContentCache) -> None:
    os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
    mode = 0o700 if file.executable else 0o600
    with contextlib.suppress(FileNotFoundError):
        os.unlink(target)
    if file.size:
        cache.copy(file.digest, target, mode)
    else:
        os.close(os.open(target, _EMPTY, mode))


def _link(leads_to: str, place: str) -> None:
    os.makedirs(os.path.dirname(place), mode=0o700, exist_ok=True)
    with contextlib.suppress(OSError):
        if os.readlink(place) != leads_to:
            os.unlink(place)
    with contextlib.suppress(FileExistsError):
        os.symlink(leads_to, place)


def _link_folder(leads_to: str, place: str) -> bool:
    """Link a folder if it is here; whether it is.

    A link that leads nowhere would be worse than none: a program cannot make a folder where it lies.
    """
    if not os.path.isdir(place_led_to(place, leads_to)):
        return False
    _link(leads_to, place)
    return True


def layout_of(manifest: Manifest, folder: str, *, shared: bool) -> Layout:
    """Where the files are, once they are laid out below `folder`."""
    copied = os.path.join(folder, SOURCES)
    prefix = "" if shared else copied
    if manifest.main and not shared:
        os.chmod(copied + manifest.main, 0o700)  # it may be a program
    lead = prefix + manifest.lead
    if not os.path.isdir(lead):
        lead = copied + manifest.lead
        os.makedirs(lead, mode=0o700, exist_ok=True)  # it may hold no sources
    imports = [prefix + entry for entry in manifest.path]
    copies = [os.path.join(folder, entry) for entry in manifest.copies]
    cwd = "" if shared else copied + manifest.workdir
    return Layout(manifest.main and prefix + manifest.main, (*imports, *copies), lead, copied, cwd)


def _is_same(path: str, file: SentFile) -> bool:
    try:
        with open(path, "rb") as opened:
            same_size = os.fstat(opened.fileno()).st_size == file.size
            return same_size and hashlib.file_digest(opened, "sha256").hexdigest() == file.digest
    except OSError:
        return False


def _has_changed(path: str, since: float) -> bool:
    """Whether a file was written or removed after a time."""
    for place in (path, os.path.dirname(path)):
        with contextlib.suppress(OSError):
            return os.stat(place).st_mtime > since
    return False
