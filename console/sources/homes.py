"""Paths as people write them: what lies in one's home folder begins with ``~``."""

from __future__ import annotations

import os
from os import PathLike


def tilde(path: str | PathLike[str]) -> str:
    """The path, with ``~`` for the home folder at its start."""
    home, text = os.path.expanduser("~").rstrip(os.sep), os.fspath(path)
    inside = home and (text == home or text.startswith(home + os.sep))
    return f"~{text[len(home) :]}" if inside else text
