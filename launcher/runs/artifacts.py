"""Files that ranks wrote, in a run's folder: kept as whole files, with an index of what each of them is.

    artifacts/<host>/<path>            a file by its path from the ranks' working directory
    artifacts/<host>/.outside/<path>   one that lay elsewhere among the copied files
    artifacts.jsonl                    one line for each version of a file; the last one counts

A file gets its name only when it is complete and its hash is right, so each one is some whole version.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import IO
from urllib.parse import quote

from ..errors import RecordError
from ..serialization import from_plain, to_plain
from ..state.artifacts import Artifact, is_artifact_path, latest
from . import files, paths
from .files import Growing

OUTSIDE = ".outside"
_PARTIAL = ".incoming"
_ROOM = 128 << 20
_ROOM_SHARE = 20
_LONGEST_LINE = 64 << 10
_BLOCK = 1 << 20


class Refused(Exception):
    """Home does not take a file; the message says why."""


class IncomingFile:
    """A file that is on its way."""

    def __init__(self, entry: Artifact, partial: Path) -> None:
        self.entry = entry
        self._partial = partial
        self._hasher = hashlib.sha256()
        partial.unlink(missing_ok=True)
        self._file = Growing(partial)

    def write(self, data: memoryview) -> None:
        """Append a piece.

        Raises:
            Refused: it cannot be written, or is longer than announced; nothing of it is left.
        """
        try:
            if self._file.size + len(data) > self.entry.size:
                raise Refused("it is longer than it was")
            self._file.write([data])
        except OSError as error:
            self.discard()
            raise Refused(error.strerror or str(error)) from error
        except Refused:
            self.discard()
            raise
        self._hasher.update(data)

    def finish(self, digest: str, target: Path) -> Artifact | None:
        """Give it its name; None if it is not what was announced.

        Raises:
            Refused: it cannot be given its name.
        """
        if self._file.size != self.entry.size or self._hasher.hexdigest() != digest:
            self.discard()
            return None
        try:
            os.close(self._file.descriptor)  # some disks report only now that they are full
            _clear_way(target)
            os.chmod(self._partial, 0o700 if self.entry.executable else paths.FILE_MODE)
            self._partial.replace(target)
        except OSError as error:
            self._partial.unlink(missing_ok=True)
            raise Refused(error.strerror or str(error)) from error
        return replace(self.entry, digest=digest)

    def discard(self) -> None:
        """Remove what has come of it."""
        self._file.close()
        with contextlib.suppress(OSError):
            self._partial.unlink(missing_ok=True)


class ArtifactStore:
    """Writes the files of one run, on its own thread.

    Args:
        run: the run folder.
        limit: how many bytes all files together may have.

    Attributes:
        refused: why a file was not taken, by host and path; a version that comes later removes it.
    """

    def __init__(self, run: Path, limit: int) -> None:
        self._run, self._limit = run, limit
        self._index: Growing | None = None
        self._kept: dict[tuple[str, str], Artifact] = {}
        self._coming: set[IncomingFile] = set()
        self._number = 0
        self._unwritten = bytearray()
        self._size = 0
        self._news: dict[tuple[str, str], tuple[Artifact, bool]] = {}
        self.refused: dict[tuple[str, str], str] = {}

    @property
    def kept(self) -> list[Artifact]:
        """The files that are here."""
        return list(self._kept.values())

    @property
    def count(self) -> int:
        """How many files are here."""
        return len(self._kept)

    @property
    def has_news(self) -> bool:
        """Whether `take_news` has something."""
        return bool(self._news)

    @property
    def has_new(self) -> bool:
        """Whether some of that has no older version here."""
        return not all(again for _, again in self._news.values())

    @property
    def size(self) -> int:
        """The size of the files that are here, in bytes."""
        return self._size

    def take_news(self) -> list[tuple[Artifact, bool]]:
        """The files that have come since the last call, and whether an older version was here then."""
        news, self._news = self._news, {}
        return list(news.values())

    def begin(self, entry: Artifact) -> IncomingFile:
        """Begin to take a file.

        Raises:
            Refused: there is no room for it, or it cannot have that name here.
        """
        try:
            self._check(entry)
            self._number += 1
            folder = self._run / paths.ARTIFACTS
            folder.mkdir(mode=paths.FOLDER_MODE, exist_ok=True)
            incoming = IncomingFile(entry, folder / f"{_PARTIAL}-{self._number}")
        except Refused as refusal:
            raise self._note_refused(entry, str(refusal)) from None
        except OSError as error:
            raise self._note_refused(entry, error.strerror or str(error)) from error
        self._coming.add(incoming)
        return incoming

    def write(self, incoming: IncomingFile, data: memoryview) -> None:
        """Append a piece.

        Raises:
            Refused: as `IncomingFile.write`.
        """
        try:
            incoming.write(data)
        except Refused as refusal:
            self._coming.discard(incoming)
            raise self._note_refused(incoming.entry, str(refusal)) from None

    def finish(self, incoming: IncomingFile, digest: str) -> None:
        """The file is complete: keep it in place of its last version.

        Raises:
            Refused: it cannot be kept.
        """
        self._coming.discard(incoming)
        try:
            kept = incoming.finish(digest, place_of(self._run, incoming.entry))
            if kept is not None:
                self._keep(kept)
        except Refused as refusal:
            raise self._note_refused(incoming.entry, str(refusal)) from None

    def link(self, entry: Artifact) -> None:
        """Note a symbolic link; none is made here, as a run's folder holds none."""
        if self._kept.get(entry.key, entry).digest:
            self._remove(self._kept[entry.key])
        self._keep(entry)

    def discard(self, incoming: IncomingFile) -> None:
        """The file has changed while it was sent."""
        self._coming.discard(incoming)
        incoming.discard()

    def gone(self, host: str, deleted: Iterable[str], time: float) -> None:
        """Files were deleted by a program of their host."""
        for path in deleted:
            if (kept := self._kept.pop((host, path), None)) is not None:
                self._size -= kept.size
                self._remove(kept)
                self._write(replace(kept, gone=True, time=time))

    def close(self) -> None:
        """Close the index, and remove what is incomplete."""
        for incoming in self._coming:
            incoming.discard()
        self._coming.clear()
        if self._index is not None:
            self._index.close()
            self._index = None

    def _check(self, entry: Artifact) -> None:
        if not is_artifact_path(entry.path):
            raise Refused("its name cannot be used here")
        before = self._kept.get(entry.key)
        if self._size - (before.size if before else 0) + entry.size > self._limit:
            raise Refused("--artifacts-limit is reached")
        disk = os.statvfs(self._run)
        free, whole = disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize
        coming = sum(each.entry.size for each in self._coming)
        if free - coming - entry.size < min(_ROOM, whole // _ROOM_SHARE):
            raise Refused("the disk is full")

    def _note_refused(self, entry: Artifact, why: str) -> Refused:
        self.refused[entry.key] = why
        return Refused(why)

    def _keep(self, kept: Artifact) -> None:
        before = self._kept.get(kept.key)
        self._size += kept.size - (before.size if before else 0)
        self._kept[kept.key] = kept
        self.refused.pop(kept.key, None)
        self._write(kept)
        _, again = self._news.get(kept.key, (kept, before is not None))
        self._news[kept.key] = kept, again

    def _remove(self, kept: Artifact) -> None:
        with contextlib.suppress(OSError):
            place_of(self._run, kept).unlink(missing_ok=True)

    def _write(self, entry: Artifact) -> None:
        """Note a version in the index; on a full disk, with the next one."""
        line = json.dumps(to_plain(entry), separators=(",", ":")).encode() + b"\n"
        self._unwritten += line
        with contextlib.suppress(OSError):
            if self._index is None:
                self._index = Growing(self._run / paths.ARTIFACT_INDEX)
            self._index.whole(bytes(self._unwritten))
            self._unwritten.clear()


def place_of(run: Path, artifact: Artifact) -> Path:
    """Where a file is kept.

    Raises:
        Refused: its path leads elsewhere.
    """
    if not is_artifact_path(artifact.path):
        raise Refused("its name cannot be used here")
    folder = run / paths.ARTIFACTS / _folder_name(artifact.host)
    outside = artifact.path.startswith("/")
    return folder / OUTSIDE / artifact.path[1:] if outside else folder / artifact.path


def _folder_name(host: str) -> str:
    """A host's name as the name of a folder."""
    name = quote(host, safe="")[:200] or "unknown"
    return f"%2E{name[1:]}" if name.startswith(".") else name


def _clear_way(target: Path) -> None:
    """Make the folder of a file. Older files of other shapes give way: a rank has replaced them."""
    if target.is_dir():
        shutil.rmtree(target)
    missing = list(itertools.takewhile(lambda above: not above.is_dir(), target.parents))
    for folder in reversed(missing):
        folder.unlink(missing_ok=True)
        folder.mkdir(mode=paths.FOLDER_MODE)


def read_artifacts(run: Path) -> list[Artifact]:
    """The files that came home, by host and path. A line that cannot be read is left out.

    Raises:
        RecordError: the index cannot be read.
    """
    try:
        with files.open_file(run, run / paths.ARTIFACT_INDEX) as index:
            return latest(_entries(index))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RecordError(f"{run / paths.ARTIFACT_INDEX} cannot be read: {error.strerror}") from error


def _entries(index: IO[bytes]) -> Iterator[Artifact]:
    while line := index.readline(_LONGEST_LINE):
        with contextlib.suppress(ValueError, RecursionError):
            entry = from_plain(Artifact, json.loads(line))
            if is_artifact_path(entry.path):
                yield entry


def copy_artifact(run: Path, artifact: Artifact, write: Callable[[bytes], object]) -> bool:
    """Read a file that came home, piece by piece; whether its content is still what it was.

    Raises:
        OSError: it cannot be read.
        Refused: its path leads elsewhere.
    """
    hasher = hashlib.sha256()
    with files.open_file(run, place_of(run, artifact), buffering=0) as file:
        while block := file.read(_BLOCK):
            hasher.update(block)
            write(block)
    return hasher.hexdigest() == artifact.digest


def export_artifacts(run: Path, tree: Mapping[str, Artifact], folder: Path) -> int:
    """Copy files into a folder, and make the links that stay in it.

    Args:
        run: the run folder.
        tree: the files by their paths in the new folder; an absolute one lies below it too.
        folder: the new folder, made if need be.

    Returns:
        The size of all files, in bytes.

    Raises:
        RecordError: a file cannot be copied, or is no longer what came home.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, artifact in tree.items():
            _export(run, artifact, folder / path.lstrip("/"), folder)
    except (OSError, Refused) as error:
        raise RecordError(f"the files cannot be copied to {folder}: {error}") from error
    return sum(artifact.size for artifact in tree.values())


def _export(run: Path, artifact: Artifact, target: Path, folder: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if artifact.link:
        if _stays_in(folder, target, artifact.link):
            target.symlink_to(artifact.link)
        return
    partial = target.with_name(f".{target.name[:200]}.partial")
    try:
        with open(partial, "xb") as file:
            if not copy_artifact(run, artifact, file.write):
                raise RecordError(f"{place_of(run, artifact)} is no longer what came home")
        partial.chmod(0o755 if artifact.executable else 0o644)
        partial.rename(target)
    except (OSError, RecordError):
        partial.unlink(missing_ok=True)
        raise


def _stays_in(folder: Path, target: Path, leads_to: str) -> bool:
    """Whether a link leads to a place in the folder."""
    place = os.path.normpath(target.parent / leads_to)
    return not os.path.isabs(leads_to) and Path(place).is_relative_to(folder)


def remove_partial(run: Path) -> None:
    """Remove what a writer that was killed has left incomplete."""
    with contextlib.suppress(OSError):
        for name in files.names_in(run, run / paths.ARTIFACTS):
            if name.startswith(_PARTIAL):
                (run / paths.ARTIFACTS / name).unlink(missing_ok=True)
