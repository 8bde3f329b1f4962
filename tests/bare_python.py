"""A Python that has Spark and torch and nothing else: what an executor can be expected to have."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOTS = ("pyspark", "torch")


def make(folder: Path) -> Path:
    """The interpreter of a virtual environment that borrows these packages and their requirements."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    place = folder / "lib" / version / "site-packages"
    for name in sorted(_closure(ROOTS)):
        for top in _top_level(name):
            target = Path(str(distribution(name).locate_file(top)))
            if target.exists() and not (place / top).exists():
                (place / top).symlink_to(target)
    return folder / "bin" / "python"


def _closure(roots: tuple[str, ...]) -> set[str]:
    """The distributions, and all that they require without an extra."""
    found: set[str] = set()
    queue = list(roots)
    while queue:
        name = queue.pop()
        try:
            requires = distribution(name).requires or []
        except PackageNotFoundError:
            continue
        if name not in found:
            found.add(name)
            parsed = (Requirement(text) for text in requires)
            queue += [r.name for r in parsed if r.marker is None or r.marker.evaluate({"extra": ""})]
    return found


def _top_level(name: str) -> set[str]:
    """What a distribution puts into site-packages, its own record included."""
    files = distribution(name).files or []
    return {file.parts[0] for file in files if file.parts[0] not in ("..", os.curdir)}
