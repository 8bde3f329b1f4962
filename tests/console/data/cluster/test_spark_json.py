"""What Spark's pages say; and pages that say nonsense."""

from __future__ import annotations

from typing import Any

import pytest

from console.data.cluster.spark_api import (
    Application,
    Executor,
    Master,
    OwnExecutor,
    Worker,
    read_executors,
    read_master,
    read_own,
    with_executors,
)


def resources(*addresses: str) -> dict[str, Any]:
    return {"gpu": {"name": "gpu", "addresses": list(addresses)}}


def worker(host: str = "gpu-1", state: str = "ALIVE", **more: Any) -> dict[str, Any]:
    return {
        "id": f"worker-{host}-{state}", "host": host, "webuiaddress": f"http://{host}:8081", "cores": 8,
        "coresfree": 6, "memory": 2048, "memoryfree": 1024, "resources": resources("0", "1"),
        "resourcesfree": resources("1"), "state": state, "lastheartbeat": 1_795_255_426_600, **more,
    }  # fmt: skip


APP = {
    "id": "app-1", "name": "etl", "user": "bo", "state": "RUNNING", "cores": 2,
    "starttime": 1_795_255_515_470,
    "resourcesperexecutor": [{"name": "fpga", "amount": 9}, {"name": "gpu", "amount": 1}],
}  # fmt: skip
PAGE = {"url": "spark://m:7077", "workers": [worker()], "activeapps": [APP], "status": "ALIVE"}


def test_a_masters_page_is_read() -> None:
    assert read_master(PAGE) == Master(
        "spark://m:7077",
        "ALIVE",
        (
            Worker(
                "worker-gpu-1-ALIVE", "gpu-1", "ALIVE", 8, 6, 2048, 1024, ("0", "1"), ("1",),
                "http://gpu-1:8081", 1_795_255_426.6,
            ),
        ),
        (Application("app-1", "etl", "bo", "RUNNING", 2, 1, 1_795_255_515.47),),
    )  # fmt: skip


def test_of_a_worker_that_came_back_only_the_living_is_shown() -> None:
    page = {
        **PAGE,
        "workers": [worker(state="DEAD"), worker(), worker("gpu-0", "DEAD"), worker("gpu-0", "UNKNOWN")],
    }
    master = read_master(page)

    assert master is not None
    assert [("gpu-0", False), ("gpu-1", True)] == [(w.host, w.alive) for w in master.workers]


def test_a_workers_page_tells_its_executors() -> None:
    body = {
        "executors": [{"id": 0, "appid": "app-1", "resources": resources("0"), "appdesc": {"command": "x"}}]
    }
    executors = read_executors(body)

    assert executors == (Executor("0", "app-1", ("0",)),)
    master = read_master(PAGE)
    assert master is not None
    assert executors == with_executors(master, {"worker-gpu-1-ALIVE": executors}).workers[0].executors
    assert with_executors(master, {}).workers[0].executors is None


def test_a_drivers_page_tells_its_live_executors() -> None:
    entry = {
        "id": "3", "hostPort": "10.0.0.7:41", "isActive": True, "totalCores": 4, "activeTasks": 1,
        "resources": resources("2"),
    }  # fmt: skip
    body = [
        {**entry, "id": "driver"},
        {**entry, "isActive": False},
        entry,
        {**entry, "hostPort": "[fd00::7]:41"},
    ]

    first, second = read_own("app-1", body)
    assert OwnExecutor("app-1", "3", "10.0.0.7", 4, 1, ("2",)) == first
    assert "fd00::7" == second.host


@pytest.mark.parametrize(
    "body", [None, 3, "x", [], {}, {"workers": 3}, {"workers": None}, [{"executors": []}]], ids=repr
)
def test_what_is_no_masters_page_is_none(body: object) -> None:
    assert read_master(body) is None
    assert read_executors(body) is None
    assert not read_own("app", body)


@pytest.mark.parametrize(
    "junk", [None, -1, 1e308, "x", [], {}, [[]], {"gpu": []}, {"gpu": {"addresses": 3}}], ids=repr
)
def test_no_value_breaks_the_reading(junk: Any) -> None:
    page = {
        "url": junk, "status": junk, "workers": [junk, dict.fromkeys(worker(), junk)],
        "activeapps": [junk, dict.fromkeys(APP, junk)],
    }  # fmt: skip
    master = read_master(page)

    assert master is not None
    assert (1, 1 + isinstance(junk, dict)) == (len(master.workers), len(master.apps))
    read_executors({"executors": [junk, {"id": junk, "appid": junk, "resources": junk}]})
    keys = ("id", "hostPort", "isActive", "totalCores", "activeTasks", "resources")
    read_own("app", [junk, dict.fromkeys(keys, junk)])


def test_a_heartbeat_beyond_all_time_is_unknown() -> None:
    master = read_master({**PAGE, "workers": [worker(lastheartbeat=1 << 62)]})

    assert master is not None
    assert master.workers[0].heard is None


def test_texts_of_any_length_are_cut() -> None:
    master = read_master({**PAGE, "activeapps": [{**APP, "name": "x" * 1_000_000}]})

    assert master is not None
    assert 200 == len(master.apps[0].name)
