"""One file of a run that opens anywhere: made, and unpacked as far as a command reads it.

A file may come from anybody: no name in it leads out of that folder, no link is made, and what it holds is
bounded before anything is written: by the size of the file itself and by the room that there is.
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
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import IO, BinaryIO

from launcher.errors import AgentLost, RecordError, RunNotFound, SpecError
from launcher.runs import files, paths
from launcher.runs.reader import read_spec
from launcher.runs.status import stored_status, write_status
from launcher.state.run_state import Phase

from ..formatting import number, size_text
from .report import report_page

PAGE = "report.html"
_PICKLES = (paths.TARGET, f"{paths.RESULT}/*.pickle")


def export(run: Path, out: Path, *, results: bool, logs: bool, force: bool) -> Path:
    """Write the file; where it is.

    Args:
        run: the run folder; of a run that goes on, what is there by now.
        out: the file, or a folder for it.
        results: whether pickles go along, which only their owner should open.
        logs: whether ranks' output does.
        force: whether a file that is there may be replaced.

    Raises:
        SpecError: the file is there.
        RecordError: it cannot be written, or the run not be read.
    """
    if out.is_dir():
        out = out / f"{run.name}.zip"
    if out.exists() and not force:
        raise _taken(out)
    partial = out.with_name(f".{out.name}.{os.getpid()}.partial")
    try:
        _pack(run, partial, results=results, logs=logs)
        _name(partial, out, force=force)
    except FileExistsError:
        raise _taken(out) from None
    except OSError as error:
        raise RecordError(f"cannot write {out}: {error.strerror or error}") from error
    finally:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
    return out


def left_out(run: Path, *, results: bool) -> str:
    """What of a run does not go along, in words; empty if nothing is withheld."""
    there = [path.relative_to(run) for path in files.files_below(run)]
    try:
        secrets = len(read_spec(run).withheld)
    except RecordError:
        secrets = 0
    pickles = 0 if results else sum(_fits(path, pattern) for path in there for pattern in _PICKLES)
    counts = ((secrets, "secret value"), (pickles, "pickle"))
    told = [number(count, what) for count, what in counts if count]
    return f"{' and '.join(told)} left out" if told else ""


def _taken(out: Path) -> SpecError:
    return SpecError(f"{out} is there already", hint="--force replaces it")


def _name(partial: Path, out: Path, *, force: bool) -> None:
    """Give the file its name, without taking it from another that came meanwhile."""
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


def _pack(run: Path, partial: Path, *, results: bool, logs: bool) -> None:
    private = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, paths.FILE_MODE)
    name = _id_of(run)
    with open(private, "wb") as file, zipfile.ZipFile(file, "w") as packed:
        for path in _members(run, results=results, logs=logs):
            try:
                source = files.open_file(run, path)
            except OSError:  # it was thinned or replaced meanwhile, or is not ours to read
                continue
            with source:
                _add(packed, source, f"{name}/{path.relative_to(run).as_posix()}")
        page = report_page(run, logs=logs).encode(errors="replace")
        packed.writestr(_entry(PAGE, time.time()), page)


def _id_of(run: Path) -> str:
    """The run's id, which its folder may not have kept."""
    stored = stored_status(run)
    known = stored is not None and paths.is_run_id(stored.id) and not paths.is_run_id(run.name)
    return stored.id if stored and known else run.name


def _members(run: Path, *, results: bool, logs: bool) -> Iterator[Path]:
    """The folder's files, in an order in which nothing promises what only came after it was read."""
    there = list(files.files_below(run))
    first = [run / name for name in (paths.STATUS, paths.EVENTS, paths.SPEC)]
    orders = [path for path in there if path.match(f"{paths.LOGS}/*/{paths.CHUNKS}")]
    left_out = [
        paths.RESERVE,
        paths.PRIVATE,
        *(() if results else _PICKLES),
        *(() if logs else [f"{paths.LOGS}/*/*"]),
    ]
    own = {path for path in there if not path.name.startswith(".")}
    for path in dict.fromkeys([*first, *orders, *there]):
        if path in own and not any(_fits(path.relative_to(run), pattern) for pattern in left_out):
            yield path


def _fits(path: Path, pattern: str) -> bool:
    """Whether the whole of a path has the form, part by part."""
    return len(path.parts) == pattern.count("/") + 1 and path.match(pattern)


def _add(packed: zipfile.ZipFile, source: BinaryIO, name: str) -> None:
    """A file as long as it is now; it may grow meanwhile."""
    found = os.fstat(source.fileno())
    entry = _entry(name, found.st_mtime)
    entry.file_size = found.st_size
    with packed.open(entry, "w") as target:
        _copy(source, target, found.st_size)


