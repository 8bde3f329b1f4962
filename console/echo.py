"""Output of the commands: the only module of the console that writes to standard output and standard error.

The text may come from anybody's record, path or argument. So text passes the rules of `console.sanitize`,
JSON is ASCII without control characters, and only a rank's exact bytes, which the user requests by an option,
are written unchanged. Output to a closed stream is discarded; a full or broken stream is reported once, and
never by a traceback.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import IO, Any

import click

_FAILED, _PIPE = 70, 141  # 141 is a shell's exit code for SIGPIPE


class OutputLost(Exception):
    """Standard output or standard error can no longer be written."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"cannot write the output: {error.strerror or error}")
        self.nobody_reads = isinstance(error, BrokenPipeError)
        self.exit_code = _PIPE if self.nobody_reads else _FAILED


def open_missing() -> None:
    """Open the null device for each closed standard stream: else the next opened file would replace it."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest free number, which is this stream's
        if getattr(sys, name) is None:
            mode = "r" if number == 0 else "w"
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def print_text(text: str = "", *, err: bool = False) -> None:
    """Print text for people, on standard output, or with `err` on standard error.

    Raises:
        OutputLost: standard output can no longer be written.
    """
    from .sanitize import printable  # the console's first frame does not need it

    _put(printable(text), err=err)


def page(text: str) -> None:
    """Print text for people: through their pager where standard output is a terminal.

    Raises:
        OutputLost: standard output can no longer be written.
    """
    from .sanitize import printable

    if not sys.stdout.isatty():
        print_text(text)
        return
    with _discard_after_failure(sys.stdout):
        click.echo_via_pager(printable(text))


def print_json(value: Any) -> None:
    """Print a JSON document on one line.

    Raises:
        OutputLost: standard output can no longer be written.
    """
    _put(json_line(value))


def json_line(value: Any) -> str:
    """A JSON document without control characters; `json` itself does not escape DEL.

    NaN and the infinities, which JSON does not have, are written as text: "nan".
    """
    from launcher.serialization import to_plain

    from .sanitize import json_escaped  # the console's first frame does not need these

    try:
        text = json.dumps(value, allow_nan=False, default=to_plain)
    except ValueError:  # NaN is rare, and without `to_plain` ten thousand runs are written in half the time
        text = json.dumps(to_plain(value), allow_nan=False)
    return json_escaped(text)


def print_cleaned(text: str, *, err: bool = False) -> None:
    """Print lines of a rank that `launcher.runs.logs.text.shown` has cleaned: their colours may stay.

    Raises:
        OutputLost: standard output can no longer be written.
    """
    _put(text, err=err)


def print_bytes(data: bytes) -> None:
    """Write a rank's exact bytes, which the user requested.

    Raises:
        OutputLost: standard output can no longer be written.
    """
    with _discard_after_failure(sys.stdout):
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def call_person(sequence: str) -> None:
    """Send a sequence that paints nothing, where standard output is a terminal."""
    if sequence and sys.stdout.isatty():
        with contextlib.suppress(OutputLost), _discard_after_failure(sys.stdout):
            sys.stdout.write(sequence)
            sys.stdout.flush()


def say(text: str) -> None:
    """Print a message on standard error; a failure to write it is ignored."""
    with contextlib.suppress(OutputLost):
        print_text(text, err=True)


def print_while_possible(write: Callable[..., None], text: str, *, err: bool = False) -> None:
    """Print by `write`; if the output is lost, report that once on standard error and discard the rest."""
    try:
        write(text, err=err)
    except OutputLost as lost:
        say(f"rankdeck: {'nobody reads the output any more' if lost.nobody_reads else lost}; the run goes on")


def ask(question: str, *, hidden: bool = False) -> str:
    """Ask a question on standard error, and return what the user types.

    Raises:
        click.Abort: the user interrupts, or there is no more input.
    """
    from .sanitize import printable

    answer: str = click.prompt(
        printable(question), hide_input=hidden, err=True, default="", show_default=False
    )
    return answer


def flush() -> None:
    """Flush both streams.

    Raises:
        OutputLost: standard output can no longer be written.
    """
    with contextlib.suppress(OutputLost), _discard_after_failure(sys.stderr):
        sys.stderr.flush()
    with _discard_after_failure(sys.stdout):
        sys.stdout.flush()


def _put(text: str, *, err: bool = False) -> None:
    stream = sys.stderr if err else sys.stdout
    with _discard_after_failure(stream):
        click.echo(text, file=stream)


@contextlib.contextmanager
def _discard_after_failure(stream: IO[Any]) -> Iterator[None]:
    """After a failure, redirect the stream to the null device: the flush at exit must not fail again."""
    try:
        yield
    except OSError as error:
        with contextlib.suppress(OSError, ValueError):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, stream.fileno())
            os.close(null)
        raise OutputLost(error) from error
