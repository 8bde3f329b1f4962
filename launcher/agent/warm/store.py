"""Torch's store of a gang, in a process beside rank 0 that is a fork of a zygote with torch.

It gets a socket that listens already, so that no rank's first try is refused, however early it dials. Ranks
know from TORCHELASTIC_USE_AGENT_STORE that none of them hosts the store, as below torch's own agent.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import socket
import sys
import traceback
from functools import partial
from typing import Any, NoReturn

from .. import linux
from . import forking
from .forking import Zygote

NAME = "rankdeck-store"
_WAITING = 4096
_FAILED = 70


class GangStore:
    """The store of an attempt, once it was started. It stays until the ranks of all hosts have ended."""

    def __init__(self, zygote: Zygote, port: socket.socket) -> None:
        self._zygote, self._port = zygote, port
        self._process = -1
        self.pid = 0

    def start(self) -> None:
        """Start it at the port, which is held.

        Raises:
            OSError: there is no room for a process.
        """
        self._port.listen(_WAITING)
        agent = os.getpid()
        self.pid = self._zygote.forker.fork(partial(_host, self._port, agent))
        self._process = os.pidfd_open(self.pid)

    def end(self) -> None:
        """End it."""
        if self._process >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._process, signal.SIGKILL)
            os.close(self._process)
            self._process = -1


def _host(listener: socket.socket, agent: int) -> NoReturn:
    """Host the store until the agent ends this process, or is gone."""
    try:
        gc.freeze()
        linux.signal_on_parent_death(signal.SIGKILL)
        if os.getppid() != agent:
            os._exit(_FAILED)
        os.setsid()
        linux.rename(NAME)
        null = os.open(os.devnull, os.O_WRONLY)
        forking.replace_descriptors((null, os.dup(2)), [listener.fileno()])
        distributed: Any = sys.modules["torch.distributed"]
        number = listener.getsockname()[1]
        options = {"is_master": True, "wait_for_workers": False, "master_listen_fd": listener.detach()}
        store = distributed.TCPStore("localhost", number, None, **options)
        while store is not None:
            signal.pause()
    except BaseException:  # noqa: BLE001  it must not go on as the agent
        traceback.print_exc()
    finally:
        os._exit(_FAILED)
