"""Everything that `launcher` raises: one class for each case that a caller may handle differently.

    LauncherError
    ├── SpecError          the request is wrong; nothing was started            exit 2
    │   └── RunNotFound    no run, or more than one, has that id                exit 2
    ├── RowsFailed         the rows of the run's DataFrame cannot be computed   exit 65
    ├── CannotPlace        the ranks cannot be given places or devices          exit 69
    ├── RecordError        the run folder cannot be written or read             exit 70
    ├── InternalError      a defect of rankdeck itself                          exit 70
    ├── AgentLost          an agent, or what it ran on, went away               exit 75
    ├── NoGroup            the ranks met no others, and were required to        exit 76
    ├── TimeLimit          the run's own time limit                             exit 124
    ├── NoProgress         the ranks showed no sign of life for too long       exit 125
    ├── RunStopped         somebody stopped the run                             exit 130 or 143
    └── RankFailed         training failed                    exit: the first failing rank's

This module imports nothing of the package, so that every other module may import it.
"""

from __future__ import annotations

from typing import Any, ClassVar


def counted(number: int, noun: str) -> str:
    """A number of things for a sentence: ``1 rank``, ``1,024 ranks``."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def size_text(value: float) -> str:
    """A number of bytes, for a sentence: 24 B, 1.9 KiB, 512 MiB."""
    if value < 1 << 10:
        return f"{value:.0f} B"
    for unit, power in (("GiB", 30), ("MiB", 20)):
        if value >= 1 << power:
            amount = value / (1 << power)
            return f"{amount:.1f} {unit}" if amount < 100 else f"{amount:,.0f} {unit}"
    return f"{value / (1 << 10):.1f} KiB"


class LauncherError(Exception):
    """Root of the tree: one sentence for a person; if known, the run, and as a hint what to do."""

    exit_code: int = 70

    def __init__(self, message: str, *, run: str | None = None, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.run = run
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle all attributes: by default an exception is remade from `args`, which lack the keywords."""
        return _remake, (type(self), self.args, vars(self))


def _remake(kind: type[LauncherError], args: tuple[Any, ...], fields: dict[str, Any]) -> LauncherError:
    error = kind.__new__(kind, *args)
    vars(error).update(fields)
    return error


class SpecError(LauncherError, ValueError):
    """The request is wrong: no such file, no such function, a bad parameter.

    It is a ValueError too, as Python callers expect of an argument that is not allowed.
    """

    exit_code: int = 2


class RunNotFound(SpecError):
    """No run has this id or prefix, or several have."""


class RowsFailed(LauncherError):
    """Spark could not compute the rows of the run's DataFrame, or they did not fit on an executor's disk."""

    exit_code: int = 65


class CannotPlace(LauncherError):
    """There are not enough slots or GPUs for the gang."""

    exit_code: int = 69


class RecordError(LauncherError):
    """The run folder cannot be created, written or read."""


class InternalError(LauncherError):
    """Something in rankdeck broke; the run it belonged to was stopped."""


class AgentLost(LauncherError):
    """An agent, or the channel to it, went away while ranks were running."""

    exit_code: int = 75


class NoGroup(LauncherError):
    """Every rank ended well, but none had joined a group with others, as ``--require-group`` demands."""

    exit_code: int = 76


class TimeLimit(LauncherError):
    """The run took longer than its time limit and was stopped."""

    exit_code: int = 124


class NoProgress(LauncherError):
    """No rank wrote, reported or returned anything for as long as the run allows, and it was stopped."""

    exit_code: int = 125


class RunStopped(LauncherError):
    """The run was stopped on request (143), or by Ctrl-C (130)."""

    exit_code: int = 143

    def __init__(self, message: str, *, run: str | None = None, exit_code: int = 143) -> None:
        super().__init__(message, run=run)
        self.exit_code = exit_code


class RankFailed(LauncherError):
    """A rank ended badly; this is the first one that did.

    Attributes:
        rank: global rank.
        host: where it ran.
        exit_code: its own exit code, or 128 + signal.
        signal: name such as ``"SIGKILL"`` if a signal ended it, else None.
        traceback: the user's traceback as text, if Python could still write one.
        tail: the last lines it wrote to stderr.
    """

    fields: ClassVar[tuple[str, ...]] = ("rank", "host", "exit_code", "signal")

    def __init__(
        self,
        message: str,
        *,
        rank: int,
        host: str,
        exit_code: int,
        signal: str | None = None,
        traceback: str | None = None,
        tail: str = "",
        run: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, run=run, hint=hint)
        self.rank = rank
        self.host = host
        self.exit_code = exit_code
        self.signal = signal
        self.traceback = traceback
        self.tail = tail

    def __str__(self) -> str:
        text = super().__str__()
        detail = self.traceback or self.tail
        return f"{text}\n\n{detail.rstrip()}" if detail else text
