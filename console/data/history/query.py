"""The recorded runs, newest first, and their filter."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from fnmatch import fnmatchcase
from functools import partial
from itertools import islice
from pathlib import Path

from launcher.errors import RecordError, SpecError
from launcher.runs.catalog import list_runs
from launcher.runs.samples import newest
from launcher.runs.status import Status
from launcher.spec.modes import Mode
from launcher.state import events as ev
from launcher.state.run_state import Phase

from ...formatting import duration, seconds_of, whole_minutes
from ..filtering import Figure, Filter, NamedField, Test, parse_filter
from .arguments import options_of

RECENT_LIMIT = 100
_NEWEST_BYTES = 64 << 10
_REPORT = ev.RankReported.tag.encode()


def submitted_at(run: Status) -> float:
    """When a run was submitted, by its record, else by its id."""
    return _time_of(run.id) if run.started is None else run.started


def _time_of(run: str) -> float:
    try:
        return datetime.strptime(f"{run[:15]}+0000", "%Y%m%d-%H%M%S%z").timestamp()
    except ValueError:  # not a valid date
        return 0.0


def all_runs(root: Path) -> Iterator[Status]:
    """Every run, newest first, from the index if Python has sqlite3.

    Raises:
        RecordError: the folder of runs cannot be read.
    """
    try:
        from launcher.runs.index import indexed_runs
    except ImportError:
        return list_runs(root)
    return indexed_runs(root)


def chosen_runs(root: Path, runs_filter: Filter[Status], limit: int | None = None) -> Iterable[Status]:
    """The newest runs that pass the filter, at most `limit`.

    Raises:
        RecordError: the folder of runs cannot be read.
    """
    return (current(run, root) for run in islice(filter(runs_filter.accepts, all_runs(root)), limit))


def recent_runs(root: Path, limit: int = RECENT_LIMIT) -> tuple[Status, ...]:
    """The newest runs; none if the folder of runs does not exist or cannot be read."""
    try:
        return tuple(chosen_runs(root, Filter(), limit))
    except RecordError:
        return ()


def current(run: Status, root: Path) -> Status:
    """The run; if it goes on, with the newest step and figures in its samples."""
    if run.state.final:
        return run
    leading: list[ev.RankReported] = []
    for fact in _reports(root / run.id):
        if fact.attempt == run.attempt and (not leading or fact.rank <= leading[0].rank):
            leading = [*leading, fact] if leading and fact.rank == leading[0].rank else [fact]
    metrics = {k: v for fact in leading for k, v in fact.metrics.items() if k != "total_steps"}
    steps = [fact.step for fact in leading if fact.step is not None]
    return replace(run, step=steps[-1] if steps else run.step, metrics={**run.metrics, **metrics})


def _reports(folder: Path) -> Iterator[ev.RankReported]:
    try:
        lines = newest(folder, _NEWEST_BYTES)
    except OSError:
        return
    for line in lines:
        with contextlib.suppress(ValueError):
            if _REPORT in line and isinstance(fact := ev.decode(line), ev.RankReported):
                yield fact


def took(run: Status, now: float | None = None) -> float | None:
    """The seconds that a run took or has taken so far, never negative; None if unknown."""
    end = run.ended if run.state.final else run.ended or (time.time() if now is None else now)
    return None if run.started is None or end is None else max(0.0, end - run.started)


def took_text(run: Status, now: float | None = None) -> str:
    """How long a run took; of one that goes on, whole minutes, so that the text seldom changes."""
    seconds = took(run, now)
    return duration(seconds) if run.state.final or seconds is None else whole_minutes(seconds)


_LIVE = tuple(phase for phase in Phase if not phase.final)
_GROUPS = {"live": _LIVE, "ended": tuple(phase for phase in Phase if phase.final)}


def fields(now: float) -> tuple[NamedField[Status], ...]:
    """The fields of the run filter; ages count back from `now`."""
    times = "90m, 12h, 2d, 1w or a date such as 2026-11-20"
    return (
        NamedField("state", f"live, ended or {', '.join(Phase)}", _in_state, ("state:failed", "state:live")),
        NamedField("name", "a part of the name, or a pattern for all of it", _named, ("name:",)),
        NamedField(
            "target",
            "a part of the target or of its arguments",
            _with_target,
            ("target:", "lr:0.1", "loss<2"),
        ),
        NamedField("user", "who submitted it", _by_user, ("user:",)),
        NamedField("mode", ", ".join(Mode), _in_mode, ("mode:",)),
        NamedField("since", times, lambda value: _since(since(value, now)), ("since:2d",)),
    )


def parse_run_filter(text: str, now: float) -> Filter[Status]:
    """Parse the run filter as it is typed. Beside the fields, it names options of runs and reported figures.

    Raises:
        SpecError: a value is invalid; the message names the valid ones.
    """
    return parse_filter(text, _texts, fields(now), FIGURES, _option_or_figure)


FIGURES: tuple[Figure[Status], ...] = (
    Figure("took", lambda run: took(run), read=lambda text: seconds_of(text, bare="s")),
    Figure("ranks", lambda run: run.num_processes),
    Figure("step", lambda run: run.step),
    Figure("exit", lambda run: run.exit_code),
)
"""The figures of runs that filters compare."""


def _option_or_figure(name: str, sign: str, value: str) -> Test[Status]:
    """``lr:0.1`` is an option's value, ``loss<2`` a reported figure or an option with a number as value."""
    if sign != ":":
        return Figure(name, partial(_figure, name)).compared(sign, value)
    words = f"{name}:{value}".lower()
    return lambda run: _is_option(run, name, value) or words in _texts(run)


