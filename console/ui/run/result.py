"""The results of a run: every rank's value or how it ended. A value is shown according to its structure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from itertools import islice
from typing import Any

from rich.cells import cell_len

from launcher.diagnosis.failing_code import ShownLine, traceback_lines
from launcher.diagnosis.stacks import standstills
from launcher.diagnosis.wording import cause_lines
from launcher.display.artifacts import total_line
from launcher.display.hangs import hung_line
from launcher.errors import size_text
from launcher.spec.places import host_labels
from launcher.state.library_code import is_library
from launcher.state.ranks import Rank
from launcher.state.run_state import RunState

from ... import formatting as fig
from ...data.code.source import Spot
from ...data.run.model import RankView, RunView
from ...data.run.narration import xid_lines
from ...data.run.trackers import tracker_records
from ...data.run.usage import use_texts
from ..widgets.plots import plot_rows
from ..widgets.rows import Row, wrapped_rows
from .failure import circumstances, ending
from .frames import FrameSheet, fitted
from .rank_cells import GLYPHS, STYLES

_HOST = 12
_FILES = 50


class ResultPane(FrameSheet):
    """Results by rank. Values are read from their JSON summary; nothing is unpickled here."""

    TOPIC = "results"

    def show(self, view: RunView) -> None:
        """Show a newer view of the run."""
        super().show(view)
        returns = view.state.prediction is None and (view.live or view.results)
        back = f" · {len(view.results)}/{view.size} returned" if returns else ""
        code = "" if view.state.exit_code is None else f" · exit {view.state.exit_code}"
        self.entitle(f"4 Result{back}{code}")

    def framed_rows(self, width: int) -> tuple[Sequence[Row], Mapping[int, Spot]]:
        """The failure if there is one, then a row for each rank."""
        if self.view is None:
            return [()], {}
        spots: dict[int, Spot] = {}
        rows = result_rows(self.view, width, spots)
        return [fitted(row, spots.get(number), width) for number, row in enumerate(rows)], spots

    def first_of(self, spots: Mapping[int, Spot]) -> int | None:
        """The innermost frame of the user's code: it is where the exception was raised."""
        own = [row for row, spot in spots.items() if not is_library(spot.file)]
        failing = failing_spot(self.view) if self.view is not None else None
        at = [row for row in own if failing is not None and (spots[row].file, spots[row].line) == failing]
        return next(reversed(at or own), None)


def failing_spot(view: RunView) -> tuple[str, int] | None:
    """The file and line of the user's code at which the first failure was raised; None if not known."""
    first = view.state.first_failure
    frames = first.raised.frames if first is not None and first.raised else ()
    return frames[-1][:2] if frames else None


def result_rows(view: RunView, width: int, spots: MutableMapping[int, Spot] | None = None) -> list[Row]:
    """All rows of the pane; the traceback's frames are put into `spots`, by the numbers of their rows."""
    rows: list[Row] = []
    first = view.state.first_failure
    if first is not None:
        rows += _failure(view, first, width, {} if spots is None else spots)
    elif hung := hung_line(view.state, view.now):
        rows.append(((f" {hung.partition(':')[0]}", "rank-hung bold"),))
        rows += [((f"   {place}", ""),) for place in standstills(view.state.last_stacks)]
    elif no_result_yet(view) and not view.artifacts:
        nothing: Row = ((" nothing yet: values appear here as ranks return", "muted"),)
        return [nothing, *_warnings(view, width)]
    if view.state.why and not view.live and first is None:
        rows.append(((f" {view.state.why}", "bold"),))
    if not view.live and first is None:
        rows += _standing(view.state, width)
    if not view.live and (used := use_texts(view.use)):
        rows.append(((f" {' · '.join(used)}", ""),))
    values = {int(entry["rank"]): entry for entry in view.results}
    rows += _shaped(view.results, width)
    hosts = host_labels([v.rank.host for v in view.ranks], _HOST)
    rows += [_rank_row(v, values.get(v.rank.rank), hosts) for v in view.ranks if _has_end(v, values)]
    return [*rows, *_trackers(view), *_artifacts(view), *_warnings(view, width), *_cleanup(view)]


def _warnings(view: RunView, width: int) -> Iterator[Row]:
    """What was noted that may need somebody's attention; the rest is in the history."""
    for line in xid_lines(view.state):
        yield from wrapped_rows(f"! {line}", width, "rank-behind")
    for note in view.state.notes:
        if note.level != "info":
            yield from wrapped_rows(f"! {note.text}", width, "rank-behind")


