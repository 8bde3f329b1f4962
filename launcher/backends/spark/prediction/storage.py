"""The folder of a prediction's output, on any storage that Spark's own JVM can reach.

Beside the files of rows it has a folder ``_rankdeck``, which Spark does not read::

    _rankdeck/how            how the rows are predicted, as a digest
    _rankdeck/<unit>         a folder to which Spark writes a unit; its files are then moved up
    _rankdeck/<unit>.files   the files of the input whose rows are being moved up
    _rankdeck/<unit>.done    all of them were

Files of rows bear the name of their unit. Those of a unit that was not done are removed by the next
prediction, so whenever one ends, each row is there once after the next.
"""

from __future__ import annotations

from typing import Any

from ....errors import RecordError, SpecError
from ....spec.prediction import IfExists
from .. import internals
from .units import Unit, part_name

_OWN = "_rankdeck"
_HOW = "how"
_FILES, _DONE = ".files", ".done"


class OutputFolder:
    """The output of a prediction that consists of files; `storage` is its storage."""

    def __init__(self, storage: internals.Storage) -> None:
        self._fs, self._root, self._path = storage.file_system, storage.root, storage.path
        self._own = self._path(self._root, _OWN)

    def begin(self, how: str, if_exists: IfExists) -> frozenset[str]:
        """Make the folder ready for predictions of a kind; the names of the input's files that are done.

        Raises:
            SpecError: there is something else, or a prediction of another kind.
        """
        if if_exists is IfExists.OVERWRITE:
            self._fs.delete(self._root, True)
        found = self._read(_HOW)
        if if_exists is IfExists.RESUME and found != how and self._names(self._root):
            what = "exists, and is no prediction" if found is None else "holds predictions of another kind"
            hint = "--if-exists overwrite or append"
            raise SpecError(f"the output {self._root.toString()} {what}", hint=hint)
        if found != how:
            self._write(_HOW, how)
        return self._done()

    def _done(self) -> frozenset[str]:
        """The names of files whose rows are written, after what is left of others was removed."""
        done: set[str] = set()
        names = set(self._names(self._own))
        for name in names - {_HOW}:
            unit = name.removesuffix(_FILES)
            is_done = f"{unit}{_DONE}" in names
            if is_done and name.endswith(_FILES):
                done |= set((self._read(name) or "").split())
            elif not name.endswith(_DONE):
                if not is_done:
                    self._remove_parts(unit)
                self._fs.delete(self._path(self._own, name), True)
        return frozenset(done)

    def place_of(self, unit: Unit) -> str:
        """The folder to which Spark is to write a unit."""
        return str(self._path(self._own, unit.name).toString())

    def take(self, unit: Unit) -> None:
        """Move what Spark has written for a unit to its final place, and mark it as done.

        Raises:
            RecordError: a file could not be moved.
        """
        place = self._path(self._own, unit.name)
        self._write(f"{unit.name}{_FILES}", " ".join(unit.names))
        for name in self._names(place):
            if name.startswith(("_", ".")):
                continue
            final = self._path(self._root, part_name(unit, name))
            if not self._fs.rename(self._path(place, name), final):
                raise RecordError(f"{name} could not be moved to {final.toString()}")
        self._write(f"{unit.name}{_DONE}", "")
        self._fs.delete(place, True)

    def _remove_parts(self, unit: str) -> None:
        for name in self._names(self._root):
            if name.startswith(f"part-{unit}-"):
                self._fs.delete(self._path(self._root, name), False)

    def _names(self, folder: Any) -> list[str]:
        if not self._fs.exists(folder):
            return []
        return [status.getPath().getName() for status in self._fs.listStatus(folder)]

    def _read(self, name: str) -> str | None:
        """The text of a file of ours; None if there is none, or no such text in it."""
        path = self._path(self._own, name)
        if not self._fs.exists(path):
            return None
        stream = self._fs.open(path)
        try:
            return str(stream.readUTF())
        except Exception:  # noqa: BLE001  whatever Java raises for a file that is cut short
            return None
        finally:
            stream.close()

    def _write(self, name: str, text: str) -> None:
        stream = self._fs.create(self._path(self._own, name), True)
        try:
            stream.writeUTF(text)
        finally:
            stream.close()
