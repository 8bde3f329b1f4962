"""How an agent comes to its engine: by an inherited socket, by one that it dials, by a folder of both."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, NoReturn

from launcher.worker.boot import STDIN, Boot

if TYPE_CHECKING:
    from launcher.worker.stream import Stream

# The exit code of an agent that has found no way; Spark's task then ends its stage, and nothing has run.
UNREACHABLE = 69


def arrive(boot: Boot) -> Stream:
    """The stream to the engine. Without one this process ends, and says on standard error what it tried."""
    if boot.descriptor >= 0:
        os.set_inheritable(boot.descriptor, False)
        return socket.socket(fileno=boot.descriptor)
    from launcher.worker.dial import Unreachable

    try:
        with _ending_with_the_task():
            return _far_stream(boot)
    except Unreachable as error:
        _give_up(str(error))


def _far_stream(boot: Boot) -> Stream:
    """By an address, or else by the spool folder.

    Raises:
        Unreachable: neither is a way.
    """
    from launcher.worker import dial, spool

    try:
        return dial.dial([(e.host, e.port) for e in boot.endpoints], boot.credentials, boot.dial_s)
    except dial.Unreachable as error:
        if not boot.spool:
            raise
        if why := spool.why_not_shared(boot.spool, boot.marker):
            raise dial.Unreachable(f"{error}; {why}") from error
        try:
            sock = spool.connect(boot.spool, boot.agent)
        except OSError as failed:
            why = f"nothing can be written to {boot.spool}: {failed.strerror}"
            raise dial.Unreachable(f"{error}; {why}") from failed
    return dial.secure(sock, boot.credentials, boot.dial_s)


def _give_up(why: str) -> NoReturn:
    from launcher.worker import network

    sys.stderr.write(f"{network.host_name()}: {why}\n")
    sys.exit(UNREACHABLE)


@contextlib.contextmanager
def _ending_with_the_task() -> Iterator[None]:
    """While this lasts, the end of the Spark task is the end of this process: there are no ranks yet."""
    done, stop = os.pipe()

    def watch() -> None:
        if STDIN in select.select([STDIN, done], [], [])[0]:
            os._exit(1)

    watcher = threading.Thread(target=watch, name="rankdeck-lifeline", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        os.close(stop)
        watcher.join()
        os.close(done)
