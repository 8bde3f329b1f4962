"""TensorFlow, whose workers find each other by TF_CONFIG: every worker's address, and which of them this is.

The form of TF_CONFIG is that of tensorflow.org/guide/distributed_training. An evaluator is no member of the
cluster that trains, so the others do not wait for it.
"""

from __future__ import annotations

import functools
import json
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..agent import import_hooks
from ..channel.connecting import endpoint
from ..spec.places import Assignment
from . import torch
from .base import Framework, Rendezvous, RoleRequest, importing

WORKER, CHIEF, EVALUATOR = "worker", "chief", "evaluator"
_STRATEGIES = "tensorflow.python.distribute.collective_all_reduce_strategy"
_TRAINER = "keras.src.backend.tensorflow.trainer"
_KERAS_3 = (
    "Keras 3 cannot train under MultiWorkerMirroredStrategy: install tf_keras, and import it in place of "
    "keras, or use tf.keras with --env TF_USE_LEGACY_KERAS=1; a training loop of your own works as it is"
)


def environ(place: Assignment, rendezvous: Rendezvous) -> dict[str, str]:
    """The variables of one rank: torchrun's, for trackers and tools that read them, and TF_CONFIG."""
    tasks = list(tasks_of(place.world_size, rendezvous.roles))
    role, index = tasks[place.rank]
    cluster: dict[str, list[str]] = {}
    for (each, _), peer in zip(tasks, rendezvous.peers, strict=True):
        if each != EVALUATOR:
            cluster.setdefault(each, []).append(endpoint(peer.address, peer.ports[0]))
    config = {"cluster": cluster, "task": {"type": role, "index": index}}
    return {**torch.environ(place, rendezvous), "TF_CONFIG": json.dumps(config)}


def tasks_of(world_size: int, roles: Mapping[str, int]) -> Iterator[tuple[str, int]]:
    """Each rank's role and its number in that role: the chief is first, and the evaluator last."""
    first, last = roles.get(CHIEF, 0), roles.get(EVALUATOR, 0)
    counts = {CHIEF: first, WORKER: world_size - first - last, EVALUATOR: last}
    return ((role, index) for role, count in counts.items() for index in range(count))


def role(rank: int, world_size: int, spec: RoleRequest) -> str:
    """The rank's role, if not all have the same."""
    return list(tasks_of(world_size, spec.roles))[rank][0] if spec.roles else ""


def on_import(module: types.ModuleType, joined: Callable[[int], None]) -> None:
    """Learn the number of workers from every strategy that has workers, and refuse Keras 3 under one."""
    if module.__name__ == _TRAINER:
        return _refuse_keras_3(module.TensorFlowTrainer)

    def made(_: object, args: tuple[Any, ...]) -> None:
        joined(args[0].extended._num_workers)  # noqa: SLF001  the public count is that of devices

    import_hooks.around(module.CollectiveAllReduceStrategy, "__init__", after=made)
    return None


def _refuse_keras_3(trainer: Any) -> None:
    """Let `fit` and `evaluate` of a model that several workers share say why they cannot work."""
    for name in ("fit", "evaluate"):
        setattr(trainer, name, _refusing(getattr(trainer, name)))


def _refusing(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def checked(model: Any, *args: Any, **kwargs: Any) -> Any:
        extended = getattr(model.distribute_strategy, "extended", None)
        if getattr(extended, "_num_workers", 1) > 1:
            raise RuntimeError(_KERAS_3)
        return method(model, *args, **kwargs)

    return checked


TENSORFLOW = Framework(
    "tensorflow",
    matches=importing("tensorflow", "keras", "tf_keras"),
    environ=environ,
    defaults=torch.defaults,
    packages=("tensorflow",),
    watches=(_STRATEGIES, _TRAINER),
    cure="train under a tf.distribute.MultiWorkerMirroredStrategy in every rank",
    ports=1,
    roles=(WORKER, CHIEF, EVALUATOR),
    role=role,
)
