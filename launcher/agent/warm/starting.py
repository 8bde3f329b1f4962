"""Starting a zygote, without waiting for it. Imports little: a command does it before anything else.

A zygote belongs to the process that starts it until another one takes it over, with the start's socket.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..first_code import ZYGOTE
from . import startup

NAME = "rankdeck-zygote"


# named tuples, because of all imports here `dataclasses` would be the longest
class ZygoteKind(NamedTuple):
    """Which runs a zygote fits.

    Attributes:
        python: the interpreter.
        environ: the variables that it and its imports read when they start.
        torch: whether it has imported torch.
    """

    python: str
    environ: tuple[tuple[str, str], ...]
    torch: bool


class Started(NamedTuple):
    """A zygote that may still be importing: its process, and its owner's end of its socket."""

    kind: ZygoteKind
    pid: int
    line: socket.socket


def kind_of(
    environ: Mapping[str, str], modules: Sequence[str], *, python: str = sys.executable
) -> ZygoteKind:
    """The kind of a run.

    Args:
        environ: the environment that all its ranks share.
        modules: what its target imports.
        python: its interpreter.
    """
    return ZygoteKind(python, tuple(sorted(startup.read_at_start(environ).items())), "torch" in modules)


def start(kind: ZygoteKind, modules: Sequence[str], root: str) -> Started:
    """Start a zygote with this process's environment, but for the variables of its kind.

    Args:
        kind: which runs it is for.
        modules: what it imports.
        root: the folder that holds `launcher`.

    Raises:
        OSError: there is no room for another process.
    """
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    output = os.memfd_create(NAME)
    null = os.open(os.devnull, os.O_RDONLY)
    own = {name: value for name, value in os.environ.items() if not startup.is_read_at_start(name)}
    argv = [kind.python, "-u", "-c", ZYGOTE, root, str(far.fileno()), str(os.getpid()), *modules]
    try:
        os.set_inheritable(far.fileno(), True)
        pid = os.posix_spawn(
            kind.python,
            argv,
            {**own, **dict(kind.environ), startup.THREADS: "1"},
            file_actions=[
                (os.POSIX_SPAWN_DUP2, source, target) for target, source in enumerate((null, output, output))
            ],
            setsid=True,
        )
    except OSError:
        near.close()
        raise
    finally:
        far.close()
        for descriptor in (output, null):
            os.close(descriptor)
    return Started(kind, pid, near)