def _copy(source: IO[bytes], target: IO[bytes], size: int) -> None:
    """So many bytes, or fewer where there are no more."""
    while size > 0 and (block := source.read(min(size, _BLOCK))):
        target.write(block)
        size -= len(block)


def _entry(name: str, mtime: float) -> zipfile.ZipInfo:
    moment = time.localtime(max(mtime, 315_619_200.0))[:6]  # the format knows no time before 1980
    entry = zipfile.ZipInfo(name, moment)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = (0o100000 | paths.FILE_MODE) << 16
    return entry


COPIED = "this is a copy, made while the run went on: how it ended is not in it"
LOGS, PICKLES, ALL = "logs", "pickles", "all"
"""What a command may need beside what tells of a run."""

MOST_FILES = 200_000
SMALL = 256 << 20
"""So many bytes may always come out of a file; more of them only in proportion to what went in."""
RATIO = 100

_BLOCK = 1 << 20
_PREFIX = "rankdeck-run-"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ALWAYS = (paths.SPEC, paths.EVENTS, paths.STATUS, paths.SUMMARY)
_NEVER = frozenset({paths.PRIVATE, paths.RESERVE, "report.html"})
_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)


def unpack(file: Path, parts: Collection[str] = (ALL,)) -> Path:
    """The run folder that the file holds: what every command reads, and these parts.

    Raises:
        RunNotFound: it holds none.
        RecordError: it cannot be unpacked, or is larger than may be.
    """
    try:
        with zipfile.ZipFile(file) as packed:
            run = _run_in(packed, file)
            members = [m for m in packed.infolist() if _is_harmless(m, run) and _is_wanted(m, parts)]
            _check_size(members, file)
            scratch = _scratch()
            for member in members:
                _unpack_one(packed, member, scratch / member.filename)
    except (OSError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise RecordError(f"{file} cannot be unpacked: {error}") from error
    _conclude(scratch / run)
    return scratch / run


def _scratch() -> Path:
    """A folder that goes with this process; those that killed ones have left go now."""
    root = Path(tempfile.gettempdir())
    for left in root.glob(f"{_PREFIX}*"):
        _sweep(left)
    scratch = Path(tempfile.mkdtemp(prefix=_PREFIX))
    fcntl.flock(os.open(scratch, _FOLDER), fcntl.LOCK_EX)  # as long as this process lives
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    _leave_in_order()
    return scratch


def _sweep(left: Path) -> None:
    """Remove a folder of ours whose process is gone."""
    with suppress(OSError):
        lock = os.open(left, _FOLDER)
        try:
            if os.fstat(lock).st_uid == os.getuid():
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left, ignore_errors=True)
        finally:
            os.close(lock)


def _leave_in_order() -> None:
    """Let signals that would kill this process end it, so that what it unpacked goes too."""
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is signal.SIG_DFL:
                signal.signal(number, lambda signum, _frame: sys.exit(128 + signum))


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


def _check_size(members: Sequence[zipfile.ZipInfo], file: Path) -> None:
    """Refuse what would not fit, or what is only made to fill the disk.

    No member gives more bytes than it says, and members that share their bytes count as often as they are.
    """
    size, packed = sum(member.file_size for member in members), file.stat().st_size
    hint = "unpack it yourself, and give the folder"
    if len(members) > MOST_FILES:
        raise RecordError(f"{file} holds {len(members)} files: at most {MOST_FILES} are unpacked", hint=hint)
    if size > SMALL and size > RATIO * packed:
        told = f"{file} of {size_text(packed)} would be {size_text(size)} unpacked"
        raise RecordError(f"{told}: that is more than {RATIO} times its size", hint=hint)
    room = shutil.disk_usage(tempfile.gettempdir()).free // 2
    if size > room:
        told = f"{file} needs {size_text(size)} in {tempfile.gettempdir()}"
        raise RecordError(f"{told}, more than half of what is free there", hint="TMPDIR names another folder")


def _is_wanted(member: zipfile.ZipInfo, parts: Collection[str]) -> bool:
    """Whether it belongs to what is asked for."""
    inner = PurePosixPath(*PurePosixPath(member.filename).parts[1:])
    if str(inner) in _NEVER:
        return False
    if ALL in parts or str(inner) in _ALWAYS or inner.parts[:1] == (paths.SAMPLES,):
        return True
    kind = LOGS if inner.parts[:1] == (paths.LOGS,) else PICKLES if inner.suffix == ".pickle" else ALL
    return kind in parts


def _is_harmless(member: zipfile.ZipInfo, run: str) -> bool:
    """Whether it is a plain file of the run, below its folder."""
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
    """Write one file."""
    target.parent.mkdir(parents=True, exist_ok=True, mode=paths.FOLDER_MODE)
    descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, paths.FILE_MODE)
    with open(descriptor, "wb") as out, packed.open(member) as source:
        _copy(source, out, member.file_size)
