"""What a run gave back: every rank's value or end. A failure's traceback comes first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from console.listing import host_labels
from console.messages import RankView, RunView, standstills
from console.widgets import figures as fig
from console.widgets.failure import circumstances, ending
from console.widgets.rank_rows import GLYPHS, STYLES
from console.widgets.sheet import Row, ScrollingSheet, clip
from console.widgets.values import MOST_CELLS, structured, value_rows, written
from launcher.state import Rank

_HOST = 12


class ResultPane(ScrollingSheet):
    """Results by rank. Values are shown from their summary; nothing is ever unpickled here."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self.view: RunView | None = None

    def show(self, view: RunView) -> None:
        """Show another moment of the run."""
        self.view = view
        back = f" · {len(view.results)}/{view.size} returned" if view.live or view.results else ""
        code = "" if view.state.exit_code is None else f" · exit {view.state.exit_code}"
        self.entitle(f"4 Result{back}{code}")
        self.refresh_rows()

    def rows(self, width: int) -> Sequence[Row]:
        """The failure if there is one, then a row a rank."""
        if self.view is None:
            return [()]
        return [clip(row, width) for row in result_rows(self.view, width)]


def result_rows(view: RunView, width: int) -> list[Row]:
    """The whole pane."""
    rows: list[Row] = []
    first = view.state.first_failure
    if first is not None:
        rows += _failure(view, first)
    elif no_result_yet(view):
        return [((" nothing yet: values appear here as ranks return", "muted"),)]
    if view.state.why and not view.live and first is None:
        rows.append(((f" {view.state.why}", "bold"),))
    if not view.live and first is None:
        rows += [((f"   {place}", ""),) for place in standstills(view.state.stacks)]
    values = {int(entry["rank"]): entry for entry in view.results}
    rows += _shaped(view.results, width)
    hosts = host_labels([v.rank.host for v in view.ranks], _HOST)
    rows += [_rank_row(v, values.get(v.rank.rank), hosts) for v in view.ranks if _has_end(v, values)]
    return [*rows, *_cleanup(view)]


def no_result_yet(view: RunView) -> bool:
    """Whether there is nothing to be shown before a rank returns or fails."""
    return view.live and not view.results and view.state.first_failure is None


def _failure(view: RunView, first: Rank) -> list[Row]:
    rows: list[Row] = [
        ((f" ✗ rank {first.rank} on {first.host} {ending(first)}", "rank-failed bold"),),
        ((f"   {circumstances(view.state, first)}", "muted"),),
    ]
    if first.raised:
        for line in first.raised.traceback.rstrip().splitlines():
            own = line.startswith("  File ") or not line.startswith(" ")
            rows.append(((f"   {_printable(line)}", "" if own else "muted"),))
    return [*rows, ()]


def _shaped(results: Sequence[Mapping[str, Any]], width: int) -> list[Row]:
    """The first value that one line would not show, in full."""
    entry = next((e for e in results if e.get("json") and structured(e.get("value"))), None)
    if entry is None:
        return []
    same = sum(e.get("value") == entry["value"] for e in results) - 1
    others = f", and so did {same} other{'s' * (same != 1)}" if same else ""
    head: Row = ((f" rank {entry['rank']} returned{others}:", "bold"),)
    return [head, *value_rows(entry["value"], width), ()]


def _has_end(view: RankView, values: Mapping[int, Any]) -> bool:
    return view.rank.phase.ended or view.rank.rank in values


def _rank_row(view: RankView, entry: Mapping[str, Any] | None, hosts: Mapping[str, str]) -> Row:
    rank = view.rank
    said = ending(rank) if entry is None else _value(entry)
    kind = "" if entry is None else f"{entry.get('type', '')} "
    return (
        (f" {GLYPHS[view.condition]} ", STYLES[view.condition]),
        (f"{rank.rank:>4} ", "bold"),
        (f"{hosts.get(rank.host, fig.UNKNOWN):<{_HOST}} ", "muted"),
        (kind, "muted"),
        (_printable(said), "" if entry is not None else "muted"),
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
    yield (
        (f" {text} on {len(proofs)} host{'s' * (len(proofs) != 1)}{extra}", "rank-lost" if left else "muted"),
    )
