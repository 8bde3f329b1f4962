"""Telemetry on disk: whole for an hour, thinned before, bounded in all, by the time of the facts."""

from __future__ import annotations

import math
import stat
from collections import Counter
from pathlib import Path

import pytest

from launcher.runs import paths, samples
from launcher.runs.reader import FactTail, LineTail
from launcher.runs.samples import SampleWriter, newest, newest_of_each, sample_files, segments
from launcher.state import events as ev

T0 = 1_700_000_000.0


def sampled(time: float, agent: int = 0) -> ev.Sampled:
    return ev.Sampled(time=time, agent=agent, host="h", system=ev.HostSample(cpu=time % 100))


def reported(time: float, rank: int = 0) -> ev.RankReported:
    return ev.RankReported(time=time, rank=rank, step=int(time - T0))


def facts(run: Path) -> list[ev.Event]:
    return [ev.decode(line) for path in sample_files(run) for line in LineTail(path).poll()]


def fill(run: Path, seconds: int, *, step: int = 10, start: float = T0) -> None:
    writer = SampleWriter(run)
    for at in range(0, seconds, step):
        writer.append(sampled(start + at))
        writer.append(reported(start + at))
    writer.close()


def test_the_last_hour_is_whole(tmp_path: Path) -> None:
    fill(tmp_path, 3 * 3600)
    last = T0 + 3 * 3600 - 10
    kept = [f for f in facts(tmp_path) if f.time > last - 3600]
    assert {"sampled": 360, "rank_reported": 360} == Counter(f.tag for f in kept)


