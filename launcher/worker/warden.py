"""A process above the agent that does nothing but outlive it.

If the agent is killed, or fails, its ranks die with it (PR_SET_PDEATHSIG), but what the ranks had
started would be left to init. The warden is a subreaper too: it inherits those orphans, ends them, removes
the agent's folder and leaves. It is a fork of the agent before anything was opened, so it costs no start-up
and little memory.
"""

from __future__ import annotations

import os
import signal
import sys
import time

from launcher.worker import kernel, litter, process

_POLL_S = 0.01
_GIVE_UP_S = 30.0


def split(*, keep_from_warden: int) -> None:
    """Fork: the caller goes on as the agent in the child; the parent becomes the warden and never returns.

    Args:
        keep_from_warden: the channel's descriptor, which only the agent may hold: otherwise the engine
            would not notice the agent's end. -1 if there is none yet.
    """
    kernel.become_subreaper()
    parent = os.getpid()
    agent = os.fork()
    if agent == 0:
        kernel.signal_on_parent_death(signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)
        return
    if keep_from_warden >= 0:
        os.close(keep_from_warden)
    watch(agent)


def watch(agent: int) -> None:
    """Wait for the agent's end, end whatever it left, and exit with its code."""
    signal.signal(signal.SIGTERM, lambda *_: process.send([agent], signal.SIGTERM))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _, status = os.waitpid(agent, 0)
    deadline = time.monotonic() + _GIVE_UP_S
    while process.kill_all_below(os.getpid()) and time.monotonic() < deadline:
        process.reap()
        time.sleep(_POLL_S)
    process.reap()
    litter.clear(os.environ, litter.SOURCES)
    code = os.waitstatus_to_exitcode(status)
    sys.stdout.flush()
    os._exit(code if code >= 0 else 128 - code)
