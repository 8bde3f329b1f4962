"""What a person types to narrow the list of runs, and the orders it can have. Pure.

``llama state:failed !user:ada since:2d`` wants all of these at once; a bare word may stand anywhere in a
run's texts, and what follows ``!`` must not be so.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from console.sources.history import Query, since, submitted_at, took
from launcher.errors import SpecError
from launcher.runs.status import Status
from launcher.state import Phase

KEYS = ("state", "name", "target", "user", "mode", "since")
_LIVE = tuple(phase for phase in Phase if not phase.final)
_GROUPS = {"live": _LIVE, "ended": tuple(phase for phase in Phase if phase.final)}
_MODES = ("local", "cluster", "connect")

Test = Callable[[Status], bool]


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which runs are shown: those that pass every test."""

    text: str = ""
    tests: tuple[Test, ...] = ()

    def accepts(self, run: Status) -> bool:
        """Whether a run is shown."""
        return all(test(run) for test in self.tests)


def parse(text: str, now: float) -> Wanted:
    """What the text asks for; a key without a value, as one types it, asks for nothing yet.

    Raises:
        SpecError: a value means nothing; the sentence says what would.
    """
    return Wanted(text.strip(), tuple(_test(word, now) for word in _words(text) if not _unfinished(word)))


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # a quotation that is still open
        return text.replace('"', " ").replace("'", " ").split()


def _unfinished(word: str) -> bool:
    key, colon, value = word.removeprefix("!").partition(":")
    return not key or bool(colon and key in KEYS and not value)


def _test(word: str, now: float) -> Test:
    if word.startswith("!"):
        test = _test(word[1:], now)
        return lambda run: not test(run)
    key, colon, value = word.partition(":")
    if not colon or key not in KEYS:
        return _anywhere(word.lower())
    if key == "name":
        pattern = value.lower() if any(c in value for c in "*?[") else f"*{value.lower()}*"
        return lambda run: fnmatchcase(run.name.lower(), pattern)
    return _query(key, value, now).accepts


def _query(key: str, value: str, now: float) -> Query:
    if key == "state":
        return Query(states=_states(value.lower()))
    if key == "mode":
        return Query(mode=_mode(value.lower()))
    if key == "since":
        try:
            return Query(since=since(value, now))
        except SpecError:
            raise SpecError(f"since: takes 90m, 12h, 2d, 1w or 2026-11-20, not {value!r}") from None
    return Query(target=value) if key == "target" else Query(user=value)


def _states(value: str) -> tuple[str, ...]:
    """The states that are named, if only by their first letters, or ``live`` and ``ended``."""
    parts = filter(None, value.split(","))
    asked = [_GROUPS.get(part, tuple(p for p in Phase if p.startswith(part))) for part in parts]
    found = tuple(phase for group in asked for phase in group)
    if not found or not all(asked):
        raise SpecError(f"state: takes live, ended or {', '.join(Phase)}, not {value!r}")
    return found


def _mode(value: str) -> str:
    found = [mode for mode in _MODES if mode.startswith(value)]
    if len(found) != 1:
        raise SpecError(f"mode: takes {', '.join(_MODES)}, not {value!r}")
    return found[0]


def _anywhere(word: str) -> Test:
    return lambda run: word in _texts(run)


def _texts(run: Status) -> str:
    return f"{run.id}\n{run.name}\n{run.target}\n{run.args}\n{run.user}\n{run.why}\n{run.state}".lower()


ORDERS: dict[str, Callable[[Status], Any]] = {
    "started": lambda run: -submitted_at(run),
    "took": lambda run: -(took(run) or 0.0),
    "ranks": lambda run: -run.num_processes,
    "name": lambda run: run.name.lower(),
    "state": lambda run: run.state,
    "user": lambda run: run.user,
}
"""By what the list may be sorted, and how the first of each is found: the newest, the longest, the widest."""


def arranged(runs: Iterable[Status], wanted: Wanted, order: str, *, reverse: bool) -> tuple[Status, ...]:
    """The runs that are shown, in an order of `ORDERS`; those that go on stand above the others."""
    shown = sorted(filter(wanted.accepts, runs), key=ORDERS[order], reverse=reverse)
    return tuple(sorted(shown, key=lambda run: run.state.final))
