"""Export of a run as one .zip file, and unpacking the parts of such a file that a command reads.

A file may come from anybody: names that lead out of its folder and links are ignored, and before anything is
written, its unpacked size is checked against the size of the file and the free space.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import shutil
import signal
import stat
import sys
import tempfile
import threading
import time
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO

from launcher.errors import AgentLost, RecordError, RunNotFound, SpecError, size_text
from launcher.runs import files, paths
from launcher.runs.reader import read_spec
from launcher.runs.status import stored_status, write_status
from launcher.state.outcome_rules import listed
from launcher.state.run_state import Phase

from ..formatting import number
from .report import report_page

PAGE = "report.html"
_PICKLES = (paths.TARGET, f"{paths.RESULT}/*.pickle")


def export(run: Path, out: Path, *, results: bool, logs: bool, force: bool) -> Path:
    """Write a run's file, and return its path.

    Args:
        run: the run's folder; of a run that goes on, its current content is exported.
        out: the file, or a folder for it.
        results: whether to include pickles, which only their owner should open.
        logs: whether to include ranks' output.
        force: whether an existing file may be replaced.

    Raises:
        SpecError: the file exists.
        RecordError: the file cannot be written, or the run cannot be read.
    """
    if out.is_dir():
        out = out / f"{run.name}.zip"
    return write_archive(out, lambda packed: _pack(run, packed, results=results, logs=logs), force=force)


def write_archive(out: Path, pack: Callable[[zipfile.ZipFile], None], *, force: bool) -> Path:
    """Write a .zip file, readable by its owner alone; nothing is left of one that failed.

    Args:
        out: the file.
        pack: adds its content.
        force: whether an existing file may be replaced.

    Raises:
        SpecError: the file exists.
        RecordError: the file cannot be written.
    """
    if out.exists() and not force:
        raise _exists(out)
    partial = out.with_name(f".{out.name}.{os.getpid()}.partial")
    try:
        private = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, paths.FILE_MODE)
        with open(private, "wb") as file, zipfile.ZipFile(file, "w") as packed:
            pack(packed)
        _rename(partial, out, force=force)
    except FileExistsError:
        raise _exists(out) from None
    except OSError as error:
        raise RecordError(f"cannot write {out}: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
    return out


def left_out(run: Path, *, results: bool) -> str:
    """A sentence on what an export leaves out; empty if nothing."""
    paths_in_run = [path.relative_to(run) for path in files.files_below(run)]
    try:
        secrets = len(read_spec(run).withheld)
    except RecordError:
        secrets = 0
    kept = sum(path.parts[0] == paths.ARTIFACTS for path in paths_in_run)
    pickles = 0 if results else sum(_matches(path, pattern) for path in paths_in_run for pattern in _PICKLES)
    counts = ((secrets, "secret value"), (pickles, "pickle"), (kept, "artifact"))
    parts = [number(count, what) for count, what in counts if count]
    return f"{listed(parts)} left out" if parts else ""


def _exists(out: Path) -> SpecError:
    return SpecError(f"{out} is there already", hint="--force replaces it")


def _rename(partial: Path, out: Path, *, force: bool) -> None:
    """Give the file its name; without `force`, a file that was created meanwhile is not replaced."""
    if not force:
        try:
            os.link(partial, out)
        except FileExistsError:
            raise
        except OSError:  # a file system without links
            pass
        else:
            return
    partial.replace(out)


def _pack(run: Path, packed: zipfile.ZipFile, *, results: bool, logs: bool) -> None:
    name = run_id(run)
    for path in _members(run, results=results, logs=logs):
        add_file(packed, run, path, f"{name}/{path.relative_to(run).as_posix()}")
    add_text(packed, PAGE, report_page(run, logs=logs))


def add_file(packed: zipfile.ZipFile, run: Path, path: Path, name: str) -> None:
    """Add a file of a run; one that was thinned or replaced meanwhile, or cannot be read, is left out."""
    try:
        source = files.open_file(run, path)
    except OSError:
        return
    with source:
        _add(packed, source, name)


def add_text(packed: zipfile.ZipFile, name: str, text: str) -> None:
    """Add a text as a file of its own."""
    packed.writestr(_entry(name, time.time()), text.encode(errors="replace"))


def run_id(run: Path) -> str:
    """The run's id, also if its folder was renamed."""
    stored = stored_status(run)
    renamed = stored is not None and paths.is_run_id(stored.id) and not paths.is_run_id(run.name)
    return stored.id if stored and renamed else run.name


