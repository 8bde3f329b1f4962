"""Which torch this interpreter would import, and the CUDA that it was built for. Torch is not imported."""

from __future__ import annotations

import os
import re
from functools import cache

_CUDA = re.compile(r"""^cuda\b[^=\n]*=\s*(?P<q>['"])([\w.]{1,32})(?P=q)""", re.MULTILINE)
_VERSION_BYTES = 4096


@cache
def torch_version() -> str:
    """The version of torch; empty if there is none."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("torch") or ""  # None for a half-removed package
    except PackageNotFoundError:
        return ""


@cache
def torch_cuda() -> str:
    """The version of CUDA that torch was built for; empty without CUDA, or without torch."""
    from importlib.util import find_spec

    try:
        spec = find_spec("torch")
        for folder in (spec and spec.submodule_search_locations) or ():
            with open(os.path.join(folder, "version.py"), encoding="utf-8", errors="replace") as file:
                found = _CUDA.search(file.read(_VERSION_BYTES))
            return found[2] if found else ""
    except (OSError, ImportError, ValueError, AttributeError):  # of a module that has replaced itself, too
        return ""
    return ""
