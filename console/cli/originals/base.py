"""Another launcher's command line: a table of its options, the parser made from it, what a line means here.

A line is parsed with `argparse`, as the originals parse theirs, so that abbreviations, equals signs, two
spellings of an option and the words after the script are understood as they are there. Each option has a row
in its launcher's table: with what it does here, with the reason why it has no meaning here, or with the
reason why a line that has it is refused. Nothing here starts anything.
"""

from __future__ import annotations

import argparse
import errno
import os
import re
import stat
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

from launcher.agent.gpus import VISIBLE
from launcher.errors import SpecError
from launcher.serialization import MOST_INDEX
from launcher.spec.job import TargetKind
from launcher.spec.redaction import Redactor
from launcher.state.outcome_rules import listed

RANKS = "num_processes"
"""Our option for the number of ranks, by its name."""
MEETING = "rankdeck makes the rendezvous itself"
STARTING = "rankdeck starts the ranks, without ssh"
LOGS = "the run's folder keeps every rank's output, for `rankdeck logs` and the console"
WATCHING = "rankdeck hears of every exit when it happens"
ROLE = "ranks keep ROLE_NAME=default"
KEPT = "What a run does anyway: its output is printed, and kept."
MODULE = "The script is a module, run as python -m runs it."
PROGRAM = "The script is a program, and not Python's to run."
"""Reasons and effects that several launchers' options have in common."""
_SPARK_EXAMPLE = "spark://HOST:7077"
MOST_RANKS = MOST_INDEX
"""The most ranks that a run can have."""
_LONGEST_QUOTE = 200
_MOST_BYTES = 1 << 20


class HelpWanted(Exception):
    """The line asks for help."""


@dataclass(frozen=True, slots=True)
class Row:
    """An option of another launcher.

    Attributes:
        names: all its spellings, separated by spaces.
        does: what it does here, for its help.
        without: why it has no meaning here, for a note; the end of a sentence.
        refused: why a line with it is refused; a sentence.
        option: the name of our own option that it sets; given before the word, ours wins.
        kind: converts a value; ValueError if it is none.
        words: how many values it takes.
        value: the value of an option that takes none.
        many: whether it may be given several times, for a list of values.
        choices: the allowed values; empty for any.
        dest: the name of its value, if that does not follow from its names.
        excludes: options with the same text here exclude each other.
        asks: whether it asks for help.
    """

    names: str
    does: str = ""
    without: str = ""
    refused: str = ""
    option: str = ""
    kind: Callable[[str], Any] = str
    words: int = 1
    value: Any = True
    many: bool = False
    choices: tuple[str, ...] = ()
    dest: str = ""
    excludes: str = ""
    asks: bool = False

    @property
    def spellings(self) -> tuple[str, ...]:
        """Its spellings, each alone."""
        return tuple(self.names.split())


HELP = Row("-h --help", does="Print this.", words=0, asks=True)


@dataclass(frozen=True, slots=True)
class ParsedLine:
    """A parsed command line.

    Attributes:
        values: the values of the options that are given, by `dest`.
        said: the rows of these options, each with the option as it is spelt on the line.
        script: the first word that is no option.
        args: the words after it, as they stand.
    """

    values: Mapping[str, Any]
    said: Mapping[Row, str]
    script: str = ""
    args: tuple[str, ...] = ()

    def get(self, dest: str, default: Any = None) -> Any:
        """The value of an option, if it is given."""
        return self.values.get(dest, default)

    def named(self, option: str) -> str:
        """The option for a message: the variable that sets it, if it is not on the line itself."""
        spelt = next((spelt for row, spelt in self.said.items() if option in row.spellings), option)
        return option if spelt.startswith("-") else spelt


def read_text(path: str) -> str:
    """The text of a regular file of at most 1 MiB.

    Raises:
        OSError: it is none, is larger, or cannot be read.
        ValueError: it is no text in UTF-8, or the path is none.
    """
    _require_regular(os.stat(path))
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _require_regular(os.fstat(descriptor))
        parts, left = [], _MOST_BYTES + 1
        while part := os.read(descriptor, left):
            parts.append(part)
            left -= len(part)
    finally:
        os.close(descriptor)
    if not left:
        raise OSError(errno.EFBIG, "it is larger than 1 MiB")
    try:
        return b"".join(parts).decode()
    except UnicodeDecodeError:
        raise ValueError("it is no text in UTF-8") from None


