"""`rankdeck predict`: a model over files or a table of Spark, as a run in the engine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from launcher.spec.job import LAUNCH_OPTIONS
from launcher.spec.prediction import PREDICT_OPTIONS

from .run import given_options, start, watch_options, with_options

_USED = (
    "mode",
    "gpu",
    "python",
    "name",
    "timeout_s",
    "sample_s",
    "master",
    "remote",
    "listen",
    "lost_after_s",
    "conf",
    "param",
)
_OPTIONS = tuple(option for option in LAUNCH_OPTIONS if option.name in _USED)
_SETTINGS = frozenset(option.setting for option in _OPTIONS)


@click.command()
@click.argument("target")
@with_options(PREDICT_OPTIONS)
@with_options(_OPTIONS)
@click.option("--no-defaults", is_flag=True, help="Ignore [defaults] of config.toml.")
@click.option(
    "--show", type=click.Choice(["text", "jsonl"]), default="text", show_default=True, help="What is printed."
)
@watch_options
@click.pass_context
def predict(context: click.Context, /, target: str, *, no_defaults: bool, show: str, **options: Any) -> int:
    """Predict with TARGET on Spark, and write the rows with their predictions.

    TARGET is score.py:load or package.module:load. It is called once in each worker with a device such as
    "cuda:0" or "cpu", loads a model, and returns the function that predicts: from a batch, one numpy array a
    column, to an array. Or it is a Pandas UDF.

    A prediction from files to files that ended early goes on with the same command.
    """
    from launcher.inference.predicting import named_request
    from launcher.spec.job import JobSpec
    from launcher.spec.prediction import prediction_from
    from launcher.spec.target import resolve_loader

    from ..data.launch.given import require_effect, with_defaults
    from ..settings import launch_defaults

    here, given = Path.cwd(), given_options(context, _OPTIONS)
    defaults = {} if no_defaults else launch_defaults()
    mode = _mode(given, defaults)
    require_effect(given, mode)
    prediction = prediction_from(given_options(context, PREDICT_OPTIONS), here)
    usable = {name: text for name, text in defaults.items() if name in _SETTINGS}
    values = {**with_defaults(given, usable, mode, here), "num_processes": (None, prediction.workers or 1)}
    loader = resolve_loader(target, params=values.get("param", {}), workdir=here)
    spec = JobSpec(loader, mode=mode, workdir=str(here), prediction=prediction).with_options(values)
    return start(named_request(spec), {**options, "output": show})


def _mode(given: Mapping[str, Any], defaults: Mapping[str, str]) -> Any:
    """The mode as it is given; without one, that of the address which names a Spark."""
    from launcher.spec.modes import implied_mode

    from ..data.launch.given import mode_of

    mode = mode_of(given, defaults)
    if "mode" in given or mode.traits.scheduled:
        return mode
    return implied_mode({"remote": os.environ.get("SPARK_REMOTE"), "master": "that of the settings"}) or mode