def test_what_is_older_is_thinned_to_one_a_minute_and_source(tmp_path: Path) -> None:
    fill(tmp_path, 3 * 3600)
    old = [f for f in facts(tmp_path) if f.time < T0 + 3600]
    assert {"sampled": 60, "rank_reported": 60} == Counter(f.tag for f in old)
    minutes = Counter((f.tag, int(f.time - T0) // 60) for f in old)
    assert {1} == set(minutes.values())


def test_facts_are_read_in_order_of_time(tmp_path: Path) -> None:
    fill(tmp_path, 3 * 3600)
    times = [f.time for f in facts(tmp_path)]
    assert sorted(times) == times


def test_every_source_is_thinned_by_itself(tmp_path: Path) -> None:
    writer = SampleWriter(tmp_path)
    for at in range(0, 3 * 3600, 10):
        for agent in range(3):
            writer.append(sampled(T0 + at, agent))
    writer.close()
    old = [f for f in facts(tmp_path) if f.time < T0 + 3600]
    assert {0: 60, 1: 60, 2: 60} == Counter(getattr(f, "agent", None) for f in old)


def test_the_bound_halves_every_source_alike(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two sources that alternate must not lose one of them."""
    monkeypatch.setattr(samples, "THINNED_BYTES", 8000)
    fill(tmp_path, 4 * 3600, step=60)
    thinned = tmp_path / paths.SAMPLES / "thinned.jsonl"
    facts = [ev.decode(line) for line in LineTail(thinned).poll()]
    times = {tag: [f.time for f in facts if f.tag == tag] for tag in ("sampled", "rank_reported")}

    assert thinned.stat().st_size <= 8000
    assert times["sampled"] == times["rank_reported"]
    assert len(times["sampled"]) > 10


def test_a_long_run_stays_within_its_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "THINNED_BYTES", 4000)
    fill(tmp_path, 24 * 3600, step=60)
    raw = sum(p.stat().st_size for p in segments(tmp_path / paths.SAMPLES))
    total = sum(p.stat().st_size for p in sample_files(tmp_path))
    assert total - raw <= 4000
    assert len(segments(tmp_path / paths.SAMPLES)) <= 8


def test_a_writer_that_is_opened_again_goes_on(tmp_path: Path) -> None:
    fill(tmp_path, 600)
    fill(tmp_path, 600, start=T0 + 600)
    fill(tmp_path, 10, start=T0 + 600)
    assert 2 * (60 + 60 + 1) == len(facts(tmp_path))


@pytest.mark.parametrize("foreign", [b"", b"\0\0\0\n", b"[]\n", b"3\n", b'{"event":"sampled"}\n', b"\xff\n"])
def test_lines_that_are_torn_or_foreign_do_not_stop_the_thinning(tmp_path: Path, foreign: bytes) -> None:
    fill(tmp_path, 600)
    (first,) = segments(tmp_path / paths.SAMPLES)
    first.write_bytes(foreign + first.read_bytes() + b'{"event":"sampl')
    fill(tmp_path, 7200, start=T0 + 7200)

    thinned = tmp_path / paths.SAMPLES / "thinned.jsonl"
    lines = [ev.decode(line) for line in LineTail(thinned).poll()]
    assert 20 == len([f for f in lines if f.time < T0 + 600])


def test_files_and_folder_are_private(tmp_path: Path) -> None:
    fill(tmp_path, 3 * 3600)
    modes = {stat.S_IMODE(p.stat().st_mode) for p in sample_files(tmp_path)}
    assert ({0o600}, 0o700) == (modes, stat.S_IMODE((tmp_path / paths.SAMPLES).stat().st_mode))


def test_a_reader_sees_each_sample_once_though_it_is_thinned_meanwhile(tmp_path: Path) -> None:
    """Old samples that move to the thinned file are not news: they would take the view back an hour."""
    writer, tail = SampleWriter(tmp_path), FactTail(tmp_path, samples=True)
    seen: list[float] = []
    for at in range(0, 3 * 3600, 60):
        writer.append(sampled(T0 + at))
        seen += [f.time for f in tail.poll()]
    writer.close()
    assert [T0 + at for at in range(0, 3 * 3600, 60)] == seen


def test_a_reader_survives_the_halving(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(samples, "THINNED_BYTES", 2000)
    writer, tail = SampleWriter(tmp_path), FactTail(tmp_path, samples=True)
    count = 0
    for at in range(0, 12 * 3600, 60):
        writer.append(sampled(T0 + at))
        count += len(tail.poll())
    writer.close()
    assert 12 * 60 == count


def test_a_late_reader_gets_the_thinned_past_and_the_whole_present(tmp_path: Path) -> None:
    fill(tmp_path, 3 * 3600)
    tail = FactTail(tmp_path, samples=True)
    assert facts(tmp_path) == tail.poll()
    assert [] == tail.poll()


def test_the_newest_lines_are_whole(tmp_path: Path) -> None:
    folder = tmp_path / "samples"
    folder.mkdir()
    (folder / "000000000001.jsonl").write_bytes(b"older\n")
    (folder / "000000000002.jsonl").write_bytes(b"first\nsecond\nthird\ntorn")

    assert [b"older\n", b"first\n", b"second\n", b"third\n"] == newest(tmp_path)
    assert [b"first\n", b"second\n", b"third\n"] == newest(tmp_path, limit=27)
    assert [b"third\n"] == newest(tmp_path, limit=12)
    assert [] == newest(tmp_path / "nowhere")


def test_of_many_lines_the_newest_of_each_source_tell_all() -> None:
    def lines(*facts: ev.Event) -> list[tuple[int, bytes]]:
        return list(enumerate((ev.encode(fact, "r") for fact in facts), 1))

    def report(rank: int, step: int, **metrics: float) -> ev.Event:
        return ev.RankReported(time=float(step), rank=rank, step=step, metrics=metrics)

    def sample(agent: int, time: float) -> ev.Event:
        return ev.Sampled(time=time, agent=agent, host="h", ranks=(ev.RankSample(rank=3, cpu=time),))

    facts = [
        *(report(rank, step, loss=0.5 / step) for step in range(1, 5) for rank in (0, 1, 11)),
        report(1, 2, accuracy=0.5),
        report(11, 3, loss=math.nan),
        *(sample(agent, time) for time in (1.0, 2.0) for agent in (0, 1)),
    ]
    every = [*lines(*facts), (99, b"torn"), (100, b"")]

    chosen = newest_of_each(every, keep=0)

    assert chosen == [each for each in every if each in chosen], "in order"
    kept = [ev.decode(line) for number, line in chosen if number < 99]
    assert kept == [
        *(report(0, step, loss=0.5 / step) for step in range(1, 4)),
        *(report(rank, 4, loss=0.125) for rank in (0, 1, 11)),
        report(1, 2, accuracy=0.5),
        kept[7],  # NaN equals nothing
        sample(0, 2.0),
        sample(1, 2.0),
    ]
    assert isinstance(kept[7], ev.RankReported)
    assert math.isnan(kept[7].metrics["loss"])
    assert [99, 100] == [number for number, _ in chosen[-2:]]
