"""The terminal as a device: stray output is kept off it, and text is copied to its clipboard.

Textual captures only what Python prints. Output of a JVM, NCCL or the C library to descriptors 1 and 2 would
appear in the middle of the screen, so both are redirected to a file while the console runs.
"""

from __future__ import annotations

import base64
import errno
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from io import BufferedWriter, FileIO, TextIOWrapper
from typing import TYPE_CHECKING

from ...echo import say

if TYPE_CHECKING:
    from typing_extensions import Buffer

CLIPBOARD_BYTES = 75_000
_SHOWN_BYTES = 16 << 10
_EXIT_LIMIT_S = 3.0


@contextmanager
def quiet_descriptors(*, page: bool = False) -> Iterator[None]:
    """Keep stray output off the screen; its end is written to stderr when the screen is closed.

    With `page`, the screen is a browser's page at the other end of stdout, and there is no terminal.
    """
    saved = sys.__stdout__, sys.__stderr__
    out, err = os.dup(1), os.dup(2)
    terminal = _writer(os.dup(out)) if page else _terminal(err)
    with tempfile.TemporaryFile() as noise:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
            # Textual draws to one of them and reads the size from the other
            sys.__stdout__ = sys.__stderr__ = terminal  # type: ignore[misc]
            os.dup2(noise.fileno(), 1)
            os.dup2(noise.fileno(), 2)
            yield
        finally:
            sys.__stdout__, sys.__stderr__ = saved  # type: ignore[misc]
            os.dup2(out, 1)
            os.dup2(err, 2)
            for descriptor in (out, err):
                os.close(descriptor)
            _write_end_of(noise.fileno())


def _terminal(err: int) -> TextIOWrapper:
    descriptor = os.dup(err) if os.isatty(err) else os.open("/dev/tty", os.O_WRONLY | os.O_CLOEXEC)
    return TextIOWrapper(BufferedWriter(_Terminal(descriptor, "w")), encoding="utf-8", errors="replace")


class _Terminal(FileIO):
    """A terminal that may go away; what is written to it afterwards is lost.

    A failure would end Textual's thread that writes, and then the console would wait for that thread. The
    kernel sends a hangup signal, too, and this ends the console.
    """

    def write(self, data: Buffer, /) -> int | None:  # type: ignore[override]  # None: it would block
        """Write to the terminal."""
        try:
            return super().write(data)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return memoryview(data).nbytes


def _writer(descriptor: int) -> TextIOWrapper:
    return os.fdopen(descriptor, "w", encoding="utf-8", errors="replace")


def _write_end_of(noise: int) -> None:
    size = os.lseek(noise, 0, os.SEEK_END)
    text = os.pread(noise, _SHOWN_BYTES, max(size - _SHOWN_BYTES, 0)).decode("utf-8", "replace")
    if text.strip():
        say(text.removesuffix("\n"))


def exit_anyway(code: int) -> None:
    """Exit in a few seconds even if writing to the terminal blocks, which would block Textual for ever."""
    timer = threading.Timer(_EXIT_LIMIT_S, os._exit, (code,))
    timer.daemon = True
    timer.start()


def copy(text: str, environ: Mapping[str, str], write: Callable[[str], object] | None, what: str = "") -> str:
    """Copy `text` through tmux, else by `write` to the terminal; return a sentence for the user.

    `what` names the text in that sentence.
    """
    size = f"{len(text.splitlines())} lines" if "\n" in text.strip() else "1 line"
    size = f"{what}, {size}," if what else size
    if offer_to_tmux(text, environ):
        return f"copied {size} through tmux"
    sequence = clipboard_sequence(text)
    if sequence is None:
        return f"not copied: more than {CLIPBOARD_BYTES // 1000} kB"
    if write is None:
        return "not copied: there is no terminal"
    write(sequence)
    return f"copied {size} through the terminal"


def clipboard_sequence(text: str) -> str | None:
    """The sequence (OSC 52) that copies `text` to the clipboard; None if `text` is too long for terminals."""
    data = base64.b64encode(text.encode("utf-8", "replace")).decode("ascii")
    return f"\x1b]52;c;{data}\a" if len(data) <= CLIPBOARD_BYTES else None


def offer_to_tmux(text: str, environ: Mapping[str, str]) -> bool:
    """Give `text` to the surrounding tmux, which passes it to its terminal; return whether it did."""
    if not environ.get("TMUX") or not shutil.which("tmux"):
        return False
    command = ["tmux", "load-buffer", "-w", "-"]
    try:
        subprocess.run(command, input=text.encode(), check=True, capture_output=True, timeout=2)
    except (OSError, subprocess.SubprocessError):
        return False
    return True
