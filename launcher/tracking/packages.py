"""In which interpreter the packages of the trackers are installed that a run is to be written to."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from ..errors import SpecError
from ..spec.request import Request

LIMIT_S = 20.0
OLDEST = (3, 11)
_PROBE = """
import importlib.util, sys
missing = [name for name in sys.argv[1:] if not getattr(importlib.util.find_spec(name), "origin", None)]
print(sys.version_info[0], sys.version_info[1], *missing)
"""


def names(request: Request) -> list[str]:
    """The trackers that a run is to be written to; their packages have the same names."""
    return [word.partition("=")[0] for word in request.spec.track]


def require_trackers(request: Request) -> str:
    """The interpreter that has the packages of the run's trackers; empty if it has no trackers.

    Where ranks run on this machine, that is their own interpreter if it has them, else the caller's.

    Raises:
        SpecError: no interpreter has all of them.
    """
    wanted = names(request)
    if not wanted:
        return ""
    found = [_probe(python, wanted, around(request), request.spec.workdir) for python in _candidates(request)]
    chosen = next((each.python for each in found if not each.trouble), None)
    if chosen is None:
        raise SpecError(f"--track: {found[0].trouble}", hint=found[0].cure)
    return chosen


def around(request: Request) -> dict[str, str]:
    """The environment of the process that writes to trackers: the caller's, with the run's additions."""
    return {**request.environ, **request.spec.env}


def _candidates(request: Request) -> Iterator[str]:
    spec = request.spec
    if spec.python and spec.mode.traits.one_host:
        yield shutil.which(spec.python, path=around(request).get("PATH", os.defpath)) or spec.python
    if not spec.python or request.trackers_python != spec.python:
        yield request.trackers_python


@dataclass(frozen=True, slots=True)
class _Found:
    """Why an interpreter cannot be used, if it cannot, and what to do."""

    python: str
    trouble: str = ""
    cure: str = ""


def _probe(python: str, wanted: list[str], environ: Mapping[str, str], folder: str) -> _Found:
    """Look for packages without importing them."""
    try:
        done = subprocess.run(
            [python, "-P", "-c", _PROBE, *wanted],
            env=environ,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return _Found(python, f"{python} cannot be run: {getattr(error, 'strerror', None) or error}")
    words = done.stdout.split()
    if done.returncode or len(words) < len(OLDEST):
        lines = done.stderr.strip().splitlines()
        return _Found(python, f"{python} fails: {lines[-1] if lines else f'exit {done.returncode}'}")
    version, missing = tuple(map(int, words[:2])), words[2:]
    if version < OLDEST:
        return _Found(python, f"{python} is Python {words[0]}.{words[1]}, and 3.11 or newer is needed")
    if not missing:
        return _Found(python)
    what = f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed for {python}"
    return _Found(python, what, f"{python} -m pip install {' '.join(missing)}")
