"""Machines, GPUs and whose they are; what runs wait for; and nothing sent while nothing changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from console.app import RankdeckApp
from console.screens.cluster import ClusterScreen
from console.screens.launch import LaunchScreen
from console.screens.run import RunScreen
from console.widgets.long_list import LongList
from console.widgets.machine_map import MachineMap
from console.widgets.work_list import WorkList
from launcher import events as ev
from launcher.inventory import GpuUse, Holder, Machine
from launcher.spec import Device
from tests.console.scripted import HOSTS, SPARK, Scripted
from tests.console.test_app import CountingDriver

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from tests.console.conftest import Until

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


async def opened(app: RankdeckApp, pilot: Pilot[int], until: Until, fake: Fake) -> ClusterScreen:
    await until(pilot, lambda: isinstance(app.screen, LaunchScreen))
    home = app.screen
    assert isinstance(home, LaunchScreen)
    screen = ClusterScreen(home.site, inspector=fake, engines=engines)
    app.push_screen(screen)
    await until(pilot, lambda: screen.view is not None and screen.view.hosts)
    return screen


def lines(widget: LongList) -> list[str]:
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
            ("ip-10-0-12-31 (here)", "cpu  22% of 64", "31.0G/128G"),
            ("● mine", "93%", "70.0G/80.0G", "llama rank 0"),
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
        await pilot.press("2", "u")
        assert "http://head:4040" == app.clipboard
        await pilot.press("o", "enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))

    assert "of 600 s: gpu-16 lost its executor" in row
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
        await pilot.press("G")
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
