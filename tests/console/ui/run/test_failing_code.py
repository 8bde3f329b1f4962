"""The failing code in the result pane: lines of source, folded libraries and variables, at every size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from console.app import RankdeckApp
from console.data.replay import ERROR, EXCERPTS, FRAMES, VARIABLES
from console.ui.run.failure import failure_text
from console.ui.run.result import ResultPane, result_rows
from console.ui.widgets.rows import Row
from launcher.state import events as ev
from tests.console.looking import shown, text
from tests.console.run_views import view_of, words
from tests.console.scripted import Scripted

if TYPE_CHECKING:
    from tests.console.conftest import Until

RAISED = ev.RankRaised(
    time=5.0, rank=0, kind="E", message="m", traceback=ERROR, frames=FRAMES, excerpts=EXCERPTS,
    variables=VARIABLES,
)  # fmt: skip


def rows(root: Path, raised: ev.RankRaised, width: int) -> list[Row]:
    run = Scripted(root, ranks=1, hosts=("node1",))
    run.place(1.0)
    run.add(raised, ev.RankExited(time=5.1, rank=0, exit_code=1))
    return result_rows(view_of(run), width)


@pytest.mark.parametrize("size", [(80, 24), (120, 40)])
async def test_the_result_pane_shows_the_failing_lines_in_their_source(
    open_app: Callable[..., RankdeckApp], until: Until, size: tuple[int, int]
) -> None:
    app = open_app(fail=True)
    async with app.run_test(size=size) as pilot:
        await until(pilot, lambda: shown(app))
        await pilot.press("4", "z")
        pane = app.screen.query_one(ResultPane)
        await until(pilot, lambda: "Traceback (most recent call last):" in text(pane))
        seen = list[str]()
        for _ in range(60):
            seen += [line for line in text(pane).splitlines() if line not in seen]
            await pilot.press("j")
            await pilot.pause()

    assert '   ▸ File "/home/ada/llm/model.py", line 212, in forward' in seen, "it is selected"
    at = seen.index("       > 212  scores = torch.matmul(q, k.transpose(-2, -1)) * self.scale")
    assert seen[at - 1].startswith("         211  k, v = repeat_heads(k, self.groups), repeat_heads(v, self")
    assert '         213  scores = scores.masked_fill(self.future, float("-inf"))' == seen[at + 1]
    assert "   variables of forward at model.py:212" in seen
    assert "     q       torch.Tensor     (5, 64, 2048, 128) bfloat16 on cuda:1" in seen


def test_the_failing_line_stands_out_from_the_lines_around_it(root: Path) -> None:
    styles = {row[0][0].strip(): row[0][1] for row in rows(root, RAISED, 100) if row}

    assert "bold" == styles["> 88      loss = step(model, next(batches), scaler)"]
    assert "muted" == styles["86  batches = iter(loader)"]
    assert "" == styles['File "/home/ada/llm/train.py", line 88, in main']


def test_text_of_a_record_does_not_reach_the_terminal_as_it_is(root: Path) -> None:
    lines = ("\x1b[2Jcleared", "\ttab\r", "\x9b31m", "\u202eabc", "x" * 500)
    excerpts = (replace(EXCERPTS[0], lines=lines),)
    variable = ev.Variable(name="\x1b]0;title\x07", type="\n", about="\x00", text="\x1b[31m'red'")
    hostile = replace(RAISED, excerpts=excerpts, variables=(variable,))

    shown_rows = rows(root, hostile, 78)
    assert all(part.isprintable() for row in shown_rows for part, _ in row)
    assert any("'red'" in line for line in words(shown_rows))


def test_a_copy_has_the_same_text(root: Path) -> None:
    run = Scripted(root, ranks=1, hosts=("node1",))
    run.place(1.0)
    run.add(RAISED, ev.RankExited(time=5.1, rank=0, exit_code=1))

    assert "    > 212  scores = torch.matmul(q" in failure_text(view_of(run))
    assert "variables of forward at model.py:212" in failure_text(view_of(run))
