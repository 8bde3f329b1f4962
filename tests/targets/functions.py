"""Functions that tests name: `functions.py:add` and the like."""

from __future__ import annotations

import os
import sys
import threading
from typing import Any, NoReturn

import launcher


def add(a: int, b: int = 2) -> int:
    return a + b


def echo(text: str, *, more: Any = None, flag: bool = False) -> list[Any]:
    return [text, more, flag, type(more).__name__]


def length(values: Any) -> int:
    return len(values)


def rank() -> int:
    return int(os.environ["RANK"])


def where() -> dict[str, Any]:
    return {"name": __name__, "file": __file__, "path": sys.path[0], "argv": sys.argv}


def nothing() -> None:
    print("no value")


def lock() -> Any:
    return threading.Lock()


class Sizeless:
    def __len__(self) -> int:
        raise NotImplementedError("the length is unknown")


def sizeless() -> Sizeless:
    return Sizeless()


def many_texts() -> list[str]:
    return ["x" * 4000] * 1000


def huge_number() -> int:
    return 10**5000 + 1


class Loud:
    def __repr__(self) -> str:
        return "\x1b[31mred\x1b]0;title\x07"


def loud() -> Loud:
    return Loud()


def odd_text() -> str:
    return "\udcff \x9b31m \x7f \u202e é"


def odd_reports() -> str:
    launcher.report(step="many", loss=10**400)  # type: ignore[arg-type]  # what users do
    launcher.report(**{f"a metric with a long name {i}": i for i in range(5000)})
    launcher.report(step=3, loss=float("nan"), rate=0.5)
    return "alive"


def broken() -> NoReturn:
    raise ValueError("from a function")
