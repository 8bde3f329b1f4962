"""The runs that go on, those that wait for slots first, and the engines that own them."""

from __future__ import annotations

from collections.abc import Iterator

from console.messages import ClusterView, EngineView, WorkView
from console.widgets import figures as fig
from console.widgets.identity import PHASE_GLYPHS
from console.widgets.long_list import LongList
from console.widgets.sheet import Row, clip

Item = WorkView | EngineView

_PLACES = 4
_NOTHING = "nothing goes on: f4 goes to the launch screen"


class WorkList(LongList):
    """A row a run, then a row an engine."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id, classes="pane")
        self.items: tuple[Item, ...] = ()

    def show(self, view: ClusterView) -> None:
        """Show another moment, with the cursor on the same run or engine."""
        here = self.chosen
        self.items = (*view.work, *view.engines)
        keys = [_key(item) for item in self.items]
        self.cursor = keys.index(_key(here)) if here is not None and _key(here) in keys else 0
        waiting = sum(work.waiting is not None for work in view.work)
        waits = f" · {waiting} waiting for slots" if waiting else ""
        self.entitle(
            f"2 Runs and engines · {len(view.work)} live{waits} · {_number(len(view.engines), 'engine')}"
        )
        self.refresh_rows()

    @property
    def chosen(self) -> Item | None:
        """What is under the cursor."""
        return self.items[self.cursor] if self.cursor < len(self.items) else None

    @property
    def length(self) -> int:
        """How many runs and engines."""
        return len(self.items)

    def head_row(self, width: int) -> Row:
        """What the columns are."""
        return clip(
            (
                (
                    f"   {'state':<10}{'name':<17}{'ranks':>5}  {'mode':<8}what it waits for, or where it is",
                    "muted",
                ),
            ),
            width,
        )

    def empty_row(self) -> Row:
        """What one can do about it."""
        return ((f" {_NOTHING}", "muted"),)

    def item_row(self, index: int, width: int, ground: str) -> Row:
        """A run or an engine."""
        item = self.items[index]
        row = _work_row(item) if isinstance(item, WorkView) else _engine_row(item)
        return clip(tuple((text, style + ground) for text, style in row), width)


def _key(item: Item) -> str:
    return item.run if isinstance(item, WorkView) else f"engine {item.pid}"


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def _work_row(work: WorkView) -> Row:
    glyph, style = PHASE_GLYPHS[work.phase]
    return (
        (f" {glyph} {work.phase:<10}", style),
        (f"{fig.shorten(work.name, 16):<17}", "bold"),
        (f"{work.size:>5}  ", ""),
        (f"{work.mode:<8}", "muted"),
        (" · ".join(_where(work)), "rank-behind" if work.waiting is not None else ""),
    )


def _where(work: WorkView) -> Iterator[str]:
    if work.waiting is not None:
        yield waits_text(work)
    if work.lost:
        yield f"lost {len(work.lost)} executors or tasks, last: {fig.shorten(work.lost[-1], 60)}"
    if work.places:
        places = [f"{host} ×{ranks}" for host, ranks in list(work.places.items())[:_PLACES]]
        yield ", ".join(places) + (
            f" and {len(work.places) - _PLACES} more" if len(work.places) > _PLACES else ""
        )
    if work.spark is not None:
        yield f"{work.spark.application} on {work.spark.master}"
        if work.spark.ui:
            yield work.spark.ui


def waits_text(work: WorkView) -> str:
    """What a run waits for, how long already and how long it may."""
    waiting = work.waiting
    assert waiting is not None
    limit = "" if waiting.limit_s is None else f" of {waiting.limit_s:.0f} s"
    since = "" if work.waited_s is None else f", waiting {work.waited_s} s{limit}"
    return f"slots {waiting.have}/{waiting.need}{since}" + (f": {waiting.reason}" if waiting.reason else "")


def _engine_row(engine: EngineView) -> Row:
    return (
        (
            " ● engine    " if not engine.silent else " ? engine    ",
            "muted" if not engine.silent else "rank-stale",
        ),
        (f"{f'pid {engine.pid}':<17}", "bold"),
        (f"{engine.runs:>5}  ", ""),
        (f"{fig.shorten(engine.target, 24):<8}", "muted"),
        (" · ".join(_holds(engine)), ""),
    )


def _holds(engine: EngineView) -> Iterator[str]:
    if engine.silent:
        yield f"says nothing: {engine.silent}"
        return
    yield _number(engine.runs, "run")
    if engine.slots and engine.target == "local":
        yield f"slots {engine.slots}"
    if engine.session:
        yield f"session {engine.session}"
    if engine.ui:
        yield engine.ui
    yield f"version {engine.version}"
