"""Tell the code of libraries from the user's own, by the paths of its files. Pure."""

from __future__ import annotations

import re

# What `--py-files` brings is in a zip too, and is the user's: of zips, only ours, Spark's and Python's count.
_LIBRARY = (
    r"(?:.*/(?:site|dist)-packages/|.*/lib(?:64)?/(?:python|pypy)3[\d.]*[a-z]*/|.*/python3\d+\.zip/|<frozen "
    r"|.*\.zip/(?=(?:launcher|rankdeck|cloudpickle|pynvml|pyspark|py4j)\b))(?P<module>[^>]*)>?"
)


def library_path(file: str) -> str:
    """A file of an installed package or of Python itself, from its package on; empty for the user's code.

    That is ``torch/nn/modules/linear.py``, or ``importlib._bootstrap`` for ``<frozen importlib._bootstrap>``.
    """
    found = re.fullmatch(_LIBRARY, file)  # compiled when first asked for: most ranks never fail
    return found["module"] if found else ""


def is_library(file: str) -> bool:
    """Whether a file is one of an installed package or of Python itself."""
    return bool(library_path(file))
