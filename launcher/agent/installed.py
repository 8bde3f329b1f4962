"""What an interpreter has: Python, torch, CUDA, NCCL, and whether modules can be found. Imports none of them.

Run as a program of another interpreter, it reads its questions from standard input and answers in JSON.
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from importlib import metadata

from ..serialization import from_plain, to_plain
from ..state.host_facts import Installed
from .torch_build import torch_cuda, torch_version

PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from launcher.agent import installed; installed.main()"
)
_NCCL = ("nvidia-nccl-cu13", "nvidia-nccl-cu12", "nvidia-nccl-cu11")


def main() -> None:
    """Answer for this interpreter."""
    asked = json.load(sys.stdin)
    own = look(asked["modules"], asked["folders"])
    sys.stdout.write(json.dumps(to_plain(own)))


def ask(python: str, root: str, modules: Sequence[str], folders: Sequence[str], limit_s: float) -> Installed:
    """The answer of another interpreter; `root` is the folder or zip that holds `launcher`."""
    asked = json.dumps({"modules": list(modules), "folders": list(folders)})
    try:
        done = subprocess.run(
            [python, "-P", "-c", PROGRAM, root],
            input=asked,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=limit_s,
            check=False,
        )
        return from_plain(Installed, json.loads(done.stdout))
    except OSError as error:
        return Installed(trouble=f"{python} cannot be started: {error.strerror}")
    except subprocess.TimeoutExpired:
        return Installed(trouble=f"{python} has not answered within {limit_s:.3g} s")
    except ValueError:
        said = (done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[-1]
        return Installed(trouble=f"{python} cannot be asked: {said:.200}")


def look(modules: Iterable[str], folders: Sequence[str] = ()) -> Installed:
    """What this interpreter has; ranks import from `folders` too."""
    return Installed(
        python=".".join(map(str, sys.version_info[:3])),
        torch=torch_version(),
        cuda=torch_cuda(),
        nccl=next(filter(None, map(version_of, _NCCL)), ""),
        modules={name: can_find(name, folders) for name in modules},
    )


def version_of(package: str) -> str:
    """The version of an installed package; empty if there is none."""
    try:
        return metadata.version(package) or ""  # None for a half-removed package
    except metadata.PackageNotFoundError:
        return ""


def can_find(name: str, folders: Sequence[str] = ()) -> bool:
    """Whether a top-level module can be found; nothing is imported."""
    if name in sys.builtin_module_names:
        return True
    try:
        found = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):  # of a module that has replaced itself
        found = None
    return found is not None or importlib.machinery.PathFinder.find_spec(name, list(folders)) is not None
