"""The folders that an agent may need on its host, by names that its warden knows too.

Whoever of the two is left removes it: the agent when it ends, the warden when the agent was killed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping

# Made where the agent and its warden are still one process, and by nobody twice.
NAME = f"rankdeck-{os.urandom(8).hex()}"
_USUAL = ("/tmp", "/var/tmp")

SOURCES = ""


def make(environ: Mapping[str, str], part: str = SOURCES) -> str:
    """Make a folder, readable by its owner alone: on Spark's own scratch space, or else in the usual place.

    Args:
        environ: what says where that is.
        part: what the folder is for: a target's sources.

    Raises:
        OSError: there is no place where it could be.
    """
    refused: OSError | None = None
    for place in _places(environ):
        folder = os.path.join(os.path.realpath(place), NAME + part)
        try:
            os.mkdir(folder, 0o700)
        except OSError as error:
            refused = error
        else:
            return folder
    raise refused or FileNotFoundError("no folder for temporary files")


def clear(environ: Mapping[str, str], *parts: str) -> None:
    """Remove folders with all that is in them, if they were made."""
    for place in _places(environ):
        for part in parts:
            shutil.rmtree(os.path.join(place, NAME + part), ignore_errors=True)


def _places(environ: Mapping[str, str]) -> Iterator[str]:
    """Where it may be. Spark clears its own directories away; their names are absolute."""
    spark = environ.get("SPARK_EXECUTOR_DIRS", "").split(os.pathsep)
    return filter(os.path.isabs, (*spark, environ.get("TMPDIR", ""), *_USUAL))
