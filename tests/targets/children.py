"""A rank whose own children are started as a DataLoader's are: ``children.py fork|spawn|forkserver``."""

from __future__ import annotations

import multiprocessing
import sys

import launcher
from launcher.agent.report import publish, report
from launcher.examples import __name__ as examples


def work(number: int) -> tuple[int, str, str]:
    report(step=number)  # which only the rank itself may send
    return number * number, __file__, str(launcher.__file__)


if __name__ == "__main__":
    with multiprocessing.get_context(sys.argv[1]).Pool(2) as pool:
        publish([pool.map(work, range(4)), __file__, examples])
