"""Functions that print."""

import os
import sys


def speak() -> str:
    print("from", os.environ["RANK"])
    print("to stderr", file=sys.stderr)
    return "value"


def fail() -> None:
    print("\n".join(map(str, range(2000))))
    raise ValueError("no")


def attack() -> None:
    print("\x1b[2J\x1b]0;title\x07red \x1b[31mtext\x1b[0m\u202e")
    for share in range(1000):
        print(f"\r{share} of 1000", end="")


def at_length() -> None:
    print("é" * (16 << 10))
