"""`usage.json`: it is there when the verdict is, it outlives thinned samples, and garbage is refused."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from launcher.errors import RecordError
from launcher.runs import paths
from launcher.runs.samples import sample_files
from launcher.runs.usage import EACH_S, UsageWriter, read_usage
from launcher.spec.places import Assignment, Device
from launcher.state import events as ev
from launcher.state.usage import RankUsage
from tests.console.scripted import START, Scripted

GIB = 1 << 30
A = Device(index=0, uuid="a", name="H100", memory=80 * GIB)


def placed(root: Path) -> Scripted:
    """A run of one rank with a GPU."""
    run = Scripted(root, ranks=1, hosts=("node",))
    place = Assignment(0, 1, 0, 1, 0, 1, 0, "node", devices=(A,))
    run.add(ev.GangPlaced(time=1, ranks=(place,)), ev.RankStarted(time=2, rank=0, pid=9))
    return run


def sample(time: float, util: float, used: int) -> ev.Sampled:
    device = ev.DeviceSample(uuid="a", util=util, memory_used=used, memory_total=80 * GIB)
    return ev.Sampled(time=time, agent=0, host="node", devices=(device,), ranks=(ev.RankSample(rank=0),))


def test_the_sums_are_there_when_the_verdict_is(tmp_path: Path) -> None:
    run = placed(tmp_path)
    run.writer.append(sample(START + 3, 40.0, 3 * GIB))
    run.writer.append(sample(START + 4, 60.0, 2 * GIB))
    assert read_usage(run.folder) is None
    run.writer.append(ev.RunEnded(time=START + 5, state="succeeded", exit_code=0, why=""))

    usage = read_usage(run.folder)
    assert usage is not None
    known = RankUsage(0, gpu_s=2.0, used_s=1.0, memory=3 * GIB, memory_total=80 * GIB)
    assert (usage.until, usage.ranks) == (START + 4, (known,))


def test_a_peak_and_the_share_outlive_samples_that_were_thinned(tmp_path: Path) -> None:
    run = placed(tmp_path)
    for second in range(3, 3 * 3600):
        used = 77 * GIB if second == 31 else GIB
        run.writer.append(sample(START + second, 25.0 if second % 2 else 75.0, used))
    run.writer.close()
    left = b"".join(path.read_bytes() for path in sample_files(run.folder))

    assert str(77 * GIB).encode() not in left  # the second with the peak is gone
    usage = read_usage(run.folder)
    assert usage is not None
    assert usage.ranks[0].memory == 77 * GIB
    assert usage.ranks[0].gpu_s == pytest.approx(3 * 3600 - 3, abs=1)
    assert usage.ranks[0].used_s == pytest.approx(usage.ranks[0].gpu_s / 2, abs=2)


def test_a_new_attempt_adds_to_the_old_one_and_late_samples_of_that_do_not_count(tmp_path: Path) -> None:
    run = placed(tmp_path)
    run.writer.append(sample(START + 3, 100.0, 9 * GIB))
    run.restart(10, 1, "rank 0 failed")
    place = Assignment(0, 1, 0, 1, 0, 1, 0, "node", devices=(A,))
    run.add(ev.GangPlaced(time=11, attempt=1, ranks=(place,)))
    run.writer.append(sample(START + 12, 100.0, 99 * GIB))  # of attempt 0
    run.writer.append(
        ev.Sampled(
            time=START + 13, attempt=1, agent=0, host="node", ranks=(ev.RankSample(rank=0, rss=5),),
            devices=(ev.DeviceSample(uuid="a", util=0.0, memory_used=GIB),),
        )
    )  # fmt: skip
    run.writer.close()

    usage = read_usage(run.folder)
    assert usage is not None
    assert (usage.ranks[0].memory, usage.ranks[0].rss) == (9 * GIB, 5)
    assert (usage.ranks[0].used_s, usage.ranks[0].gpu_s) == (1.0, 11.0)


def test_it_is_written_now_and_then_and_only_if_it_has_changed(tmp_path: Path) -> None:
    writer = UsageWriter(tmp_path)
    assert not writer.due(100.0)
    writer.take(sample(1, 5.0, 1), ())
    assert writer.due(100.0)
    writer.flush()
    writer.take(sample(2, 5.0, 1), ())
    assert not writer.due(100.0 + EACH_S / 2)
    assert writer.due(100.0 + EACH_S)


SPOILED: dict[str, Callable[[Path], object]] = {
    "no JSON": lambda path: path.write_bytes(b"\xff\x00{"),
    "a list": lambda path: path.write_text("[]"),
    "ranks of another kind": lambda path: path.write_text('{"ranks": [{"rank": "all"}]}'),
    "a rank without end": lambda path: path.write_text('{"ranks": [{"rank": 99999999999}]}'),
    "memory below zero": lambda path: path.write_text('{"ranks": [{"rank": 0, "memory": -1}]}'),
    "nested too deep": lambda path: path.write_text('{"ranks":' + "[" * 200_000 + "]" * 200_000 + "}"),
    "a link": lambda path: path.symlink_to("/etc/hostname"),
    "a FIFO": lambda path: os.mkfifo(path),
    "a folder": lambda path: path.mkdir(),
    "far too large": lambda path: path.write_bytes(b" " * (17 << 20)),
}


@pytest.mark.parametrize("what", SPOILED)
def test_garbage_is_refused(tmp_path: Path, what: str) -> None:
    SPOILED[what](tmp_path / paths.USAGE)
    with pytest.raises(RecordError, match=r"usage\.json"):
        read_usage(tmp_path)


def test_numbers_that_are_none_are_read_as_they_are(tmp_path: Path) -> None:
    (tmp_path / paths.USAGE).write_text(json.dumps({"ranks": [{"rank": 1, "gpu_s": 2.5}], "more": 1}))
    usage = read_usage(tmp_path)
    assert usage is not None
    assert usage.ranks == (RankUsage(1, gpu_s=2.5),)
