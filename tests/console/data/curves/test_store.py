"""Reading curves while they grow: what is read piece by piece is what is read at once, and no file raises."""

from __future__ import annotations

import json
import math
import os
import random
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from console.data.curves.making import CurveSource, curves_of, run_curves, step_times
from console.data.curves.run_curves import STEP_TIME, Axis, What
from console.data.curves.store import CurvePoints, CurveStore
from console.data.curves.window import columns_of, series_of
from console.ui.curves.sheet import marks
from launcher.runs.curves import MAGIC, RECORD, SIZE, CurveWriter
from launcher.runs.samples import SampleWriter
from launcher.state.events import RankReported
from launcher.state.run_state import RunState
from tests.spoiling import make_socket

pytestmark = pytest.mark.timeout(60)


def report(
    step: int | None, rank: int = 0, *, at: float | None = None, attempt: int = 0, **metrics: float
) -> RankReported:
    time = 1000.0 + (step or 0) if at is None else at
    return RankReported(time=time, rank=rank, attempt=attempt, step=step, metrics=metrics)


def named(step: int, metrics: dict[str, float]) -> RankReported:
    return RankReported(time=1000.0 + step, rank=0, step=step, metrics=metrics)


def record(run: Path, *reports: RankReported, most: int = 1 << 20) -> None:
    run.mkdir(exist_ok=True)
    writer = CurveWriter(run, most=most)
    for each in reports:
        writer.take(each)
    writer.flush()
    writer.close()


def columns(points: CurvePoints) -> list[list[object]]:
    return [
        np.nan_to_num(getattr(points, name), nan=-1.25).tolist()
        for name in ("attempt", "step", "width", "time", "low", "mid", "high", "broken")
    ]


def read(run: Path) -> dict[str, list[list[object]]]:
    store = CurveStore(run)
    store.poll()
    return {name: columns(points) for name, points in store.curves.items()}


