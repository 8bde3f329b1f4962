"""Publishes many bytes between two gates: SIZE, the pipe before, the pipe after."""

import os
import random
import sys

import launcher

PIECE = 1 << 20


def value(size: int) -> bytes:
    return random.Random(0).randbytes(PIECE) * (size // PIECE)


def main(size: str, before: str, after: str) -> None:
    large = value(int(size))
    for gate, word in ((before, "made"), (after, "published")):
        print(word)
        with open(f"{gate}.{os.environ['RANK']}") as pipe:
            pipe.read()
        if gate == before:
            launcher.publish(large)


if __name__ == "__main__":
    main(*sys.argv[1:])
