"""The training of an example, which never ends by itself.

Usage: MODULE ENDING PIPE, with a module of the examples. Each rank says `ready` after some steps. Then rank 1
raises an error: at once if the ending is `raise`, and if it is `fail`, once it has read from the pipe.
"""

import importlib
import os
import sys

import launcher

READY = 3


def report(*, step: int | None = None, loss: float | None = None, **metrics: float) -> None:
    """What the training calls at every step, instead of `launcher.report`."""
    if step != READY:
        return
    print("ready", flush=True)
    ending, pipe = sys.argv[2:4]
    if os.environ["RANK"] == "1" and ending in ("raise", "fail"):
        if ending == "fail":
            with open(pipe) as waited:
                waited.read()
        raise RuntimeError("bad luck")


def main() -> None:
    launcher.report = report
    example = importlib.import_module(f"launcher.examples.{sys.argv[1]}")
    example.train(epochs=1_000_000)


if __name__ == "__main__":
    main()
