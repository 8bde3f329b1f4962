"""The one way to standard output and standard error: no other module of the console writes there.

What is said may come from anybody's record, path or argument. So text passes the rules of
`console.sanitize`, JSON is ASCII without controls, and only a rank's exact bytes, asked for by
name, go out as they are. A stream that is closed takes everything and keeps nothing; one that is full or
broken is told once, and never by a traceback.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import IO, Any

import click

_FAILED, _PIPE = 70, 141  # the second is what a shell has for SIGPIPE


class OutputLost(Exception):
    """Standard output or standard error takes no more."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"cannot write the output: {error.strerror or error}")
        self.nobody_reads = isinstance(error, BrokenPipeError)
        self.exit_code = _PIPE if self.nobody_reads else _FAILED


def open_missing() -> None:
    """Put a null device where a standard stream was closed: else the next file to be opened would be it."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this one
        if getattr(sys, name) is None:
            mode = "r" if number == 0 else "w"
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115


def tell(text: str = "", *, err: bool = False) -> None:
    """Print data for people, on standard output unless said otherwise.

    Raises:
        OutputLost: standard output takes no more.
    """
    from .sanitize import printable  # the console paints without it

    _put(printable(text), err=err)


def page(text: str) -> None:
    """Print data for people: through their pager where standard output is a terminal.

    Raises:
        OutputLost: standard output takes no more.
    """
    from .sanitize import printable

    if not sys.stdout.isatty():
        tell(text)
        return
    with _noting_failure(sys.stdout):
        click.echo_via_pager(printable(text))


def tell_json(value: Any) -> None:
    """Print a JSON document on one line.

    Raises:
        OutputLost: standard output takes no more.
    """
    _put(json_line(value))


def json_line(value: Any) -> str:
    """A JSON document with nothing in it that a terminal could obey; JSON itself leaves DEL as it is.

    What is no number for JSON is a text: "nan".
    """
    from launcher.serialization import to_plain

    from .sanitize import json_escaped  # the console paints without these

    try:
        text = json.dumps(value, allow_nan=False, default=to_plain)
    except ValueError:  # a number that is none, which is rare: ten thousand runs are written in half the time
        text = json.dumps(to_plain(value), allow_nan=False)
    return json_escaped(text)


def tell_cleaned(text: str, *, err: bool = False) -> None:
    """Print what `console.sanitize.shown` has left of a rank's lines: their colours may stay.

    Raises:
        OutputLost: standard output takes no more.
    """
    _put(text, err=err)


def tell_bytes(data: bytes) -> None:
    """Pass on a rank's exact bytes, which a person asked for.

    Raises:
        OutputLost: standard output takes no more.
    """
    with _noting_failure(sys.stdout):
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def say(text: str) -> None:
    """Narrate, on standard error; if nobody can hear it, nothing is lost."""
    with contextlib.suppress(OutputLost):
        tell(text, err=True)


def lasting(write: Callable[..., None], text: str, *, err: bool = False) -> None:
    """Print by `write`; where that is no longer possible, say so once and go on in silence."""
    try:
        write(text, err=err)
    except OutputLost as lost:
        say(f"rankdeck: {'nobody reads the output any more' if lost.nobody_reads else lost}; the run goes on")


def ask(question: str, *, hidden: bool = False) -> str:
    """What a person types on the terminal, asked for on standard error.

    Raises:
        click.Abort: they interrupt, or there is no more input.
    """
    from .sanitize import printable

    answer: str = click.prompt(
        printable(question), hide_input=hidden, err=True, default="", show_default=False
    )
    return answer


def flush() -> None:
    """Write out what is still held.

    Raises:
        OutputLost: standard output takes no more.
    """
    with contextlib.suppress(OutputLost), _noting_failure(sys.stderr):
        sys.stderr.flush()
    with _noting_failure(sys.stdout):
        sys.stdout.flush()


def _put(text: str, *, err: bool = False) -> None:
    stream = sys.stderr if err else sys.stdout
    with _noting_failure(stream):
        click.echo(text, file=stream)


@contextlib.contextmanager
def _noting_failure(stream: IO[Any]) -> Iterator[None]:
    """Send what a stream that failed still holds, and what follows, nowhere: its last flush must not fail."""
    try:
        yield
    except OSError as error:
        with contextlib.suppress(OSError, ValueError):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, stream.fileno())
            os.close(null)
        raise OutputLost(error) from error
