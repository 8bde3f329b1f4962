"""What is listed, and in which order: words, figures, folding; rows that keep their places."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from console.data.cluster.model import ClusterView, ExecutorView, GpuView, Held, HostView, Use
from console.data.cluster.query import Item, MapQuery, arranged, parse_machine_filter
from console.data.run.metrics import TEMPERATURE
from launcher.agent.nvml import Health
from launcher.errors import SpecError
from launcher.placement.inventory import Holder
from launcher.spec.places import Device
from launcher.state import events as ev

GIB = 1 << 30


def gpu(index: int, use: Use = Use.FREE, *, known: dict[str, Any] | None = None, **more: Any) -> GpuView:
    sample = ev.DeviceSample(uuid=f"GPU-{index}", index=index, **(known or {}))
    return GpuView(Device(index, f"GPU-{index}", "NVIDIA H100", 80 * GIB), sample, use, **more)


def host(name: str, *gpus: GpuView, **more: Any) -> HostView:
    return HostView(name, gpus=gpus, **more)


HOT = gpu(0, Use.MINE, known={"temperature_c": 80.0, "util": 99.0, "power_w": 600.0, "power_limit_w": 700.0},
          held=(Held("20260101-1", "llama", (0,)),))  # fmt: skip
OTHER = gpu(1, Use.OTHER, known={"memory_used": 40 * GIB, "temperature_c": 50.0},
            foreign=(Holder(8812, 1, "bo", "python", command="python /home/bo/x.py"),))  # fmt: skip
APP = ExecutorView("0", "app-7", "nightly etl")
BY_SPARK = gpu(2, Use.OTHER, executor=APP)
VIEW = ClusterView(
    (
        host("gpu-10", HOT, OTHER, here=True),
        host("gpu-9", BY_SPARK, gpu(3)),
        host("gpu-2", executors=(APP,), lost="Spark's worker is dead"),
    )
)


def shown(text: str, **more: Any) -> list[tuple[str, int]]:
    query = MapQuery(parse_machine_filter(text), unfolded=True, **more)
    return [
        (item.host.host, -1 if item.gpu is None else item.gpu.device.index) for item in arranged(VIEW, query)
    ]


def gpus(text: str) -> list[int]:
    return [index for _, index in shown(text) if index >= 0]


@pytest.mark.parametrize(
    ("text", "indices"),
    [
        ("", [0, 1, 2, 3]),
        ("llama", [0]),
        ("BO", [1]),
        ("bo/x.py", [1]),
        ("8812", [1]),
        ("etl", [2]),
        ("app-7 gpu-9", [2]),
        ("free", [3]),
        ("!free", [0, 1, 2]),
        ("gpu-9 !free", [2]),
        ("!", [0, 1, 2, 3]),
        ("temp>75", [0]),
        ("temp<75", [1]),
        ("!temp>75", [1, 2, 3]),
        ("mem>40", [1]),
        ("mem>50%", []),
        ("power>500w", [0]),
        ("util>", [0, 1, 2, 3]),
        ("temp>40 bo", [1]),
        ("nothing", []),
    ],
)
def test_all_that_is_typed_must_be_so(text: str, indices: list[int]) -> None:
    assert indices == gpus(text)


def test_a_machine_without_gpus_is_found_by_what_it_is_itself() -> None:
    assert [("gpu-2", -1)] == shown("lost")
    assert ("gpu-2", -1) in shown("etl")
    assert [] == shown("temp>1 gpu-2")


@pytest.mark.parametrize("text", ["temp>hot", "util<1.2.3", "mem>>5"])
def test_a_figure_is_compared_with_a_number(text: str) -> None:
    with pytest.raises(SpecError, match="number"):
        parse_machine_filter(text)


def test_this_machine_comes_first_and_numbers_count_as_numbers() -> None:
    view = replace(VIEW, hosts=(*VIEW.hosts, host("gpu-11"), host("gpu-1a")))
    names = [item.host.host for item in arranged(view, MapQuery(unfolded=False))]

    assert ["gpu-10", "gpu-1a", "gpu-2", "gpu-9", "gpu-11"] == names


@pytest.mark.parametrize(
    ("order", "names", "reversed_names"),
    [
        ("free first", ["gpu-9", "gpu-2", "gpu-10"], ["gpu-2", "gpu-10", "gpu-9"]),
        ("metric", ["gpu-10", "gpu-2", "gpu-9"], ["gpu-2", "gpu-9", "gpu-10"]),
        ("trouble first", ["gpu-2", "gpu-9", "gpu-10"], ["gpu-9", "gpu-10", "gpu-2"]),
    ],
)
def test_machines_are_sorted(order: str, names: list[str], reversed_names: list[str]) -> None:
    query = MapQuery(order=order, metric=TEMPERATURE, unfolded=False)

    assert names == [item.host.host for item in arranged(VIEW, query)]
    backwards = arranged(VIEW, replace(query, reverse=True))
    assert reversed_names == [item.host.host for item in backwards]


def test_small_changes_move_no_row() -> None:
    def at(first: float, second: float) -> list[str]:
        hosts = (
            host("a", gpu(0, known={"util": first})), host("b", gpu(0, known={"util": second}))
        )  # fmt: skip
        return [i.host.host for i in arranged(ClusterView(hosts), MapQuery(order="metric", unfolded=False))]

    assert at(90.0, 92.0) == at(92.0, 90.0) == ["a", "b"]
    assert ["b", "a"] == at(10.0, 90.0)


def test_a_sick_memory_is_trouble() -> None:
    view = ClusterView((host("a", gpu(0)), host("b", gpu(0, health=Health(0, 2, True, False)))))

    assert "b" == arranged(view, MapQuery(order="trouble first"))[0].host.host


def test_many_machines_are_folded_and_one_can_be_unfolded() -> None:
    many = ClusterView(tuple(host(f"h{i}", *(gpu(g) for g in range(8))) for i in range(200)))
    folded = arranged(many, MapQuery())
    turned = arranged(many, MapQuery(toggled=frozenset({"h7"})))

    assert (200, True) == (len(folded), all(item.folded for item in folded))
    assert 208 == len(turned)
    assert 1800 == len(arranged(many, MapQuery(unfolded=True)))
    assert 1792 == len(arranged(many, MapQuery(unfolded=True, toggled=frozenset({"h7"}))))


def test_keys_tell_items_apart() -> None:
    items = arranged(VIEW, MapQuery(unfolded=True))

    assert len(items) == len({item.key for item in items})
    assert Item(VIEW.hosts[0]).key == Item(VIEW.hosts[0], folded=True).key
