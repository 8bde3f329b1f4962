"""Noticing in a rank which experiment trackers the user's own code writes to: MLflow, W&B, TensorBoard.

Nothing of a tracker is imported here. Once the user's code has imported one, the calls that begin a record
are watched, and each record is reported once as a fact.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from ..spec.redaction import redacted_text
from . import import_hooks
from .rank_pipe import RankPipe

MOST = 16
_LONGEST = 1024

Fields = Mapping[str, Any]
Describe = Callable[[Any, tuple[Any, ...]], Fields | None]


class Noticed:
    """Reports the records that a rank's code begins, each once and at most `MOST` of each tracker."""

    def __init__(self, line: RankPipe) -> None:
        self._line = line
        self._sent: dict[str, set[tuple[tuple[str, str], ...]]] = {}

    def watch(self, module: ModuleType) -> None:
        """Watch the calls of one of the modules of `CALLS`, which has just been imported."""
        tracker, owner, name, describe = CALLS[module.__name__]
        holder = getattr(module, owner, None) if owner else module
        import_hooks.around(
            holder, name, after=lambda value, args: self._on_call(tracker, describe(value, args))
        )

    def _on_call(self, tracker: str, fields: Fields | None) -> None:
        if fields is None or not self._line.mine:
            return
        texts = {name: _cleaned(value) for name, value in fields.items() if value}
        sent = self._sent.setdefault(tracker, set())
        key = tuple(sorted(texts.items()))
        if key not in sent and len(sent) < MOST:
            sent.add(key)
            self._line.send_fact("tracker_linked", {"time": time.time(), "tracker": tracker, **texts})


def _cleaned(value: object) -> str:
    """A value as bounded text in one line, without secrets."""
    text = redacted_text(str(value)[: 2 * _LONGEST])[:_LONGEST]
    return "".join(c if c.isprintable() else "?" for c in text)


def mlflow_page(store: str, experiment: str, run: str, environ: Mapping[str, str]) -> str:
    """The page of an MLflow run, by its tracking URI; empty if the store has no pages."""
    host, middle = store, "/#/experiments"
    if store == "databricks" or store.startswith("databricks:"):
        host, middle = environ.get("DATABRICKS_HOST", ""), "/ml/experiments"
    if not host.startswith(("http://", "https://")):
        return ""
    return f"{host.rstrip('/')}{middle}/{experiment}/runs/{run}"


def _mlflow_run(run: Any, _: tuple[Any, ...]) -> Fields | None:
    """A run as `start_run` or the client returns it; the store is the one that is set now."""
    mlflow = sys.modules.get("mlflow")
    if mlflow is None or not hasattr(mlflow, "get_tracking_uri"):  # made while MLflow imports itself
        return None
    return _mlflow_fields(run.info, str(mlflow.get_tracking_uri()))


def _mlflow_created(run: Any, args: tuple[Any, ...]) -> Fields | None:
    """A run that a client has created: the client has a store of its own."""
    return _mlflow_fields(run.info, str(args[0].tracking_uri))


def _mlflow_fields(info: Any, store: str) -> Fields:
    page = mlflow_page(store, str(info.experiment_id), str(info.run_id), os.environ)
    return {"id": info.run_id, "group": info.experiment_id, "store": store, "url": page}


def _wandb_run(run: Any, _: tuple[Any, ...]) -> Fields | None:
    if run is None or getattr(run, "disabled", False):
        return None
    offline = getattr(run, "offline", True)  # asking an offline run for its page prints a warning
    folder = os.path.dirname(os.path.abspath(str(run.dir)))
    return {"id": run.id, "group": run.project, "store": folder, "url": None if offline else run.url}


def _summary_writer(_: Any, args: tuple[Any, ...]) -> Fields | None:
    folder = getattr(args[0], "log_dir", None) or getattr(args[0], "logdir", None)
    return {"store": os.path.abspath(os.fspath(folder))} if folder else None


CALLS: Mapping[str, tuple[str, str, str, Describe]] = {
    "mlflow.tracking.fluent": ("mlflow", "", "start_run", _mlflow_run),
    "mlflow.tracking.client": ("mlflow", "MlflowClient", "create_run", _mlflow_created),
    "wandb.sdk.wandb_init": ("wandb", "", "init", _wandb_run),
    "torch.utils.tensorboard.writer": ("tensorboard", "SummaryWriter", "__init__", _summary_writer),
    "tensorboardX.writer": ("tensorboard", "SummaryWriter", "__init__", _summary_writer),
}
