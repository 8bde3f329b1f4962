"""`predict`: run a model over a table of Spark, as a run like any other.

rows = predict(df, load, output="/data/scored", columns=["features"], returns="array<float>")
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypedDict, Unpack

from ..backends.spark.prediction.packing import pack, pack_named
from ..backends.spark.session import is_connect
from ..display.output import output_of
from ..distributor import Distributor, attend, described, launch
from ..errors import SpecError
from ..job import Job
from ..spec.job import JobSpec
from ..spec.options import require_known
from ..spec.prediction import PREDICT_OPTIONS, Prediction, prediction_from
from ..spec.request import Data, Request
from ..spec.target import resolve_loader

_OPTIONS = {option.name: option for option in PREDICT_OPTIONS if option.name not in ("input", "output")}


class PredictOptions(TypedDict, total=False):
    """The options of a prediction, for type checkers. `Prediction` declares their meanings and defaults."""

    input_format: str
    input_options: Mapping[str, str]
    output_format: str
    output_options: Mapping[str, str]
    if_exists: str
    columns: Sequence[str]
    returns: str
    column: str
    batch_size: int
    shapes: Mapping[str, Sequence[int] | str]
    workers: int | None


def predict(
    source: Any,
    function: Callable[..., Any] | str,
    /,
    *,
    output: str,
    params: Mapping[str, Any] | None = None,
    distributor: Distributor | None = None,
    show: str = "auto",
    **options: Unpack[PredictOptions],
) -> int:
    """Write the rows of `source` with a column of predictions to `output`, and return how many there were.

    It shows its progress meanwhile; Ctrl-C stops it. See `start` for the arguments.

    Raises:
        RankFailed: the function raised in a worker; the message says in which rows.
        LauncherError: the prediction ended for another reason.
    """
    job = start(source, function, output=output, params=params, distributor=distributor, **options)
    state = attend(job, output_of(show), Job.succeeded)
    return state.prediction.rows if state.prediction is not None else 0


def start(
    source: Any,
    function: Callable[..., Any] | str,
    /,
    *,
    output: str,
    params: Mapping[str, Any] | None = None,
    distributor: Distributor | None = None,
    **options: Unpack[PredictOptions],
) -> Job:
    """Start a prediction and return at once.

    Args:
        source: a DataFrame of Spark, whose session is used; or files, a folder of them, or a table.
        function: loads a model: it is called once in each worker with its device, such as ``"cuda:1"`` or
            ``"cpu"``, and returns the function that predicts, from one numpy array a column to an array. Or
            a Pandas UDF; or ``"score.py:load"``.
        output: the path or table to write.
        params: keyword arguments of `function`.
        distributor: how runs are launched: its mode, session and options. By default one in cluster mode, or
            in connect mode for a DataFrame of a Connect session.
        **options: see `launcher.spec.prediction.Prediction`.

    Raises:
        SpecError: the function, an option or the output is not allowed; nothing was started.
    """
    require_known(options, _OPTIONS, "predict")
    taken = {name: _OPTIONS[name].take(value) for name, value in options.items()}
    given: dict[str, Any] = {**taken, "output": output}
    dataframe = None if isinstance(source, str) else source
    if dataframe is None:
        given["input"] = source
    elif not hasattr(dataframe, "sparkSession"):
        raise SpecError(f"predictions are over a DataFrame of Spark or a path, not {type(source).__name__}")
    prediction = prediction_from(given, Path.cwd(), has_input=dataframe is not None)
    if distributor is None:
        distributor = Distributor(mode=_mode_of(dataframe))
    return launch(request_of(distributor, prediction, function, params or {}, dataframe))


def request_of(
    distributor: Distributor,
    prediction: Prediction,
    function: Callable[..., Any] | str,
    params: Mapping[str, Any],
    dataframe: Any = None,
) -> Request:
    """The checked request of a prediction.

    Raises:
        SpecError: the function cannot be loaded or packed, or the mode has no Spark.
    """
    if isinstance(function, str):
        texts = {name: repr(value) for name, value in params.items()}
        target = resolve_loader(function, params=texts, workdir=Path.cwd())
        request = named_request(distributor.spec_of(target, prediction))
    else:
        spec = distributor.spec_of(described(function, params), prediction)
        request = Request(spec, payload=pack(function, params).encode())
    if dataframe is None:
        return replace(request, session=distributor.session)
    return replace(request, data=Data(dataframe), session=dataframe.sparkSession)


def named_request(spec: JobSpec) -> Request:
    """The request of a prediction by a function that is found by name; it is imported in another process.

    Raises:
        SpecError: it cannot be imported, or packed.
    """
    return Request(spec, payload=pack_named(spec.target, Path(spec.workdir), spec.python).encode())


def _mode_of(dataframe: Any) -> str:
    return "connect" if is_connect(getattr(dataframe, "sparkSession", None)) else "cluster"
