"""How an engine comes to be: away from the terminal and the process that asked for it.

Started by `launcher.engine.client` with one JSON line on standard input. It forks, so that nobody
waits for it; binds its address; says so on standard output; and from then on writes to its log only.
"""

from __future__ import annotations

import json
import logging
import logging.handlers
import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import settings
from ..runs.files import opener

if TYPE_CHECKING:
    from .server import Engine

_LOG_BYTES, _LOG_FILES = 1 << 20, 3


def main() -> None:
    """Become an engine, and return when it has ended. What prevents it is said in the last line on stderr."""
    boot = json.loads(sys.stdin.readline())
    chosen = settings.load()
    if os.fork():
        os._exit(0)
    os.chdir("/")
    os.umask(0o077)
    from .server import Engine

    place = Path(boot["socket"])
    identity = {key: boot[key] for key in ("target", "version", "build", "digest", "log")}
    identity["pid"] = os.getpid()
    write_to(Path(boot["log"]))
    _be_free()
    engine = Engine(identity, place, chosen)
    _listen_to_signals(engine)
    _let_go()
    engine.serve()


def _be_free() -> None:
    """Cast off what our starter's shell had laid on it: it was not meant for us."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for name in ("NOFILE", "NPROC", "CPU", "FSIZE", "AS", "DATA"):
        number = getattr(resource, f"RLIMIT_{name}")
        _, hard = resource.getrlimit(number)
        resource.setrlimit(number, (hard, hard))


def _listen_to_signals(engine: Engine) -> None:
    """SIGTERM stops its runs and ends it; a terminal's signals are nothing to it."""
    for signum in (signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: engine.leave())


def write_to(path: Path) -> None:
    """Log to a file that is kept small; what others print is sent there once nobody listens to us."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    handler = _Log(path, maxBytes=_LOG_BYTES, backupCount=_LOG_FILES)
    form = logging.Formatter("%(asctime)sZ %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%S")
    form.converter = time.gmtime
    handler.setFormatter(form)
    logger = logging.getLogger("rankdeck")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False


class _Log(logging.handlers.RotatingFileHandler):
    """A private file; our standard streams follow it when it is turned."""

    attached = False

    def _open(self) -> Any:
        stream = open(self.baseFilename, "a", encoding="utf-8", opener=opener)  # noqa: SIM115  it stays open
        if self.attached:
            attach(stream.fileno())
        return stream


def attach(descriptor: int) -> None:
    """Have what is printed here written there."""
    for stream in (1, 2):
        os.dup2(descriptor, stream)


def _let_go() -> None:
    """Tell the client that we are up, and hold nothing of its any more."""
    os.write(1, b"up\n")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    handler = next(h for h in logging.getLogger("rankdeck").handlers if isinstance(h, _Log))
    handler.attached = True
    if handler.stream is not None:
        attach(handler.stream.fileno())
