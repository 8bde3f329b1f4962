"""`curves/`: written as it grows, made shorter when it is full, and never torn."""

from __future__ import annotations

import math
import os
import random
from pathlib import Path
from typing import TYPE_CHECKING

from launcher.runs import curves, paths
from launcher.runs.curves import MAGIC, SIZE, CurveWriter, pack_point, shortened, unpack_points
from launcher.runs.writer import RunWriter
from launcher.spec.job import JobSpec, Target, TargetKind
from launcher.state.curves import MOST_LEVEL, CurvePoint
from launcher.state.events import RankReported, RunSubmitted
from launcher.testing import FakeClock
from tests.small_disk import fill, small_disk

if TYPE_CHECKING:
    import pytest


def report(step: int | None, rank: int = 0, *, attempt: int = 0, **metrics: float) -> RankReported:
    return RankReported(time=1000.0 + (step or 0), rank=rank, attempt=attempt, step=step, metrics=metrics)


def named(step: int, metrics: dict[str, float]) -> RankReported:
    return RankReported(time=1000.0 + step, rank=0, step=step, metrics=metrics)


def points_of(run: Path, names: list[str]) -> list[CurvePoint]:
    data = (run / paths.CURVES / paths.CURVE_POINTS).read_bytes()
    assert data.startswith(MAGIC)
    assert 0 == (len(data) - len(MAGIC)) % SIZE
    return list(unpack_points(data[len(MAGIC) :], names))


def test_a_record_holds_all_of_a_point() -> None:
    point = CurvePoint("b", 65535, -(1 << 62), 40, 1e9, -1e308, 0.5, 1e308, 8192, True, True, 65535)

    assert [point] == list(unpack_points(pack_point(point, 1) + b"torn", ["a", "b"]))
    assert [] == list(unpack_points(pack_point(point, 2), ["a", "b"]))


def test_files_are_private_and_names_are_lines_of_json(tmp_path: Path) -> None:
    writer = CurveWriter(tmp_path)
    writer.take(named(1, {"loss": 1.0, "a\nb\x1b[2J\udc80": 2.0}))
    writer.flush()
    writer.close()
    folder = tmp_path / "curves"

    assert b'"loss"\n"a\\nb\\u001b[2J\\udc80"\n' == (folder / "names").read_bytes()
    assert {0o600} == {path.stat().st_mode & 0o777 for path in folder.iterdir()}
    assert 0o700 == folder.stat().st_mode & 0o777


def test_it_is_due_once_a_second(tmp_path: Path) -> None:
    writer = CurveWriter(tmp_path)
    assert [True, False, False, True, False] == [writer.due(t) for t in (5.0, 5.1, 5.9, 6.0, 6.5)]
    writer.close()


def test_a_full_file_is_made_shorter_and_keeps_ends_and_peaks(tmp_path: Path) -> None:
    writer, most = CurveWriter(tmp_path, most=SIZE * 1000), SIZE * 1100
    for step in range(20_000):
        loss = 1e6 if step == 7_777 else math.nan if step == 5_000 else float(step)
        writer.take(report(step, loss=loss))
        if step % 20 == 0:
            writer.flush()
            assert (tmp_path / "curves/points").stat().st_size <= most
    writer.flush()
    writer.close()
    points = points_of(tmp_path, ["loss"])

    assert (0.0, 1e6) == (min(p.low for p in points), max(p.high for p in points))
    assert any(p.broken for p in points)
    assert 19_999 in {p.step for p in points}
    assert 200 < len(points)
    assert not (tmp_path / "curves/.points.partial").exists()


def test_points_far_apart_are_not_made_shorter_again_and_again(tmp_path: Path) -> None:
    writer = CurveWriter(tmp_path, most=SIZE * 1000)
    inodes = set()
    for number in range(3000):
        writer.take(report(number * 1000, loss=float(number)))
        if number % 20 == 0:
            writer.flush()
            inodes.add((os.stat(tmp_path / "curves/points").st_ino, writer._points.descriptor))
    writer.close()

    assert len(inodes) <= 6
    assert all(p.level <= MOST_LEVEL for p in points_of(tmp_path, ["loss"]))


