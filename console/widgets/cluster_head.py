"""Above the machines: each Spark in a line, whether it answers and what is free; and what runs wait for."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from console.messages import ClusterView, SparkView, WorkView
from console.widgets import figures as fig
from console.widgets.sheet import Row, Sheet, clip
from console.widgets.work_list import number

_MOST = 3


class ClusterHead(Sheet):
    """As many lines as there is something to say, but never many."""

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.view = ClusterView()
        self.key = ""

    def show(self, view: ClusterView, key: str) -> None:
        """Show another moment; `key` goes to a run that waits."""
        self.view, self.key = view, key
        self.refresh_rows()

    def rows(self, width: int) -> Sequence[Row]:
        """The Sparks, and the run that has waited longest; the screen's name if there is neither."""
        waiting = [work for work in self.view.work if work.waiting is not None]
        rows = [clip(spark_row(spark), width) for spark in self.view.sparks[:_MOST]]
        rows += _wait_rows(waiting[0], len(waiting), self.key, width) if waiting else []
        rows = rows or [((" cluster", "muted bold"),)]
        if self.styles.height is None or self.styles.height.value != len(rows):
            self.styles.height = len(rows)
        return rows


def spark_row(spark: SparkView) -> Row:
    """A Spark: what is free, or why that is not known and since when."""
    style = "rank-failed" if spark.problem else ""
    glyph = "✗" if spark.problem else "●" if spark.workers else "?"
    return (
        (f" {glyph} ", style or ("rank-ok" if spark.workers else "rank-stale")),
        (f"{spark.url}  ", "bold"),
        (" · ".join(_said(spark)), style),
    )


def _said(spark: SparkView) -> Iterator[str]:
    if spark.problem:
        since = "" if spark.since is None else f" since {fig.moment(spark.since)}"
        yield f"says nothing{since}: {spark.problem}"
    if spark.note:
        yield spark.note
    if spark.workers is None:
        return
    if spark.problem:
        yield "before that:"
    lost = f", {spark.lost} lost" if spark.lost else ""
    yield f"{number(spark.workers, 'worker')}{lost}"
    if spark.gpus:
        yield f"{spark.gpus_free} of {number(spark.gpus, 'GPU')} free"
    yield f"{spark.cores_free} of {number(spark.cores, 'core')} free"


def _wait_rows(work: WorkView, waiting: int, key: str, width: int) -> Iterator[Row]:
    """Two rows at most: why it waits is what one came here for."""
    assert work.waiting is not None
    more = f" (and {waiting - 1} more)" if waiting > 1 else ""
    reason = work.waiting.reason or f"{work.waiting.have} of {work.waiting.need} slots"
    head, room = f" ○ {fig.shorten(work.name, 24)} waits{more}: ", max(width - 1, 20)
    first, *rest = textwrap.wrap(f"{reason} · {key} goes there", room, initial_indent=" " * len(head))
    yield clip(((head, "rank-behind bold"), (first.strip(), "rank-behind")), width)
    if rest:
        yield clip(((f"   {' '.join(rest)}", "rank-behind"),), width)
