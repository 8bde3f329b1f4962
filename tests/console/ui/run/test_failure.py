"""The block that says why a run failed: a rank's exception, in the lines that there are."""

from __future__ import annotations

from pathlib import Path

from console.ui.run.failure import failure_rows
from launcher.state import events as ev
from tests.console.run_views import view_of, words
from tests.console.scripted import Scripted

FRAMES = '  File "/home/a/train.py", line 5, in f\n    step()\n' * 5


def rows_of(root: Path, message: str) -> list[str]:
    run = Scripted(root, ranks=2, hosts=("node1",))
    run.place(1.0)
    run.add(
        ev.RankRaised(time=5.0, rank=0, kind="RuntimeError", message=message, traceback=""),
        ev.RankExited(time=5.1, rank=0, exit_code=1),
    )
    return words(failure_rows(view_of(run), 78))


def test_a_message_has_the_lines_that_there_are(root: Path) -> None:
    head, first, *_ = rows_of(root, "no\nmore")
    assert ("✗ rank 0 on node1 raised RuntimeError", "no more") == (head, first)


def test_of_a_quoted_traceback_the_exception_is_shown(root: Path) -> None:
    _, said, *rest = rows_of(
        root, f"\x1b[36mray::f()\x1b[39m (pid=9)\n{FRAMES}ValueError: the rate is negative"
    )
    assert said == "ray::f() (pid=9): ValueError: the rate is negative"
    assert not any("File" in line for line in rest)
