"""The preview of a target: docstring, frameworks, functions, source. The source is coloured line by line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ...widgets.rows import Row, ScrollingSheet, clip, spread, wrapped_rows

if TYPE_CHECKING:
    from ....data.launch.preview import Preview

_FUNCTIONS = 6


class SourcePreview(ScrollingSheet):
    """What is known of a target before it is picked."""

    def __init__(self, *, id: str | None = None, classes: str | None = "pane") -> None:  # noqa: A002
        super().__init__(id=id, classes=classes)
        self.preview: Preview | None = None
        self._source: Sequence[Row] = ()

    def show(self, preview: Preview | None) -> None:
        """Show another preview, from its start."""
        if preview == self.preview:
            return
        from ...widgets.python_source import coloured  # only here: it compiles patterns

        self.preview = preview
        self._source = tuple(coloured(preview.lines)) if preview else ()
        self.entitle(preview.target if preview else "")
        self.refresh_rows()
        self.scroll_home(animate=False, immediate=True)

    def rows(self, width: int) -> Sequence[Row]:
        """The docstring, the functions, and the numbered lines of the source."""
        if self.preview is None:
            return []
        return [clip(row, width) for row in self._all(self.preview, width)]

    def _all(self, preview: Preview, width: int) -> Iterator[Row]:
        if preview.problem:
            yield ((f" ✗ {preview.problem}", "rank-behind"),)
        yield from self._about(preview, width)
        if self._source:
            yield ((" " + "─" * max(width - 2, 0), "rule"),)
        digits = len(str(preview.first + len(self._source)))
        for number, row in enumerate(self._source, preview.first):
            yield (f"{number:>{digits + 1}} ", "muted"), *row
        if preview.more:
            yield ((f"{'':>{digits + 1}} … the file goes on", "muted"),)

    def _about(self, preview: Preview, width: int) -> Iterator[Row]:
        for line in preview.doc:
            yield from wrapped_rows(line, width) if line.strip() else ((),)
        if preview.uses:
            yield ((" uses ", "muted"), (", ".join(preview.uses), "rank-ok"))
        for name, takes, doc in preview.functions[:_FUNCTIONS]:
            signature: Row = ((" def ", "muted"), (name, "bold"), (takes, ""))
            yield spread(signature, ((f"{doc} ", "muted"),), width) if doc else signature
        if (others := len(preview.functions) - _FUNCTIONS) > 0:
            yield ((f" … and {others} more", "muted"),)
