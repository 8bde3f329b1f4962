"""Metrics as an MLflow run.

The tracking server and the experiment are those of the environment (MLFLOW_TRACKING_URI,
MLFLOW_EXPERIMENT_NAME and so on), as for any other program that uses MLflow.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..agent.trackers import mlflow_page
from .base import Record, TrackedRun, Verdict
from .reports import Point

RUN_TAG = "rankdeck.run_id"
# MLflow tries again for minutes by default, and meanwhile no end of the run could be written.
_PATIENCE = {"MLFLOW_HTTP_REQUEST_TIMEOUT": "10", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0"}
_TAGS = {"revision": "mlflow.source.git.commit"}
_STATUS = {"succeeded": "FINISHED", "stopped": "KILLED"}
_LONGEST_NAME, _LONGEST_TEXT = 250, 500
_NOT_ALLOWED = re.compile(r"[^\w./ -]")
_REFUSALS = (
    FileExistsError,
    IsADirectoryError,
    NotADirectoryError,
)  # a store of files; `loss` and `loss/val`


class MlflowWriter:
    """Writes one MLflow run, and continues it over the run's restarts."""

    name = "MLflow"
    most = 1000  # the server takes no more at once
    any_order = True

    def __init__(self) -> None:
        for variable, value in _PATIENCE.items():
            os.environ.setdefault(variable, value)
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        self._client: Any = None
        self._id = ""
        self._tried = False
        self._names = MetricNames()
        self._refused: set[str] = set()

    def begin(self, run: TrackedRun) -> Record:
        """Make the MLflow run with its parameters."""
        from mlflow import MlflowClient
        from mlflow.entities import Param

        self._client = client = MlflowClient()
        experiment = _experiment(client)
        self._id = self._id or self._made_before(experiment, run) or _create(client, experiment, run)
        params = [Param(name, value[:_LONGEST_TEXT]) for name, value in run.parameters.items() if value]
        client.log_batch(self._id, params=params)
        store = str(client.tracking_uri)
        page = mlflow_page(store, experiment, self._id, os.environ)
        return Record(id=self._id, group=experiment, store=store, url=page)

    def tag(self, tags: dict[str, str]) -> None:
        """Add tags."""
        for name, value in tags.items():
            self._client.set_tag(self._id, _TAGS.get(name, f"rankdeck.{name}"), value[:_LONGEST_TEXT])

    def write(self, points: Sequence[Point]) -> list[str]:
        """Write points in one request; where one is refused, by metric, so that the others arrive."""
        from mlflow.entities import Metric

        metrics = [
            Metric(self._names.of(p.name), p.value, int(p.time * 1000), p.step)
            for p in points
            if p.name not in self._refused
        ]
        try:
            self._client.log_batch(self._id, metrics=metrics)
        except Exception as error:
            if not _is_refusal(error):
                raise
            return self._write_each(points, metrics)
        return []

    def end(self, verdict: Verdict) -> None:
        """Record the final status."""
        self.tag({"state": verdict.state, "exit_code": str(verdict.exit_code)})
        status = _STATUS.get(verdict.state, "FAILED")
        self._client.set_terminated(self._id, status, end_time=int(verdict.time * 1000))

    def _write_each(self, points: Sequence[Point], metrics: Sequence[Any]) -> list[str]:
        """Write one metric after the other, and return those that are refused."""
        names = dict.fromkeys(p.name for p in points if p.name not in self._refused)
        refused = []
        for name in names:
            own = [metric for metric in metrics if metric.key == self._names.of(name)]
            try:
                self._client.log_batch(self._id, metrics=own)
            except Exception as error:
                if not _is_refusal(error):
                    raise
                refused.append(name)
        self._refused.update(refused)
        return refused

    def _made_before(self, experiment: str, run: TrackedRun) -> str:
        """The MLflow run of an attempt whose answer did not arrive."""
        tried, self._tried = self._tried, True
        if not tried:
            return ""
        found = self._client.search_runs([experiment], f"tags.`{RUN_TAG}` = '{run.id}'", max_results=1)
        return str(found[0].info.run_id) if found else ""


def _create(client: Any, experiment: str, run: TrackedRun) -> str:
    tags = {
        RUN_TAG: run.id,
        "mlflow.user": run.user,
        "mlflow.source.name": run.source,
        "mlflow.source.type": "JOB",
    }
    made = client.create_run(
        experiment, start_time=int(run.started * 1000), tags=tags, run_name=run.name[:_LONGEST_NAME]
    )
    return str(made.info.run_id)


def _experiment(client: Any, environ: Mapping[str, str] = os.environ) -> str:
    """The id of the experiment that the environment names; the default one if it names none."""
    if number := environ.get("MLFLOW_EXPERIMENT_ID"):
        return number
    name = environ.get("MLFLOW_EXPERIMENT_NAME") or "Default"
    known = client.get_experiment_by_name(name)
    if known is not None:
        return str(known.experiment_id)
    try:
        return str(client.create_experiment(name))
    except Exception:
        known = client.get_experiment_by_name(name)  # somebody else may just have made it
        if known is None:
            raise
        return str(known.experiment_id)


def _is_refusal(error: Exception) -> bool:
    """Whether the values are refused, now and for ever, rather than the connection or the server."""
    return isinstance(error, _REFUSALS) or getattr(error, "error_code", "") == "INVALID_PARAMETER_VALUE"


class MetricNames:
    """Names that MLflow allows: letters, digits, ``_ - . /`` and spaces, in parts like those of a path.

    Two names stay two names.
    """

    def __init__(self) -> None:
        self._given: dict[str, str] = {}
        self._taken: set[str] = set()

    def of(self, name: str) -> str:
        """The allowed name for a metric's name; always the same one."""
        if name not in self._given:
            self._given[name] = self._free(_allowed(name))
            self._taken.add(self._given[name])
        return self._given[name]

    def _free(self, wanted: str) -> str:
        chosen, number = wanted, 1
        while chosen in self._taken:
            number += 1
            chosen = f"{wanted[: _LONGEST_NAME - 8]}_{number}"
        return chosen


def _allowed(name: str) -> str:
    parts = _NOT_ALLOWED.sub("_", name)[:_LONGEST_NAME].split("/")
    return "/".join("_" if part in ("", ".", "..") else part for part in parts)
