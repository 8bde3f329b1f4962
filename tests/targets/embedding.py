"""A program of the user's that launches from its own `__main__`; the first argument says which way."""

import os
import signal
import sys

from launcher.distributor import Distributor

FACTOR = 21


def from_main(x: int) -> int:
    return x * FACTOR


def hold() -> None:
    print("ready", flush=True)
    signal.pause()


def value() -> None:
    print(Distributor(2).start(from_main, 2).results())


def run() -> None:
    Distributor(2, grace_s=1.0).run(hold)


def flood() -> None:
    """Write more than any pipe holds, and hold."""
    for _ in range(1000):
        print("x" * 999)
    hold()


def flooded() -> None:
    Distributor(1, grace_s=1.0).run(flood)


def leave() -> None:
    job = Distributor(2, grace_s=1.0).start(hold)
    written, seen = job.folder / "logs" / "0" / "00000.out", -1
    while not written.exists():
        seen = job.wait_for_news(seen)
    print("left", flush=True)


def fork() -> None:
    """A forked child that ends as Python programs do must not wait for runs that it does not carry."""
    job = Distributor(1, grace_s=1.0).start(hold)
    child = os.fork()
    if child == 0:
        sys.exit(0)
    _, status = os.waitpid(child, 0)
    print("child left with", os.waitstatus_to_exitcode(status), "and the job is done:", job.done)
    job.stop()
    job.wait()


if __name__ == "__main__":
    globals()[sys.argv[1]]()
