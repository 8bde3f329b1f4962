"""The arguments of runs as options with values, and those in which runs of one target differ. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import islice

from launcher.runs.status import Status

from ...formatting import shorten
from ..options.guessed import guessed

FLAG = ""
"""The value of an option without one."""

_TEXT, _VALUE, _SHOWN = 2000, 40, 400
_COMPARED, _NAMES = 1000, 100
MOST_WIDTH, _MEASURED = 30, 256
NOTHING = "–"
"""For a run that has none of the options in which the others differ."""


@lru_cache(16384)
def options_of(args: str) -> Mapping[str, str]:
    """The options of a run's arguments, without their dashes, and the values; of a flag it is `FLAG`.

    ``--lr 0.1``, ``--lr=0.1`` and ``lr=0.1`` are the same. A positional argument has its number as name,
    an option that occurs several times all its values.
    """
    options: dict[str, str] = {}
    positional = 0
    for each in guessed(_words(args[:_TEXT])):
        positional += not each.name
        name, value = each.bare or str(positional), " ".join(each.values)
        options[name] = f"{options[name]},{value}" if name in options else value
    return options


def _words(args: str) -> list[str]:
    if not any(c in args for c in "\"'\\"):
        return args.split()
    try:
        return shlex.split(args)
    except ValueError:  # it was cut within a quotation
        return args.split()


class Differences:
    """In which arguments the listed runs of each target differ.

    `width` is that of the longest text of the first runs, at most `MOST_WIDTH`; 0 if none has arguments.
    """

    def __init__(self, runs: Sequence[Status] = ()) -> None:
        groups: dict[str, dict[str, None]] = {}
        for run in runs:
            groups.setdefault(run.target, {})[run.args] = None
        self._names = {target: _differing(args) for target, args in groups.items() if len(args) > 1}
        texts = [self.text(run) for run in runs[:_MEASURED] if run.args]
        self.width = min(max(map(len, texts), default=0), MOST_WIDTH)

    def among(self, run: Status) -> bool:
        """Whether there are other runs of the target with other arguments."""
        return run.target in self._names

    def text(self, run: Status) -> str:
        """The options in which a run and the others of its target differ; all of them where none do."""
        options, names = options_of(run.args), self._names.get(run.target)
        if names is None:
            return _text(options, options)
        return _text(options, [name for name in names if name in options]) or NOTHING


def _differing(args: Iterable[str]) -> list[str]:
    """The options that are not the same in all of these arguments, in the order in which they first occur."""
    all_options = [options_of(each) for each in islice(args, _COMPARED)]
    names = islice(dict.fromkeys(name for options in all_options for name in options), _NAMES)
    return [name for name in names if len({options.get(name) for options in all_options}) > 1]


def _text(options: Mapping[str, str], names: Iterable[str]) -> str:
    parts = []
    for name in names:
        value = shorten(" ".join(options[name].split()), _VALUE)
        parts.append(value if name.isdigit() else f"{name}={value}" if value else name)
    return " ".join(parts)[:_SHOWN]
