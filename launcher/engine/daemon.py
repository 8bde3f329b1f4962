"""Starting an engine as a daemon, detached from the terminal and the process that started it.

`launcher.engine.client` starts it with one JSON line on standard input. It forks, so that its parent need not
wait for it; binds its address; prints ``up`` to standard output; and from then on writes only to its log.
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
from . import head_start

if TYPE_CHECKING:
    from .server import Engine

_LOG_BYTES, _LOG_FILES = 1 << 20, 3


def main() -> None:
    """Run an engine until it ends. If it cannot start, the last line on stderr is the reason."""
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
    log_to(Path(boot["log"]))
    _reset_limits()
    engine = Engine(identity, place, chosen)
    if "zygote" in boot:
        engine.adopt(head_start.from_document(boot["zygote"]))
    _handle_signals(engine)
    _detach()
    engine.serve()


def _reset_limits() -> None:
    """Undo the signal mask and the soft limits of the starter's shell: they were not meant for the engine."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for name in ("NOFILE", "NPROC", "CPU", "FSIZE", "AS", "DATA"):
        number = getattr(resource, f"RLIMIT_{name}")
        _, hard = resource.getrlimit(number)
        resource.setrlimit(number, (hard, hard))


def _handle_signals(engine: Engine) -> None:
    """SIGTERM stops the runs and ends the engine; a terminal's signals are ignored."""
    for signum in (signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: engine.leave())


def log_to(path: Path) -> None:
    """Log to a rotating file. After `_detach`, output of libraries to stdout and stderr goes there too."""
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
    """A private file; once attached, stdout and stderr are redirected to each new file of the rotation."""

    attached = False

    def _open(self) -> Any:
        stream = open(self.baseFilename, "a", encoding="utf-8", opener=opener)  # noqa: SIM115  it stays open
        if self.attached:
            redirect(stream.fileno())
        return stream


def redirect(descriptor: int) -> None:
    """Redirect stdout and stderr to a descriptor."""
    for stream in (1, 2):
        os.dup2(descriptor, stream)


def _detach() -> None:
    """Report to the client that the engine is up, and close the client's pipes."""
    os.write(1, b"up\n")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    handler = next(h for h in logging.getLogger("rankdeck").handlers if isinstance(h, _Log))
    handler.attached = True
    if handler.stream is not None:
        redirect(handler.stream.fileno())
