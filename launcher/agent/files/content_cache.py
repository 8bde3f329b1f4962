"""Contents of files that a host has got already, by their hashes: what several runs send is sent once.

The cache lies in the temporary folder of the host, one for each user. Its files are never changed, only added
and removed, so agents share it without locks. What is read from it is checked against its hash.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
import time
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path

LIMIT = 16 << 30
KEPT_S = 14 * 86400.0
_UNFINISHED_S = 3600.0
_PART = ".part-"
_USUAL = ("/tmp", "/var/tmp")
_BLOCK = 1 << 20


class ContentCache:
    """The cache of this user, or a folder of the agent's own where there can be none.

    Args:
        environ: the environment that names the temporary folder.
        own: the folder to use if that one cannot be used.
    """

    def __init__(self, environ: Mapping[str, str], own: str) -> None:
        self._environ, self._own = environ, own

    @cached_property
    def folder(self) -> Path:
        """Its folder, made when it is needed."""
        return _usable_folder(self._environ) or Path(self._own)

    def holds(self, digest: str) -> bool:
        """Whether it has this content; it is used now, so it is kept for longer."""
        try:
            os.utime(self._path(digest))
        except OSError:
            return False
        return True

    def receive(self, digest: str, size: int) -> Receiving:
        """Begin to receive a content.

        Raises:
            OSError: there is no room.
        """
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return Receiving(self._path(digest), digest, size)

    def copy(self, digest: str, target: str, mode: int) -> None:
        """Copy a content to a new file.

        Raises:
            FileNotFoundError: it is not here, or it was damaged.
            OSError: there is no room.
        """
        found, hasher = self._path(digest), hashlib.sha256()
        with open(found, "rb") as source, open(os.open(target, _NEW, mode), "wb") as copy:
            while block := source.read(_BLOCK):
                hasher.update(block)
                copy.write(block)
        if hasher.hexdigest() != digest:
            found.unlink(missing_ok=True)
            os.unlink(target)
            raise FileNotFoundError(f"{found} was damaged")

    def prune(self, *, now: float | None = None, limit: int = LIMIT) -> None:
        """Remove contents that nobody has used for long, and the oldest beyond `limit` bytes.

        What arrives for another run now is left alone. What cannot be removed is no reason to fail.
        """
        now, used = time.time() if now is None else now, 0
        for path, status in sorted(self._entries(), key=lambda entry: -entry[1].st_mtime):
            arrives = path.name.startswith(_PART)
            used += 0 if arrives else status.st_size
            kept_s = _UNFINISHED_S if arrives else KEPT_S
            if (used > limit and not arrives) or now - status.st_mtime > kept_s:
                with contextlib.suppress(OSError):
                    path.unlink()

    def _path(self, digest: str) -> Path:
        return self.folder / digest

    def _entries(self) -> Iterator[tuple[Path, os.stat_result]]:
        with contextlib.suppress(OSError):
            for path in self.folder.iterdir():
                with contextlib.suppress(OSError):
                    yield path, path.lstat()


_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW


class Receiving:
    """A content that arrives in pieces. Nobody sees it before it is whole."""

    def __init__(self, path: Path, digest: str, size: int) -> None:
        self._path, self._digest, self.missing = path, digest, size
        self._hasher = hashlib.sha256()
        descriptor, self._part = tempfile.mkstemp(dir=path.parent, prefix=_PART)
        self._file = open(descriptor, "wb")  # noqa: SIM115  it is open for as long as pieces come

    def write(self, piece: memoryview) -> None:
        """Add a piece.

        Raises:
            OSError: there is no room.
        """
        self._file.write(piece)
        self._hasher.update(piece)
        self.missing -= len(piece)

    def finish(self) -> bool:
        """Keep the content if it is the one that was announced; whether it is."""
        self._file.close()
        if self._hasher.hexdigest() != self._digest:
            os.unlink(self._part)
            return False
        os.replace(self._part, self._path)
        return True

    def discard(self) -> None:
        """Remove what has arrived; what a full disk did not take is lost anyway."""
        with contextlib.suppress(OSError):
            self._file.close()
        with contextlib.suppress(OSError):
            os.unlink(self._part)


def _usable_folder(environ: Mapping[str, str]) -> Path | None:
    """The cache's folder in the first usable place, made if need be; None if nobody else may not read it."""
    for place in filter(os.path.isabs, (environ.get("TMPDIR", ""), *_USUAL)):
        folder = Path(place, f"rankdeck-cache-{os.geteuid()}")
        with contextlib.suppress(OSError):
            with contextlib.suppress(FileExistsError):
                folder.mkdir(mode=0o700)
            status = folder.lstat()
            if stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077:
                return folder
    return None