def _members(run: Path, *, results: bool, logs: bool) -> Iterator[Path]:
    """The files to pack, ordered so that a file that refers to another's content is read before it."""
    present = list(files.files_below(run))
    first = [run / name for name in (paths.STATUS, paths.EVENTS, paths.SPEC)]
    chunk_files = [path for path in present if path.match(f"{paths.LOGS}/*/{paths.CHUNKS}")]
    left_out = [
        paths.RESERVE,
        paths.PRIVATE,
        *(() if results else _PICKLES),
        *(() if logs else [f"{paths.LOGS}/*/*"]),
    ]
    visible = {path for path in present if not path.name.startswith(".")}
    for path in dict.fromkeys([*first, *chunk_files, *present]):
        if path.relative_to(run).parts[0] == paths.ARTIFACTS:
            continue  # they may be large, and `rankdeck artifacts` copies them
        if path in visible and not any(_matches(path.relative_to(run), pattern) for pattern in left_out):
            yield path


def _matches(path: Path, pattern: str) -> bool:
    """Whether the whole path matches the pattern, part by part."""
    return len(path.parts) == pattern.count("/") + 1 and path.match(pattern)


def _add(packed: zipfile.ZipFile, source: BinaryIO, name: str) -> None:
    """Add a file up to its current size; it may grow meanwhile."""
    status = os.fstat(source.fileno())
    entry = _entry(name, status.st_mtime)
    entry.file_size = status.st_size
    with packed.open(entry, "w") as target:
        _copy(source, target, status.st_size)


def _copy(source: IO[bytes], target: IO[bytes], size: int) -> None:
    """Copy `size` bytes, or fewer if the source ends before."""
    while size > 0 and (block := source.read(min(size, _BLOCK))):
        target.write(block)
        size -= len(block)


def _entry(name: str, mtime: float) -> zipfile.ZipInfo:
    moment = time.localtime(max(mtime, 315_619_200.0))[:6]  # the format has no times before 1980
    entry = zipfile.ZipInfo(name, moment)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = (0o100000 | paths.FILE_MODE) << 16
    return entry


COPIED = "this is a copy, made while the run went on: how it ended is not in it"
LOGS, PICKLES, ALL = "logs", "pickles", "all"
"""The parts of a file that a command may need beside the run's facts."""

MAX_FILES = 200_000
SMALL = 256 << 20
"""Files that unpack to at most this many bytes are always accepted."""
RATIO = 100
"""Larger files may unpack to at most this many times their own size."""

_BLOCK = 1 << 20
_PREFIX = "rankdeck-run-"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ALWAYS = (paths.SPEC, paths.EVENTS, paths.STATUS, paths.SUMMARY, paths.ARTIFACT_INDEX, paths.USAGE)
_NEVER = frozenset({paths.PRIVATE, paths.RESERVE, "report.html"})
_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def unpack(file: Path, parts: Collection[str] = (ALL,)) -> Path:
    """Unpack what every command reads, and the given parts, and return the run's folder.

    Raises:
        RunNotFound: the file holds no run, or several.
        RecordError: the file cannot be unpacked, or is too large.
    """
    try:
        with zipfile.ZipFile(file) as packed:
            run = _run_in(packed, file)
            members = [m for m in packed.infolist() if _is_harmless(m, run) and _is_in(parts, m)]
            _check_size(members, file)
            scratch = _temporary_folder()
            for member in members:
                _unpack_one(packed, member, scratch / member.filename)
    except (OSError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise RecordError(f"{file} cannot be unpacked: {error}") from error
    _mark_copy_ended(scratch / run)
    return scratch / run


def _temporary_folder() -> Path:
    """Create a folder that is removed when this process exits; remove those that killed processes left."""
    root = Path(tempfile.gettempdir())
    for stale in root.glob(f"{_PREFIX}*"):
        _remove_stale(stale)
    scratch = Path(tempfile.mkdtemp(prefix=_PREFIX))
    fcntl.flock(os.open(scratch, _FOLDER), fcntl.LOCK_EX)  # held while this process lives
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    _exit_on_signals()
    return scratch


def _remove_stale(folder: Path) -> None:
    """Remove one of our folders if the process that created it is gone: its lock is then free."""
    with suppress(OSError):
        lock = os.open(folder, _FOLDER)
        try:
            if os.fstat(lock).st_uid == os.getuid():
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
        finally:
            os.close(lock)


def _exit_on_signals() -> None:
    """Turn signals that would kill this process into an exit, so that the folder is removed."""
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, lambda signum, _frame: sys.exit(128 + signum))


