"""Ranks that print and then wait: at a pipe (`gate PATH`), or for SIGTERM in one of three tempers."""

import os
import signal
import sys
from typing import NoReturn

import launcher


def polite(*_: object) -> NoReturn:
    print("saved", flush=True)
    sys.exit(0)


def main(temper: str, *paths: str) -> None:
    if temper == "polite":
        signal.signal(signal.SIGTERM, polite)
    if temper == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    print("ready")
    for path in paths:
        with open(f"{path}.{os.environ['RANK']}") as pipe:
            pipe.read()
        print("passed")
    if temper == "gate":
        launcher.publish({"waited": len(paths)})
        return
    while True:
        signal.pause()


if __name__ == "__main__":
    main(*sys.argv[1:])
