"""A head start for a command that will start an engine: a zygote begins to import torch before all else.

The command line is only guessed at. A wrong guess costs a process that ends with the command; the engine uses
the zygote for the runs that it fits (`launcher.backends.zygotes`).
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..agent.warm.starting import Started, ZygoteKind, kind_of, start
from ..agent.warm.wanted import modules_of

ROOT = str(Path(__file__).resolve().parents[2])
_ELSEWHERE = ("--mode", "--master", "--remote", "--python", "--fresh", "--dry-run", "--help")
_SOURCE_BYTES = 1 << 20

_begun: list[Started] = []


def begin(words: Sequence[str]) -> None:
    """Start a zygote if the command will run a script with torch in an engine that does not exist yet."""
    try:
        if script := _script(words):
            modules = modules_of(script) or ()
            if "torch" in modules and not _has_engine():
                environ = {**os.environ, "PYTHONUNBUFFERED": "1"}
                _begun.append(start(kind_of(environ, modules), modules, ROOT))
    except (OSError, ValueError):  # the command itself will say what is wrong
        return


def take() -> Started | None:
    """What `begin` has started, to be handed to an engine; None if there is nothing, or it was taken."""
    return _begun.pop() if _begun else None


def to_document(started: Started) -> dict[str, Any]:
    """What an engine must know of it, besides the socket's descriptor, which it inherits."""
    kind = started.kind
    return {
        "pid": started.pid,
        "descriptor": started.line.fileno(),
        "python": kind.python,
        "environ": dict(kind.environ),
        "torch": kind.torch,
    }


def from_document(document: Mapping[str, Any]) -> Started:
    """The same in the engine."""
    environ = tuple(sorted(document["environ"].items()))
    line = socket.socket(fileno=document["descriptor"])
    line.set_inheritable(False)
    return Started(ZygoteKind(document["python"], environ, document["torch"]), document["pid"], line)


def _script(words: Sequence[str]) -> str:
    """The source of the script that ``rankdeck run`` is given; empty for any other command."""
    if words[:1] != ["run"] or any(word.partition("=")[0] in _ELSEWHERE for word in words):
        return ""
    path = next((word for word in words[1:] if word.endswith(".py") and os.path.isfile(word)), "")
    if not path:
        return ""
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read(_SOURCE_BYTES)


def _has_engine() -> bool:
    from ..runtime_dir import runtime_place

    known = runtime_place().glob("engine-*.sock")
    return any(True for _ in known)
