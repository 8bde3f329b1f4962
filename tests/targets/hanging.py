"""Ranks that hang, each in the way that the first argument names; the second is where they meet.

Says `here` once it is about to hang, and nothing more.
"""

import ctypes
import os
import signal
import sys
import threading
import time

RANK = int(os.environ.get("RANK", "-1"))
STACKS_SIGNAL = signal.SIGRTMAX - 5


def collective() -> None:
    """All but the last rank wait for it, as in an all-reduce that one rank never enters."""
    if RANK == int(os.environ["WORLD_SIZE"]) - 1:
        forgets_the_collective()
    wait_for_the_others()


def wait_for_the_others() -> None:
    threading.Event().wait()


def forgets_the_collective() -> None:
    signal.pause()


def spin() -> None:
    while True:
        pass


def native() -> None:
    """In C, and without giving up the interpreter's lock."""
    library = ctypes.PyDLL(None)
    while True:
        library.pause()


def takes_usr2() -> None:
    signal.signal(signal.SIGUSR2, lambda *_: print("woken by SIGUSR2"))
    wait_for_the_others()


def takes_ours() -> None:
    signal.signal(STACKS_SIGNAL, lambda *_: None)
    wait_for_the_others()


def blocks_all() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals) | {int(STACKS_SIGNAL)})
    while True:
        time.sleep(600)


def closes_all() -> None:
    """As daemons do; what it opens next gets the numbers that we used."""
    os.closerange(3, 256)
    for number in range(3, 64):
        os.open(f"{sys.argv[2]}.{RANK}.{number}", os.O_RDWR | os.O_CREAT)
    wait_for_the_others()


def becomes_another() -> None:
    os.execvp("sleep", ["sleep", "600"])


def stopped() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)


def threads() -> None:
    for _ in range(20):
        threading.Thread(target=wait_for_the_others, daemon=True).start()
    wait_for_the_others()


if __name__ == "__main__":
    print("here", flush=True)
    globals()[sys.argv[1]]()
