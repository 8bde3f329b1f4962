"""A script that needs to be `__main__`: spawn, pickles of its own classes, a thread that outlives it."""

import multiprocessing
import pickle
import sys
import threading
from dataclasses import dataclass

import launcher


@dataclass
class Point:
    x: int


def double(x: int) -> int:
    return 2 * x


GLOBAL = "still here"
over = threading.Event()


def afterwards() -> None:
    threading.main_thread().join()
    print(GLOBAL, double(1), over.is_set(), flush=True)


if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        doubled = pool.map(double, [1, 2])
    launcher.publish(
        {
            "spawned": doubled,
            "pickled": pickle.loads(pickle.dumps(Point(3))).x,
            "main": sys.modules["__main__"].__dict__ is globals(),
            "point": Point(4),
        }
    )
    threading.Thread(target=afterwards).start()
    over.set()