def _artifacts(view: RunView) -> Iterator[Row]:
    """The files that came home: the newest first, as many as fit in a screen."""
    if not view.artifacts:
        return
    command = f"rankdeck artifacts {view.state.id}"
    yield ((f" {total_line(view.state)}, came home  ", "bold"), (command, "muted"))
    newest = sorted(view.artifacts.items(), key=lambda item: -item[1].time)
    for path, each in newest[:_FILES]:
        by = each.host if each.rank is None else f"rank {each.rank}"
        size = f"-> {each.link}" if each.link else size_text(each.size)
        about = f"{size}  {by}  {fig.moment(each.time)}"
        yield ((f"   {_printable(path)}  ", ""), (_printable(about), "muted"))
    if len(newest) > _FILES:
        yield ((f"   and {fig.number(len(newest) - _FILES, 'file')} more", "muted"),)


def _trackers(view: RunView) -> Iterator[Row]:
    for record in tracker_records(view.state):
        yield ((f" {record.name} ", "bold"), (record.place, ""), (f"  {record.makers}", "muted"))


def no_result_yet(view: RunView) -> bool:
    """Whether the run is live and no rank has returned or failed."""
    return view.live and not view.results and view.state.first_failure is None


def _standing(state: RunState, width: int) -> Iterator[Row]:
    """Why a gang without a first failure ended: the cause, else where its ranks were."""
    if state.found is None:
        yield from (((f"   {place}", ""),) for place in standstills(state.last_stacks))
    for line in cause_lines(state.found):
        yield from wrapped_rows(f"  {line}", width, "bold" if line.startswith("cause") else "")


def _failure(view: RunView, first: Rank, width: int, spots: MutableMapping[int, Spot]) -> list[Row]:
    rows: list[Row] = [
        ((f" ✗ rank {first.rank} on {first.host} {ending(first)}", "rank-failed bold"),),
        ((f"   {circumstances(view.state, first)}", "muted"),),
    ]
    for line in cause_lines(view.state.found):
        rows += wrapped_rows(f"  {line}", width, "bold" if line.startswith("cause") else "")
    if first.raised:
        for shown in traceback_lines(first.raised):
            if shown.place is not None:
                spots[len(rows)] = Spot(*shown.place)
            rows += _traceback_rows(shown, width)
    return [*rows, ()]


_TRACEBACK_STYLES = {"source": "muted", "folded": "muted", "failing": "bold"}


def _traceback_rows(line: ShownLine, width: int) -> Iterator[Row]:
    """A line of the traceback: one row, but a message has as many as it needs."""
    text = _printable(line.text)
    if line.kind == "text" and cell_len(text) > width - 3:
        yield from wrapped_rows(f"  {text}", width)
    else:
        yield ((f"   {text}", _TRACEBACK_STYLES.get(line.kind, "")),)


def _shaped(results: Sequence[Mapping[str, Any]], width: int) -> list[Row]:
    """The first value that does not fit on one line, in full."""
    entry = next((e for e in results if e.get("json") and structured(e.get("value"))), None)
    if entry is None:
        return []
    same = sum(e.get("value") == entry["value"] for e in results) - 1
    others = f", and so did {fig.number(same, 'other')}" if same else ""
    head: Row = ((f" rank {entry['rank']} returned{others}:", "bold"),)
    return [head, *value_rows(entry["value"], width), ()]


def _has_end(view: RankView, values: Mapping[int, Any]) -> bool:
    return view.rank.phase.ended or view.rank.rank in values


def _rank_row(view: RankView, entry: Mapping[str, Any] | None, hosts: Mapping[str, str]) -> Row:
    rank = view.rank
    text = ending(rank) if entry is None else _value(entry)
    kind = "" if entry is None else f"{entry.get('type', '')} "
    return (
        (f" {GLYPHS[view.condition]} ", STYLES[view.condition]),
        (f"{rank.rank:>4} ", "bold"),
        (f"{hosts.get(rank.host, fig.UNKNOWN):<{_HOST}} ", "muted"),
        (kind, "muted"),
        (_printable(text), "" if entry is not None else "muted"),
    )


def _value(entry: Mapping[str, Any]) -> str:
    value = entry.get("value")
    text = written(value) if entry.get("json") else str(value)
    return fig.shorten(text, MOST_CELLS)


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text.expandtabs(4))


