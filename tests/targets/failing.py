"""Ranks that fail, each in the way that the first argument names; by the last rank unless said otherwise.

The other ranks wait until they are stopped.
"""

import ctypes
import os
import signal
import sys
import threading
import time
from typing import Any, NoReturn

RANK = int(os.environ.get("RANK", "0"))
LAST = RANK == int(os.environ.get("WORLD_SIZE", "1")) - 1


def exit_7() -> NoReturn:
    print("about to leave with 7", file=sys.stderr)
    sys.exit(7)


def os_exit_3() -> NoReturn:
    os._exit(3)


def exit_with_words() -> NoReturn:
    sys.exit("the data set is empty")


def exit_none() -> NoReturn:
    sys.exit(None)


def exit_300() -> NoReturn:
    sys.exit(300)


def interrupt() -> NoReturn:
    raise KeyboardInterrupt


def killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def segfault() -> None:
    ctypes.string_at(0)


def wrong_value(learning_rate: float = -1.0) -> NoReturn:
    raise ValueError(f"bad learning rate {learning_rate}")


def chained() -> None:
    try:
        os.environ["MISSING_FROM_EVERYWHERE"]
    except KeyError as error:
        raise RuntimeError("no such key") from error


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("this one cannot even be printed")


def unprintable() -> NoReturn:
    raise Mute


def long_message() -> NoReturn:
    raise ValueError("é" * 100_000)


def control_sequences() -> NoReturn:
    raise ValueError("\x1b[2Jcleared \x1b]0;title\x07\x9b31m")


def own_hook() -> NoReturn:
    def hook(kind: type[BaseException], error: BaseException, tb: Any) -> None:
        print(f"MY HOOK {kind.__name__} {error}", file=sys.stderr)

    sys.excepthook = hook
    raise ValueError("for the hook")


def broken_hook() -> NoReturn:
    def hook(*_: object) -> NoReturn:
        raise RuntimeError("the hook broke")

    sys.excepthook = hook
    raise ValueError("for the hook")


def hanging_teardown() -> NoReturn:
    threading.Thread(target=time.sleep, args=(600,)).start()
    raise ValueError("and a thread that never ends")


def imports_broken() -> None:
    import broken_neighbour  # type: ignore[import-not-found]  # made by the test

    print(broken_neighbour)


def main(behaviour: str) -> None:
    if LAST:
        globals()[behaviour]()
        return
    while True:
        time.sleep(600)


if __name__ == "__main__":
    main(sys.argv[1])
