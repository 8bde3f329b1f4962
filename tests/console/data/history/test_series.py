"""The small curves of runs: from curves, from samples, of hostile folders, and only as asked."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from console.data.history.series import POINTS, Series, SeriesPoller, read_series
from launcher.runs import paths
from launcher.runs.curves import MAGIC, CurveWriter
from launcher.runs.samples import SampleWriter
from launcher.state import events as ev


def report(step: int | None, rank: int = 0, **metrics: float) -> ev.RankReported:
    return ev.RankReported(time=1000.0 + (step or 0), rank=rank, step=step, metrics=metrics)


def folder(root: Path, name: str = "20260101-100000-000abc") -> Path:
    run = root / name
    run.mkdir()
    return run


def curves(run: Path, *reports: ev.RankReported) -> Path:
    writer = CurveWriter(run)
    for each in reports:
        writer.take(each)
    writer.flush()
    writer.close()
    return run


def test_the_loss_is_read_from_the_curves(root: Path) -> None:
    run = curves(folder(root), *(report(step, lr=9.0, loss=float(step)) for step in range(0, 320, 10)))

    assert tuple(float(step) for step in range(0, 320, 10)) == read_series(run)


def test_a_long_curve_is_thinned_to_means(root: Path) -> None:
    run = curves(folder(root), *(report(step, loss=100.0 - step / 100) for step in range(8000)))
    series = read_series(run)

    assert POINTS - 1 <= len(series) <= POINTS
    assert sorted(series, reverse=True) == list(series)
    assert series[0] == pytest.approx(98.8, abs=1.5)
    assert series[-1] == pytest.approx(21.2, abs=1.5)


def test_nan_stays_a_gap_and_another_figure_leads_without_a_loss(root: Path) -> None:
    run = curves(folder(root), *(report(s, accuracy=math.nan if s > 1 else 0.5, z=1.0) for s in range(4)))
    series = read_series(run)

    assert (0.5, 0.5) == series[:2]
    assert all(math.isnan(value) for value in series[2:])
    assert 4 == len(series)


def test_an_older_run_has_its_curve_from_the_samples(root: Path) -> None:
    run = folder(root)
    writer = SampleWriter(run)
    for step in range(3000):
        for rank in (1, 0):
            writer.append(report(step, rank, total_steps=3000.0, loss=step + rank * 1e6))
    writer.close()
    assert sum(path.stat().st_size for path in (run / paths.SAMPLES).iterdir()) > 400_000
    series = read_series(run)

    assert 15 <= len(series) <= POINTS
    assert sorted(series) == list(series)
    assert 0 <= series[0] < 300
    assert 2700 < series[-1] < 3000, "of the least rank, over the whole run"


@pytest.mark.parametrize(
    ("points", "names"),
    [
        (b"", b""),
        (b"garbage" * 999, b'"loss"\n'),
        (MAGIC + os.urandom(8000), b'"loss"\n'),
        (MAGIC + b"\xff" * 8000, b'"loss"\n'),
        (MAGIC + b"\0" * 8000, b'{}\n[1]\n7\nnull\n"' + b"[" * 9999),
        (MAGIC + b"\0" * 8000, b'"\\u001b[31mloss"\n' * 300),
    ],
)
def test_a_garbage_folder_has_some_curve_or_none(root: Path, points: bytes, names: bytes) -> None:
    run = folder(root)
    (run / paths.CURVES).mkdir()
    (run / paths.CURVES / "points").write_bytes(points)
    (run / paths.CURVES / "names").write_bytes(names)
    (run / paths.SAMPLES).mkdir()
    (run / paths.SAMPLES / "000000001000.jsonl").write_bytes(b'{"event":"rank_reported"' * 9999 + b"\n\n{}\n")

    assert len(read_series(run)) <= POINTS


def test_links_and_folders_are_not_followed(root: Path, tmp_path: Path) -> None:
    run, secret = folder(root), tmp_path / "elsewhere"
    curves(folder(tmp_path, "real"), report(1, loss=1.0))
    (tmp_path / "real" / paths.CURVES).rename(secret)
    (run / paths.CURVES).symlink_to(secret)
    (run / paths.SAMPLES).mkdir()
    (run / paths.SAMPLES / "000000001000.jsonl").mkdir()

    assert () == read_series(run)
    assert () == read_series(root / "gone")


def test_only_what_is_asked_for_is_read_and_an_ended_run_once(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = [f"20260101-10000{n}-000abc" for n in range(4)]
    for name in ids:
        curves(folder(root, name), report(1, loss=1.0), report(2, loss=2.0))
    reads: list[str] = []

    def counted(run: Path) -> Series:
        reads.append(run.name)
        return read_series(run)

    monkeypatch.setattr("console.data.history.series.read_series", counted)
    shown: list[Mapping[str, Series]] = []
    past = SeriesPoller(root, shown.append)
    past.ask([(ids[0], True), (ids[1], False)])
    past.poller.look()
    past.poller.look()
    past.ask([(ids[0], True), (ids[2], True)])
    past.poller.look()

    assert [ids[0], ids[1], ids[1], ids[2]] == reads
    assert {ids[0]: (1.0, 2.0), ids[1]: (1.0, 2.0), ids[2]: (1.0, 2.0)} == shown[-1]
    assert 2 == len(shown), "nothing is published twice"