def _cleanup(view: RunView) -> Iterator[Row]:
    proofs = [h.cleanup for h in view.state.hosts.values() if h.cleanup is not None]
    if not proofs:
        return
    left = sum(len(p.survivors) for p in proofs)
    killed = sum(p.terminated + p.killed for p in proofs)
    text = f"{left} left running" if left else "nothing left running"
    extra = f", {killed} had to be ended" if killed else ""
    yield ((f" {text} on {fig.number(len(proofs), 'host')}{extra}", "rank-lost" if left else "muted"),)


MOST_ROWS, MOST_CELLS = 400, 200
_DEPTH, _COLUMN, _PLOT, _LEAST_COURSE = 8, 18, 5, 8


def structured(value: object) -> bool:
    """Whether a value needs more than one line: a series of numbers, or a collection of collections."""
    inner = list(value.values() if isinstance(value, dict) else value if isinstance(value, list) else ())
    return is_course(value) or any(isinstance(v, dict | list) and v for v in inner)


def value_rows(value: object, width: int) -> list[Row]:
    """The first `MOST_ROWS` rows of a value."""
    rows = list(islice(_rows(value, width, 1), MOST_ROWS + 1))
    return rows if len(rows) <= MOST_ROWS else [*rows[:MOST_ROWS], ((" …", "muted"),)]


def _rows(value: Any, width: int, depth: int) -> Iterator[Row]:
    indent = "  " * depth
    if depth > _DEPTH or not isinstance(value, dict | list) or not value:
        yield ((indent + scalar(value), ""),)
    elif isinstance(value, dict):
        yield from _tree(value, width, depth)
    elif is_table(value):
        yield from _table(value, indent)
    elif is_course(value):
        yield from _course("", value, width, depth)
    else:
        for number, item in enumerate(value):
            yield from _entry(str(number), item, width, depth)


def _tree(value: Mapping[str, Any], width: int, depth: int) -> Iterator[Row]:
    for name, item in value.items():
        yield from _entry(str(name), item, width, depth)


def _entry(name: str, item: Any, width: int, depth: int) -> Iterator[Row]:
    label = "  " * depth + _text(name)
    if is_course(item):
        yield from _course(name, item, width, depth)
    elif isinstance(item, dict | list) and item:
        yield ((label, "muted"), (f"  {len(item)}", "muted"))
        yield from _rows(item, width, depth + 1)
    else:
        yield ((f"{label}  ", "muted"), (scalar(item), ""))


def is_table(value: object) -> bool:
    """Whether a value is a list of objects without nested collections."""
    return (
        isinstance(value, list)
        and len(value) > 1
        and all(isinstance(row, dict) and row for row in value)
        and not any(isinstance(cell, dict | list) for row in value for cell in row.values())
    )


def is_course(value: object) -> bool:
    """Whether a value is a series of numbers that is long enough to be plotted."""
    return isinstance(value, list) and len(value) >= _LEAST_COURSE and all(_is_number(v) for v in value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300


def _table(rows: Sequence[Mapping[str, Any]], indent: str) -> Iterator[Row]:
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[scalar(row[name]) if name in row else "" for name in names] for row in rows[:MOST_ROWS]]
    sizes = [
        min(max(len(_text(n)), *(len(line[at]) for line in cells)), _COLUMN) for at, n in enumerate(names)
    ]
    yield ((indent + _line([_text(name) for name in names], sizes), "muted"),)
    for line in cells:
        yield ((indent + _line(line, sizes), ""),)
    if len(rows) > len(cells):
        yield ((f"{indent}and {len(rows) - len(cells)} more", "muted"),)


def _line(cells: Sequence[str], sizes: Sequence[int]) -> str:
    return "  ".join(f"{fig.shorten(cell, size):<{size}}" for cell, size in zip(cells, sizes, strict=True))


def _course(name: str, values: Sequence[float], width: int, depth: int) -> Iterator[Row]:
    for row in plot_rows(_text(name) or fig.number(len(values), "figure"), values, width - 2 * depth, _PLOT):
        yield (("  " * depth, ""), *row)


def scalar(value: object) -> str:
    """One value on one line."""
    if isinstance(value, float):
        return fig.metric(value, 6)
    return _text(value if isinstance(value, str) else written(value))


def written(value: object) -> str:
    """A value as JSON; a note if it is nested too deeply."""
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "… nested too deep to be shown"


def _text(value: str) -> str:
    return fig.shorten(value[: MOST_CELLS + 1].replace("\n", " "), MOST_CELLS)
