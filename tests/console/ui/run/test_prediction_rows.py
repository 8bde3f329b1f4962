"""What the run screen and a notebook show of workers that predict: rows in place of steps."""

from __future__ import annotations

from pathlib import Path

import pytest

from console.data.run.health import Condition
from console.data.run.metrics import CPU
from console.data.run.model import RunView
from console.ui.run.charts import hint_row
from console.ui.run.header import headline_rows
from console.ui.run.rank_cells import unplaced_row
from console.ui.run.rank_detail import detail_rows
from console.ui.run.rank_table import RankTable
from launcher.display.html import html_of
from launcher.display.panel import Paces, panel_of
from launcher.state import events as ev
from tests.console.run_views import view_of, words
from tests.console.scripted import START, Scripted


@pytest.fixture
def view(root: Path) -> RunView:
    """Two workers, one of which is far behind, half-way."""
    run = Scripted(root, ranks=2, hosts=("alpha",))
    for rank, rows in enumerate((90_000, 2_000)):
        reported = {"rows": rows, "rows_per_s": 1500.0, "batches": rows / 1000}
        run.add(
            ev.WorkerFound(time=5.0, rank=rank, agent=rank, host="alpha", pid=70 + rank),
            ev.RankReported(time=20.0, rank=rank, metrics=reported),
        )
    run.add(ev.PredictionAdvanced(time=21.0, done=0.5))
    return view_of(run)


def test_rows_stand_where_steps_would(view: RunView) -> None:
    head, first, second = words(
        RankTable().rows(view.ranks, 100, cursor=0, devices=False, metric=CPU, hosts={}, predicts=True)
    )

    assert "rows" in head.split()
    assert not {"step", "lag"} & set(head.split())
    assert "90,000" in first
    assert "2,000" in second
    detail = words(detail_rows(view.ranks[0], 60))
    assert any(row.startswith("rows 90,000") for row in detail), detail
    assert not any(row.startswith("step ") for row in detail)
    assert ["92,000 rows, 50%, 3,000 rows/s, 26 s left"] == [words(headline_rows(view, 60))[0][:41]]


def test_a_worker_with_fewer_rows_is_not_behind(view: RunView) -> None:
    assert [Condition.OK] * 2 == [each.condition for each in view.ranks]


def test_a_notebook_shows_rows_too(view: RunView) -> None:
    html = html_of(panel_of(view.state, now=START + 22, paces=Paces()))

    assert ">rows<" in html
    assert ">rows/s<" in html
    assert ">90,000<" in html
    assert "steps" not in html


def test_before_a_worker_is_shown(root: Path) -> None:
    run = Scripted(root, ranks=2, hosts=("alpha",))
    run.add(ev.PredictionAdvanced(time=21.0, done=0.0))
    view = view_of(run)

    assert ["a worker is shown once it has predicted for 5 s"] == words([unplaced_row(view)])
    assert ["nothing to chart yet"] == words([hint_row(view)])