def _require_regular(found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        what = "a folder" if stat.S_ISDIR(found.st_mode) else "a pipe or a device"
        raise OSError(errno.EINVAL, f"it is {what}, and no regular file")


@dataclass(frozen=True, slots=True)
class Here:
    """What the meaning of a line depends on besides its words.

    Attributes:
        ours: the names of our own options that stand before the word, each as it is spelt.
        on_spark: whether the ranks run on a Spark cluster.
        environ: the caller's environment.
        gpus: counts this machine's GPUs that a process with an environment sees.
        cpus: how many cores this process may use.
        hostname: this machine's name.
        read: the text of a file, as `read_text`; OSError or ValueError if it cannot be read.
        ask: runs a program with some words in the ranks' interpreter, and returns the JSON value that it
            prints; SpecError with what it says if it fails.
    """

    ours: Mapping[str, str] = field(default_factory=dict)
    on_spark: bool = False
    environ: Mapping[str, str] = field(default_factory=dict)
    gpus: Callable[[Mapping[str, str]], int] = lambda _: 0
    cpus: int = 1
    hostname: str = ""
    read: Callable[[str], str] = read_text
    ask: Callable[[str, Sequence[str]], Any] = lambda _, __: None

    @property
    def gpus_seen(self) -> int:
        """How many GPUs of this machine the caller sees."""
        return self.gpus(self.environ)

    @property
    def gpus_here(self) -> int:
        """How many GPUs this machine has, whatever CUDA_VISIBLE_DEVICES hides."""
        return self.gpus({name: text for name, text in self.environ.items() if name != VISIBLE})


@dataclass(frozen=True, slots=True)
class Translation:
    """What a line means here. Our own options, given before the word, come above it.

    Attributes:
        kind: what `source` is: a script of Python, a module, or a program.
        source: what every rank runs.
        args: its arguments.
        options: values of our launch options that the line says, by name.
        usual: values of our launch options where neither the line nor ``[defaults]`` says any.
        ranks: the ranks whose output is printed; empty if the line does not say it.
        environ: variables that the ranks get; CUDA_VISIBLE_DEVICES chooses among this machine's GPUs.
        notes: what the user should know before the start, each a sentence.
    """

    kind: TargetKind
    source: str
    args: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    usual: Mapping[str, Any] = field(default_factory=dict)
    ranks: str = ""
    environ: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def noting(self, *notes: str) -> Translation:
        """The same with more notes; empty ones are left out."""
        return replace(self, notes=(*self.notes, *filter(None, notes)))


@dataclass(frozen=True, slots=True)
class Original:
    """Another launcher.

    Attributes:
        name: its command, and ours.
        usage: what follows the name.
        rows: its options.
        translate: what a line means here, from its words and what it depends on.

            Raises:
                SpecError: the line is wrong, or cannot be served.
                HelpWanted: it asks for help.
        remarks: what its help says at the end.
    """

    name: str
    usage: str
    rows: tuple[Row, ...]
    translate: Callable[[Sequence[str], Here], Translation]
    remarks: str = ""


class _Parser(argparse.ArgumentParser):
    """A parser that raises: its errors are those of a request."""

    def error(self, message: str) -> NoReturn:
        hint = f"rankdeck {self.prog} --help lists its options"
        raise SpecError(f"{self.prog}: {shortened(without_secrets(message))}", hint=hint)


class _Said(argparse.Action):
    """Records that an option is given, how it is spelt, and its value."""

    def __init__(self, *, row: Row, who: str, **more: Any) -> None:
        super().__init__(default=argparse.SUPPRESS, **more)
        self._row, self._who = row, who

    def __call__(
        self, parser: object, namespace: argparse.Namespace, values: Any, option_string: str | None = None
    ) -> None:
        del parser
        row, spelt = self._row, option_string or ""
        if row.asks:
            raise HelpWanted
        if row.refused:
            raise SpecError(f"{self._who} {spelt}: {row.refused}")
        namespace.said[row] = spelt
        value = values if row.words else row.value
        if row.many:
            value = [*getattr(namespace, self.dest, []), value]
        setattr(namespace, self.dest, value)


def parse(
    who: str,
    rows: Sequence[Row],
    words: Sequence[str],
    *,
    script: str = "script",
    before: Mapping[str, str] | None = None,
) -> ParsedLine:
    """Parse a line: options, the script, and its arguments.

    Args:
        who: the launcher's command.
        rows: its options.
        words: the line after the command.
        script: what the first word that is no option is called in messages; empty for a line on which all
            words from there on are one command.
        before: options of less weight, by the names of the variables that set them.

    Raises:
        SpecError: an option is unknown or refused, a value is wrong, or there is no script.
        HelpWanted: the line asks for help.
    """
    parser = _parser(who, rows)
    namespace = argparse.Namespace(said={})
    for variable, word in (before or {}).items():
        _parse_variable(parser, variable, word, namespace)
    if script:
        parser.add_argument(script)
    parser.add_argument("args", nargs=argparse.REMAINDER).required = False
    found = vars(parser.parse_args(words, namespace))
    said, args = found.pop("said"), found.pop("args", None) or ()
    return ParsedLine(found, said, found.pop(script, ""), tuple(args))


def _parse_variable(
    parser: argparse.ArgumentParser, variable: str, word: str, namespace: argparse.Namespace
) -> None:
    """Parse an option that a variable sets.

    Raises:
        SpecError: its value is wrong.
    """
    known = {*namespace.said}
    try:
        parser.parse_args([word], namespace)
    except SpecError as error:
        message = error.message.removeprefix(f"{parser.prog}: ")
        raise SpecError(f"{variable}: {message}", hint=error.hint) from None
    namespace.said |= dict.fromkeys({*namespace.said} - known, variable)


def _parser(who: str, rows: Sequence[Row]) -> argparse.ArgumentParser:
    parser = _Parser(who, add_help=False)
    exclusive = {row.excludes: parser.add_mutually_exclusive_group() for row in rows if row.excludes}
    for row in rows:
        holder: Any = exclusive.get(row.excludes, parser)
        more: dict[str, Any] = {"nargs": None if row.words == 1 else row.words, "type": row.kind}
        if row.dest:
            more["dest"] = row.dest
        holder.add_argument(
            *row.spellings, action=_Said, row=row, who=who, choices=row.choices or None, **more
        )
    return parser


def shortened(text: str) -> str:
    """A message that quotes a word of any length, as one that people can read."""
    half = _LONGEST_QUOTE // 2
    return text if len(text) <= 2 * _LONGEST_QUOTE else f"{text[:half]} … {text[-half:]}"


def quoted(text: str) -> str:
    """A word of the line, of a variable or of a file, for a message: without secrets, and not too long."""
    shown = without_secrets(text)
    return repr(shown) if len(shown) <= _LONGEST_QUOTE else f"{shown[:_LONGEST_QUOTE]!r}…"


_WORD = re.compile(r"[^\s'\"]+")


def without_secrets(text: str) -> str:
    """A text without the secrets in it: also those of an option that is the value of another one."""
    redactor = Redactor()
    whole = _masked(redactor, text)
    return redactor.mask(_WORD.sub(lambda match: _masked(redactor, match[0]), whole))


def _masked(redactor: Redactor, word: str) -> str:
    """A word with what follows each of its first equals signs masked, if its name is that of a secret."""
    before, rest = "", word
    for _ in range(4):
        masked = redactor.mask(rest)
        name, sign, value = rest.partition("=")
        if masked != rest or not sign:
            return before + masked
        before, rest = f"{before}{name}=", value
    return before + redactor.mask(rest)


def notes_on(who: str, line: ParsedLine, here: Here) -> tuple[str, ...]:
    """A note on each option that has no meaning here, and on each that one of ours takes the place of."""
    reasons: dict[str, list[str]] = {}
    for row, spelt in line.said.items():
        if ours := here.ours.get(row.option):
            reasons.setdefault(f"no effect: {ours} stands before the word", []).append(spelt)
        elif row.without:
            reasons.setdefault(f"no meaning here: {row.without}", []).append(spelt)
    return tuple(
        f"{who}'s {listed(names)} {'has' if len(names) == 1 else 'have'} {reason}"
        for reason, names in reasons.items()
    )


def ranks_of(per_node: int, low: int, high: int) -> tuple[int | None, int]:
    """The value of our ``-n`` for so many ranks on each of so many nodes.

    Raises:
        SpecError: these are more than any run can have.
    """
    if per_node * high > MOST_RANKS:
        raise too_many()
    return (None if low == high else per_node * low), per_node * high


def too_many() -> SpecError:
    """The error for more ranks, nodes or slots than any run can have."""
    return SpecError(f"a run can have {MOST_RANKS:,} ranks at most, and the line says more")


def several_machines(who: str, what: str, line: str) -> SpecError:
    """The error for a line that is meant to be run on several machines, without a Spark cluster to run on.

    Args:
        who: the launcher's command.
        what: the part of the line that says so.
        line: the line as it is to be run, after the command.
    """
    line = line if len(line) < _LONGEST_QUOTE else "…"
    return SpecError(
        f"{who} {what} needs several machines, and no Spark cluster is named",
        hint=f"run it once, from one machine: rankdeck --master {_SPARK_EXAMPLE} {who} {line}; the options "
        "about the rendezvous fall away",
    )


def count_needed(who: str, option: str, what: str) -> SpecError:
    """The error for a number of ranks that only one of the cluster's own machines could tell."""
    return SpecError(
        f"{who} {what} counts what one machine has, and a cluster's machines cannot be counted from here",
        hint=f"give {who} a number, {option}; or rankdeck that of all ranks: rankdeck -n 8 … {who} …",
    )


def is_here(host: str, here: Here) -> bool:
    """Whether a host's name in a line is this machine's."""
    return host in ("localhost", "127.0.0.1", "::1", here.hostname)


def text_of(what: str, path: str, here: Here) -> str:
    """The text of a file that the line names.

    Raises:
        SpecError: it cannot be read; the message begins with `what`.
    """
    try:
        return here.read(path)
    except (OSError, ValueError) as error:
        raise unreadable(what, path, error) from error


def unreadable(what: str, path: str, error: OSError | ValueError) -> SpecError:
    """The error for a file that cannot be read; the message begins with `what`."""
    why = error.strerror if isinstance(error, OSError) else error
    return SpecError(f"{what}: {quoted(path)} cannot be read: {why}")


def kind_of(who: str, no_python: str, *, module: bool, program: bool) -> TargetKind:
    """What a line runs that says so by two options, ``--module`` and `no_python`.

    Raises:
        SpecError: it says two things at once.
    """
    if module and program:
        raise SpecError(f"{who} takes {no_python} or --module, and not both")
    return TargetKind.MODULE if module else TargetKind.PROGRAM if program else TargetKind.SCRIPT
