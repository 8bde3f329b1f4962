"""TensorFlow: TF_CONFIG of each rank, roles, and Keras 3 under a strategy of several workers."""

from __future__ import annotations

import json
import types
from collections.abc import Mapping
from typing import Any

import pytest

from launcher.errors import SpecError
from launcher.frameworks import tensorflow
from launcher.frameworks.base import Peer, Rendezvous
from launcher.frameworks.registry import choose
from launcher.frameworks.tensorflow import TENSORFLOW
from launcher.spec.job import JobSpec, Target, TargetKind
from launcher.spec.places import Assignment


def config(rank: int, addresses: list[str], roles: Mapping[str, int] | None = None) -> dict[str, Any]:
    peers = tuple(Peer(address, (5000 + n,)) for n, address in enumerate(addresses))
    rendezvous = Rendezvous("10.0.0.1", 43210, "run-1", peers=peers, roles=roles or {})
    place = Assignment(rank, len(peers), 0, 1, rank, len(peers), agent=rank, host=f"host{rank}")
    found: dict[str, Any] = json.loads(TENSORFLOW.environ(place, rendezvous)["TF_CONFIG"])
    return found


def test_every_rank_is_a_worker_at_its_own_address() -> None:
    workers = ["10.0.0.1:5000", "10.0.0.2:5001"]
    for rank in range(2):
        expected = {"cluster": {"worker": workers}, "task": {"type": "worker", "index": rank}}
        assert expected == config(rank, ["10.0.0.1", "10.0.0.2"])


def test_an_ipv6_address_is_in_brackets() -> None:
    assert ["[fd00::1]:5000"] == config(0, ["fd00::1"])["cluster"]["worker"]


def test_the_chief_is_first_and_the_evaluator_no_member_of_the_cluster() -> None:
    roles = {"evaluator": 1, "chief": 1}
    tasks = [config(rank, ["a", "b", "c", "d"], roles) for rank in range(4)]

    assert [{"chief": ["a:5000"], "worker": ["b:5001", "c:5002"]}] * 4 == [each["cluster"] for each in tasks]
    assert [("chief", 0), ("worker", 0), ("worker", 1), ("evaluator", 0)] == [
        (each["task"]["type"], each["task"]["index"]) for each in tasks
    ]


def test_roles_are_told_if_ranks_differ() -> None:
    alike, apart = request("tensorflow"), request("tensorflow", evaluator=1)

    assert ["", ""] == [TENSORFLOW.role(rank, 2, alike) for rank in range(2)]
    assert ["worker", "evaluator"] == [TENSORFLOW.role(rank, 2, apart) for rank in range(2)]


def request(framework: str, n: int = 3, **roles: int) -> JobSpec:
    target = Target(TargetKind.MODULE, "json.tool")
    return JobSpec(target, num_processes=n, framework=framework, roles=roles, workdir="/")


@pytest.mark.parametrize(
    ("framework", "roles", "said"),
    [
        ("torch", {"chief": 1}, "torch knows no role 'chief' .it has none"),
        (
            "tensorflow",
            {"boss": 1},
            "tensorflow knows no role 'boss' .its roles are worker, chief and evaluator",
        ),
        ("tensorflow", {"chief": 2}, "tensorflow has one chief at most, not 2"),
    ],
)
def test_roles_that_a_framework_does_not_have_are_refused(
    framework: str, roles: dict[str, int], said: str
) -> None:
    with pytest.raises(SpecError, match=said):
        choose(request(framework, **roles))


@pytest.mark.parametrize(
    ("n", "roles", "said"),
    [(1, {"chief": 1, "evaluator": 1}, "1 rank cannot have 2 roles"), (2, {"chief": 0}, "not 0")],
)
def test_roles_are_for_ranks_that_there_are(n: int, roles: dict[str, int], said: str) -> None:
    with pytest.raises(SpecError, match=said):
        request("tensorflow", n, **roles)


class Extended:
    def __init__(self, workers: int) -> None:
        self._num_workers = workers


class Strategy:
    def __init__(self, workers: int) -> None:
        self.extended = Extended(workers)


def test_a_strategy_tells_how_many_workers_have_met() -> None:
    module = types.ModuleType("tensorflow.python.distribute.collective_all_reduce_strategy")
    module.CollectiveAllReduceStrategy = type("Fresh", (Strategy,), {})  # type: ignore[attr-defined]
    sizes: list[int] = []
    tensorflow.on_import(module, sizes.append)

    module.CollectiveAllReduceStrategy(2)
    assert [2] == sizes


def keras_3(strategy: object) -> Any:
    """A model of Keras 3 that was made under a strategy, in a rank."""

    class TensorFlowTrainer:
        distribute_strategy = strategy

        def fit(self, x: int, *, epochs: int = 1) -> int:
            return x * epochs

        def evaluate(self) -> str:
            return "evaluated"

    module = types.ModuleType("keras.src.backend.tensorflow.trainer")
    module.TensorFlowTrainer = TensorFlowTrainer  # type: ignore[attr-defined]
    tensorflow.on_import(module, lambda _: None)
    return TensorFlowTrainer()


def test_keras_3_is_refused_with_the_cure_under_several_workers() -> None:
    model = keras_3(Strategy(2))
    for call in (lambda: model.fit(3), model.evaluate):
        with pytest.raises(RuntimeError, match=r"install tf_keras.*--env TF_USE_LEGACY_KERAS=1"):
            call()


@pytest.mark.parametrize("strategy", [None, Strategy(1), object()])
def test_keras_3_trains_where_it_can(strategy: object) -> None:
    model = keras_3(strategy)
    assert (6, "evaluated") == (model.fit(3, epochs=2), model.evaluate())
