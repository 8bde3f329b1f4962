"""A rank's last code: everything that Python does for the user at exit, and then out, at once.

Python's own end takes the interpreter down around threads that native libraries still run. A thread of
PyTorch's gloo back end that drops its last reference to a tensor at that moment is torn out of C++ code and
aborts the process: one FSDP training in six ended with SIGABRT that way after all its work was done.
So the interpreter is left standing: threads are joined, exit handlers run, every open file is flushed,
and the process leaves. What is skipped is the destruction of objects and of native libraries.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import io
import os
import sys
import threading
from typing import NoReturn

_LONG = (-(1 << 63), (1 << 63) - 1)  # what fits a C long; Python makes -1 of every other number


def code_of(end: SystemExit) -> int:
    """The exit code that `SystemExit` stands for; a message is printed, as Python does."""
    code = end.code
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF if _LONG[0] <= code <= _LONG[1] else 0xFF
    with contextlib.suppress(Exception):  # a closed stream, or a user's __str__: Python is silent there too
        sys.stderr.write(str(code))
    with contextlib.suppress(Exception):
        sys.stderr.write("\n")
    return 1


def leave(code: int) -> NoReturn:
    """Join threads, run exit handlers, flush, and end the process with `code`."""
    try:
        threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001  what Python itself calls first
        atexit._run_exitfuncs()  # noqa: SLF001  and then this
    except BaseException as error:  # noqa: BLE001  a user's handler may raise anything; Python prints it too
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        _flush_files()
        os._exit(code)


def _flush_files() -> None:
    """Flush every file that Python holds open, text layers before the buffers below them, and C's own."""
    for kinds in ((io.TextIOWrapper,), (io.BufferedWriter, io.BufferedRandom)):
        for file in [o for o in gc.get_objects() if issubclass(type(o), kinds)]:  # isinstance would run code
            try:
                if not file.closed:
                    file.flush()
            except (
                OSError,
                ValueError,
            ):  # a full disk or a broken pipe: Python would not have saved it either
                continue
    ctypes.CDLL(None).fflush(None)