def _mark_copy_ended(copy: Path) -> None:
    """Mark a run that had not ended when it was packed as lost: nothing continues the copy."""
    status = stored_status(copy)
    if status is not None and not status.state.final:
        write_status(copy, replace(status, state=Phase.LOST, exit_code=AgentLost.exit_code, why=COPIED))


def _run_in(packed: zipfile.ZipFile, file: Path) -> str:
    """The name of the only run's folder in the file."""
    names = {PurePosixPath(name).parts for name in packed.namelist()}
    runs = [parts[0] for parts in names if parts[1:] == (paths.EVENTS,) and paths.is_run_id(parts[0])]
    if len(runs) != 1:
        raise RunNotFound(f"{file} holds {'no run' if not runs else f'{len(runs)} runs'}")
    return runs[0]


def _check_size(members: Sequence[zipfile.ZipInfo], file: Path) -> None:
    """Refuse files that would not fit, or that are made to fill the disk.

    The declared sizes can be trusted: no more bytes of a member are copied, and members that share their
    packed bytes all count.
    """
    size, packed = sum(member.file_size for member in members), file.stat().st_size
    hint = "unpack it yourself, and give the folder"
    if len(members) > MAX_FILES:
        raise RecordError(f"{file} holds {len(members)} files: at most {MAX_FILES} are unpacked", hint=hint)
    if size > SMALL and size > RATIO * packed:
        sizes = f"{file} of {size_text(packed)} would be {size_text(size)} unpacked"
        raise RecordError(f"{sizes}: that is more than {RATIO} times its size", hint=hint)
    room = shutil.disk_usage(tempfile.gettempdir()).free // 2
    if size > room:
        need = f"{file} needs {size_text(size)} in {tempfile.gettempdir()}"
        raise RecordError(f"{need}, more than half of what is free there", hint="TMPDIR names another folder")


def _is_in(parts: Collection[str], member: zipfile.ZipInfo) -> bool:
    """Whether a member is always unpacked or belongs to one of the parts."""
    inner = PurePosixPath(*PurePosixPath(member.filename).parts[1:])
    if str(inner) in _NEVER:
        return False
    if ALL in parts or str(inner) in _ALWAYS or inner.parts[0] in (paths.SAMPLES, paths.CURVES):
        return True
    kind = LOGS if inner.parts[:1] == (paths.LOGS,) else PICKLES if inner.suffix == ".pickle" else ALL
    return kind in parts


def _is_harmless(member: zipfile.ZipInfo, run: str) -> bool:
    """Whether a member is a regular file of the run, below its folder."""
    parts = PurePosixPath(member.filename).parts
    kind = stat.S_IFMT(member.external_attr >> 16)
    if member.is_dir() or member.compress_type not in _PACKINGS:
        return False
    return (
        parts[:1] == (run,)
        and ".." not in parts
        and "\\" not in member.filename
        and kind in (0, stat.S_IFREG)
    )


def _unpack_one(packed: zipfile.ZipFile, member: zipfile.ZipInfo, target: Path) -> None:
    """Write one member to its file."""
    target.parent.mkdir(parents=True, exist_ok=True, mode=paths.FOLDER_MODE)
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, paths.FILE_MODE)
    with open(descriptor, "wb") as out, packed.open(member) as source:
        _copy(source, out, member.file_size)
