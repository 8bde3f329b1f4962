"""The DataLoader of a rank: batches, policies, order, places, and rows that are still to come."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from pyspark.sql import types as T  # noqa: N812  as pyspark's own documentation does

from launcher.data import DataError, partition_batches, partition_loader
from launcher.data.loader import ShareLoader
from launcher.data.shares import Agreed, ShareWriter
from launcher.errors import SpecError
from tests.launcher.data.shares import as_rank, batch_of, dealt_to_the_end, numbered, numbered_batches, task


@pytest.fixture
def writer(tmp_path: Path) -> Iterator[ShareWriter]:
    with task(tmp_path) as made, as_rank(made):
        yield made


def ids(loader: ShareLoader) -> list[int]:
    return [number for batch in loader for number in batch.id.tolist()]


def sizes(loader: ShareLoader) -> list[int]:
    return [len(batch.id) for batch in loader]


def test_batches_are_named_tuples_of_tensors(writer: ShareWriter) -> None:
    dealt_to_the_end(writer, numbered_batches(10, 3))
    loader = partition_loader(4)
    batches = list(loader)

    assert isinstance(loader, torch.utils.data.DataLoader)
    assert ("id", "x") == batches[0]._fields
    assert [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]] == [batch.id.tolist() for batch in batches]
    assert [0.0, 0.5, 1.0, 1.5] == batches[0].x.tolist()
    assert 3 == loader.count_steps()


@pytest.mark.parametrize("each", [1, 7, 1000, 5000])
@pytest.mark.parametrize("size", [1, 64, 999, 10_000])
def test_each_row_comes_once_whatever_the_sizes(writer: ShareWriter, each: int, size: int) -> None:
    dealt_to_the_end(writer, numbered_batches(5000, each))
    loader = partition_loader(size)

    for _ in range(2):
        assert list(range(5000)) == ids(loader)


def test_what_run_on_dataframe_was_told_is_the_default(tmp_path: Path) -> None:
    columns = {"double": ["id", "x"]}
    with task(tmp_path, columns=columns, batch_size=3, uneven="pad") as made, as_rank(made):
        dealt_to_the_end(made, numbered_batches(4, 4))
        batches = list(partition_loader())

        assert ("double", "valid") == batches[0]._fields
        assert [3, 1] == [len(batch.double) for batch in batches]
        assert [4] == [len(batch.x) for batch in partition_loader(5, columns=["x"], uneven="drop")]


def test_a_matrix_of_columns(writer: ShareWriter) -> None:
    dealt_to_the_end(writer, numbered_batches(2, 2))
    loader = partition_loader(2, columns={"both": ["x", "id"], "label": "id"}, dtype=torch.float64)
    (batch,) = loader

    assert [[0.0, 0.0], [0.5, 1.0]] == batch.both.tolist()
    assert [0, 1] == batch.label.tolist()
    assert torch.float64 == batch.both.dtype


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        (["id", "y"], "there is no column 'y'; there are id, x"),
        ("id", "columns='id' names none"),
        ([], r"columns=\[\] names none"),
        ({"m": []}, "the matrix m has no columns"),
    ],
)
def test_columns_that_are_not_there(writer: ShareWriter, columns: Any, told: str) -> None:
    with pytest.raises(DataError, match=told):
        partition_loader(2, columns=columns)


def test_only_a_rank_of_such_a_run_has_rows() -> None:
    with pytest.raises(DataError, match=r"this process has no rows of a DataFrame.*run_on_dataframe"):
        partition_loader(2)


@pytest.mark.parametrize(
    "wrong", [{"batch_size": 0}, {"batch_size": 2.5}, {"shuffle_rows": 0, "shuffle": True}]
)
def test_sizes_are_whole_numbers_of_rows(writer: ShareWriter, wrong: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match="is a number of rows"):
        partition_loader(**wrong)


def test_a_policy_that_is_none(writer: ShareWriter) -> None:
    with pytest.raises(SpecError, match="uneven must be one of drop, pad, repeat, own, not 'cut'"):
        partition_loader(2, uneven="cut")


# --- uneven shares -------------------------------------------------------------------------------------


def uneven(tmp_path: Path, rows: int, others: int, policy: str, size: int = 4, **more: Any) -> list[Any]:
    """The batches of a rank, another of which has `others` rows."""
    with task(tmp_path) as made, as_rank(made):
        for batch in numbered_batches(rows, 3):
            made.write(batch)
        made.finish()
        made.ledger.set_example(EXAMPLE)
        made.ledger.agree(Agreed(min(rows, others), True, max(rows, others), True))
        loader = partition_loader(size, uneven=policy, **more)
        found = list(loader)
        again = list(loader)

        assert [batch.id.tolist() for batch in found] == [batch.id.tolist() for batch in again]
        assert len(found) == loader.count_steps()
        return found


def example() -> bytes:
    with task(Path("/tmp")) as made:
        made.write(numbered(77, 1))
        return made.ledger.own_example


EXAMPLE = example()


def test_the_rows_of_the_shortest_share_are_dropped_to(tmp_path: Path) -> None:
    assert [[0, 1, 2, 3], [4, 5]] == [b.id.tolist() for b in uneven(tmp_path, 10, 6, "drop")]
    assert [[0, 1, 2, 3]] == [b.id.tolist() for b in uneven(tmp_path, 10, 6, "drop", drop_last=True)]
    assert [] == uneven(tmp_path, 10, 0, "drop")
    assert [] == uneven(tmp_path, 0, 10, "drop")


def test_a_short_share_is_padded(tmp_path: Path) -> None:
    found = uneven(tmp_path, 5, 10, "pad")

    assert [[0, 1, 2, 3], [4, 0, 0, 0], [0, 0]] == [b.id.tolist() for b in found]
    assert [[True] * 4, [True] + [False] * 3, [False] * 2] == [b.valid.tolist() for b in found]
    assert [8] == [sum(len(b.id) for b in uneven(tmp_path, 5, 10, "pad", drop_last=True))]


def test_an_empty_share_is_padded_with_rows_of_the_others_kind(tmp_path: Path) -> None:
    found = uneven(tmp_path, 0, 6, "pad")

    assert [[0] * 4, [0] * 2] == [b.id.tolist() for b in found]
    assert [torch.int64, torch.float32, torch.bool] == [each.dtype for each in found[0]]
    assert not any(b.valid.any() for b in found)


def test_a_short_share_is_repeated(tmp_path: Path) -> None:
    assert [[0, 1, 2, 0], [1, 2, 0, 1], [2, 0]] == [b.id.tolist() for b in uneven(tmp_path, 3, 10, "repeat")]
    assert [[77] * 4, [77] * 2] == [b.id.tolist() for b in uneven(tmp_path, 0, 6, "repeat")]


def test_a_share_of_its_own(tmp_path: Path) -> None:
    assert [[0, 1, 2, 3], [4]] == [b.id.tolist() for b in uneven(tmp_path, 5, 10, "own")]


def test_no_rows_anywhere(tmp_path: Path) -> None:
    for policy in ("drop", "pad", "repeat", "own"):
        assert [] == uneven(tmp_path, 0, 0, policy)


def test_a_row_that_is_too_large_to_borrow(writer: ShareWriter) -> None:
    writer.finish()
    writer.ledger.agree(Agreed(0, True, 1, True))

    with pytest.raises(DataError, match=r"this rank has no rows.*repartition"):
        list(partition_loader(2, uneven="pad"))


# --- order ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [1, 100, 10_000])
def test_a_shuffle_mixes_all_rows_anew_in_each_epoch(writer: ShareWriter, window: int) -> None:
    dealt_to_the_end(writer, numbered_batches(1000, 30))
    loader, again = (partition_loader(64, shuffle=True, seed=5, shuffle_rows=window) for _ in range(2))
    epochs = [ids(loader) for _ in range(3)]

    assert all(sorted(epoch) == list(range(1000)) for epoch in epochs)
    assert 3 == len({tuple(epoch) for epoch in epochs})
    assert epochs == [ids(again) for _ in range(3)]
    other = partition_loader(64, shuffle=True, seed=6, shuffle_rows=window)
    other.set_epoch(1)
    assert epochs[1] != ids(other)


@pytest.mark.parametrize("policy", ["drop", "repeat", "pad"])
@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("epoch", [0, 2])
@pytest.mark.parametrize("batch", [0, 1, 3, 6, 7, 20])
def test_it_goes_on_at_any_batch(
    writer: ShareWriter, policy: str, shuffle: bool, epoch: int, batch: int
) -> None:
    for each in numbered_batches(500, 30):
        writer.write(each)
    writer.finish()
    writer.ledger.agree(Agreed(450, True, 700, True))

    def loader() -> ShareLoader:
        return partition_loader(64, shuffle=shuffle, seed=1, shuffle_rows=100, uneven=policy)

    whole = loader()
    whole.set_epoch(epoch)
    expected = [b.id.tolist() for b in whole]
    resumed = loader()
    resumed.load_state_dict({"epoch": epoch, "batch": batch})

    assert expected[batch:] == [b.id.tolist() for b in resumed]
    assert {"epoch": epoch + 1, "batch": 0} == resumed.state_dict()


def test_the_state_is_the_place_of_the_next_batch(writer: ShareWriter) -> None:
    dealt_to_the_end(writer, numbered_batches(10, 10))
    loader = partition_loader(3)
    states = [loader.state_dict() for _ in loader]

    assert [{"epoch": 0, "batch": n} for n in (1, 2, 3, 4)] == states
    assert {"epoch": 1, "batch": 0} == loader.state_dict()


def test_an_epoch_that_was_left_is_not_gone_on_with(writer: ShareWriter) -> None:
    dealt_to_the_end(writer, numbered_batches(10, 10))
    loader = partition_loader(3)
    left = iter(loader)

    assert [0, 1, 2] == next(left).id.tolist()
    assert list(range(10)) == ids(loader)
    assert {"epoch": 2, "batch": 0} == loader.state_dict()


@pytest.mark.process
@pytest.mark.parametrize("workers", [1, 2])
def test_workers_prepare_the_same_batches(writer: ShareWriter, workers: int) -> None:
    dealt_to_the_end(writer, numbered_batches(1000, 30))
    for options in ({}, {"shuffle": True}, {"uneven": "pad", "columns": {"id": "id", "m": ["x", "x"]}}):
        alone = partition_loader(64, **options)
        helped = partition_loader(64, num_workers=workers, prefetch_factor=3, **options)
        for _ in range(2):
            assert [b.id.tolist() for b in alone] == [b.id.tolist() for b in helped]
        helped.load_state_dict({"epoch": 1, "batch": 5})
        alone.load_state_dict({"epoch": 1, "batch": 5})
        assert [b.id.tolist() for b in alone] == [b.id.tolist() for b in helped]


# --- rows that are still to come -----------------------------------------------------------------------


def test_the_first_batch_comes_before_the_last_row(writer: ShareWriter) -> None:
    writer.write(numbered(0, 8))
    writer.ledger.agree(Agreed(8, False, 8, False))
    batches = iter(partition_loader(4))

    assert [0, 1, 2, 3] == next(batches).id.tolist()
    assert [4, 5, 6, 7] == next(batches).id.tolist()
    rest: list[list[int]] = []
    reading = threading.Thread(target=lambda: rest.extend(b.id.tolist() for b in batches))
    reading.start()
    writer.write(numbered(8, 3))
    writer.ledger.agree(Agreed(11, False, 11, False))
    assert reading.is_alive()
    writer.finish()
    writer.ledger.agree(Agreed(11, True, 11, True))
    reading.join(20)

    assert [[8, 9, 10]] == rest


def test_no_rank_takes_a_step_that_another_may_not_have(writer: ShareWriter) -> None:
    writer.write(numbered(0, 100))
    writer.finish()
    writer.ledger.agree(Agreed(6, False, 100, False))
    batches = iter(partition_loader(4))
    found = [next(batches).id.tolist()]
    reading = threading.Thread(target=lambda: found.extend(b.id.tolist() for b in batches))
    reading.start()
    writer.ledger.agree(Agreed(7, True, 100, True))
    reading.join(20)

    assert [[0, 1, 2, 3], [4, 5, 6]] == found


def test_columns_of_every_kind_in_one_batch(tmp_path: Path) -> None:
    schema = T.StructType(
        [
            T.StructField("text", T.StringType()),
            T.StructField("pair", T.ArrayType(T.FloatType())),
            T.StructField("bag", T.ArrayType(T.LongType())),
        ]
    )
    rows: dict[str, list[Any]] = {"text": ["a", "b", "c"], "pair": [[0.0, 1.0]] * 3, "bag": [[1], [2, 3], []]}
    with task(tmp_path, schema=schema) as made, as_rank(made):
        made.write(batch_of(schema, rows))
        made.finish()
        made.ledger.agree(Agreed(3, True, 4, True))
        first, second = partition_loader(2, ragged=["bag"], uneven="pad")

    assert ["a", "b"] == first.text
    assert ["c", None] == second.text
    assert [[0.0, 1.0], [0.0, 0.0]] == second.pair.tolist()
    assert [[], None] == [None if each is None else each.tolist() for each in second.bag]
    assert [True, False] == second.valid.tolist()


def test_arrays_whose_length_changes_between_batches_are_told(tmp_path: Path) -> None:
    schema = T.StructType([T.StructField("pair", T.ArrayType(T.FloatType()))])
    with task(tmp_path, schema=schema) as made, as_rank(made):
        made.write(batch_of(schema, {"pair": [[1.0]]}))
        made.write(batch_of(schema, {"pair": [[1.0, 2.0]]}))
        made.finish()
        made.ledger.agree(Agreed(2, True, 2, True))

        with pytest.raises(DataError, match="arrays of 1 to 2 elements"):
            list(partition_loader(2))


def test_floating_point_numbers_of_one_type(tmp_path: Path) -> None:
    with task(tmp_path) as made, as_rank(made):
        dealt_to_the_end(made, numbered_batches(3, 3))
        (tensors,) = partition_loader(dtype=torch.bfloat16)
        (arrays,) = partition_batches(dtype="float16")

    assert (torch.int64, torch.bfloat16) == (tensors.id.dtype, tensors.x.dtype)
    assert ("int64", "float16") == (arrays.id.dtype, arrays.x.dtype)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"shuffle": True},
        {"uneven": "pad"},
        {"drop_last": True},
        {"columns": {"x": ["x", "id"]}},
    ],
    ids=str,
)
def test_batches_of_arrays_are_those_of_tensors(tmp_path: Path, options: dict[str, Any]) -> None:
    with task(tmp_path, shares=2) as made, as_rank(made):
        dealt_to_the_end(made, numbered_batches(23, 5))
        loader, batches = partition_loader(4, **options), partition_batches(4, **options)
        assert loader.count_steps() == batches.count_steps()
        batches.load_state_dict({"epoch": 1, "batch": 1})
        loader.load_state_dict({"epoch": 1, "batch": 1})
        wanted, got = list(loader), list(batches)

    assert [[field.tolist() for field in batch] for batch in wanted] == [
        [field.tolist() for field in batch] for batch in got
    ]
    assert wanted[0]._fields == got[0]._fields
    assert {"epoch": 2, "batch": 0} == batches.state_dict() == loader.state_dict()


def test_batches_of_arrays_want_no_pytorch(tmp_path: Path) -> None:
    program = """
import sys
from launcher.data import partition_batches
print(len(list(partition_batches(2))), "torch" in sys.modules)
"""
    with task(tmp_path) as made, as_rank(made):
        dealt_to_the_end(made, numbered_batches(5, 5))
        words = [sys.executable, "-c", program]
        done = subprocess.run(words, capture_output=True, text=True, check=False)

    assert "3 False\n" == done.stdout, done.stderr
