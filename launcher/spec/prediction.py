"""What a prediction reads and writes: the input, the output, the columns, and what the function returns.

`Prediction` declares the options of ``rankdeck predict`` and of `launcher.inference.predict`; they are in a
run's `JobSpec` and so in its record.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from ..errors import SpecError
from ..serialization import MOST_INDEX
from .options import PAIRS, TEXT, WHOLE, ValueKind, check_bounds, launch_option, one_of, options_of

FORMATS = ("parquet", "csv", "json", "orc", "text")
"""The formats of files whose predictions can go on after an end: one file after the other."""
_SUFFIXES = {".parquet": "parquet", ".csv": "csv", ".json": "json", ".jsonl": "json", ".orc": "orc"}
_TABLE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*){0,2}")


class IfExists(StrEnum):
    """What happens if there is an output already.

    An unfinished prediction of the same kind goes on, and anything else is refused; or the output is
    replaced; or the predictions are added to it.
    """

    RESUME = "resume"
    OVERWRITE = "overwrite"
    APPEND = "append"


@dataclass(frozen=True, slots=True)
class Location:
    """A table, or files or another source of a format."""

    name: str
    format: str = ""
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_table(self) -> bool:
        """Whether it is a table of Spark's catalogue."""
        return not self.format and is_table_name(self.name)

    @property
    def source(self) -> str:
        """The format of its files, also where only its name says it."""
        return self.format or _SUFFIXES.get(Path(self.name).suffix.lower(), "parquet")

    @property
    def has_files(self) -> bool:
        """Whether it consists of files of which each can be predicted for itself."""
        return not self.is_table and self.source in FORMATS


def is_table_name(text: str) -> bool:
    """Whether it is ``table``, ``schema.table`` or ``catalogue.schema.table``, and no path."""
    return _TABLE.fullmatch(text) is not None and Path(text).suffix.lower() not in _SUFFIXES


def _columns(_: Any, words: Any, __: Path) -> tuple[str, ...]:
    return tuple(name.strip() for word in words for name in word.split(",") if name.strip())


def _columns_of(value: Any) -> tuple[str, ...]:
    names = tuple(() if value is None else value)
    if isinstance(value, (str, bytes)) or not all(isinstance(name, str) for name in names):
        raise TypeError
    return names


COLUMNS = ValueKind(
    "a list of columns",
    _columns,
    lambda _, value: list(value),
    types=(list,),
    from_python=_columns_of,
    many=True,
)


def _shapes_of(value: Any) -> dict[str, str]:
    pairs = dict(() if value is None else value)
    return {
        str(name): shape if isinstance(shape, str) else "x".join(map(str, shape))
        for name, shape in pairs.items()
    }


SHAPES = replace(PAIRS, from_python=_shapes_of, wanted="a dict of columns and shapes, such as [28, 28]")


