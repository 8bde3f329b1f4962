"""The columns of the list of runs by name: what each shows of a run, and by what it sorts. Pure."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache

from launcher.runs.status import Status

from ... import formatting as fig
from ...sanitize import printable
from ..curves.run_curves import leading
from ..filtering import Filter
from ..ranks.columns import REPORTED, Value, names_problem, natural
from .query import submitted_at, took, took_text

ARGS, CURVE, STATE = "args", "curve", "state"
_TEXT = 500


@dataclass(frozen=True, slots=True, eq=False)
class RunColumn:
    """One column of runs.

    Attributes:
        name: its name in the settings and where the list is sorted.
        title, width, keep, style, left: as of a column of a table.
        text: its cell for a run; the screen makes those of `ARGS` and `CURVE`.
        value: what it sorts by; None is unknown, and comes last.
        rising: whether the least value comes first.
    """

    name: str
    title: str
    width: int
    text: Callable[[Status], str]
    value: Callable[[Status], Value]
    keep: int
    style: str = ""
    left: bool = False
    rising: bool = True


def text_line(text: str) -> str:
    """The beginning of a text on one line."""
    return " ".join(printable(text[:_TEXT]).split())


def name_of(run: Status) -> str:
    """The name of a run; of one that has only its function's name, with the file."""
    source, colon, function = os.path.basename(run.target[-_TEXT:]).rpartition(":")
    if colon and run.name == function:
        return text_line(f"{source}:{function}")
    return text_line(run.name or run.id)


_NUMBER = re.compile(r"(\d+(?:\.\d+)?(?:e[+-]?\d+)?)", re.IGNORECASE)


@lru_cache(16384)
def _by_numbers(args: str) -> tuple[object, ...]:
    """A sort key of arguments in which numbers are compared as numbers: 3e-4 comes before 0.001."""
    parts = _NUMBER.split(args[:_TEXT])
    return tuple(float(part) if at % 2 else part for at, part in enumerate(parts))


def _leading_value(run: Status) -> float | None:
    name = leading(run.metrics)
    value = None if name is None else run.metrics[name]
    return value if fig.is_finite(value) else None


COLUMNS: tuple[RunColumn, ...] = (
    RunColumn("started", "started", 12, lambda run: fig.date(run.started), submitted_at, 55, "muted",
              left=True, rising=False),
    RunColumn("took", "took", 7, took_text, took, 80, rising=False),
    RunColumn("ranks", "ranks", 5, lambda run: str(run.num_processes), lambda run: run.num_processes, 75,
              rising=False),
    RunColumn("name", "name", 16, name_of, lambda run: natural(name_of(run).lower()), 90, "bold", left=True),
    RunColumn(STATE, "state", 10, lambda run: run.state, lambda run: run.state, 99, left=True),
    RunColumn("user", "who", 10, lambda run: text_line(run.user), lambda run: run.user, 40, left=True),
    RunColumn(ARGS, "args", 12, lambda run: text_line(run.args), lambda run: _by_numbers(run.args), 85,
              left=True),
    RunColumn(CURVE, "curve", 10, lambda _: "", _leading_value, 60, "bar", left=True),
    RunColumn("target", "target", 16, lambda run: text_line(os.path.basename(run.target[-_TEXT:])),
              lambda run: natural(run.target), 30, left=True),
    RunColumn("mode", "mode", 7, lambda run: text_line(run.mode), lambda run: run.mode, 20, "muted",
              left=True),
    RunColumn("exit", "exit", 4, lambda run: "" if run.exit_code is None else str(run.exit_code),
              lambda run: run.exit_code, 50, rising=False),
    RunColumn("step", "step", 9, lambda run: fig.count(run.step), lambda run: run.step, 10, rising=False),
)  # fmt: skip
"""All columns, in the order in which a key walks through them to sort."""

USUAL = ("name", ARGS, CURVE, "ranks", "mode", "user", "target", "started", "took", "exit")
"""The usual columns, in their order."""

_BY_NAME = {column.name: column for column in COLUMNS} | {"who": COLUMNS[5]}


@cache
def _reported(metric: str) -> RunColumn:
    def value(run: Status) -> float | None:
        told = run.metrics.get(metric)
        return told if fig.is_finite(told) else None

    def text(run: Status) -> str:
        return fig.metric(run.metrics[metric]) if metric in run.metrics else ""

    title = text_line(metric) or "?"
    return RunColumn(metric, title, min(max(9, len(title)), 16), text, value, 10)


def run_column(name: str) -> RunColumn:
    """The column of a name; a name that is not in the table is that of a reported figure."""
    return _BY_NAME.get(name.lower()) or _reported(name.removeprefix(REPORTED))


def run_columns(chosen: Sequence[str] = ()) -> list[RunColumn]:
    """The columns beside the state, which is always first: the chosen ones, or the usual ones.

    Where room is short, the usual ones are left out by their importance, chosen ones from the end.
    """
    if not chosen:
        return [run_column(name) for name in USUAL]
    columns = [run_column(name) for name in chosen if name.lower() != STATE]
    return [replace(column, keep=len(columns) - at) for at, column in enumerate(columns)]


def run_columns_problem(names: object) -> str | None:
    """Why a list of columns of runs is invalid, as the rest of a sentence; None if it is valid."""
    return names_problem(names, _BY_NAME, "runs")


ORDERS = tuple(column.name for column in COLUMNS)
"""The orders of the list, by the names of the columns; newest, longest and largest runs come first."""


def arranged(
    runs: Iterable[Status], runs_filter: Filter[Status], order: str, *, reverse: bool
) -> tuple[Status, ...]:
    """The runs that pass the filter, sorted by a column; runs that go on come first, unknown values last."""
    column = run_column(order)
    shown = [(column.value(run), run) for run in runs if runs_filter.accepts(run)]
    known = [each for each in shown if each[0] is not None]
    known.sort(key=lambda each: each[0], reverse=column.rising is reverse)  # type: ignore[arg-type, return-value]
    listed = [run for _, run in (*known, *(each for each in shown if each[0] is None))]
    return tuple(sorted(listed, key=lambda run: run.state.final))
