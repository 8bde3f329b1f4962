"""Machines, GPUs and whose they are; what runs wait for; and nothing sent while nothing changes."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from console.app import RankdeckApp
from console.data.cluster.monitor import Inspects
from console.data.cluster.query import figures
from console.data.cluster.spark_api import Ask, PageAnswer
from console.ui.cluster.machine_detail import MachineDetail
from console.ui.cluster.machines import MachineMap
from console.ui.cluster.screen import ClusterScreen
from console.ui.cluster.work import ClusterHead, WorkList
from console.ui.launch.screen import LaunchScreen
from console.ui.run.rank_grid import RankGrid
from console.ui.run.screen import RunScreen
from console.ui.widgets.fields import FilterField
from console.ui.widgets.rows import MadeRows, Sheet
from launcher.placement.inventory import GpuUse, Holder, Inspector, Machine
from launcher.spec.places import Device
from launcher.state import events as ev
from tests.console.data.cluster.test_spark_json import APP, PAGE, resources, worker
from tests.console.data.cluster.test_spark_pollers import Web
from tests.console.scripted import HOSTS, SPARK, Scripted
from tests.console.test_app import CountingDriver
from tests.fakes.nvml_build import FakeGpu, FakeNvml

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from tests.console.conftest import Until

pytest_plugins = ["tests.launcher.nvml_fixture"]

Open = Callable[..., RankdeckApp]
GIB = 1 << 30
SYSTEM = ev.HostSample(cpu=22.0, memory_used=31 * GIB, memory_total=128 * GIB, load1=2.5)


def gpu(index: int, *holders: Holder, **known: Any) -> GpuUse:
    device = Device(index, f"GPU-{index}", "NVIDIA H100 80GB HBM3", 80 * GIB)
    known = {"util": 0.0, "memory_used": 0, "memory_total": 80 * GIB, "temperature_c": 34.0, **known}
    return GpuUse(device, ev.DeviceSample(uuid=device.uuid, index=index, **known), holders)


BUSY = gpu(
    0, Holder(2000, 70 * GIB), util=93.0, memory_used=70 * GIB, power_w=655.0, throttle=("hw_slowdown",)
)
OTHER = gpu(1, Holder(8812, 2 * GIB, "bo", "python"), util=50.0, memory_used=2 * GIB)
MACHINE = Machine(HOSTS[0], 64, SYSTEM, (BUSY, OTHER, gpu(2), gpu(3, util=80.0)))


class Fake:
    """A machine that a test changes."""

    def __init__(self, machine: Machine = MACHINE) -> None:
        self.machine, self.looks = machine, 0

    def look(self) -> Machine:
        self.looks += 1
        return self.machine

    def close(self) -> None:
        pass


def engines() -> Iterable[Mapping[str, Any]]:
    return ()


def mute(url: str) -> PageAnswer:
    return PageAnswer(problem="nobody is there")


async def opened(
    app: RankdeckApp, pilot: Pilot[int], until: Until, fake: Inspects, *, ask: Ask = mute
) -> ClusterScreen:
    await until(pilot, lambda: isinstance(app.screen, LaunchScreen))
    home = app.screen
    assert isinstance(home, LaunchScreen)
    screen = ClusterScreen(home.site, inspector=fake, engines=engines, ask=ask)
    app.push_screen(screen)
    await until(pilot, lambda: screen.view is not None and screen.view.hosts)
    return screen


def lines(widget: Sheet) -> list[str]:
    return [widget.render_line(y).text for y in range(widget.size.height)]


def told(app: RankdeckApp, text: str) -> bool:
    return any(text in n.message for n in app._notifications)


@pytest.fixture
def running(root: Path) -> Scripted:
    """A live run of four ranks, the first two on the machine at hand."""
    script = Scripted(root)
    script.add(SPARK)
    script.place(2.0)
    return script


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_every_gpu_says_whose_it_is(
    open_app: Open, until: Until, running: Scripted, size: tuple[int, int]
) -> None:
    app = open_app()
    async with app.run_test(size=size) as pilot:
        screen = await opened(app, pilot, until, Fake())
        shown = lines(screen.query_one(MachineMap))
        title = str(screen.query_one(MachineMap).border_title)

    for line, parts in enumerate(
        (
            ("whose", "util"),
            ("ip-10-0-12-31 (here)", "cpu  22% of 64", "31.0/128G"),
            ("● mine", "93%", "70.0/80G", "llama rank 0"),
            ("✗ other", "50%", "bo python 8812"),
            ("○ free",),
            ("▼ taken", "80%"),
        )
    ):
        assert all(part in shown[line] for part in parts), (parts, shown[line])
    assert "3 hosts · 4 GPUs · 1 mine · 1 other · 1 taken · 1 free" in title
    assert ("hw_slowdown" in shown[2]) is (size[0] >= 120)


async def test_enter_opens_the_run_that_holds_a_gpu(open_app: Open, until: Until, running: Scripted) -> None:
    app = open_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(app, pilot, until, Fake())
        await pilot.press("j", "y", "j", "enter")
        await until(pilot, lambda: told(app, "no run of yours"))
        assert "GPU-0" == app.clipboard
        await pilot.press("k", "enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        assert isinstance(app.screen, RunScreen)

        assert running.folder == app.screen.run


async def test_a_run_that_waits_says_for_what_and_how_long(open_app: Open, until: Until, root: Path) -> None:
    script = Scripted(root)
    script.add(
        SPARK, ev.SlotsAwaited(time=2.0, have=56, need=64, limit_s=600.0, reason="gpu-16 lost its executor")
    )
    app = open_app()
    async with app.run_test(size=(160, 40)) as pilot:
        screen = await opened(app, pilot, until, Fake())
        work = screen.query_one(WorkList)
        await until(pilot, lambda: "slots 56/64, waiting" in lines(work)[1])
        row = lines(work)[1]
        head = lines(screen.query_one(ClusterHead))
        await pilot.press("2", "u")
        assert "http://head:4040" == app.clipboard
        await pilot.press("o", "enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))

    assert "of 600 s" in row
    assert "llama waits: gpu-16 lost its executor · w goes there" in head[1]
    assert "1 waiting for slots" in str(work.border_title)


async def test_without_nvml_it_says_why_and_what_to_do(open_app: Open, until: Until) -> None:
    fake = Fake(Machine("alone", 2, SYSTEM, reason="NVML: Driver Not Loaded"))
    app = open_app()
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(app, pilot, until, fake)
        shown = lines(screen.query_one(MachineMap))[1]
        empty = lines(screen.query_one(WorkList))[1]
        await pilot.press("u", "o", "2", "enter", "y")

    assert "alone (here)" in shown
    assert "no GPU figures: NVML: Driver Not Loaded" in shown
    assert "f4 goes to the launch screen" in empty


async def test_hundreds_of_gpus_are_walked_through(open_app: Open, until: Until) -> None:
    fake = Fake(replace(MACHINE, gpus=tuple(gpu(i) for i in range(900))))
    app = open_app()
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(app, pilot, until, fake)
        assert "▸ip-10-0-12-31 (here)" in lines(screen.query_one(MachineMap))[1]
        assert "+884" in lines(screen.query_one(MachineMap))[1]
        await pilot.press("t", "G")
        await until(pilot, lambda: any(" 899 " in line for line in lines(screen.query_one(MachineMap))))
        await pilot.press("g")
        await until(pilot, lambda: "ip-10-0-12-31" in lines(screen.query_one(MachineMap))[1])


async def test_it_looks_only_while_it_is_shown_and_sends_nothing_while_nothing_changes(
    open_app: Open, until: Until, running: Scripted
) -> None:
    fake = Fake()
    app = open_app()
    app.driver_class = CountingDriver
    async with app.run_test(headless=False, size=(120, 40)) as pilot:
        screen = await opened(app, pilot, until, fake)
        await pilot.pause(1.0)
        before, looks = CountingDriver.sent, fake.looks
        await until(pilot, lambda: fake.looks >= looks + 3)
        assert CountingDriver.sent == before
        fake.machine = replace(
            MACHINE, gpus=(replace(BUSY, sample=replace(BUSY.sample, util=94.0)), *MACHINE.gpus[1:])
        )
        await until(pilot, lambda: "94%" in lines(screen.query_one(MachineMap))[2])
        await pilot.pause(0.2)
        assert 0 < CountingDriver.sent - before < 1500
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        looks = fake.looks
        await pilot.pause(2.5)
        assert fake.looks <= looks + 1
        await pilot.press("escape")
        await until(pilot, lambda: fake.looks > looks + 1)


async def test_hostile_texts_stay_texts(open_app: Open, until: Until) -> None:
    evil = "\x1b]0;x\x07[red]\u202e\n" * 100
    holder = Holder(7, 1, evil, evil)
    bad = GpuUse(Device(0, evil, evil), ev.DeviceSample(uuid=evil, throttle=(evil,)), (holder,), evil)
    app = open_app()
    async with app.run_test(size=(200, 40)) as pilot:
        screen = await opened(app, pilot, until, Fake(Machine(evil, 1, gpus=(bad,), reason=evil)))
        await pilot.press("y", "j", "y")
        shown = "".join(lines(screen.query_one(MachineMap)))

    assert shown.isprintable()


# --- finding, sorting, one thing in full -----------------------------------------------------------


def many(hosts: int, gpus: int, root: Path) -> Scripted:
    """A live run on many machines, each of whose agents tells of its GPUs."""
    names = [f"gpu-{number:03d}" for number in range(hosts)]
    script = Scripted(root, ranks=hosts, hosts=names)
    script.place(2.0)
    for agent, name in enumerate(names):
        devices = tuple(
            ev.DeviceSample(uuid=f"{name}/{i}", index=i, util=0.0, temperature_c=40.0 + agent % 50)
            for i in range(gpus)
        )
        script.add(ev.Sampled(time=time.time(), agent=agent, host=name, devices=devices, system=SYSTEM))
    return script


def below(screen: ClusterScreen) -> str:
    return str(screen.query_one(MachineMap).border_subtitle)


async def test_words_and_figures_narrow_the_list(open_app: Open, until: Until, running: Scripted) -> None:
    app = open_app()
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(app, pilot, until, Fake())
        machines = screen.query_one(MachineMap)
        help_text = screen.query_one(FilterField).placeholder
        assert [] == [f.name for f in figures() if not re.search(rf"\b{f.name}[<>]", help_text)]
        await pilot.press("slash", *"!free ", *"util", "greater_than_sign", *"60")
        await until(pilot, lambda: 3 == len(machines.items))
        await pilot.press("enter")
        assert machines.has_focus
        assert "filter: !free util>60 · 1 host" in below(screen)
        await pilot.press("slash", *"temp", "less_than_sign", "x")
        await until(pilot, lambda: "compared with a number" in below(screen))
        await pilot.press("escape")
        await until(pilot, lambda: len(machines.items) > 3)
        assert isinstance(app.screen, ClusterScreen)
        await pilot.press("slash", *"zebra")
        await until(pilot, lambda: "nothing matches" in lines(machines)[1])
        await pilot.press("escape", "escape")
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen))


async def test_the_figure_that_is_charted_changes(open_app: Open, until: Until) -> None:
    app = open_app()
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(app, pilot, until, Fake())
        machines = screen.query_one(MachineMap)
        seen = []
        for _ in range(6):
            seen.append((lines(machines)[0].split()[3], lines(machines)[2]))
            await pilot.press("m")

    assert ["util", "memory", "power", "temp", "clock", "util"] == [title for title, _ in seen]
    for (_, row), figure in zip(seen, ("93%", "88%", "–", "34°", "–", "93%"), strict=True):
        assert figure in row
    assert seen[0] == seen[5]


async def test_hosts_are_sorted_and_the_cursor_goes_along(open_app: Open, until: Until, root: Path) -> None:
    many(3, 1, root)
    app = open_app()
    async with app.run_test(size=(120, 40)) as pilot:
        screen = await opened(app, pilot, until, Fake(Machine("zero", 1, SYSTEM)))
        machines = screen.query_one(MachineMap)
        await until(pilot, lambda: 7 == len(machines.items))
        await pilot.press("m", "m", "m", "G", "s", "s")
        assert "sorted by temp" in below(screen)
        assert ["gpu-002", "gpu-001", "gpu-000", "zero"] != [i.host.host for i in machines.items if not i.gpu]
        chosen = machines.chosen
        assert chosen is not None
        assert "gpu-002" == chosen.host.host
        await pilot.press("S")
        assert "reversed" in below(screen)


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_many_hosts_are_read_at_a_glance(
    open_app: Open, until: Until, root: Path, size: tuple[int, int]
) -> None:
    many(200, 8, root)
    app = open_app()
    async with app.run_test(size=size) as pilot:
        screen = await opened(app, pilot, until, Fake(Machine("zero", 1, SYSTEM)))
        machines = screen.query_one(MachineMap)
        await until(pilot, lambda: 201 == len(machines.items))
        row = lines(machines)[2]
        assert "○○○○○○○○" in row
        assert "gpu-000" in row
        await pilot.press("j", "space")
        await until(pilot, lambda: 209 == len(machines.items))
        assert "▾gpu-000" in lines(machines)[2]
        await pilot.press("j", "j", "space")
        chosen = machines.chosen
        assert chosen is not None
        assert (201, "gpu-000", None) == (len(machines.items), chosen.host.host, chosen.gpu)
        await pilot.press("t")
        assert 1801 == len(machines.items)
        await pilot.press("G")
        await until(pilot, lambda: "  7 " in lines(machines)[machines.size.height - 1])
        made = machines._rows
        assert isinstance(made, MadeRows)
        assert len(made.made) < 100


async def test_enter_goes_to_the_run_and_the_rank(open_app: Open, until: Until, running: Scripted) -> None:
    holders = Holder(2001, 70 * GIB)
    fake = Fake(replace(MACHINE, gpus=(gpu(0, holders, util=9.0),)))
    app = open_app()
    async with app.run_test(size=(120, 40)) as pilot:
        await opened(app, pilot, until, fake)
        await pilot.press("j", "enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        screen = app.screen
        await until(pilot, lambda: screen.query(RankGrid) and 1 == screen.query_one(RankGrid).cursor)


async def test_one_gpu_is_told_in_full(open_app: Open, until: Until, fake_nvml: FakeNvml) -> None:
    parts = (FakeGpu("MIG-1", memory=(1 << 30, 4 << 30)),)
    fake_nvml.say(
        FakeGpu("GPU-a", util=87, memory=(30 * GIB, 80 * GIB), power=350_000, power_limit=700_000,
                temperature=66, throttle=0x40, ecc=(3, 1), remapped=(0, 1, 1, 0), sm_clock=1980,
                compute=((os.getpid(), 2 * GIB),)),
        FakeGpu("GPU-b", mig=parts),
    )  # fmt: skip
    app = open_app()
    async with app.run_test(size=(160, 70)) as pilot:
        screen = await opened(app, pilot, until, Inspector())
        detail = screen.query_one(MachineDetail)
        await pilot.press("j")
        await until(pilot, lambda: "GPU 0 of" in str(detail.border_title))
        text = "\n".join(lines(detail))
        await pilot.press("j")
        await until(pilot, lambda: any("instance of GPU 1 (GPU-b)" in line for line in lines(detail)))
        await pilot.press("k", "z")
        narrow = lines(screen.query_one(MachineMap))
        await pilot.press("escape")
        await until(pilot, lambda: screen.query_one(WorkList).display)

    for known in ("87%", "30.0G of 80.0G", "350W of 700W", "66°", "hw_thermal_slowdown", "SM 1980 MHz"):
        assert known in text
    for known in (
        "corrected 3  uncorrected 1",
        "rows wait for a reset",
        f"pid {os.getpid()}",
        "2.0G",
    ):
        assert known in text
    assert len(narrow) > 40


async def test_on_a_narrow_terminal_one_thing_in_full_takes_the_place_of_the_runs(
    open_app: Open, until: Until, running: Scripted
) -> None:
    app = open_app()
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await opened(app, pilot, until, Fake())
        detail, work = screen.query_one(MachineDetail), screen.query_one(WorkList)
        assert (False, True) == (detail.display, work.display)
        await pilot.press("d")
        assert (True, False) == (detail.display, work.display)
        await pilot.press("2")
        await until(pilot, lambda: "Run llama" in str(detail.border_title))
        assert work.has_focus
        await pilot.press("z")
        assert (False, False, True) == (screen.query_one(MachineMap).display, detail.display, work.display)
        await pilot.press("1")
        assert screen.query_one(MachineMap).has_focus


# --- Spark -----------------------------------------------------------------------------------------


async def test_who_has_what_of_spark_is_told_and_what_is_silent_since_when(
    open_app: Open, until: Until, root: Path
) -> None:
    script = Scripted(root)
    reason = "needs 4 GPU slots at once; the cluster has 2, 1 busy with application etl (app-1)"
    script.add(
        replace(SPARK, pages=("http://m:1",)),
        ev.SlotsAwaited(time=2.0, have=1, need=4, limit_s=600.0, reason=reason),
    )
    inside = {"executors": [{"id": 0, "appid": "app-1", "resources": resources("0")}]}
    web = Web({"http://m:1/json/": PAGE, "http://gpu-1:8081/json/": inside})
    app = open_app()
    async with app.run_test(size=(80, 24)) as pilot:
        screen = await opened(app, pilot, until, Fake(Machine("zero", 1, SYSTEM)), ask=web.ask)
        machines, work = screen.query_one(MachineMap), screen.query_one(WorkList)
        head = screen.query_one(ClusterHead)
        await until(pilot, lambda: any("etl executor 0" in line for line in lines(machines)))
        first, *rest = lines(head)
        await pilot.press("w", "j")
        await until(pilot, lambda: work.chosen is not None and "application app-1" == work.key(work.chosen))
        other = lines(work)[2]
        await pilot.press("u")
        assert "http://m:1/app/?appId=app-1" == app.clipboard
        await pilot.press("y", "enter")
        assert "app-1" == app.clipboard
        del web.pages["http://m:1/json/"]
        screen._machines.sparks.poller.nudge()
        await until(pilot, lambda: "no answer since" in lines(head)[0])
        silent = lines(head)[0]
        still = "\n".join(lines(machines))
        await pilot.press("w", "enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))

    assert "1 worker · 1 of 2 GPUs free · 6 of 8 cores free" in first
    assert reason in " ".join(" ".join(rest).split())
    assert "✗ other     etl" in other
    assert "of bo · holds 2 cores, 1 GPU on" in other
    assert "refused" in silent
    assert "etl executor 0" in still


async def test_hostile_texts_of_spark_stay_texts(open_app: Open, until: Until, root: Path) -> None:
    evil = "\x1b]0;x\x07[red]\u202e\n"
    Scripted(root).add(replace(SPARK, pages=("http://m:1",)))
    page = {
        **PAGE,
        "workers": [
            worker(evil, state=evil, resources=resources(evil)),
            worker("b", resources=resources(evil)),
        ],
        "activeapps": [{**APP, "name": evil, "user": evil, "state": evil}],
    }
    inside = {"executors": [{"id": evil, "appid": "app-1", "resources": resources(evil)}]}
    web = Web({"http://m:1/json/": page, "http://b:8081/json/": inside})
    app = open_app()
    async with app.run_test(size=(200, 60)) as pilot:
        screen = await opened(app, pilot, until, Fake(Machine("zero", 1, SYSTEM)), ask=web.ask)
        await until(pilot, lambda: len(screen.query_one(MachineMap).items) > 4)
        shown = ""
        for key in ("j", "j", "j", "j", "2", "j", "j"):
            await pilot.press(key)
            for kind in (ClusterHead, MachineMap, WorkList, MachineDetail):
                shown += "".join(lines(screen.query_one(kind)))

    assert shown.isprintable()
