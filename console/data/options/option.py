"""What a script takes: its options and positional arguments, as its parser would tell them."""

from __future__ import annotations

import ast
from dataclasses import dataclass

MOST_OPTIONS = 400
"""The most options that are read of one script."""

MOST_CHOICES = 200
"""The most values that one option offers to choose from."""

MOST_HELP = 2000
"""The most characters of a help text that are kept."""

SWITCH = ("False", "True")
"""The values of an option that is on or off."""


@dataclass(frozen=True, slots=True)
class ScriptOption:
    """One option or positional argument.

    Attributes:
        names: ``--lr`` and ``-l``, the bare name of a positional argument, or the key of an override.
        kind: the name of the type as written, without its module; empty for text.
        choices: the allowed values, as typed; empty for any.
        default: source text of the default, or None.
        help: the script's help text for it.
        flag: it takes no value.
        off: names that switch a flag off.
        many: how many values it takes: a number, ``?``, ``*`` or ``+``; empty for one.
        repeats: it is given once for each of its values.
        counts: a flag whose value is how often it is given.
        assigned: it is given as ``key=value``, without dashes.
        exclusive: the number of the group of which only one may be given; 0 for none.
        command: the subcommand that takes it; empty for the script itself.
        commands: it is the argument that names the subcommand.
    """

    names: tuple[str, ...]
    kind: str = ""
    choices: tuple[str, ...] = ()
    default: str | None = None
    help: str = ""
    required: bool = False
    flag: bool = False
    off: tuple[str, ...] = ()
    many: str = ""
    repeats: bool = False
    counts: bool = False
    assigned: bool = False
    exclusive: int = 0
    command: str = ""
    commands: bool = False

    @property
    def positional(self) -> bool:
        """Whether it is a positional argument."""
        return not self.names[0].startswith("-") and not self.assigned

    @property
    def label(self) -> str:
        """Its first long name, without dashes."""
        return next((name for name in self.names if name.startswith("--")), self.names[0]).lstrip("-")

    @property
    def key(self) -> str:
        """A name that no other option of the script has."""
        return f"{self.command} {self.names[0]}".strip()

    @property
    def listed(self) -> bool:
        """Whether its value is several words."""
        return self.repeats or self.many not in ("", "?")

    @property
    def typed_default(self) -> str | None:
        """The default as a person would type it; None if there is none, or only running the script tells."""
        if self.assigned and self.kind in ("list", "dict") and "${" not in (self.default or ""):
            return self.default
        value = literal_of(self.default)
        if isinstance(value, (list, tuple)) and self.listed and not self.assigned:
            return " ".join(map(str, value))
        return None if value is None else str(value) if isinstance(value, str | bool) else self.default

    @property
    def computed(self) -> bool:
        """Whether there is a default that only running the script tells."""
        return self.default not in (None, "None") and self.typed_default is None

    @property
    def switch(self) -> bool:
        """Whether its value is one of `SWITCH`."""
        return (self.flag and not self.counts) or self.choices == SWITCH


@dataclass(frozen=True, slots=True)
class ScriptParser:
    """All that is known of what a script takes.

    Attributes:
        library: which library reads the arguments; empty if none is known.
        unread: names of what takes further options that were not read.
        loose: the script takes more than `options`, or passes on what it does not know.
    """

    options: tuple[ScriptOption, ...] = ()
    library: str = ""
    unread: tuple[str, ...] = ()
    loose: bool = False

    def __bool__(self) -> bool:
        return bool(self.options)


def literal_of(source: str | None) -> object:
    """The value of a literal's source; None if there is none, or if it is no literal."""
    if source is None:
        return None
    try:
        return ast.literal_eval(source)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
