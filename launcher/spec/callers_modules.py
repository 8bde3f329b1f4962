"""Where the caller of a run has a module, found without importing anything: ranks elsewhere may lack it."""

from __future__ import annotations

import os
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path

from .request import Request
from .source import find_module


def callers_module(request: Request, name: str) -> ModuleSpec | None:
    """A module that the caller can import; None if none is known.

    What is installed is known only for a caller with this process's interpreter.
    """
    if not all(part.isidentifier() for part in name.split(".")):
        return None
    spec, target = request.spec, request.spec.target
    folder = Path(target.source).parent if target.is_file else Path(spec.workdir)
    named = [each for each in request.environ.get("PYTHONPATH", "").split(os.pathsep) if each]
    workdir = Path(spec.workdir) / folder
    try:
        found = find_module(name, workdir, path=[*request.path, *named])
        if found is None and request.trackers_python == sys.executable:
            found = find_module(name, workdir)
    except (OSError, ValueError, ImportError):  # of what a foreign name leads to
        return None
    return found
