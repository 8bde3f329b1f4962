"""Records of this user's sessions and of the runs that wait for slots, for the user's other processes.

They lie in the runtime folder, and count as long as the process lives that wrote them. They are a help only:
one that cannot be written or read is as none.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ... import runtime_dir
from ...errors import LauncherError
from ...runs.files import write_whole
from ...runs.status import process_start

_SESSION, _WAIT = "session", "waiting"
_BYTES = 1 << 16


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """A session that an engine keeps: its application, its engine's pid, and the ids of its runs."""

    application: str
    pid: int
    runs: tuple[str, ...] = ()


def write_session(application: str, runs: tuple[str, ...]) -> None:
    """Record this process's session and its runs; none if it is idle."""
    _write(_SESSION, "", {"application": application, "runs": runs})


def remove_session() -> None:
    """Remove the record of this process's session."""
    _remove(_SESSION, "")


def sessions() -> dict[str, SessionRecord]:
    """The sessions of this user's engines, by application."""
    found = {}
    for pid, fields in _read(_SESSION):
        application, runs = fields.get("application"), fields.get("runs")
        if isinstance(application, str) and isinstance(runs, list):
            found[application] = SessionRecord(application, pid, tuple(map(str, runs)))
    return found


@dataclass(slots=True)
class Wait:
    """A run of this process that waits for slots, on record from `write` to the end of the `with` block."""

    run: str
    master: str
    application: str

    def write(self) -> None:
        """Record it."""
        _write(_WAIT, self.run, asdict(self))

    def __enter__(self) -> Wait:
        return self

    def __exit__(self, *_: object) -> None:
        _remove(_WAIT, self.run)


def waiting_runs(master: str, application: str) -> list[str]:
    """The ids of this user's runs that wait for slots of a master, but not in this application."""
    return [
        str(fields.get("run"))
        for _, fields in _read(_WAIT)
        if fields.get("master") == master and fields.get("application") != application
    ]


def _path(kind: str, name: str) -> Path:
    return runtime_dir.runtime_folder() / f"{kind}-{name}{'-' if name else ''}{os.getpid()}.json"


def _write(kind: str, name: str, fields: dict[str, Any]) -> None:
    with contextlib.suppress(OSError, LauncherError):
        document = {**fields, "start": process_start(os.getpid())}
        write_whole(_path(kind, name), json.dumps(document).encode())


def _remove(kind: str, name: str) -> None:
    with contextlib.suppress(OSError, LauncherError):
        _path(kind, name).unlink(missing_ok=True)


def _read(kind: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """The records of a kind, each with its process's id; those of processes that are gone are removed."""
    for path in runtime_dir.runtime_place().glob(f"{kind}-*.json"):
        with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
            pid, fields = int(path.stem.rpartition("-")[2]), json.loads(path.read_bytes()[:_BYTES])
            if fields["start"] is not None and fields["start"] == process_start(pid):
                yield pid, fields
            else:
                path.unlink(missing_ok=True)
