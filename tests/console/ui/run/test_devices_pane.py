"""The pane of devices: its layouts, its keys, what it does not know, and what it costs."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from textual.color import Color

from console.app import RankdeckApp
from console.data.run.metrics import CPU, MEMORY
from console.demo import record_demo
from console.settings import ConsoleSettings
from console.ui.run.devices import pane as pane_module
from console.ui.run.devices.heat import STEPS, Shown, shown_of, step_of
from console.ui.run.devices.layout import DeviceLook, plan_of, usual_look
from console.ui.run.devices.pane import DevicesPane
from console.ui.run.header import Headline
from console.ui.run.rank_detail import RankDetail
from console.ui.run.rank_grid import RankGrid
from console.ui.run.result import ResultPane
from launcher.runs.paths import runs_root
from launcher.spec.places import Assignment, Device
from launcher.state import events as ev
from tests.console.looking import shown, text
from tests.console.run_views import view_of
from tests.console.scripted import Scripted
from tests.console.terminals import Pty

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from tests.console.conftest import FakeCommands, Until

Open = Callable[..., RankdeckApp]
GIB = 1 << 30
RANKDECK = str(Path(sys.executable).with_name("rankdeck"))


async def opened(app: RankdeckApp, pilot: Pilot[int], until: Until, *keys: str) -> DevicesPane:
    """The pane, shown alone, after these keys."""
    await until(pilot, lambda: shown(app))
    await pilot.press("6", "z", *keys)
    await pilot.pause()
    return app.screen.query_one(DevicesPane)


def made(root: Path, samples: Sequence[ev.DeviceSample | None], **names: str) -> Scripted:
    """A run of a rank for each sample, each with a GPU of its own unless the sample is None."""
    host = names.get("host", "node")
    run = Scripted(root, ranks=len(samples), hosts=(host,))
    gpus = [
        () if each is None else (Device(n, each.uuid, names.get("name", "H100"), 80 * GIB),)
        for n, each in enumerate(samples)
    ]
    size = len(samples)
    places = [Assignment(n, size, n, size, 0, 1, 0, host, devices=own) for n, own in enumerate(gpus)]
    run.add(
        ev.AgentJoined(time=1, agent=0, host=host, pid=1),
        ev.GangPlaced(time=1, ranks=tuple(places)),
        *(ev.RankStarted(time=2, rank=rank, pid=100 + rank) for rank in range(size)),
        *(
            ev.Sampled(
                time=second, agent=0, host=host, devices=tuple(each for each in samples if each is not None),
                ranks=tuple(ev.RankSample(rank=rank, cpu=50.0, rss=GIB) for rank in range(size)),
                system=ev.HostSample(cpu=20.0, memory_used=8 * GIB, memory_total=64 * GIB),
            )
            for second in range(3, 9)
        ),
    )  # fmt: skip
    return run


# --- layouts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ranks", "width", "room", "look"),
    [
        (1, 48, 6, DeviceLook.BLOCKS), (2, 78, 18, DeviceLook.BLOCKS), (8, 118, 32, DeviceLook.BLOCKS),
        (8, 78, 18, DeviceLook.LINES), (15, 118, 18, DeviceLook.LINES), (16, 198, 60, DeviceLook.MAP),
        (1024, 118, 18, DeviceLook.MAP),
    ],
)  # fmt: skip
def test_the_layout_follows_from_the_number_of_ranks_and_the_room(
    root: Path, ranks: int, width: int, room: int, look: DeviceLook
) -> None:
    view = view_of(made(root, [None] * ranks))
    assert usual_look(ranks, list(view.by_agent.values()), width, room) is look


def test_two_ranks_share_a_row_of_the_map_where_they_would_not_fit(root: Path) -> None:
    view = view_of(made(root, [None] * 21))
    hosts = list(view.by_agent.values())
    high = plan_of(DeviceLook.MAP, hosts, 80, 30, halves=True, heads=True)
    low = plan_of(DeviceLook.MAP, hosts, 80, 12, halves=True, heads=True)
    plain = plan_of(DeviceLook.MAP, hosts, 80, 12, halves=False, heads=True)
    assert [len(plan.places) for plan in (high, low, plain)] == [21, 11, 21]
    assert [low.row_of(rank) for rank in (0, 1, 2, 20)] == [0, 0, 1, 10]


async def test_blocks_tell_everything_of_each_gpu(open_app: Open, until: Until) -> None:
    app = open_app(seconds=40, until=30)
    async with app.run_test(size=(140, 46)) as pilot:
        pane = await opened(app, pilot, until)
        drawn = text(pane)

    assert pane.look is DeviceLook.BLOCKS
    for told in ("70.4/80G", "W  65°", "SM 1980MHz", "PCIe ↓", "NVLink ↓", "100%┤", "idle · peak 70.4G"):
        assert drawn.count(told) >= 2, told
    assert "gpu-02  4 ranks  CPU" in drawn
    assert "idle of" in drawn.splitlines()[0]


async def test_v_goes_through_the_looks_and_m_through_the_figures(open_app: Open, until: Until) -> None:
    app = open_app(seconds=40, until=30)
    async with app.run_test(size=(120, 40)) as pilot:
        pane = await opened(app, pilot, until)
        looks = [pane.look]
        for _ in range(3):
            await pilot.press("v")
            looks.append(pane.look)
        titles = []
        for _ in range(7):
            await pilot.press("m")
            titles.append(str(pane.border_title).split(" · ")[1])

    assert looks == [DeviceLook.BLOCKS, DeviceLook.LINES, DeviceLook.MAP, DeviceLook.BLOCKS]
    assert titles == ["memory", "power", "temp °C", "clock MHz", "CPU", "GPU", "memory"]


async def test_the_cursor_is_that_of_the_grid_and_enter_shows_the_log(open_app: Open, until: Until) -> None:
    app = open_app(seconds=40, until=30)
    async with app.run_test(size=(120, 40)) as pilot:
        pane = await opened(app, pilot, until, "v", "j", "j", "j")
        grid, detail = app.screen.query_one(RankGrid), app.screen.query_one(RankDetail)
        assert pane.cursor == grid.cursor == detail.rank == 3
        await pilot.press("right_square_bracket")
        assert pane.cursor == grid.cursor == 4
        await pilot.press("G")
        assert pane.cursor == grid.cursor == 7
        await pilot.press("enter")
        await pilot.pause()
        assert app.screen.query_one("#logs").display


async def test_the_keys_go_by_blocks_where_these_stand_beside_each_other(
    open_app: Open, until: Until
) -> None:
    app = open_app(seconds=40, until=30)
    async with app.run_test(size=(120, 46)) as pilot:
        pane = await opened(app, pilot, until, "j")
        below = pane.cursor
        await pilot.press("l")
        assert (below, pane.cursor) == (2, 3)
        assert await pilot.click(DevicesPane, offset=(80, 5))
        assert pane.cursor == 1


async def test_the_worst_come_first(root: Path, open_app: Open, until: Until) -> None:
    busy = [ev.DeviceSample(uuid=f"g{n}", util=95.0 if n != 11 else 3.0) for n in range(20)]
    app = open_app(run=made(root, busy).folder)
    async with app.run_test(size=(100, 40)) as pilot:
        pane = await opened(app, pilot, until, "s")
        first = text(pane).splitlines()[pane.fixed]

    assert first.split()[1] == "11"
    assert "worst first" in str(pane.border_title)


# --- what is unknown, and garbage -------------------------------------------------------------------


async def test_unknown_sensors_are_no_zeros(root: Path, open_app: Open, until: Until) -> None:
    app = open_app(run=made(root, [ev.DeviceSample(uuid="a"), ev.DeviceSample(uuid="b")]).folder)
    async with app.run_test(size=(120, 40)) as pilot:
        pane = await opened(app, pilot, until)
        for _ in DeviceLook:
            await pilot.press("v")
            ranks = [line for line in text(pane).splitlines() if " 0 " in line or "rank 0" in line]
            assert ranks
            assert not any("0%" in line.replace("100%", "") or "0W" in line for line in ranks)
            assert "idle" not in text(pane)
            assert "–" in text(pane)


GARBAGE = ev.DeviceSample(
    uuid="a", util=math.nan, memory_used=5, memory_total=0, power_w=math.inf, power_limit_w=-1.0,
    temperature_c=-1e308, sm_clock_mhz=-5, nvlink_active=0, pcie_rx_kbs=-3, throttle=("\x1b[31mred\x07", ""),
)  # fmt: skip


@pytest.mark.parametrize("size", [(50, 14), (80, 24), (120, 40), (200, 60)])
async def test_garbage_breaks_nothing_and_reaches_no_terminal(
    root: Path, open_app: Open, until: Until, size: tuple[int, int]
) -> None:
    run = made(root, [GARBAGE] * 3, name="\x1b]0;evil\x07" + "x" * 300, host="h\x1b[2J" + "y" * 300)
    app = open_app(run=run.folder)
    async with app.run_test(size=size) as pilot:
        pane = await opened(app, pilot, until)
        for key in ("v", "v", "m", "m", "s", "v", "m"):
            await pilot.press(key)
            drawn = text(pane)
            assert not pane.covered
            assert drawn.replace("\n", "").isprintable()
            assert max(map(len, drawn.splitlines())) <= size[0]


async def test_ranks_without_a_gpu_show_processors_and_memory(open_app: Open, until: Until) -> None:
    app = open_app(ranks=2, gpus=False, seconds=40, until=30)
    async with app.run_test(size=(80, 24)) as pilot:
        pane = await opened(app, pilot, until)
        drawn = text(pane)
        assert pane.metric is CPU
        await pilot.press("m")

    assert "no GPU" in str(pane.border_title)
    assert "CPU 1" in str(pane.border_subtitle)
    assert "peak memory 4.0G" in str(pane.border_subtitle)
    assert "4.0G" in drawn
    assert "NVLink" not in drawn


async def test_an_ended_run_shows_means_and_peaks_and_nothing_live(open_app: Open, until: Until) -> None:
    app = open_app(seconds=40)
    async with app.run_test(size=(140, 46)) as pilot:
        pane = await opened(app, pilot, until)
        drawn = text(pane)
        await pilot.press("4")
        await pilot.pause()
        result = text(app.screen.query_one(ResultPane))
        headline = text(app.screen.query_one(Headline))

    assert "in mean" in drawn.splitlines()[0]
    assert "means and peaks" in str(pane.border_title)
    assert not any(live in drawn for live in ("SM 1980", "PCIe", "NVLink", "RAM"))
    assert "% idle  peak 70.4G" in headline
    assert "% idle · peak GPU memory 70.4G of 79.6G, rank" in result


# --- the map ----------------------------------------------------------------------------------------


def test_steps_are_even_and_unknown_ones_are_none() -> None:
    steps = [
        step_of(value, 100.0) for value in (None, math.nan, -5.0, 0.0, 12.4, 12.6, 76.0, 99.0, 100.0, 1e9)
    ]
    assert steps == [None, None, 0, 0, 0, 1, 6, 7, 7, 7]


def test_a_scale_that_grows_is_the_same_for_all_ranks(root: Path) -> None:
    view = view_of(made(root, [None] * 3))
    assert shown_of(CPU, view.ranks) == Shown(CPU, 100.0)
    assert shown_of(MEMORY, view.ranks) == Shown(MEMORY, 100.0)


@pytest.mark.parametrize("theme", ["rankdeck-dark", "paper", "high-contrast", "okabe-ito-light"])
async def test_the_steps_of_the_map_differ_and_go_one_way(open_app: Open, until: Until, theme: str) -> None:
    app = open_app(seconds=20, theme=theme)
    async with app.run_test(size=(80, 24)) as pilot:
        pane = await opened(app, pilot, until)
        colours = [pane.color_of(f"heat-{step}") for step in range(STEPS)]
        ground = Color.parse(app.theme_variables["background"])

    distances = [abs(colour.brightness - ground.brightness) for colour in colours]
    assert len(set(colours)) == STEPS
    assert distances == sorted(distances)


@pytest.mark.parametrize(("environ", "ascii_"), [({"NO_COLOR": "1"}, False), ({}, True)])
async def test_without_colours_or_glyphs_a_step_is_a_height(
    root: Path,
    project: Path,
    commands: FakeCommands,
    until: Until,
    monkeypatch: pytest.MonkeyPatch,
    environ: dict[str, str],
    ascii_: bool,
) -> None:
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    samples = [ev.DeviceSample(uuid=f"g{n}", util=100.0 / 15 * n) for n in range(16)]
    app = RankdeckApp(
        root=root, workdir=project, open_run=made(root, samples).folder, commands=commands,
        settings=ConsoleSettings(ascii=ascii_),
    )  # fmt: skip
    async with app.run_test(size=(60, 30)) as pilot:
        pane = await opened(app, pilot, until)
        rows = text(pane).splitlines()[pane.fixed :]

    assert [rows[rank][-1] for rank in (0, 3, 8, 15)] == ["▁", "▂", "▅", "█"]


# --- cost -------------------------------------------------------------------------------------------


async def test_a_hidden_pane_computes_nothing(
    open_app: Open, until: Until, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    for name in ("gang_row", "rank_line", "host_row", "block_rows", "map_row", "plan_of", "usual_look"):
        monkeypatch.setattr(pane_module, name, lambda *_, name=name, **__: asked.append(name))
    app = open_app(seconds=20)
    async with app.run_test(size=(120, 40)) as pilot:
        await until(pilot, lambda: shown(app))
        await pilot.press("1", "j", "j", "2", "3", "4", "5")
        await pilot.pause()
        pane = app.screen.query_one(DevicesPane)
        assert pane.view is not None
        assert not pane.display

    assert asked == []


async def test_of_a_thousand_ranks_only_visible_rows_are_made(
    root: Path, open_app: Open, until: Until
) -> None:
    samples = [ev.DeviceSample(uuid=f"g{n}", util=90.0) for n in range(1024)]
    app = open_app(run=made(root, samples).folder)
    async with app.run_test(size=(120, 40)) as pilot:
        pane = await opened(app, pilot, until)
        assert pane.look is DeviceLook.MAP
        assert len(pane._rows) == 512 + pane.fixed
        assert len(pane._rows.made) <= pane.size.height
        await pilot.press("G")
        await pilot.pause()
        assert pane.cursor == 1023
        assert "1022-1023" in text(pane) or "1023" in text(pane)


@pytest.mark.terminal
@pytest.mark.process
def test_its_keys_work_in_a_terminal(home: Path) -> None:
    record_demo(runs_root(), seconds=20)
    with Pty([RANKDECK, "attach", "last"]) as console:
        console.await_text("1 Ranks")
        for key, told in (("6", "6 Devices"), ("m", "memory, means"), ("s", "worst first")):
            console.press(key)
            console.await_text(told)
