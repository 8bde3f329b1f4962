"""What a prediction reads and writes, from the words of a command or the values of a caller."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from launcher.errors import SpecError
from launcher.serialization import from_plain, to_plain
from launcher.spec.job import JobSpec, Target, TargetKind
from launcher.spec.modes import Mode
from launcher.spec.prediction import PREDICT_OPTIONS, Location, Prediction, prediction_from, shape_of

TARGET = Target(TargetKind.FUNCTION, "/score.py", "load")


@pytest.mark.parametrize(
    ("given", "absolute"),
    [
        ("data", "data"),
        ("db.scores", "db.scores"),
        ("cat.db.scores", "cat.db.scores"),
        ("scores.parquet", "/here/scores.parquet"),
        ("data/", "/here/data"),
        ("./data", "/here/data"),
        ("/data/in", "/data/in"),
        ("s3://bucket/in", "s3://bucket/in"),
        ("hdfs:///in", "hdfs:///in"),
    ],
)
def test_tables_and_uris_are_kept_and_paths_begin_here(given: str, absolute: str) -> None:
    assert absolute == prediction_from({"input": given, "output": "/out"}, Path("/here")).input


def test_a_word_is_a_path_if_one_is_there_or_if_the_input_is_one(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()

    made = prediction_from({"input": "data", "output": "scored"}, tmp_path)

    assert (str(tmp_path / "data"), str(tmp_path / "scored")) == (made.input, made.output)
    assert "db.scored" == prediction_from({"input": "data", "output": "db.scored"}, tmp_path).output


@pytest.mark.parametrize(
    ("location", "source", "has_files"),
    [
        (Location("/in"), "parquet", True),
        (Location("/in/a.csv"), "csv", True),
        (Location("/in/a.jsonl"), "json", True),
        (Location("/in", "delta"), "delta", False),
        (Location("db.t"), "parquet", False),
        (Location("db.t", "csv"), "csv", True),
    ],
)
def test_the_format_is_in_the_name_or_given(location: Location, source: str, has_files: bool) -> None:
    assert (source, has_files) == (location.source, location.has_files)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "needs an input"),
        ({"input": "/in"}, "needs an output"),
        ({"input": "/in", "output": "/out", "batch_size": 0}, "batch size must be 1 or more"),
        ({"input": "/in", "output": "/out", "workers": 0}, "number of workers must be 1"),
        ({"input": "/in", "output": "/out", "returns": " "}, "the type that the function returns"),
        ({"input": "/in", "output": "/out", "column": ""}, "needs a name"),
        ({"input": "/in", "output": "/out", "shapes": {"x": "28y28"}}, "'28y28' is no shape"),
        ({"input": "/in/", "output": "/in"}, "the output /in holds the input"),
        ({"input": "/data/in", "output": "/data/"}, "the output /data holds the input"),
        ({"input": "/i\0n", "output": "/out"}, "NUL"),
    ],
)
def test_what_cannot_be_meant_is_refused(values: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        prediction_from(values, Path("/"))


@pytest.mark.parametrize(
    ("text", "shape"), [("28x28", [28, 28]), ("3", [3]), ("", None), ("0x2", None), ("-1", None), ("x", None)]
)
def test_shapes(text: str, shape: list[int] | None) -> None:
    assert shape == shape_of(text)


def test_words_and_values_mean_the_same() -> None:
    by_name = {option.name: option for option in PREDICT_OPTIONS}

    assert ("a", "b", "c") == by_name["columns"].read(["a, b", "c"], Path("/"))
    assert ("a", "b") == by_name["columns"].take(["a", "b"])
    assert (
        {"x": "28x28"}
        == by_name["shapes"].read(["x=28x28"], Path("/"))
        == by_name["shapes"].take({"x": [28, 28]})
    )
    for wrong in ("ab", [1], 3):
        with pytest.raises(SpecError, match="columns takes"):
            by_name["columns"].take(wrong)


def test_a_spec_keeps_its_prediction_and_hides_secrets_of_readers() -> None:
    secret = "hunter2hunter2"
    prediction = Prediction(
        input="/in", output="/out", input_options={"password": secret}, columns=("a",), shapes={"a": "2x2"}
    )
    spec = JobSpec(TARGET, mode=Mode.CLUSTER, prediction=prediction)

    assert spec == from_plain(JobSpec, to_plain(spec))
    masked = spec.redacted()
    assert secret not in repr(masked)
    assert ("input-option password",) == masked.withheld
    assert spec == masked.with_texts(spec.private()) or spec.private() == {"input-option password": secret}


def test_local_ranks_predict_nothing() -> None:
    with pytest.raises(SpecError, match="runs in tasks of Spark, and the mode is local"):
        JobSpec(TARGET, prediction=Prediction(input="/in", output="/out"))
