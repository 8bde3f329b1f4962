"""How many cores a run asks of a standalone master, and which runs fit into one application."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from launcher.backends.spark.sizing import CORES_MAX, CoreDemand, Reservations, cores_for, demand_of, least_in
from launcher.errors import SpecError
from launcher.spec.job import JobSpec, SparkSpec, Target, TargetKind
from launcher.spec.modes import Mode

CPUS, CORES, GPUS = "spark.task.cpus", "spark.executor.cores", "spark.executor.resource.gpu.amount"


@pytest.mark.parametrize(
    ("tasks", "gpus", "settings", "demand"),
    [
        (3, 0, {}, CoreDemand(3, 3)),
        (3, 1, {}, CoreDemand(3, 3)),  # spread evenly, they are where the GPUs are
        (3, 0, {CORES: "1"}, CoreDemand(3, 3)),
        (3, 0, {CORES: "2"}, CoreDemand(4, 3)),  # two whole executors
        (4, 0, {CORES: "2"}, CoreDemand(4, 4)),
        (2, 0, {CORES: "4", CPUS: "2"}, CoreDemand(4, 4)),
        (4, 1, {CORES: "8", GPUS: "2"}, CoreDemand(16, 4)),  # two tasks an executor
        (4, 2, {CORES: "8", GPUS: "2"}, CoreDemand(32, 4)),
        (4, 0, {CORES: "8", GPUS: "2"}, CoreDemand(8, 4)),  # they take no GPUs
        (4, 1, {CORES: "8"}, CoreDemand(8, 4)),  # executors have none
        (2, 0, {CPUS: "2"}, None),  # single cores here and there would be no slot
        (2, 0, {CORES: "2", CPUS: "4"}, None),  # no executor holds a task
        (2, 4, {CORES: "2", GPUS: "1"}, None),
        (2, 0, {CORES_MAX: "8"}, None),
        (2, 0, {CORES: "many"}, None),
        (2, 0, {CPUS: "0.5"}, None),
    ],
)
def test_the_cores_of_a_run(tasks: int, gpus: int, settings: dict[str, str], demand: CoreDemand) -> None:
    assert cores_for(tasks, gpus, lambda key: settings.get(key, "")) == demand


def job(master: str, ranks: int = 4, conf: dict[str, str] | None = None, **more: Any) -> JobSpec:
    spark = SparkSpec(master=master, conf=conf or {})
    return JobSpec(Target(TargetKind.SCRIPT, "t.py"), ranks, mode=Mode.CLUSTER, spark=spark, **more)


def demand(spec: JobSpec, **environ: str) -> CoreDemand | None:
    return demand_of(spec, environ, server=False)


@pytest.mark.parametrize("master", ["local[4]", "yarn", "k8s://https://h:6443", ""])
def test_only_a_standalone_application_is_limited(master: str) -> None:
    assert demand(job(master)) is None


def test_what_the_users_settings_say_counts(tmp_path: Path) -> None:
    assert demand(job("spark://m:7077")) == CoreDemand(4, 4)
    assert demand(job("", conf={CORES: "3"}), MASTER="spark://m:7077") == CoreDemand(6, 4)
    assert demand(job("spark://m:7077", conf={CORES_MAX: "9"})) is None
    (tmp_path / "spark-defaults.conf").write_text(f"{CORES_MAX} 9\n")
    assert demand(job("spark://m:7077"), SPARK_CONF_DIR=str(tmp_path)) is None


def test_tasks_are_counted_and_not_ranks() -> None:
    assert demand(job("spark://m:7077", 8, gpus_per_task=4, gpu=True)) == CoreDemand(2, 2)
    assert demand(job("spark://m:7077", 8, ranks_per_gpu=4, gpu=True)) == CoreDemand(2, 2)


def test_an_elastic_run_says_how_many_are_enough() -> None:
    assert demand(job("spark://m:7077", 8, min_processes=2)) == CoreDemand(8, 8, 2)
    assert demand(job("spark://m:7077", 8, {CORES: "4"}, min_processes=2)) == CoreDemand(8, 8, 4)
    assert demand(job("spark://m:7077", 4, {CORES: "4"}, min_processes=2)) == CoreDemand(4, 4)


@pytest.mark.parametrize(
    ("name", "least"),
    [
        (CoreDemand(8, 8, 2).name("rankdeck"), 2),
        (CoreDemand(8, 8, 2).name("rankdeck train.py"), 2),
        (CoreDemand(8, 8).name("rankdeck"), None),
        *(
            ("rankdeck train.py", None),
            ("notebook 2:8", None),
            ("rankdecks 2:8", None),
            ("rankdeck 2:", None),
        ),
    ],
)
def test_the_name_of_an_application_says_how_many_are_enough(name: str, least: int | None) -> None:
    assert least == least_in(name)


def test_a_wrong_address_is_refused() -> None:
    with pytest.raises(SpecError):
        demand(job("spork://m"))


# --- runs side by side


def taken(*demands: CoreDemand | None) -> tuple[Reservations, list[bool]]:
    reservations = Reservations()
    return reservations, [reservations.take(number, demand) for number, demand in enumerate(demands)]


def test_a_run_that_does_not_fit_beside_others_is_turned_away() -> None:
    reservations, got = taken(CoreDemand(2, 2), CoreDemand(1, 1))
    assert [True, False] == got
    assert 2 == reservations.limit
    reservations.give_back(0)
    assert reservations.take(1, CoreDemand(1, 1))
    assert 2 == reservations.limit  # the application has them still
    assert reservations.take(2, CoreDemand(1, 1))
    assert not reservations.take(3, CoreDemand(1, 1))


def test_of_a_whole_executor_the_rest_is_for_another_run() -> None:
    assert [True, True, False] == taken(CoreDemand(2, 1), CoreDemand(2, 1), CoreDemand(2, 1))[1]
    assert [True, False] == taken(CoreDemand(2, 1), CoreDemand(4, 1))[1]


def test_a_lone_run_may_be_larger_than_the_application() -> None:
    reservations, _ = taken(CoreDemand(2, 2))
    reservations.give_back(0)
    assert reservations.take(1, CoreDemand(8, 8))
    assert 8 == reservations.limit


def test_an_application_is_made_for_all_that_count_on_it() -> None:
    reservations, _ = taken(CoreDemand(8, 8))
    assert reservations.widened(CoreDemand(2, 2, 1)) == CoreDemand(8, 2)
    assert reservations.widened(CoreDemand(8, 8, 4)) == CoreDemand(8, 8, 4)
    assert reservations.widened(None) is None
    assert taken(None)[0].widened(CoreDemand(2, 2)) is None


def test_without_a_limit_every_run_fits() -> None:
    reservations, got = taken(None, CoreDemand(64, 64), None)
    assert [True] * 3 == got
    assert reservations.limit is None


def test_the_limit_ends_with_the_application_unless_runs_count_on_it() -> None:
    reservations, _ = taken(CoreDemand(4, 4))
    reservations.on_application_ended()
    assert 4 == reservations.limit
    reservations.give_back(0)
    reservations.give_back(0)
    reservations.on_application_ended()
    assert 0 == reservations.limit
