"""A stand-in for MLflow, for tests: every call is appended to the file of MLFLOW_CALLS as a line of JSON.

The tracking URI says how it behaves: ``ok:`` does as it is told, ``away:PATH`` fails until the file is there,
``late:PATH`` hangs until then.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from .entities import Metric, Param

NOT_ALLOWED = "#"


class MlflowException(Exception):
    error_code = "INVALID_PARAMETER_VALUE"


class MlflowClient:
    def __init__(self) -> None:
        self.tracking_uri = os.environ.get("MLFLOW_TRACKING_URI", "ok:")

    def get_experiment_by_name(self, name: str) -> Any:
        self._call("get_experiment", name=name)
        return SimpleNamespace(experiment_id="0") if name == "Default" else None

    def create_experiment(self, name: str) -> str:
        self._call("create_experiment", name=name)
        return "1"

    def create_run(self, experiment: str, start_time: int, tags: dict[str, str], run_name: str) -> Any:
        self._call("create_run", experiment=experiment, start_time=start_time, tags=tags, name=run_name)
        return SimpleNamespace(info=SimpleNamespace(run_id="abc"))

    def search_runs(self, experiments: list[str], text: str, max_results: int) -> list[Any]:
        self._call("search_runs", text=text)
        return []

    def log_batch(self, run: str, metrics: list[Metric] = [], params: list[Param] = []) -> None:  # noqa: B006
        if any(NOT_ALLOWED in metric.key for metric in metrics):
            raise MlflowException("a name that is not allowed")
        points = [[metric.key, repr(metric.value), metric.timestamp, metric.step] for metric in metrics]
        self._call("log_batch", metrics=points, params={param.key: param.value for param in params})

    def set_tag(self, run: str, name: str, value: str) -> None:
        self._call("set_tag", name=name, value=value)

    def set_terminated(self, run: str, status: str, end_time: int) -> None:
        self._call("set_terminated", status=status, end_time=end_time)

    def _call(self, call: str, **fields: Any) -> None:
        how, _, path = self.tracking_uri.partition(":")
        if how == "away" and not Path(path).exists():
            raise ConnectionError("http://user:hunter22@tracking.example refuses")
        while how == "late" and not Path(path).exists():
            time.sleep(0.02)  # what hangs has no event
        with open(os.environ["MLFLOW_CALLS"], "a") as file:
            file.write(json.dumps({"call": call, **fields}) + "\n")
