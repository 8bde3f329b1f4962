"""An exported run, unpacked into a private folder that goes when this process ends.

A file may come from anybody: no name in it leads out of that folder, no link is made, and what it holds
is bounded.
"""

from __future__ import annotations

import atexit
import os
import shutil
import stat
import tempfile
import zipfile
import zlib
from dataclasses import replace
from pathlib import Path, PurePosixPath

from launcher.errors import AgentLost, RecordError, RunNotFound
from launcher.runs import paths
from launcher.runs.status import stored_status, write_status
from launcher.state import Phase

COPIED = "this is a copy, made while the run went on: how it ended is not in it"
MOST_BYTES = 16 << 30
MOST_FILES = 200_000
_BLOCK = 1 << 20


def unpack(file: Path, most_bytes: int = MOST_BYTES) -> Path:
    """The run folder that the file holds.

    Raises:
        RunNotFound: it holds none.
        RecordError: it cannot be unpacked, or is larger than may be.
    """
    scratch = tempfile.mkdtemp(prefix="rankdeck-")
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    try:
        with zipfile.ZipFile(file) as packed:
            run = _run_in(packed, file)
            _unpack_all(packed, run, Path(scratch), most_bytes)
    except (OSError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise RecordError(f"{file} cannot be unpacked: {error}") from error
    _conclude(Path(scratch, run))
    return Path(scratch, run)


def _conclude(copy: Path) -> None:
    """Nobody goes on writing here: what was not over when it was packed never will be."""
    status = stored_status(copy)
    if status is not None and not status.state.final:
        write_status(copy, replace(status, state=Phase.LOST, exit_code=AgentLost.exit_code, why=COPIED))


def _run_in(packed: zipfile.ZipFile, file: Path) -> str:
    """The name of the one folder of a run."""
    names = {PurePosixPath(name).parts for name in packed.namelist()}
    runs = [parts[0] for parts in names if parts[1:] == (paths.EVENTS,) and paths.is_run_id(parts[0])]
    if len(runs) != 1:
        raise RunNotFound(f"{file} holds {'no run' if not runs else f'{len(runs)} runs'}")
    return runs[0]


def _unpack_all(packed: zipfile.ZipFile, run: str, scratch: Path, most_bytes: int) -> None:
    members = [m for m in packed.infolist() if not m.is_dir() and _is_harmless(m, run)]
    if len(members) > MOST_FILES:
        raise RecordError(f"{packed.filename} holds {len(members)} files: at most {MOST_FILES} are unpacked")
    left = most_bytes
    for member in members:
        target = scratch / member.filename
        target.parent.mkdir(parents=True, exist_ok=True, mode=paths.FOLDER_MODE)
        left -= _unpack_one(packed, member, target, left)


def _is_harmless(member: zipfile.ZipInfo, run: str) -> bool:
    """Whether it is a plain file of the run, below its folder."""
    parts = PurePosixPath(member.filename).parts
    kind = stat.S_IFMT(member.external_attr >> 16)
    return (
        parts[:1] == (run,)
        and ".." not in parts
        and "\\" not in member.filename
        and kind in (0, stat.S_IFREG)
    )


def _unpack_one(packed: zipfile.ZipFile, member: zipfile.ZipInfo, target: Path, left: int) -> int:
    """Write one file of at most `left` bytes; its length."""
    size = 0
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, paths.FILE_MODE)
    with open(descriptor, "wb") as out, packed.open(member) as source:
        while block := source.read(_BLOCK):
            size += len(block)
            if size > left:
                raise RecordError(f"{packed.filename} holds more than may be unpacked")
            out.write(block)
    return size
