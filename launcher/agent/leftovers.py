"""What an agent's ranks leave on its host besides processes: its folder, and segments of shared memory.

The agent removes them, or its warden if the agent is killed. So the warden must find them without being told:
the folder by a name chosen before the fork, the segments by a note in that folder.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

NAME = f"rankdeck-{os.urandom(6).hex()}"
_USUAL = ("/tmp", "/var/tmp")
_NOTE = "shared-memory"
_SHORT = 37  # Ray adds 70
_SEGMENTS = Path("/dev/shm")  # where glibc's shm_open has them


def rename() -> None:
    """Choose another name, in the fork of a process that may have chosen one."""
    global NAME
    NAME = f"rankdeck-{os.urandom(6).hex()}"


def make_folder(environ: Mapping[str, str]) -> str:
    """Make a folder that only its owner may read, in Spark's scratch space or else in the usual place.

    Args:
        environ: the environment that names those places.

    Raises:
        OSError: it can be made nowhere.
    """
    return _make_one(map(_own, _places(environ)))


def scratch_place(environ: Mapping[str, str]) -> str:
    """The first of the places where `make_folder` tries to make one."""
    return next(_places(environ))


def make_short_folder(environ: Mapping[str, str]) -> str:
    """The same with a path that leaves room for the names of Unix sockets, of 107 bytes in all.

    Raises:
        OSError: it can be made nowhere.
    """
    folders = [_own(place) for place in (environ.get("TMPDIR", ""), *_USUAL) if os.path.isabs(place)]
    short = [folder for folder in folders if len(os.fsencode(folder)) <= _SHORT]
    made = next(filter(os.path.isdir, short), "")  # by `make_folder`: nobody else knows the name
    return made or _make_one(short, " with a short path")


def _own(place: str) -> str:
    return os.path.join(os.path.realpath(place), NAME)


def _make_one(folders: Iterable[str], wanted: str = "") -> str:
    """Make the first folder that can be made."""
    refused: OSError | None = None
    for folder in folders:
        try:
            os.mkdir(folder, 0o700)
        except OSError as error:
            refused = error
        else:
            return folder
    raise refused or FileNotFoundError(f"no folder for temporary files{wanted}")


def note_segments(folder: str, pattern: str) -> None:
    """Note in the agent's folder which segments its ranks will leave."""
    Path(folder, _NOTE).write_text(pattern, encoding="utf-8")


def remove_segments(pattern: str) -> None:
    """Remove this user's segments of shared memory whose names match; an empty pattern matches none."""
    for segment in _SEGMENTS.glob(pattern) if pattern else ():
        with contextlib.suppress(OSError):  # another user's, or gone
            if segment.stat().st_uid == os.geteuid():
                segment.unlink()


def clear(environ: Mapping[str, str]) -> None:
    """Remove the folder that `make_folder` made, and the segments that it has a note of."""
    for place in _places(environ):
        folder = Path(place, NAME)
        # most folders have no note, and one that a rank has spoiled must not keep the folder
        with contextlib.suppress(OSError, ValueError, NotImplementedError):
            remove_segments((folder / _NOTE).read_text(encoding="utf-8"))
        shutil.rmtree(folder, ignore_errors=True)


def _places(environ: Mapping[str, str]) -> Iterator[str]:
    """Where folders may be made. Spark cleans up its own directories; only absolute names count."""
    spark = environ.get("SPARK_EXECUTOR_DIRS", "").split(os.pathsep)
    return filter(os.path.isabs, (*spark, environ.get("TMPDIR", ""), *_USUAL))