@pytest.mark.parametrize("seed", range(12))
def test_piece_by_piece_is_as_at_once(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    most = chance.choice([SIZE * 200, SIZE * 5000])
    writer, store, step, attempt = CurveWriter(tmp_path, most=most), CurveStore(tmp_path), 0, 0
    for _ in range(60):
        for _ in range(chance.choice([0, 1, 40, 300])):
            step += chance.choice([0, 0, 1, 1, 2, 50, -3])
            value = chance.choice([chance.random(), math.nan, math.inf, 1e308])
            at = chance.choice([step, step, step - 500, None])
            names = chance.sample(["loss", "acc", "a\x1bb", "ü"], k=chance.randint(1, 4))
            rank, time = chance.randrange(9), 1000.0 + chance.random()
            writer.take(report(at, rank, at=time, attempt=attempt, **dict.fromkeys(names, value)))
        if chance.random() < 0.05:
            attempt, step = attempt + 1, max(step - 100, 0)
        if chance.random() < 0.7:
            writer.flush()
        if chance.random() < 0.5:
            store.poll()
    writer.flush()
    writer.close()
    store.poll()

    assert read(tmp_path) == {name: columns(points) for name, points in store.curves.items()}
    assert not store.poll()
    for points in store.curves.values():
        order = [*zip(points.attempt.tolist(), points.step.tolist(), strict=True)]
        assert sorted(order) == order


def test_a_reader_follows_a_file_that_was_made_shorter(tmp_path: Path) -> None:
    writer, store, files = CurveWriter(tmp_path, most=SIZE * 300), CurveStore(tmp_path), set()
    for step in range(2000):
        writer.take(report(step, loss=float(step)))
        writer.flush()
        files.add(os.stat(tmp_path / "curves/points").st_ino)
        assert store.poll()
        points = store.curves["loss"]
        assert (0.0, float(step)) == (points.low.min(), points.high.max())
        assert len(points) <= 400
    writer.close()

    assert 1 < len(files)
    assert read(tmp_path) == {"loss": columns(store.curves["loss"])}


def test_a_late_rank_is_in_the_band_beside_the_others(tmp_path: Path) -> None:
    writer = CurveWriter(tmp_path)
    for step in range(150):
        for rank in range(7):
            writer.take(report(step, rank, at=1000.0 + step, loss=10.0))
        if step % 50 == 49:
            writer.flush()
    for step in range(8):
        writer.take(report(step, 7, at=1200.0 + step, loss=20.0))
    writer.flush()
    writer.close()
    store = CurveStore(tmp_path)
    store.poll()
    series = series_of(store.curves["loss"], Axis.STEP, 1000.0)
    shown = columns_of(series, 0, 149, 150)

    assert [10.0] * 150 == shown.low.tolist()
    assert [20.0] * 8 + [10.0] * 142 == shown.high.tolist()
    assert {1.0} == set(step_times(store.curves).mid.tolist())


def test_points_of_wider_buckets_take_their_place(tmp_path: Path) -> None:
    writer, store = CurveWriter(tmp_path), CurveStore(tmp_path)
    for second in range(5):
        for step in range(second * 300, second * 300 + 300):
            writer.take(report(step, at=1000.0 + second, loss=float(step)))
        writer.flush()
        store.poll()
    writer.close()
    points = store.curves["loss"]

    assert {8} == set(points.width.tolist())
    assert (0.0, 1499.0) == (points.low.min(), points.high.max())


def test_of_a_metric_with_and_without_steps_those_with_steps_are_shown(tmp_path: Path) -> None:
    record(
        tmp_path, report(None, at=1000.0, loss=1.0), report(3, loss=2.0), report(None, at=1002.0, only=3.0)
    )

    curves = curves_of(tmp_path).points

    assert ([3], [1002]) == (curves["loss"].step.tolist(), curves["only"].step.tolist())


def test_metrics_that_differ_by_control_characters_are_two(tmp_path: Path) -> None:
    record(tmp_path, named(1, {"a": 1.0, "a\x1b": 2.0, "a\n": 3.0}))

    assert {"a": 1.0, "a\x1b": 2.0, "a\n": 3.0} == {
        name: float(points.mid[0]) for name, points in curves_of(tmp_path).points.items()
    }


def test_256_metrics_with_long_names_are_read(tmp_path: Path) -> None:
    long = "\U0001f600" * 200
    record(tmp_path, named(1, {f"{n:03d}{long}": 1.0 for n in range(256)}))
    store = CurveStore(tmp_path)
    store.poll()

    assert (256, "") == (len(store.curves), store.unreadable)


def test_an_older_run_has_the_curves_of_its_samples(tmp_path: Path) -> None:
    writer = SampleWriter(tmp_path)
    for step in range(20):
        for rank in range(2):
            writer.append(report(step, rank, loss=float(step + rank)))
    writer.close()

    points = curves_of(tmp_path).points["loss"]

    assert (list(range(20)), [0.5], [20.0]) == (
        points.step.tolist(), points.mid[:1].tolist(), points.high[-1:].tolist(),
    )  # fmt: skip


def test_the_same_object_while_nothing_has_changed(tmp_path: Path) -> None:
    source = CurveSource(tmp_path)
    assert source.read(RunState()) is source.read(RunState())
    record(tmp_path, report(1, loss=1.0), report(2, loss=1.0))
    curves = source.read(RunState())

    assert ["loss", STEP_TIME] == curves.names
    assert curves is source.read(RunState())


def test_a_mark_of_a_value_that_is_not_finite_stands_at_its_metric_alone(tmp_path: Path) -> None:
    record(tmp_path, named(1, {"loss": 1.0, "loss was": math.nan}), report(2, loss=math.nan))
    curves = curves_of(tmp_path)

    assert [2.0] == [mark.x for mark in marks(curves, Axis.STEP, "loss")]
    assert [1.0] == [mark.x for mark in marks(curves, Axis.STEP, "loss was")]
    assert {What.NOT_FINITE} == {each.what for each in curves.happened}


def test_checkpoints_and_the_first_of_each_stretch_of_nan_are_marks(tmp_path: Path) -> None:
    values = {1: 1.0, 2: math.nan, 3: math.nan, 4: 1.0, 5: math.inf}
    record(
        tmp_path,
        *(report(step, loss=value, checkpoint=float(step // 3 * 3)) for step, value in values.items()),
    )

    assert [(What.CHECKPOINT, 0.0), (What.NOT_FINITE, 2), (What.CHECKPOINT, 3.0), (What.NOT_FINITE, 5)] == [
        (each.what, each.step) for each in curves_of(tmp_path).happened
    ]


# --- files that anybody may have written -----------------------------------------------------------------


def _record(*, time: float = 1000.0, values: tuple[float, ...] = (1.0, 1.0, 1.0), **other: int) -> bytes:
    fields = {"name": 0, "attempt": 0, "ranks": 1, "level": 0, "flags": 0, "part": 0, "spare": 0, "step": 1}
    return RECORD.pack(*(fields | other).values(), time, *values)


TIMES = (math.nan, math.inf, -math.inf, 1e308, -1e308, 1e11, 0.0)
VALUES = ((1e308, -1e308, 0.0), (math.inf,) * 3, (math.nan, 1.0, math.nan), (-1e308,) * 3, (1e308,) * 3)
ODD = {
    "random": random.Random(5).randbytes(SIZE * 500),
    "attempts": b"".join(_record(attempt=n * 655) for n in range(100)),
    "level 255": _record(level=255) + _record(step=2),
    "level 40": _record(level=40) + _record(step=2),
    "steps": b"".join(_record(step=n) for n in (-(1 << 63), (1 << 63) - 1, 1 << 62, -(1 << 62))),
    "times": b"".join(_record(step=n, time=time) for n, time in enumerate(TIMES)),
    "values": b"".join(_record(step=n, values=values) for n, values in enumerate(VALUES)),
    "names": b"".join(_record(name=n) for n in range(0, 65536, 257)),
    "ranks": _record(ranks=(1 << 32) - 1, flags=255, part=65535),
    "torn": _record() + b"\xff" * (SIZE - 1),
    "nothing": b"",
}  # fmt: skip


def look_at(run: Path) -> None:
    """Do all that screens do with the curves of a run."""
    store = CurveStore(run)
    store.poll()
    store.poll()
    curves = run_curves(store.curves, RunState(), ())
    for name in curves.names:
        for axis in Axis:
            series = series_of(curves.points[name], axis, curves.begin)
            marks(curves, axis, name)
            if len(series):
                assert np.isfinite(series.x).all()
                columns_of(series, float(series.x[0]), float(series.x[-1]), 50)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kind", ODD)
def test_odd_records_raise_nothing(tmp_path: Path, kind: str) -> None:
    record(tmp_path, report(1, loss=1.0))
    (tmp_path / "curves/points").write_bytes(MAGIC + ODD[kind])
    look_at(tmp_path)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("seed", range(30))
def test_overwritten_bytes_raise_nothing(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    record(tmp_path, *(report(step, loss=1.0 / (step + 1), checkpoint=step // 10) for step in range(100)))
    path = tmp_path / "curves" / chance.choice(["points", "points", "names"])
    data = bytearray(path.read_bytes())
    for _ in range(chance.choice([1, 10, 400])):
        data[chance.randrange(len(data))] = chance.randrange(256)
    path.write_bytes(data[: chance.choice([len(data), chance.randrange(len(data))])])
    look_at(tmp_path)


NAMES = {
    "no JSON": b"loss\n{}\n",
    "deep": b"[" * 500_000,
    "other types": b"1\nnull\n[]\n",
    "no line end": b'"loss"',
    "empty": b"",
    "1 MiB": json.dumps("x" * (1 << 20)).encode(),
    "control characters": b'"a\\u001b]0;t\\u0007\\n"\n',
    "too many": b'"x"\n' * 100_000,
    "bytes": bytes(range(256)),
    "half a pair": b'"\\ud800"\n',
}


@pytest.mark.parametrize("kind", NAMES)
def test_odd_names_raise_nothing(tmp_path: Path, kind: str) -> None:
    record(tmp_path, report(1, loss=1.0))
    (tmp_path / "curves/names").write_bytes(NAMES[kind])
    look_at(tmp_path)


def another_file(path: Path) -> None:
    path.write_bytes(b"\0" * 640)


SPOILED: dict[str, Callable[[Path], None]] = {
    "a FIFO": os.mkfifo,
    "a link": lambda path: path.symlink_to("/etc/passwd"),
    "zeros": lambda path: path.symlink_to("/dev/zero"),
    "a folder": Path.mkdir,
    "a socket": make_socket,
    "another file": another_file,
    "an empty file": Path.touch,
    "nothing": lambda path: None,
}


@pytest.mark.parametrize("kind", SPOILED)
@pytest.mark.parametrize("name", ["points", "names"])
def test_files_that_are_no_curves_raise_nothing(tmp_path: Path, kind: str, name: str) -> None:
    record(tmp_path, report(1, loss=1.0))
    path = tmp_path / "curves" / name
    path.unlink()
    SPOILED[kind](path)
    look_at(tmp_path)

    assert not CurveStore(tmp_path).curves


def test_a_file_without_end_is_read_up_to_a_bound(tmp_path: Path) -> None:
    record(tmp_path, report(1, loss=1.0))
    os.truncate(tmp_path / "curves/points", 1 << 40)
    store = CurveStore(tmp_path)

    store.poll()

    assert 2 == len(store.curves["loss"])  # the record there is, and all the others, of zeros
    assert struct.calcsize("<d") * 2 == store.curves["loss"].mid.nbytes


def test_a_broken_file_that_becomes_right_is_read(tmp_path: Path) -> None:
    (tmp_path / "curves").mkdir()
    (tmp_path / "curves/points").write_bytes(b"")
    store = CurveStore(tmp_path)
    assert not store.poll()
    assert store.unreadable
    (tmp_path / "curves/points").unlink()
    record_into(tmp_path)

    assert store.poll()
    assert ["loss"] == [*store.curves]
    assert "" == store.unreadable


def record_into(run: Path) -> None:
    (run / "curves").rmdir()
    record(run, report(1, loss=1.0))
