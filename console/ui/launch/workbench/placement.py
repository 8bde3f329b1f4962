"""The map of hosts and GPUs as rows: boxes where there is room, else a line for each row of seats or host.

Of three forms the first that fits into the height is drawn; the last folds neighbours: ``ranks 0-7 GPU 0-7``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby

from rich.cells import cell_len, set_cell_size

from .... import formatting as fig
from ....data.launch.places import HostPlaces, PlacementMap, Seat, ranges
from ...widgets.rows import Row, clip, wrapped_rows

_BOX, _WIDEST = 15, 26
_CELL = 16
_NOTES = 3


def map_rows(places: PlacementMap, width: int, height: int) -> list[Row]:
    """The rows of the map; more than `height` only if nothing shorter can be drawn."""
    if places.problem:
        return [clip(((f" ✗ {places.problem}", "rank-behind"),), width)]
    notes = [row for note in places.notes[:_NOTES] for row in wrapped_rows(f"! {note}", width, "rank-behind")]
    rows: list[Row] = []
    forms: tuple[Callable[[HostPlaces, int], Iterator[Row]], ...] = (_boxes, _cells, _folded)
    for form in forms:
        rows = [row for host in places.hosts for row in form(host, width)]
        if len(rows) + len(notes) <= height:
            break
    return [clip(row, width) for row in (*rows, *notes)]


def _head(host: HostPlaces) -> Row:
    ranks = len({rank for seat in host.seats for rank in seat.ranks})
    return (
        (f" {host.name}", "bold"),
        (f"  {fig.number(ranks, 'rank')}" if ranks else "  no rank", ""),
        (f"  {host.about}" if host.about else "", "muted"),
    )


def _style(seat: Seat) -> str:
    if not seat.ranks:
        return "muted"
    return "rank-behind" if seat.taken else "rank-ok"


def _ranks(seat: Seat) -> str:
    if not seat.ranks:
        return "in use" if seat.taken else "free"
    return f"rank{'s' * (len(seat.ranks) > 1)} {ranges(seat.ranks)}"


def _boxes(host: HostPlaces, width: int) -> Iterator[Row]:
    """The host's head, and a box for each seat, as many beside each other as fit."""
    yield _head(host)
    columns = _even(len(host.seats), (width - 2) // _BOX)
    cells = max(min((width - 2) // columns, _WIDEST), 8)
    for start in range(0, len(host.seats), columns):
        line = host.seats[start : start + columns]
        yield _beside(line, lambda seat: f"╭ {_fitted(seat.label, cells - 5, '─', ' ')}─╮")
        yield tuple(
            span
            for seat in line
            for span in (
                (" │", _style(seat)),
                (f" {set_cell_size(_ranks(seat), cells - 4)}", "bold" if seat.ranks else "muted"),
                ("│", _style(seat)),
            )
        )
        yield _beside(line, lambda seat: f"│ {_fitted(seat.note, cells - 4)}│")
        yield _beside(line, lambda _: f"╰{'─' * (cells - 3)}╯")


def _even(seats: int, most: int) -> int:
    """How many seats a line has, at most `most`, so that all lines have about as many."""
    lines = -(-seats // max(most, 1))
    return max(1, -(-seats // max(lines, 1)))


def _fitted(text: str, cells: int, fill: str = " ", gap: str = "") -> str:
    """A text of exactly so many cells, with an ellipsis where it is cut."""
    text = f"{text}{gap}"
    if cell_len(text) > cells:
        return f"{set_cell_size(text, max(cells - 1, 0))}…"
    return text + fill * (cells - cell_len(text))


def _beside(seats: Sequence[Seat], text: Callable[[Seat], str]) -> Row:
    return tuple((f" {text(seat)}", _style(seat)) for seat in seats)


def _cells(host: HostPlaces, width: int) -> Iterator[Row]:
    """The host's head, and several seats on each line."""
    yield _head(host)
    texts = [(f"{seat.label} ", _ranks(seat), _style(seat)) for seat in host.seats]
    widest = max((cell_len(label) + cell_len(ranks) for label, ranks, _ in texts), default=0) + 2
    widest = max(min(widest, width - 2), _CELL)
    columns = _even(len(texts), (width - 1) // widest)
    for start in range(0, len(texts), columns):
        row: list[tuple[str, str]] = [(" ", "")]
        for label, ranks, style in texts[start : start + columns]:
            room = widest - cell_len(label)
            row += [(label, "muted"), (set_cell_size(fig.shorten(ranks, room - 1), room), style)]
        yield tuple(row)


def _folded(host: HostPlaces, _width: int) -> Iterator[Row]:
    """One line: neighbouring seats with as many ranks each are named together."""
    parts: list[tuple[str, str]] = []
    for (count, taken), group in groupby(host.seats, lambda s: (len(s.ranks), s.taken and not s.ranks)):
        seats = list(group)
        word, _, first = seats[0].label.rpartition(" ")
        last = seats[-1].label.rpartition(" ")[2]
        label = f"{word} {first}-{last}".strip() if len(seats) > 1 else seats[0].label
        ranks = sorted({rank for seat in seats for rank in seat.ranks})
        whole = Seat(label, tuple(ranks), "", taken)
        each = f", {count} each" if count > 1 and len(seats) > 1 else ""
        parts += [(f"  {_ranks(whole)}", _style(whole)), (f" {label}{each}", "muted")]
    yield (f" {host.name}", "bold"), *parts, (f"  {host.about}" if host.about else "", "muted")
