"""Which engine a run goes to, and where that engine is: its key, socket, record and lock.

Runs without a session share one. Runs on Spark share one where they share a session: the same master or
server, the same settings, and the same words about Spark in their environments.
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import __version__, runtime_dir
from ..backends.spark.config import embedded_slots
from ..runs.files import write_whole
from ..runs.paths import is_run_id
from ..spec.redaction import redacted_text
from ..spec.request import Request


class EngineAddress:
    """Listens at `place`.

    Raises:
        OSError: it cannot; `EADDRINUSE` where another engine does.
    """

    def __init__(self, place: Path) -> None:
        self._place, self.folder = place, place.parent
        self._sock = runtime_dir.bind(place, socket.SOCK_STREAM)
        self._inode = place.lstat().st_ino

    def fileno(self) -> int:
        """For a selector."""
        return self._sock.fileno()

    def accept(self, clients: int) -> socket.socket | None:
        """A client of the same user, if one waits, beside so many that are here.

        Raises:
            OSError: there is no room for one: most descriptors are kept for runs.
        """
        if clients >= resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 3:
            raise OSError(errno.EMFILE, "too many are here")
        try:
            sock = self._sock.accept()[0]
        except (BlockingIOError, ConnectionError):
            return None
        if runtime_dir.peer(sock)[1] == os.getuid():
            return sock
        sock.close()
        return None

    def renew(self, identity: Mapping[str, Any]) -> bool:
        """Listen again if our name is gone: a folder for sockets is emptied when its user logs out.

        Whether clients find us, or may do so when the folder is there again; another engine may have come.
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
        """Write down who listens here."""
        write_whole(self._place.with_suffix(".json"), json.dumps(identity).encode())

    def give_up(self) -> bool:
        """Hide, unless a client is about to come: it holds the lock, or waits to be let in."""
        try:
            with runtime_dir.locked(self._place.with_suffix(".lock"), wait=False) as free:
                if not free or select.select([self._sock], [], [], 0)[0]:
                    return False
                self.hide()
        except OSError:  # the folder is gone: nobody can come
            return True
        return True

    def hide(self) -> None:
        """Take the address away, if it is still ours: another engine may have come after us."""
        with contextlib.suppress(OSError):
            if self._is_ours():
                self._place.unlink(missing_ok=True)
                self._place.with_suffix(".json").unlink(missing_ok=True)

    def close(self) -> None:
        """Listen no more."""
        self.hide()
        self._sock.close()


def sweep_dead_engines(folder: Path, *, older_s: float = 60.0) -> None:
    """Remove the sockets of owners that were killed; one that is new may only not listen yet."""
    for path in folder.glob("*.sock"):
        with contextlib.suppress(OSError):
            if time.time() - path.lstat().st_mtime < older_s:
                continue
            if is_run_id(path.stem) and runtime_dir.is_stale(path, socket.SOCK_SEQPACKET):
                path.unlink()
            elif path.stem.startswith("engine-"):
                _sweep_engine(path)


def _sweep_engine(path: Path) -> None:
    """Under its lock: a client may be about to start one."""
    with runtime_dir.locked(path.with_suffix(".lock"), wait=False) as free:
        if free and runtime_dir.is_stale(path, socket.SOCK_STREAM):
            path.unlink()
            path.with_suffix(".json").unlink(missing_ok=True)


ROOT = str(Path(__file__).resolve().parents[2])
_SPARKS_OWN = re.compile(r"(SPARK|PYSPARK|HADOOP|YARN|KRB5|AWS|AZURE|GOOGLE)_|JAVA_HOME$|SLURM_JOB_ID$")
_PER_JOB = re.compile(r"SLURM_JOB_ID$")


@dataclass(frozen=True, slots=True)
class EngineKey:
    """An engine's name.

    Attributes:
        target: what it is for, in words for people: ``local``, or where its Spark is.
        version: of rankdeck.
        build: the state of rankdeck's own files; an engine that was started before they changed is another.
        digest: all that tells it from the user's other engines, as a file's name.
    """

    target: str
    version: str
    build: str
    digest: str


def key_for(request: Request) -> EngineKey:
    """The engine that carries a request."""
    spec = request.spec
    session = spec.mode.traits.keeps_session
    names = _SPARKS_OWN if session else _PER_JOB
    around = {k: v for k, v in request.environ.items() if names.match(k)}
    facts: dict[str, Any] = {"around": around, "host": os.uname().nodename, "world": _world()}
    if session:
        spark = spec.spark
        facts |= {"master": spark.master, "remote": spark.remote, "conf": dict(spark.conf)}
        facts |= {"mode": spec.mode, "python": sys.executable}
        if not (spark.master or spark.remote):
            facts["slots"] = embedded_slots(spec.num_processes)
    named = spec.spark.remote or spec.spark.master or f"{spec.mode} by the environment"
    target = named if session else "local"
    target = redacted_text(target.partition(";")[0])  # it is shown, and is in the command line of the engine
    version, build = __version__, fingerprint()
    told = json.dumps([target, version, build, ROOT, facts], sort_keys=True)
    return EngineKey(target, version, build, hashlib.sha256(told.encode()).hexdigest()[:16])


def _world() -> list[str]:
    """The network and the processes that this process can see: an engine in another container is another."""
    return [os.readlink(f"/proc/self/ns/{kind}") for kind in ("net", "pid", "user")]


def fingerprint() -> str:
    """The state of our own files: an upgrade, or an edit, under a running engine changes it."""
    seen = hashlib.sha256()
    for folder, folders, files in os.walk(Path(ROOT, "launcher")):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(files):
            if name.endswith(".py"):
                found = os.stat(os.path.join(folder, name))
                seen.update(f"{name} {found.st_size} {found.st_mtime_ns}\n".encode())
    return seen.hexdigest()[:12]