def test_what_cannot_be_joined_is_cut() -> None:
    points = (CurvePoint("m", attempt, 0, MOST_LEVEL, 1.0, 1.0, 1.0, 1.0, 1) for attempt in range(100))
    data = b"".join(pack_point(point, 0) for point in points)

    assert list(range(90, 100)) == [record[1] for record in shortened(data, 10)]


def test_neighbours_and_late_parts_become_one_point() -> None:
    def point(step: int, value: float, part: int = 0, *, broken: bool = False) -> bytes:
        made = CurvePoint("m", 0, step, 0, 50.0 - step, value, value, value, 2, broken, part=part)
        return pack_point(made, 0)

    nan = math.nan
    data = point(4, 99.0) + point(4, 1.0) + point(4, 7.0, part=3) + point(5, nan, broken=True) + point(6, nan)

    first, second = unpack_points(b"".join(map(_packed, shortened(data, 2))), ["m"])

    assert (4, 1, 45.0, 1.0, 4.0, 7.0, True, 0) == (
        first.step, first.level, first.time, first.low, first.mid, first.high, first.broken, first.part,
    )  # fmt: skip
    assert (6, True, False) == (second.step, math.isnan(second.mid), second.broken)


def _packed(record: curves.Record) -> bytes:
    return curves.RECORD.pack(*record)


def test_without_room_to_make_it_shorter_it_grows_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    writer = CurveWriter(tmp_path, most=SIZE * 100)
    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", full)
        for step in range(120):
            writer.take(report(step, loss=1.0))
            writer.flush()
    assert not (tmp_path / "curves/.points.partial").exists()
    assert 120 == len(points_of(tmp_path, ["loss"]))

    for step in range(120, 140):
        writer.take(report(step, loss=1.0))
        writer.flush()
    writer.close()

    assert len(points_of(tmp_path, ["loss"])) < 100


def test_a_full_disk_tears_no_record_and_loses_nothing(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 1 << 20) as disk:
        writer, chance, expected = CurveWriter(disk), random.Random(3), 0.0
        for turn in range(30):
            filler = fill(disk, leave=chance.choice([0, 64, 100, 4096])) if turn % 3 else None
            for step in range(turn * 50, turn * 50 + 50):
                expected = max(expected, value := chance.random())
                writer.take(named(step, {"loss": value, f"new{turn}": value}))
            try:
                writer.flush()
            except OSError:
                assert filler is not None
            names = (disk / "curves/names").read_text().splitlines()
            points_of(disk, names)
            if filler is not None:
                filler.unlink()
        writer.flush()
        writer.close()

        names = [name.strip('"') for name in (disk / "curves/names").read_text().splitlines()]
        points = points_of(disk, names)

    assert ["loss", *(f"new{turn}" for turn in range(30))] == names
    losses = [p for p in points if p.metric == "loss"]
    assert set(range(1500)) == {s for p in losses for s in range(p.step, p.step + (1 << p.level))}
    assert expected == max(p.high for p in points)


def test_a_run_on_a_full_disk_goes_on(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", 2 << 20) as disk:
        folder = disk / "20260101-120000-000abc"
        folder.mkdir(mode=0o700)
        clock = FakeClock()
        spec = JobSpec(Target(TargetKind.SCRIPT, "/w/t.py"), num_processes=2)
        writer = RunWriter(folder, spec, clock=clock, monotonic=clock)
        writer.append(RunSubmitted(time=1.0, name="n", target="t.py", mode="local", num_processes=2))
        fill(disk)
        for step in range(200):
            writer.append(report(step, loss=float(step)))
            clock.advance(1.0)
            writer.settle()
        assert writer.state.recording is not None
        points_of(folder, ["loss"])

        (disk / "filler").unlink()
        clock.advance(60.0)
        writer.settle()
        writer.append(report(200, loss=200.0))
        writer.close()

        points = points_of(folder, ["loss"])

    assert (0.0, 200.0) == (min(p.low for p in points), max(p.high for p in points))
