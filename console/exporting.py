"""One file of a run that opens anywhere: its folder as it is, and a page for any browser."""

from __future__ import annotations

import contextlib
import os
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from console.report_page import report_page
from launcher.errors import RecordError, SpecError
from launcher.runs import opening, paths
from launcher.runs.reader import read_spec
from launcher.runs.status import stored_status

PAGE = "report.html"
_BLOCK = 1 << 20
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
    there = [path.relative_to(run) for path in opening.files_below(run)]
    try:
        secrets = len(read_spec(run).withheld)
    except RecordError:
        secrets = 0
    pickles = 0 if results else sum(_fits(path, pattern) for path in there for pattern in _PICKLES)
    counts = ((secrets, "secret value"), (pickles, "pickle"))
    told = [f"{count} {what}{'s' * (count != 1)}" for count, what in counts if count]
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
                source = opening.open_file(run, path)
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
    there = list(opening.files_below(run))
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
    entry.file_size = left = found.st_size
    with packed.open(entry, "w") as target:
        while left and (block := source.read(min(left, _BLOCK))):
            target.write(block)
            left -= len(block)


def _entry(name: str, mtime: float) -> zipfile.ZipInfo:
    moment = time.localtime(max(mtime, 315_619_200.0))[:6]  # the format knows no time before 1980
    entry = zipfile.ZipInfo(name, moment)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = (0o100000 | paths.FILE_MODE) << 16
    return entry