@dataclass(frozen=True, slots=True)
class Prediction:
    """What a run predicts. An empty `input` stands for a DataFrame of the caller's."""

    input: str = launch_option(
        "", "--input", TEXT, metavar="PATH|TABLE", help="What is read: files, a folder of them, or a table."
    )
    input_format: str = launch_option(
        "", "--input-format", TEXT, metavar="NAME", help="Its format; by default by its name, else parquet."
    )
    input_options: Mapping[str, str] = launch_option(
        dict, "--input-option", PAIRS, metavar="K=V", help="An option of Spark's reader: header=true."
    )
    output: str = launch_option(
        "", "--output", TEXT, metavar="PATH|TABLE", help="Where the rows and their predictions are written."
    )
    output_format: str = launch_option(
        "", "--output-format", TEXT, metavar="NAME", help="Its format; by default by its name, else parquet."
    )
    output_options: Mapping[str, str] = launch_option(
        dict, "--output-option", PAIRS, metavar="K=V", help="An option of Spark's writer."
    )
    if_exists: IfExists = launch_option(
        IfExists.RESUME,
        "--if-exists",
        one_of(IfExists),
        help="If there is an output: resume an unfinished one (default), overwrite it, or append.",
        noun="choice for an existing output",
    )
    columns: tuple[str, ...] = launch_option(
        (),
        "--columns",
        COLUMNS,
        metavar="NAME,…",
        help="The columns that the function takes, in its order; by default all.",
    )
    returns: str = launch_option(
        "double",
        "--returns",
        TEXT,
        metavar="TYPE",
        help="Spark's type of a prediction: double, string, array<float>, 'label int, score float'.",
    )
    column: str = launch_option(
        "prediction", "--column", TEXT, metavar="NAME", help="The column of the predictions."
    )
    batch_size: int = launch_option(
        1024,
        "--batch-size",
        WHOLE,
        metavar="N",
        help="The most rows of a batch.",
        noun="batch size",
        least=1,
        most=MOST_INDEX,
    )
    shapes: Mapping[str, str] = launch_option(
        dict,
        "--shape",
        SHAPES,
        metavar="COLUMN=28x28",
        help="The shape of a row's array in a column.",
        doc="The shape of a row's array by column, such as ``{'image': [28, 28]}``.",
    )
    workers: int | None = launch_option(
        None,
        "--workers",
        WHOLE,
        short="-n",
        metavar="N",
        help="How many predict at once; by default as many as the cluster has cores for.",
        noun="number of workers",
        least=1,
        most=MOST_INDEX,
    )

    def __post_init__(self) -> None:
        check_bounds(self)
        if not self.output:
            raise SpecError("a prediction needs an output", hint="--output PATH or TABLE")
        if not self.returns.strip():
            raise SpecError("a prediction needs the type that the function returns", hint="--returns double")
        if not self.column:
            raise SpecError("the column of the predictions needs a name", hint="--column prediction")
        if "\0" in f"{self.input}{self.output}":
            raise SpecError("no path and no name can hold a NUL character")
        if self.input and f"{self.input.rstrip('/')}/".startswith(f"{self.output.rstrip('/')}/"):
            raise SpecError(f"the output {self.output} holds the input", hint="name another folder")
        for name, shape in self.shapes.items():
            if shape_of(shape) is None:
                raise SpecError(f"--shape {name}: {shape!r} is no shape", hint="such as 28x28")

    @property
    def source(self) -> Location:
        """What is read."""
        return Location(self.input, self.input_format, self.input_options)

    @property
    def result(self) -> Location:
        """What is written."""
        return Location(self.output, self.output_format, self.output_options)


def shape_of(text: str) -> list[int] | None:
    """The sizes of ``28x28``; None if the text is no shape."""
    sizes = text.split("x")
    return [int(size) for size in sizes] if all(size.isdecimal() and int(size) for size in sizes) else None


PREDICT_OPTIONS = options_of(Prediction)
"""The options of a prediction."""


def located(text: str, here: Path) -> str:
    """A location as a person types it: a relative path starts in `here`, a table or URI stays as it is."""
    if not text or re.match(r"[a-zA-Z][\w+.-]*:", text):
        return text
    path = here / Path(text).expanduser()
    return text if is_table_name(text) and not path.exists() else str(path.absolute())


def prediction_from(values: Mapping[str, Any], here: Path, *, has_input: bool = False) -> Prediction:
    """The prediction of options by their names; paths start in the folder `here`.

    Args:
        values: the options.
        here: the folder in which they were given.
        has_input: whether the caller has a DataFrame.

    Raises:
        SpecError: there is no input, or a value is not allowed.
    """
    source, result = str(values.get("input") or ""), str(values.get("output") or "")
    if not source and not has_input:
        raise SpecError("a prediction needs an input", hint="--input PATH or TABLE")
    places = {"input": located(source, here), "output": located(result, here)}
    # `predict --input data --output scored`: a plain word beside a path is meant as one
    beside_files = bool(source) and not is_table_name(places["input"])
    if result and beside_files and is_table_name(places["output"]) and "." not in result:
        places["output"] = str((here / result).absolute())
    return Prediction(**{**values, **places})
