"""Files of Parquet and Delta tables: each row on one rank, whatever the files look like."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from deltalake import DeltaTable, write_deltalake

from launcher.data import DataError, path_loader
from tests.launcher.data.shares import numbered


def write(folder: Path, *rows: int, group: int = 100) -> Path:
    """Files with so many rows each, numbered through."""
    folder.mkdir(exist_ok=True)
    start = 0
    for number, count in enumerate(rows):
        table = pa.Table.from_batches([numbered(start, count)])
        pq.write_table(table, folder / f"part-{number:05}.parquet", row_group_size=group)
        start += count
    return folder


@pytest.fixture
def rank(monkeypatch: pytest.MonkeyPatch) -> Any:
    def become(number: int, world_size: int) -> None:
        monkeypatch.setenv("RANK", str(number))
        monkeypatch.setenv("WORLD_SIZE", str(world_size))

    return become


def ids(path: Any, size: int = 64, **options: Any) -> list[int]:
    return [number for batch in path_loader(path, size, **options) for number in batch.id.tolist()]


@pytest.mark.parametrize("world_size", [1, 2, 3, 7])
@pytest.mark.parametrize("files", [(1000,), (1, 0, 450, 549), (10,) * 30], ids=len)
def test_each_row_is_on_one_rank(tmp_path: Path, rank: Any, world_size: int, files: tuple[int, ...]) -> None:
    folder, found, counts = write(tmp_path / "data", *files), [], []
    for number in range(world_size):
        rank(number, world_size)
        own = ids(folder, uneven="own")
        counts.append(len(own))
        found += own

    assert list(range(sum(files))) == found
    assert max(counts) - min(counts) <= 1


def test_a_process_without_a_run_reads_all(tmp_path: Path) -> None:
    assert list(range(10)) == ids(write(tmp_path / "data", 10))


def test_steps_are_the_same_on_all_ranks(tmp_path: Path, rank: Any) -> None:
    folder = write(tmp_path / "data", 10)
    steps: dict[str, list[int]] = {}
    for policy in ("drop", "pad", "repeat"):
        for number in range(3):
            rank(number, 3)
            loader = path_loader(folder, 3, uneven=policy)
            steps.setdefault(policy, []).append(len(list(loader)))
            assert loader.count_steps() == steps[policy][-1]

    assert {"drop": [1] * 3, "pad": [2] * 3, "repeat": [2] * 3} == steps


def test_a_rank_without_rows_borrows_one(tmp_path: Path, rank: Any) -> None:
    rank(0, 3)
    (batch,) = path_loader(write(tmp_path / "data", 2), 4, uneven="pad")

    assert [False] == batch.valid.tolist()
    assert torch.int64 == batch.id.dtype


@pytest.mark.parametrize("shuffle", [False, True])
def test_it_goes_on_at_a_batch(tmp_path: Path, rank: Any, shuffle: bool) -> None:
    folder = write(tmp_path / "data", 500, 300)
    rank(1, 2)
    whole = path_loader(folder, 64, shuffle=shuffle, shuffle_rows=90)
    whole.set_epoch(3)
    batches = [batch.id.tolist() for batch in whole]
    resumed = path_loader(folder, 64, shuffle=shuffle, shuffle_rows=90)
    resumed.load_state_dict({"epoch": 3, "batch": 2})

    assert list(range(400, 800)) == sorted(n for batch in batches for n in batch)
    assert batches[2:] == [batch.id.tolist() for batch in resumed]


@pytest.mark.process
def test_workers_read_the_same(tmp_path: Path) -> None:
    folder = write(tmp_path / "data", 500, 300)

    assert ids(folder) == ids(folder, num_workers=2)


def test_columns_and_folders_of_values(tmp_path: Path) -> None:
    for year in (2023, 2024):
        write(tmp_path / f"year={year}", 3)
    (tmp_path / "_SUCCESS").touch()
    (batch,) = path_loader(tmp_path, 10, columns={"both": ["id", "year"]})

    assert [[0, 2023], [1, 2023], [2, 2023], [0, 2024], [1, 2024], [2, 2024]] == batch.both.tolist()
    assert [0, 1, 2] == ids(f"{tmp_path}/year=2024/*.parquet")
    assert [0, 1, 2] * 2 == ids([f"{tmp_path}/year={year}/part-00000.parquet" for year in (2023, 2024)])


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda folder: folder / "none", "no files of Parquet can be read here"),
        (lambda folder: f"{folder}/*.parquet", "no files of Parquet"),
        (lambda folder: folder, "there are no files of Parquet"),
        (
            lambda folder: (folder / "x.parquet").write_text("no") and folder,
            "no files of Parquet can be read",
        ),
    ],
    ids=["missing", "pattern", "empty", "spoiled"],
)
def test_what_is_no_such_file(tmp_path: Path, make: Any, told: str) -> None:
    with pytest.raises(DataError, match=told):
        path_loader(make(tmp_path), 4)


def test_a_delta_table_in_its_versions(tmp_path: Path) -> None:
    folder = str(tmp_path / "table")
    for first in (0, 100):
        write_deltalake(folder, pa.table({"id": pa.array(range(first, first + 100))}), mode="append")
    DeltaTable(folder).delete("id < 50")

    found = [ids(folder, version=version) for version in (None, 0)]
    assert [list(range(50, 200)), list(range(100))] == [sorted(each) for each in found]
    with pytest.raises(DataError, match=f"{folder}: this Delta table cannot be read: "):
        path_loader(folder, 16, version=7)


def test_a_delta_table_without_what_reads_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "_delta_log").mkdir()
    with pytest.raises(DataError, match="this Delta table cannot be read: "):
        path_loader(tmp_path, 4)
    monkeypatch.setitem(sys.modules, "deltalake", None)
    with pytest.raises(DataError, match=r"is a Delta table.*pip install deltalake"):
        path_loader(tmp_path, 4)


def test_a_version_is_one_of_a_delta_table(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"version=3 is one of a Delta table, and .* is none"):
        path_loader(write(tmp_path / "data", 3), 4, version=3)
