"""What a run used over all its time, as the console tells it: from the record, else from samples."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from console.data.history.run_list import read_record
from console.data.run.feed import RunFeed
from console.data.run.metrics import MEMORY, UTIL
from console.data.run.model import RunView
from console.data.run.usage import TotalUse, recorded_use, short_texts, use_of, use_texts
from console.demo import RECORDED_AT, record_demo
from launcher.runs import paths
from launcher.state.usage import RankUsage

GIB = 1 << 30


def viewed(run: Path, seconds: float = 20) -> RunView:
    views: list[RunView] = []
    feed = RunFeed(run, publish=views.append, failed=pytest.fail, clock=lambda: RECORDED_AT + seconds)
    while feed.look():
        pass
    feed.close()
    return views[-1]


def test_shares_are_weighed_by_time_and_the_peak_names_its_rank() -> None:
    use = use_of(
        [
            RankUsage(0, gpu_s=30.0, used_s=30.0, memory=3 * GIB, memory_total=80 * GIB),
            RankUsage(1, gpu_s=10.0, used_s=0.0, memory=70 * GIB, memory_total=80 * GIB),
        ]
    )
    assert use_texts(use) == ["GPU 25% idle", "peak GPU memory 70.0G of 80.0G, rank 1"]
    assert short_texts(use) == ["GPU 25% idle", "peak 70.0G"]


def test_without_gpus_it_is_of_processors() -> None:
    use = use_of([RankUsage(0, cpu_s=10.0, core_s=15.0, rss=GIB), RankUsage(1, rss=2 * GIB)])
    assert use_texts(use) == ["CPU 150% of a core", "peak memory 2.0G, rank 1"]
    assert short_texts(use) == ["CPU 150% of a core", "peak 2.0G"]


@pytest.mark.parametrize("usages", [[], [RankUsage(0)], [RankUsage(0, gpu_s=math.nan, cpu_s=math.nan)]])
def test_what_is_unknown_is_not_told_as_zero(usages: list[RankUsage]) -> None:
    assert use_texts(use_of(usages)) == short_texts(use_of(usages)) == []


def test_memory_without_use_is_told_alone() -> None:
    assert short_texts(use_of([RankUsage(0, memory=GIB)])) == ["peak 1.0G"]
    assert use_texts(use_of([RankUsage(0, memory=GIB)])) == ["peak GPU memory 1.0G, rank 0"]


def test_an_ended_run_shows_what_was_recorded_and_not_what_samples_are_left(root: Path) -> None:
    run = record_demo(root, seconds=20)
    before = viewed(run)
    for segment in (run / paths.SAMPLES).iterdir():
        lines = segment.read_bytes().splitlines(keepends=True)
        segment.write_bytes(b"".join(lines[-4:]))  # as if all others had been thinned
    after = viewed(run)

    assert before.use == after.use
    assert before.use.memory_rank is not None
    for rank in range(8):
        assert before.ranks[rank].amount(UTIL) == after.ranks[rank].amount(UTIL)
        assert before.ranks[rank].amount(MEMORY) == after.ranks[rank].amount(MEMORY)
    share = after.use.idle
    assert share is not None
    assert 20 < share < 60  # the first seconds, before training


def test_without_a_record_it_is_what_the_samples_tell(root: Path) -> None:
    run = record_demo(root, seconds=20)
    recorded = viewed(run).use
    (run / paths.USAGE).unlink()
    summed = viewed(run).use

    assert recorded.idle is not None
    assert summed.idle == pytest.approx(recorded.idle, abs=1)
    assert (summed.memory, summed.memory_rank) == (recorded.memory, recorded.memory_rank)
    assert read_record(run).use == TotalUse()


@pytest.mark.parametrize("text", ["", "[1", '{"ranks": 5}', '{"ranks": [{"rank": "\\u001b[31m"}]}'])
def test_a_spoiled_record_is_told_and_the_samples_count(root: Path, text: str) -> None:
    run = record_demo(root, seconds=20)
    (run / paths.USAGE).write_text(text)
    view = viewed(run)

    assert [part.file for part in view.state.unreadable] == [paths.USAGE]
    assert view.use.idle is not None
    use, ranks, why = recorded_use(run)
    assert (use, ranks) == (TotalUse(), ())
    assert why.startswith("unreadable: usage.json")


def test_ranks_that_share_a_gpu_count_once(root: Path) -> None:
    run = record_demo(root, seconds=20)
    view = viewed(run)
    one = view.ranks[0]
    assert view.use_by([one, one]).gpu_s == view.use_by([one]).gpu_s
