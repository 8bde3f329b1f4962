"""What is under the cursor: whose it is, what it is called, where its page is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from console.data.cluster.model import (
    AppView,
    ClusterView,
    EngineView,
    ExecutorView,
    GpuView,
    Held,
    HostView,
    Use,
    WorkView,
)
from console.data.cluster.query import Item
from console.ui.cluster.screen import held_at, name_of, page_of
from launcher.spec.places import Device
from launcher.state import events as ev
from launcher.state.run_state import Phase
from tests.console.scripted import SPARK

RUN = WorkView("20260101-1", "llama", Phase.RUNNING, "cluster", 4, spark=SPARK)
VIEW = ClusterView(work=(replace(RUN, run="20260101-0", spark=None), RUN))
HELD = Held(RUN.run, "llama", (2, 3))
MINE = ExecutorView("0", SPARK.application, "rankdeck", mine=True)
GPU = GpuView(Device(0, ""), ev.DeviceSample(uuid=""), Use.MINE, executor=MINE)


@pytest.mark.parametrize(
    ("item", "held"),
    [
        (None, None),
        (Item(HostView("h")), None),
        (Item(HostView("h", held=(HELD,))), HELD),
        (Item(HostView("h"), replace(GPU, held=(HELD,))), HELD),
        (Item(HostView("h", held=(Held("another", "x", (0,)), HELD)), GPU), HELD),
        (Item(HostView("h"), GPU), Held(RUN.run, "llama", ())),
        (Item(HostView("h"), replace(GPU, executor=replace(MINE, mine=False))), None),
        (Item(HostView("h", held=(HELD,)), replace(GPU, executor=None)), None),
        (Item(HostView("h"), replace(GPU, executor=replace(MINE, app="an idle session's"))), None),
    ],
)
def test_a_gpu_leads_to_its_run(item: Item | None, held: Held | None) -> None:
    assert held == held_at(item, VIEW)


def test_everything_has_a_name_and_some_have_a_page() -> None:
    uuid = Item(HostView("h"), replace(GPU, device=Device(0, "GPU-7")))
    app = AppView("app-7", "etl", "bo", waits=False, cores=1, gpus=0, page="http://m:8080/app/?appId=app-7")
    engine = EngineView(7, "local", ui="http://d:4040")
    chosen = (None, Item(HostView("h")), Item(HostView("h"), GPU), uuid, RUN, app, engine)

    assert ["", "h", "h", "GPU-7", RUN.run, "app-7", "7"] == [name_of(item) for item in chosen]
    assert ["", "", "", "", SPARK.ui, app.page, engine.ui] == [page_of(item) for item in chosen]
