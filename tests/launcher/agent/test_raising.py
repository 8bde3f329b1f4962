"""An exception is known while it is on its way: by the agent's question, and where process groups end."""

from __future__ import annotations

import os
import textwrap
from pathlib import Path

import pytest

from launcher.distributor import Distributor
from launcher.job import Job
from launcher.state import events as ev
from launcher.state.run_state import Phase

pytestmark = [pytest.mark.process, pytest.mark.usefixtures("mark")]

HEAD = """
import os, sys, time
FIRST = os.environ["RANK"] == "0"
def pipe(mode):
    with open(sys.argv[1], mode) as end:
        return end.write("now") if mode == "w" else end.read()
def lose_a_peer():
    pipe("r")
    raise RuntimeError("gloo/transport/tcp/pair.cc: Connection closed by peer")
"""


def carried(tmp_path: Path, body: str, *, groups: bool = False) -> Job:
    """A run of two ranks, of which the first loses its peer once the second has written to the pipe."""
    script, fifo = tmp_path / "train.py", tmp_path / "pipe"
    script.write_text(HEAD + textwrap.dedent(body))
    if groups:
        folder = tmp_path / "torch" / "distributed"
        folder.mkdir(parents=True)
        (tmp_path / "torch" / "__init__.py").touch()
        (folder / "__init__.py").write_text("from .distributed_c10d import *\n")
        (folder / "distributed_c10d.py").write_text(
            "def init_process_group(): 'Begin.'\n"
            "def destroy_process_group():\n    raise OSError('it was none')\n"
        )
    os.mkfifo(fifo)
    job = Distributor(2, grace_s=5).start(str(script), str(fifo))
    assert Phase.FAILED is job.wait(60).phase
    return job


def seen(job: Job, kind: type[ev.Event]) -> list[ev.Event]:
    return [e for e in job.events() if isinstance(e, kind)]


def test_a_rank_that_does_not_come_out_of_its_finally_is_the_cause(tmp_path: Path) -> None:
    job = carried(
        tmp_path,
        """
        def train():
            raise ValueError("the cause")
        if FIRST:
            lose_a_peer()
        try:
            train()
        finally:
            pipe("w")
            time.sleep(600)
        """,
    )

    assert (1, 1) == (job.state.blamed, job.state.exit_code)
    raised = job.state.ranks[1].raised
    assert raised is not None
    assert ("ValueError", "the cause") == (raised.kind, raised.message)
    assert [("train.py", "<module>"), ("train.py", "train")] == [
        (Path(file).name, name) for file, _, name in raised.frames
    ]
    assert "launcher" not in raised.traceback


def test_a_rank_that_has_caught_its_exception_is_not(tmp_path: Path) -> None:
    job = carried(
        tmp_path,
        """
        if FIRST:
            lose_a_peer()
        try:
            raise ValueError("no harm")
        except ValueError:
            pipe("w")
            time.sleep(600)
        """,
    )

    assert (0, "SIGTERM") == (job.state.blamed, job.state.ranks[1].signal)
    assert [] == seen(job, ev.RankRaising)


GROUPS = """
from torch.distributed import destroy_process_group, init_process_group
import torch.distributed
assert torch.distributed.destroy_process_group is destroy_process_group
assert destroy_process_group.__module__ == "torch.distributed.distributed_c10d"
assert init_process_group.__doc__ == "Begin."
"""


def test_a_group_that_is_destroyed_tells_of_what_is_in_flight(tmp_path: Path) -> None:
    job = carried(
        tmp_path,
        GROUPS
        + """
        if FIRST:
            lose_a_peer()
        try:
            raise ValueError("the cause")
        finally:
            try:
                destroy_process_group()
            except OSError:
                pipe("w")
        """.replace("\n        ", "\n"),
        groups=True,
    )

    told = seen(job, ev.RankRaising)
    assert [(1, "the cause")] == [(e.rank, e.message) for e in told if isinstance(e, ev.RankRaising)]
    assert 1 == job.state.blamed


def test_a_new_group_and_a_report_take_back_what_was_swallowed(tmp_path: Path) -> None:
    job = carried(
        tmp_path,
        GROUPS
        + """
        import launcher
        def attempt():
            try:
                raise ValueError("once")
            finally:
                try:
                    destroy_process_group()
                except OSError:
                    pass
        if FIRST:
            lose_a_peer()
        for go_on in (init_process_group, launcher.report):
            try:
                attempt()
            except ValueError:
                pass
            go_on()
        pipe("w")
        time.sleep(600)
        """.replace("\n        ", "\n"),
        groups=True,
    )

    assert (2, 2) == (len(seen(job, ev.RankRaising)), len(seen(job, ev.RankRecovered)))
    assert 0 == job.state.blamed


def test_what_a_destroyed_group_raises_shows_no_frame_of_ours(tmp_path: Path) -> None:
    job = carried(
        tmp_path,
        GROUPS
        + """
        if FIRST:
            time.sleep(600)
        destroy_process_group()
        """.replace("\n        ", "\n"),
        groups=True,
    )

    raised = job.state.ranks[1].raised
    assert raised is not None
    assert "launcher" not in raised.traceback
    assert ["<module>", "destroy_process_group"] == [name for _, _, name in raised.frames]


def test_a_rank_that_leaves_with_a_code_for_a_lost_peer_is_known_by_that(tmp_path: Path) -> None:
    job = carried(
        tmp_path,
        """
        if FIRST:
            try:
                lose_a_peer()
            except RuntimeError:
                sys.exit(3)
        pipe("w")
        time.sleep(0.5)
        sys.exit(7)
        """,
    )

    assert (1, 7) == (job.state.blamed, job.state.exit_code)
