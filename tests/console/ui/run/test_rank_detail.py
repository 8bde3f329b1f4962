"""What is shown of one rank besides its figures."""

from __future__ import annotations

from pathlib import Path

from console.ui.run.rank_detail import detail_rows
from launcher.state import events as ev
from tests.console.run_views import view_of, words
from tests.console.scripted import Scripted


def rows_of(root: Path, *facts: ev.Event) -> list[str]:
    run = Scripted(root, ranks=1, hosts=("node1",))
    run.place(1.0)
    run.add(*facts)
    return words(detail_rows(view_of(run).ranks[0], 60))


def test_the_last_message_to_the_caller_is_one_line(root: Path) -> None:
    said = ev.MessageLogged(time=5.0, rank=0, text="epoch 1\n\x1b[31mof 5\x1b[0m\tbegins")
    assert any(row.split(maxsplit=1) == ["says", "epoch 1 of 5 begins"] for row in rows_of(root, said))


def test_a_rank_without_a_message_has_no_such_line(root: Path) -> None:
    assert not any("says" in row for row in rows_of(root))


def test_a_rank_that_waits_for_rows_says_so(root: Path) -> None:
    rows = rows_of(
        root,
        ev.RankStarted(time=2.0, rank=0, pid=9),
        ev.RankEntered(time=3.0, rank=0),
        ev.RowsAwaited(time=5.0, rank=0, rows=12_000),
    )
    assert any(row.endswith("waiting for rows, after 12,000") for row in rows), rows
