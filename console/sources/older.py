"""The past of a run that was begun long before one looks: first what is new, and the rest a little at a time.

A day of a thousand ranks is gigabytes. What is shown of it is a few hundred points of the leading rank's
figures, and the last minutes of every rank: so of the long past only the leader's reports are read, in
windows that lie evenly apart if even that would be too much.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from console.sources.past import Past, leader_of
from launcher import events as ev
from launcher.runs.reader import decoded
from launcher.runs.samples import Stretch, line_start, lines_of
from launcher.state import RunState

NEAR_BYTES, PIECE_BYTES, MOST_PIECES = 32 << 20, 1 << 20, 96


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of the past to be read at once: the facts of all ranks if it is `near`, else the leader's."""

    stretch: Stretch
    near: bool


def pieces(skipped: Sequence[Stretch]) -> list[Piece]:
    """What is to be read of the stretches, oldest first. Pure; a piece may begin and end within a line."""
    cut = [part for stretch in skipped for part in _cut(stretch)]
    near = sum(1 for _ in _last(cut, NEAR_BYTES))
    far = cut[: len(cut) - near]
    few = [far[at * len(far) // MOST_PIECES] for at in range(MOST_PIECES)] if len(far) > MOST_PIECES else far
    return [*(Piece(part, near=False) for part in few), *(Piece(part, near=True) for part in cut[len(far) :])]


def _cut(stretch: Stretch) -> Iterator[Stretch]:
    for start in range(stretch.start, stretch.end, PIECE_BYTES):
        yield Stretch(stretch.path, start, min(start + PIECE_BYTES, stretch.end))


def _last(cut: Sequence[Stretch], limit: int) -> Iterator[Stretch]:
    for part in reversed(cut):
        limit -= part.end - part.start
        if limit < 0:
            return
        yield part


class LongPast:
    """What happened in a run. Fed by the thread that reads it, which also reads the rest of it in between."""

    def __init__(self) -> None:
        self.known = Past()
        self._whole: Past | None = None
        self._meanwhile: list[ev.Event] = []
        self._left: list[Piece] = []
        self._all = 0

    def take(self, facts: Iterable[ev.Event], state: RunState, skipped: Sequence[Stretch] = ()) -> None:
        """Remember new facts; with the first of them comes what was `skipped` before them."""
        facts = list(facts)
        self.known.take(facts, state)
        if self._whole is not None:
            self._meanwhile += facts
        elif skipped and not self._all:
            self._left = pieces(skipped)[::-1]
            self._all = len(self._left)
            self._whole = Past()
            # a restart that was long ago must not come after what followed it
            self._meanwhile = [f for f in facts if isinstance(f, (ev.Sampled, ev.RankReported))]

    @property
    def recalled(self) -> float:
        """The share of it that is known."""
        return 1.0 - len(self._left) / self._all if self._all else 1.0

    def recall(self, state: RunState, enough: Callable[[], bool]) -> bool:
        """Read more of what was skipped, at least one piece; whether any is left."""
        whole = self._whole
        if whole is None:
            return False
        while self._left:
            whole.take(facts_of(self._left.pop(), leader_of(state)), state)
            if enough():
                break
        if not self._left:
            whole.take(self._meanwhile, state)
            self.known, self._whole, self._meanwhile = whole, None, []
        return bool(self._left)


def facts_of(piece: Piece, leader: int | None) -> list[ev.Event]:
    """The facts whose lines begin in a piece; none if the file was thinned meanwhile."""
    part = piece.stretch
    try:
        ends = [line_start(part.path, offset) for offset in (part.start, part.end)]
    except FileNotFoundError:
        return []
    lines: Iterable[bytes] = lines_of(Stretch(part.path, *ends))
    if not piece.near:
        mark = b'"rank":%d,' % (-1 if leader is None else leader)
        lines = (line for line in lines if mark in line and b'"rank_reported"' in line)
    return decoded(lines)
