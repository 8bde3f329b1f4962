"""A cache of what `ps` shows, so that ten thousand runs are listed in a moment.

A row is used only if its run has ended and its `status.json` is still the same file, of the same size and
time. What the cache lacks is read from the folders, and a failure to write to it is ignored, so the file may
be deleted, corrupt, locked or read-only at any time.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sqlite3
import stat
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from types import TracebackType
from typing import Self

from ..serialization import to_plain
from ..state.run_state import Phase
from . import paths
from .catalog import run_ids
from .reader import known_status
from .status import Owner, Status, read_status

_NAMES = tuple(f.name for f in fields(Status))
_STATE, _OWNER = _NAMES.index("state"), _NAMES.index("owner")
_SHAPE = f"1 {','.join(_NAMES)}"
_PIECE = 512
_FIRST_PIECE = 64
_AFTER_ALL = "~"
_BUSY_S = 0.05

Row = tuple[str, int, int, int, str]
Stamp = tuple[int, int, int]


def indexed_runs(root: Path) -> Iterator[Status]:
    """The status of every run under `root`, newest first: like `list_runs`, but from the index.

    Only the runs that the caller consumes are read, in batches.

    Raises:
        RecordError: the folder of runs cannot be read.
    """
    ids = run_ids(root)
    if not ids:
        return
    with Index(root) as index:
        start, end, newer = 0, _FIRST_PIECE, _AFTER_ALL
        while start < len(ids):
            piece = ids[start:end]
            yield from index.piece(piece, newer=newer, last=end >= len(ids))
            start, end, newer = end, end + _PIECE, piece[-1]


class Index:
    """The open cache; without a usable file, all is read from the folders."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._database = _open(index_file(root))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        if self._database is not None:
            self._database.close()

    def piece(self, ids: Sequence[str], *, newer: str, last: bool) -> list[Status]:
        """The statuses of some runs, in order; new rows are written, and rows of removed runs deleted.

        Args:
            ids: newest first, and no other run's id lies between them.
            newer: the id before the first one.
            last: whether there is none after the last one.
        """
        known = self._rows("" if last else ids[-1], newer)
        statuses, fresh = [], []
        for run in ids:
            status, row = self._read(run, known.pop(run, None))
            if status is not None:
                statuses.append(status)
            if row is not None:
                fresh.append(row)
        self._update(fresh, gone=[*known])
        return statuses

    def _read(self, run: str, row: Row | None) -> tuple[Status | None, Row | None]:
        """A run's status, judged, and its new row if it has one; no status if there is no such folder."""
        folder = f"{self._root}/{run}"
        stamp = _stamp(f"{folder}/{paths.STATUS}")
        if stamp is None:
            return (known_status(self._root / run) if os.path.isdir(folder) else None), None
        if row is not None and row[1:4] == stamp and (cached := _unpacked(row[4])) is not None:
            return cached, None
        status = read_status(self._root / run) or known_status(self._root / run)
        if status.id != run:  # a folder that was copied under another name
            status = replace(status, id=run)
        # a status that is not final gets no row: two changes within one tick of the clock look the same
        return status, ((run, *stamp, _packed(status)) if status.state.final else None)

    def _rows(self, oldest: str, newer: str) -> dict[str, Row]:
        if self._database is None:
            return {}
        query = "SELECT id, time_ns, size, inode, data FROM runs WHERE id >= ? AND id < ?"
        try:
            return {row[0]: row for row in self._database.execute(query, (oldest, newer))}
        except sqlite3.Error as error:
            self._give_up(error)
            return {}

    def _update(self, fresh: Sequence[Row], gone: Sequence[str]) -> None:
        if self._database is None or not (fresh or gone):
            return
        try:
            with self._database:
                self._database.executemany("INSERT OR REPLACE INTO runs VALUES (?, ?, ?, ?, ?)", fresh)
                self._database.executemany("DELETE FROM runs WHERE id = ?", [(run,) for run in gone])
        except sqlite3.OperationalError:  # busy, or no room: another listing will write them
            return
        except (sqlite3.Error, OverflowError) as error:
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        """Go on without the index; delete it if it is broken, so that the next listing makes a new one."""
        assert self._database is not None
        self._database.close()
        self._database = None
        if not _is_busy(error):
            _discard(index_file(self._root))


def index_file(root: Path) -> Path:
    """The index of these runs; each host has its own, because SQLite's WAL works on one host only."""
    return root / ".index" / f"{socket.gethostname()}.sqlite"


def _open(path: Path) -> sqlite3.Connection | None:
    """The index, created if it is missing or not a database; None where that does not work."""
    try:
        return _connect(path)
    except sqlite3.OperationalError:  # busy, read-only, no room
        return None
    except sqlite3.DatabaseError:
        _discard(path)
    except OSError:
        return None
    try:
        return _connect(path)
    except (sqlite3.Error, OSError):
        return None


def _connect(path: Path) -> sqlite3.Connection:
    """Open the file, and create its tables if need be.

    Raises:
        OSError, sqlite3.Error: it cannot be used, or is no database.
    """
    path.parent.mkdir(mode=paths.FOLDER_MODE, exist_ok=True)
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, paths.FILE_MODE))
    database = sqlite3.connect(path, timeout=_BUSY_S, check_same_thread=False)
    try:
        _prepare(database)
    except sqlite3.Error:
        database.close()
        raise
    return database


def _prepare(database: sqlite3.Connection) -> None:
    database.execute("PRAGMA synchronous = NORMAL")
    if _is_ours(database):
        return
    database.execute("PRAGMA journal_mode = WAL")
    with database:
        database.execute("BEGIN IMMEDIATE")
        if _is_ours(database):  # another process has prepared it meanwhile
            return
        for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            database.execute(f'DROP TABLE "{name}"')
        database.execute(
            "CREATE TABLE runs (id TEXT PRIMARY KEY, time_ns INT, size INT, inode INT, data TEXT)"
            " WITHOUT ROWID"
        )
        database.execute("CREATE TABLE shape (fields TEXT)")
        database.execute("INSERT INTO shape VALUES (?)", (_SHAPE,))


def _is_ours(database: sqlite3.Connection) -> bool:
    """Whether its rows have this version's fields: another version may write others."""
    try:
        return bool(database.execute("SELECT fields FROM shape").fetchall() == [(_SHAPE,)])
    except sqlite3.OperationalError:
        return False


def _is_busy(error: Exception) -> bool:
    """Whether another process holds its lock for a moment, and nothing is wrong with it."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _discard(path: Path) -> None:
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
        with contextlib.suppress(OSError):
            path.with_name(name).unlink()


def _stamp(path: str) -> Stamp | None:
    """Time, size and inode of a file, which a later file of its name would not share; None without one."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    if not stat.S_ISREG(found.st_mode):
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _packed(status: Status) -> str:
    return json.dumps([getattr(status, name) for name in _NAMES], separators=(",", ":"), default=to_plain)


def _unpacked(data: str) -> Status | None:
    """The status of a row; None if the row holds none."""
    try:
        values = json.loads(data)
        values[_STATE] = Phase(values[_STATE])
        values[_OWNER] = Owner(**values[_OWNER])
        return Status(*values) if len(values) == len(_NAMES) else None
    except (ValueError, TypeError, LookupError, RecursionError):
        return None
