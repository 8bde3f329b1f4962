"""A signal that is sent to a fork in its first moment is the fork's, and not its parent's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import os, signal
from launcher.agent import process
from launcher.agent.warm import forking

wake = process.wake_on(signal.SIGCHLD, signal.SIGINT, signal.SIGHUP, signal.SIGTERM)
ready, begun = os.pipe()
gives_up = forking.give_up_signals

def slowly():
    os.write(begun, b"x")
    while signal.SIGTERM not in signal.sigpending():
        pass
    gives_up()

forking.give_up_signals = slowly
pid = forking.fork_quietly()
if pid == 0:
    os._exit(0)  # not reached: the signal is still to come
os.read(ready, 1)
os.kill(pid, signal.SIGTERM)
_, status = os.waitpid(pid, 0)
print(os.waitstatus_to_exitcode(status), list(process.drain(wake)), sorted(signal.pthread_sigmask(0, ())))
"""


@pytest.mark.process
def test_a_fork_that_is_terminated_at_once_ends_and_wakes_its_parent_only_by_its_end() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        timeout=60,
        cwd=Path(__file__).parents[4],
    )
    assert "-15 [17] []\n" == done.stdout
