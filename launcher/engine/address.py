"""Which engine a run goes to, and where that engine is: its key, socket, record and lock.

Runs without a Spark session share one engine. Runs on Spark share an engine if they can share a session: the
same master or server, the same settings, and the same Spark variables in their environments.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import re
import resource
import select
import socket
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .. import __version__, runtime_dir
from ..backends.spark.config import embedded_slots
from ..runs.files import write_whole
from ..runs.paths import is_run_id
from ..spec.redaction import redacted_text
from ..spec.request import Request


class EngineAddress:
    """The socket at `place` on which an engine listens.

    Raises:
        OSError: it cannot be bound; `EADDRINUSE` if another engine listens there.
    """

    def __init__(self, place: Path) -> None:
        self._place, self.folder = place, place.parent
        self._sock = runtime_dir.bind(place, socket.SOCK_STREAM)
        self._inode = place.lstat().st_ino

    def fileno(self) -> int:
        """For a selector."""
        return self._sock.fileno()

    def accept(self, clients: int) -> socket.socket | None:
        """The connection of a client of the same user, if one waits.

        Args:
            clients: how many clients are connected.

        Raises:
            OSError: there is no room for one more: most descriptors are kept for runs.
        """
        if clients >= resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 3:
            raise OSError(errno.EMFILE, "too many are connected")
        try:
            sock = self._sock.accept()[0]
        except (BlockingIOError, ConnectionError):
            return None
        if runtime_dir.peer(sock)[1] == os.getuid():
            return sock
        sock.close()
        return None

    def renew(self, identity: Mapping[str, Any]) -> bool:
        """Listen again if our socket's file is gone: the runtime folder is emptied when its user logs out.

        False only if another engine has taken the address. True means that clients find us, or that they will
        once the folder can be written again.
        """
        with contextlib.suppress(OSError):
            if self._is_ours():
                return True
            self.folder.mkdir(mode=0o700, exist_ok=True)
            with runtime_dir.locked(self._place.with_suffix(".lock"), wait=False) as free:
                if not free or self._place.exists():
                    return not free
                old, self._sock = self._sock, runtime_dir.bind(self._place, socket.SOCK_STREAM)
                self._inode = self._place.lstat().st_ino
                old.close()
            self.announce(identity)
        return True

    def _is_ours(self) -> bool:
        try:
            return self._place.lstat().st_ino == self._inode
        except FileNotFoundError:
            return False

    def announce(self, identity: Mapping[str, Any]) -> None:
        """Write the engine's identity beside the socket."""
        write_whole(self._place.with_suffix(".json"), json.dumps(identity).encode())

    def give_up(self) -> bool:
        """Remove the address, unless a client is about to connect: it holds the lock or waits."""
        try:
            with runtime_dir.locked(self._place.with_suffix(".lock"), wait=False) as free:
                if not free or select.select([self._sock], [], [], 0)[0]:
                    return False
                self.hide()
        except OSError:  # the folder is gone: no client can connect
            return True
        return True

    def hide(self) -> None:
        """Remove the socket's files, if they are still ours: another engine may have taken the address."""
        with contextlib.suppress(OSError):
            if self._is_ours():
                self._place.unlink(missing_ok=True)
                self._place.with_suffix(".json").unlink(missing_ok=True)

    def close(self) -> None:
        """Stop listening."""
        self.hide()
        self._sock.close()


def sweep_dead_engines(folder: Path, *, older_s: float = 60.0) -> None:
    """Remove the sockets of owners that were killed; a new one is left, because it may not listen yet."""
    for path in folder.glob("*.sock"):
        with contextlib.suppress(OSError):
            if time.time() - path.lstat().st_mtime < older_s:
                continue
            if is_run_id(path.stem) and runtime_dir.is_stale(path, socket.SOCK_SEQPACKET):
                path.unlink()
            elif path.stem.startswith("engine-"):
                _sweep_engine(path)


def _sweep_engine(path: Path) -> None:
    """Remove an engine's stale socket, under its lock: a client may be about to start that engine."""
    with runtime_dir.locked(path.with_suffix(".lock"), wait=False) as free:
        if free and runtime_dir.is_stale(path, socket.SOCK_STREAM):
            path.unlink()
            path.with_suffix(".json").unlink(missing_ok=True)


ROOT = str(Path(__file__).resolve().parents[2])
_SPARK_VARIABLES = re.compile(r"(SPARK|PYSPARK|HADOOP|YARN|KRB5|AWS|AZURE|GOOGLE)_|JAVA_HOME$|SLURM_JOB_ID$")
_PER_JOB = re.compile(r"SLURM_JOB_ID$")


@dataclass(frozen=True, slots=True)
class EngineKey:
    """What identifies an engine.

    Attributes:
        target: for people: ``local``, or the address of its Spark.
        version: of rankdeck.
        build: the state of rankdeck's own files; after a change, runs go to a new engine.
        digest: a hash of all that distinguishes it from the user's other engines, for its files' names.
    """

    target: str
    version: str
    build: str
    digest: str

    def lane(self, number: int) -> EngineKey:
        """The key of one of the engines side by side that have this key; the first is the key itself."""
        if not number:
            return self
        return replace(self, digest=hashlib.sha256(f"{self.digest} {number}".encode()).hexdigest()[:16])


def key_for(request: Request) -> EngineKey:
    """The key of the engine for a request."""
    spec = request.spec
    session = spec.mode.traits.keeps_session
    names = _SPARK_VARIABLES if session else _PER_JOB
    variables = {k: v for k, v in request.environ.items() if names.match(k)}
    facts: dict[str, Any] = {"around": variables, "host": os.uname().nodename, "world": _namespaces()}
    if session:
        spark = spec.spark
        facts |= {"master": spark.master, "remote": spark.remote, "conf": dict(spark.conf)}
        facts |= {"mode": spec.mode, "python": sys.executable}
        if not (spark.master or spark.remote):
            facts["slots"] = embedded_slots(spec.num_processes)
    address = spec.spark.remote or spec.spark.master or f"{spec.mode} by the environment"
    target = address if session else "local"
    target = redacted_text(target.partition(";")[0])  # it is shown, and is in the command line of the engine
    version, build = __version__, fingerprint()
    identity = json.dumps([target, version, build, ROOT, facts], sort_keys=True)
    return EngineKey(target, version, build, hashlib.sha256(identity.encode()).hexdigest()[:16])


def _namespaces() -> list[str]:
    """The kernel namespaces of this process: a container must not use an engine of another one."""
    return [os.readlink(f"/proc/self/ns/{kind}") for kind in ("net", "pid", "user")]


def fingerprint() -> str:
    """A hash of the sizes and times of our own files, which changes with an upgrade or an edit."""
    digest = hashlib.sha256()
    for folder, folders, files in os.walk(Path(ROOT, "launcher")):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(files):
            if name.endswith(".py"):
                found = os.stat(os.path.join(folder, name))
                digest.update(f"{name} {found.st_size} {found.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:12]
