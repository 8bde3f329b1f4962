"""Stages on storage: parameters as pyspark.ml writes them, models and functions beside them as a table.

    PATH/metadata    the class, the uid and the parameters that JSON can have
    PATH/objects     Parquet: name, part, content; the rows of a name together are its pickle

Spark writes and reads both, so every file system that it knows will do.
"""

from __future__ import annotations

from typing import Any

from pyspark.ml.param import Params
from pyspark.ml.util import (
    DefaultParamsReader,
    DefaultParamsWriter,
    MLReadable,
    MLReader,
    MLWritable,
    MLWriter,
)

from ..errors import SpecError
from .pickles import dumps, loads

_PART_BYTES = 16 << 20
_SCHEMA = "name string, part int, content binary"


class StageWriter(MLWriter):
    """Writes a stage."""

    def __init__(self, stage: Saved) -> None:
        super().__init__()
        self._stage = stage

    def saveImpl(self, path: str) -> None:
        """Write the stage, unless it has what cannot be pickled.

        Raises:
            SpecError: a parameter's value cannot be pickled; then nothing is written.
        """
        values = {param.name: value for param, value in self._stage._paramMap.items()}
        objects = {name: values.pop(name) for name in self._stage.objects if name in values}
        rows = [
            (name, number // _PART_BYTES, data[number : number + _PART_BYTES])
            for name, value in objects.items()
            for data in [dumps(value)]
            for number in range(0, len(data), _PART_BYTES)
        ]
        table = self.sparkSession.createDataFrame(rows, _SCHEMA)
        table.coalesce(1).write.parquet(f"{path}/objects")
        # last, so that a folder that has it is complete
        DefaultParamsWriter.saveMetadata(self._stage, path, self.sparkSession, paramMap=values)


class StageReader(MLReader[Any]):
    """Reads a stage. The pickles in it run code: read only what you trust."""

    def __init__(self, kind: type[Any]) -> None:
        super().__init__()
        self._kind = kind

    def load(self, path: str) -> Any:
        """The stage.

        Raises:
            SpecError: the folder holds another kind of stage, or what it holds cannot be read.
        """
        metadata = DefaultParamsReader.loadMetadata(path, self.sparkSession)
        wanted = f"{self._kind.__module__}.{self._kind.__name__}"
        if metadata["class"] != wanted:
            raise SpecError(f"{path} holds a {metadata['class']}, not a {wanted}")
        stage = self._kind()
        stage._resetUid(metadata["uid"])
        DefaultParamsReader.getAndSetParams(stage, metadata)
        parts: dict[str, bytes] = {}
        for row in self.sparkSession.read.parquet(f"{path}/objects").orderBy("name", "part").collect():
            parts[row["name"]] = parts.get(row["name"], b"") + row["content"]
        stage._set(**{name: loads(data) for name, data in parts.items()})
        return stage


class Saved(Params, MLWritable, MLReadable[Any]):
    """Saving and loading of a stage some of whose parameters JSON cannot have.

    Attributes:
        objects: the names of these parameters.
    """

    objects: tuple[str, ...] = ()

    def value_of(self, name: str) -> Any:
        """A parameter's value, or its default; None if it has neither."""
        return self.getOrDefault(name) if self.isDefined(name) else None

    def write(self) -> StageWriter:
        """What saves this stage: ``stage.write().overwrite().save(path)``."""
        return StageWriter(self)

    @classmethod
    def read(cls) -> StageReader:
        """What loads a stage. The pickles in it run code: load only what you trust."""
        return StageReader(cls)