def _figure(name: str, run: Status) -> float | None:
    told = run.metrics.get(name)
    return _number(options_of(run.args).get(name, "")) if told is None else told


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _is_option(run: Status, name: str, value: str) -> bool:
    """Whether a run has this value of an option: as it is typed, or the same number."""
    told = options_of(run.args).get(name)
    if told is None or told == value:
        return told is not None
    number = _number(value)
    return number is not None and number == _number(told)


def flags_filter(values: Mapping[str, str | None], now: float) -> Filter[Status]:
    """The filter of a command's flags, by the names of fields; None is a flag that is not given.

    ``--name`` takes a shell pattern for the whole name.

    Raises:
        SpecError: a value is invalid; the message names the valid ones.
    """
    by_name = {field.name: field for field in fields(now)}
    by_name["name"] = replace(by_name["name"], test=_matching)
    given = {name: value for name, value in values.items() if value is not None}
    return Filter(tests=tuple(by_name[name].means(v, option=f"--{name}") for name, v in given.items()))


def since(text: str, now: float) -> float:
    """The time that ``90m``, ``2d`` or ``2026-11-20`` means, in seconds since the epoch.

    Raises:
        ValueError: the text is neither an age nor a date.
    """
    try:
        return now - seconds_of(text, bare="")
    except SpecError:  # not an age
        pass
    try:
        return datetime.fromisoformat(text.strip()).timestamp()
    except (OverflowError, OSError) as error:
        raise ValueError(text) from error


def _since(time: float) -> Test[Status]:
    return lambda run: submitted_at(run) >= time


def _in_state(value: str) -> Test[Status]:
    """A test for states: names or their first letters, ``live`` or ``ended``, separated by commas."""
    parts = [part for part in value.lower().split(",") if part]
    groups = [_GROUPS.get(part, tuple(p for p in Phase if p.startswith(part))) for part in parts]
    if not groups or not all(groups):
        raise ValueError(value)
    phases = frozenset(phase for group in groups for phase in group)
    return lambda run: run.state in phases


def _in_mode(value: str) -> Test[Status]:
    modes = [mode for mode in Mode if mode.startswith(value.lower())]
    if len(modes) != 1:
        raise ValueError(value)
    return lambda run: run.mode == modes[0]


def _named(value: str) -> Test[Status]:
    lower = value.lower()
    pattern = lower if any(c in value for c in "*?[") else f"*{lower}*"
    return lambda run: fnmatchcase(run.name.lower(), pattern)


def _matching(pattern: str) -> Test[Status]:
    return lambda run: fnmatchcase(run.name, pattern)


def _with_target(value: str) -> Test[Status]:
    return lambda run: value in f"{run.target} {run.args}"


def _by_user(value: str) -> Test[Status]:
    return lambda run: run.user == value


def _texts(run: Status) -> str:
    return f"{run.id}\n{run.name}\n{run.target}\n{run.args}\n{run.user}\n{run.why}\n{run.state}".lower()
