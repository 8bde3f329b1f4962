"""The function of a prediction as a pickle for Spark's workers, which have none of the caller's files.

What predicts is either a function that loads a model onto a device and returns the function for a batch, or
a Pandas UDF. A function that is found by name is imported in a process of its own, and never where runs are
supervised: to import it may take gigabytes, or never end.
"""

from __future__ import annotations

import base64
import contextlib
import inspect
import json
import os
import pickle
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

from ....errors import SpecError
from ....spec.files.packing import is_installed
from ....spec.job import Target

PREDICTOR, PANDAS, PANDAS_ITERATOR = "predictor", "pandas", "pandas iterator"
_PANDAS_KINDS = {200: PANDAS, 204: PANDAS_ITERATOR}
_MARK = "rankdeck-packed:"


@dataclass(frozen=True, slots=True)
class PackedFunction:
    """A function by value.

    Attributes:
        kind: what it is: `PREDICTOR`, `PANDAS` or `PANDAS_ITERATOR`.
        pickled: its pickle.
        returns: Spark's type of what a Pandas UDF returns; empty for others.
    """

    kind: str
    pickled: bytes
    returns: str = ""

    def encode(self) -> bytes:
        """As bytes for a request."""
        return pickle.dumps(asdict(self))

    @classmethod
    def decode(cls, data: bytes) -> PackedFunction:
        """What `encode` encoded; the function itself stays a pickle."""
        return cls(**pickle.loads(data))


def pack(function: Callable[..., Any], params: Mapping[str, Any] | None = None) -> PackedFunction:
    """A function of this process.

    Args:
        function: what predicts.
        params: keyword arguments of a function that loads a model.

    Raises:
        SpecError: it is no such function, or it cannot be pickled.
    """
    if not callable(function):
        raise SpecError(f"what predicts is a function or a Pandas UDF, not {type(function).__name__}")
    if hasattr(function, "evalType"):
        return _pack_udf(function, params or {})
    try:
        inspect.signature(function).bind("cpu", **(params or {}))
    except TypeError as error:
        name = getattr(function, "__qualname__", type(function).__name__)
        raise SpecError(f"{name} must take a device, and its own parameters: {error}") from error
    except ValueError:  # a builtin without a signature: nothing to check against
        pass
    return PackedFunction(PREDICTOR, _dumps(partial(function, **params) if params else function))


def _pack_udf(udf: Any, params: Mapping[str, Any]) -> PackedFunction:
    if params:
        raise SpecError(f"a Pandas UDF takes no parameters ({', '.join(params)})")
    kind = _PANDAS_KINDS.get(udf.evalType)
    if kind is None:
        raise SpecError(
            "this function of Spark is no Pandas UDF from series to a series",
            hint="@pandas_udf('double') def score(x: pd.Series) -> pd.Series",
        )
    return PackedFunction(kind, _dumps(udf.func), udf.returnType.simpleString())


def _dumps(value: Any) -> bytes:
    """By pyspark's own cloudpickle, which all executors have."""
    from pyspark import cloudpickle

    with _by_value(cloudpickle):
        try:
            data: bytes = cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
        except Exception as error:  # a user's __reduce__ may raise anything
            raise SpecError(f"what predicts cannot be pickled: {error}") from error
    return data


# a distribution of Spark brings its Python packages along, which then were not installed
_WITH_WORKERS = ("__main__", "launcher", "rankdeck", "console", "pyspark", "py4j")


@contextlib.contextmanager
def _by_value(cloudpickle: Any) -> Any:
    """Have modules sent by value that executors do not have: those that were not installed."""
    # a module may be loaded under two names
    own = [module for module in dict.fromkeys(sys.modules.values()) if _is_own(module)]
    for module in own:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in own:
            cloudpickle.unregister_pickle_by_value(module)


def _is_own(module: ModuleType) -> bool:
    file = getattr(module, "__file__", None)
    name = getattr(module, "__name__", "")
    if not isinstance(file, str) or name.partition(".")[0] in _WITH_WORKERS:
        return False
    return sys.modules.get(name) is module and not is_installed(file)


def pack_named(target: Target, workdir: Path, python: str = "") -> PackedFunction:
    """A function by its name, imported in a process of its own.

    What it prints while it is imported goes to standard error.

    Raises:
        SpecError: it cannot be imported, or packed; the hint has the last line of the traceback.
    """
    root = str(Path(__file__).parents[4])
    order = json.dumps({"source": target.source, "name": target.name, "kwargs": dict(target.kwargs)})
    code = (
        "import sys; sys.path.append(sys.argv.pop(1)); from launcher.backends.spark.prediction import packing"
    )
    child = subprocess.run(
        [python or sys.executable, "-c", f"{code}; packing.main()", root, order],
        cwd=workdir,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        check=False,
    )
    said = child.stdout.decode(errors="replace").partition(_MARK)[2]
    if not said.endswith("\n"):
        raise SpecError(f"{target.label} cannot be loaded: its process ended with code {child.returncode}")
    answer = json.loads(said)
    if "error" in answer:
        raise SpecError(f"{target.label} cannot be loaded: {answer['error']}")
    return PackedFunction(answer["kind"], base64.b64decode(answer["pickled"]), answer["returns"])


def main() -> None:
    """Import and pack a function, in a process of its own."""
    import ast
    import importlib
    import importlib.util

    order, answer = json.loads(sys.argv[1]), sys.stdout.fileno()
    answer, _ = os.dup(answer), os.dup2(2, answer)  # what the import prints is no answer
    try:
        source = order["source"]
        if source.endswith(".py") or "/" in source:
            path = Path(source)
            sys.path.insert(0, str(path.resolve().parent))
            name = path.stem if path.stem not in sys.modules else f"_target_{path.stem}"
            spec = importlib.util.spec_from_file_location(name, path)
            assert spec is not None
            assert spec.loader is not None
            module = sys.modules[name] = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(module)
        else:
            sys.path.insert(0, os.getcwd())
            module = importlib.import_module(source)
        params = {key: ast.literal_eval(value) for key, value in order["kwargs"].items()}
        packed = pack(getattr(module, order["name"]), params)
        said = {**asdict(packed), "pickled": base64.b64encode(packed.pickled).decode()}
    except SpecError as error:
        said = {"error": str(error)}
    except BaseException as error:  # noqa: BLE001  a user's module may raise anything
        frames = error.__traceback__
        while frames is not None and frames.tb_frame.f_code.co_filename.startswith((__file__, "<frozen")):
            frames = frames.tb_next
        traceback.print_exception(type(error), error, frames)
        said = {"error": traceback.format_exception_only(type(error), error)[-1].strip()}
    with open(answer, "w", closefd=True) as file:
        file.write(f"{_MARK}{json.dumps(said)}\n")
