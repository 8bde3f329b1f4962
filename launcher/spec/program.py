"""Targets that Python does not read: programs that may be executed, by a path or by a name on PATH."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from ..errors import SpecError
from .source import find_module

_HEAD = 512


def find_program(text: str, workdir: Path) -> str | None:
    """The path of a program, or its name if it is found on PATH; None if the text names no program.

    Raises:
        SpecError: it names a file that is neither Python nor may be executed.
    """
    path = Path(os.path.abspath(workdir / os.path.expanduser(text)))
    if path.suffix == ".py":
        return None
    if path.is_file():
        _require_executable(path, text)
        return str(path)
    is_name = text.isprintable() and not {"/", " "} & {*text} and not path.exists()
    return text if is_name and not _is_python(text, workdir) and shutil.which(text) is not None else None


def _is_python(name: str, workdir: Path) -> bool:
    """Whether a name without a suffix is that of a Python file or module, which is meant more often."""
    is_module = name.isidentifier() and find_module(name, workdir) is not None
    return is_module or (workdir / f"{name}.py").is_file()


def _require_executable(path: Path, text: str) -> None:
    """Refuse a file that the kernel would not execute.

    Raises:
        SpecError: it may not be executed, or it is a text that does not say by what.
    """
    if path.suffix == ".ipynb":
        raise SpecError(
            f"{text} is a notebook, which is no program",
            hint="launch from its cells (rankdeck help notebooks), or make it a script: "
            f"jupyter nbconvert --to script {text}",
        )
    if not os.access(path, os.X_OK):
        hint = f"is it a program? chmod +x {text}"
        raise SpecError(f"{text} is not a Python file, and may not be executed", hint=hint)
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD)
    except OSError:  # one may execute what one may not read
        return
    if not head.startswith(b"#!") and b"\0" not in head:
        raise SpecError(
            f"{text} does not say what executes it", hint="begin it with a line such as #!/bin/bash"
        )
