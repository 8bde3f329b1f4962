"""The launch form: typed fields, what is folded away, the preflight, presets; and that nothing gets lost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from textual.drivers.headless_driver import HeadlessDriver
from textual.errors import NoWidget
from textual.widgets import Input, Static

from console.app import RankdeckApp
from console.data.launch.draft import Draft
from console.data.launch.presets import list_presets, presets_folder, save_preset
from console.demo import record_demo
from console.ui.launch.form import LaunchForm
from console.ui.launch.more import Fold, MoreForm
from console.ui.launch.panes import CommandLine, RecentRuns
from console.ui.launch.parameters import ParamForm, typed_default
from console.ui.launch.picker import Candidates, PickerScreen
from console.ui.launch.preflight import Checks, PreflightScreen
from console.ui.launch.presets import Presets, PresetsScreen, SaveScreen
from console.ui.launch.screen import LaunchScreen
from console.ui.launch.workbench.plan import LaunchPlan
from console.ui.run.screen import RunScreen
from console.ui.widgets.fields import Choice, FormRow, Toggle
from console.ui.widgets.key_line import KeyLine
from launcher.diagnosis.checks.check import CheckReport, failed, in_order, passed
from launcher.errors import CannotPlace
from launcher.runs.catalog import create_folder
from launcher.runs.writer import RunWriter
from launcher.spec.job import JobSpec, Target, TargetKind
from launcher.spec.modes import Mode
from launcher.spec.signature import Parameter, ParameterKind
from launcher.state import events as ev

if TYPE_CHECKING:
    from textual.pilot import Pilot
    from textual.widget import Widget

    from tests.console.conftest import FakeCommands, Until

Open = Callable[..., RankdeckApp]

SOURCE = """
from pathlib import Path
from typing import Literal

def main(lr: float, amp: bool = False, out: Path | None = None, opt: Literal['adam', 'sgd'] = 'adam'): ...
def other(lr: float, **more): ...
"""
SCRIPT = """
p.add_argument('--epochs', type=int, help='how often')
p.add_argument('--opt', choices=['adam', 'sgd'])
"""


@pytest.fixture
def project(project: Path) -> Path:
    (project / "train.py").write_text(SOURCE)
    (project / "script.py").write_text(SCRIPT)
    return project


def form(app: RankdeckApp) -> LaunchForm:
    return app.screen.query_one(LaunchForm)


def command(app: RankdeckApp) -> str:
    return app.screen.query_one(CommandLine).command


def field(app: RankdeckApp, name: str) -> Input:
    return next(f for f in app.screen.query(Input) if name in (f.id, f.name))


def row(app: RankdeckApp, name: str) -> FormRow:
    return next(r for r in app.screen.query(FormRow) if r.name == name)


def wrong(app: RankdeckApp) -> dict[str, str]:
    """What stands below which field."""
    return {str(r.name): r.problem for r in app.screen.query(FormRow) if r.problem}


async def opened(app: RankdeckApp, pilot: Pilot[int], until: Until, target: str = "") -> None:
    await until(pilot, lambda: isinstance(app.screen, LaunchScreen))
    await pilot.pause()
    field(app, "target").value = target
    await until(
        pilot, lambda: form(app)._detected is not None and f"run {target or 'TARGET'} " in command(app)
    )


async def with_params(app: RankdeckApp, pilot: Pilot[int], until: Until, target: str) -> None:
    await opened(app, pilot, until, target)
    await until(pilot, lambda: has_field(app, "lr"))


def has_field(app: RankdeckApp, name: str) -> bool:
    return any(name in (f.id, f.name) for f in app.screen.query(Input))


async def test_fields_are_typed_and_judged_as_one_types(open_app: Open, until: Until) -> None:
    app = open_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await with_params(app, pilot, until, "train.py:main")
        field(app, "lr").value = "fast"
        await until(pilot, lambda: "takes float" in wrong(app).get("lr", ""))
        field(app, "lr").value = "1e-3"
        await until(pilot, lambda: wrong(app) == {})
        app.screen.query_one(Toggle).focus()
        await pilot.press("space")
        await until(pilot, lambda: "--param amp=True" in command(app))
        assert str(app.screen.query_one(Toggle).render()) == "[x] True"


async def test_a_path_is_completed(open_app: Open, until: Until, project: Path) -> None:
    (project / "checkpoints").mkdir()
    app = open_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await with_params(app, pilot, until, "train.py:main")
        out = field(app, "out")
        out.focus()
        await pilot.press("c", "h")
        await until(pilot, lambda: out._suggestion == "checkpoints/")
        await pilot.press("right")

        assert out.value == "checkpoints/"


async def test_a_scripts_own_options_are_offered(open_app: Open, until: Until) -> None:
    app = open_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(app, pilot, until, "script.py")
        hint = app.screen.query_one("#hint-row", FormRow)
        await until(pilot, lambda: bool(hint.display))
        args = field(app, "args")
        args.focus()
        await pilot.press("minus", "minus", "e")
        await until(pilot, lambda: args._suggestion == "--epochs")
        await pilot.press("right", "space", "x")
        await until(pilot, lambda: "whole number" in app.screen.query_one(CommandLine).doubt)

        assert app.screen.query_one(CommandLine).problem is None
        assert "how often" in str(hint.query_one(".remark", Static).render())


async def test_what_was_typed_comes_back_with_its_function(open_app: Open, until: Until) -> None:
    app = open_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await with_params(app, pilot, until, "train.py:main")
        field(app, "lr").value = "0.5"
        await until(pilot, lambda: "lr=0.5" in command(app))
        field(app, "target").value = "train.py:mai"
        await until(pilot, lambda: app.screen.query_one(ParamForm).signature is None)
        field(app, "target").value = "train.py:other"
        await until(pilot, lambda: has_field(app, "others"))
        field(app, "others").value = "depth=3 note='a b'"
        await until(pilot, lambda: "--param depth=3 --param 'note=a b'" in command(app))
        field(app, "target").value = "train.py:main"
        await until(pilot, lambda: "--param lr=0.5" in command(app))


def in_sight(app: RankdeckApp) -> bool:
    """Whether the widget that has the focus is seen."""
    focused = app.screen.focused
    if focused is None:
        return False
    try:
        return app.screen.find_widget(focused).visible_region.height > 0
    except NoWidget:
        return False


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (200, 60)])
async def test_every_field_can_be_reached(open_app: Open, until: Until, size: tuple[int, int]) -> None:
    app = open_app()
    async with app.run_test(size=size) as pilot:
        await with_params(app, pilot, until, "train.py:main")
        form(app).query_one("#mode", Choice).value = "cluster"
        form(app)._fit_mode()
        form(app).toggle_more()
        field(app, "target").focus()
        seen = set()
        for _ in range(50):
            await until(pilot, lambda: in_sight(app))  # it is laid out, then scrolled to
            here = app.screen.focused
            assert here is not None
            seen.add(here.name or here.id)
            await pilot.press("tab")

        assert {
            "target",
            "lr",
            "processes",
            "gpu",
            "mode",
            "spark",
            "fold",
            "env",
            "conf",
            "py_files",
        } <= seen


async def test_a_field_stays_in_sight_while_the_command_below_takes_more_lines(
    open_app: Open, until: Until
) -> None:
    app = open_app()

    async with app.run_test(size=(80, 24)) as pilot:
        await with_params(app, pilot, until, "train.py:main")
        form(app).toggle_more()
        await until(pilot, lambda: form(app).scroll_offset.y > 0)  # to show what came
        field(app, "env").focus()  # it comes to stand on the last line
        await until(pilot, lambda: app.screen.focused is field(app, "env") and in_sight(app))
        height = app.screen.query_one(CommandLine).size.height
        field(app, "env").value = " ".join(f"VARIABLE_{n}=a-long-value" for n in range(6))

        await until(pilot, lambda: app.screen.query_one(CommandLine).size.height > height)
        await pilot.pause()
        await until(pilot, lambda: in_sight(app))


async def test_what_is_folded_away_is_said_and_reaches_the_run(
    open_app: Open, until: Until, commands: FakeCommands, root: Path
) -> None:
    commands.run = record_demo(root, seconds=20).name
    app = open_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(app, pilot, until, "script.py")
        assert not has_field(app, "max_restarts")
        await pilot.press("ctrl+t")
        field(app, "max_restarts").value = "2"
        field(app, "env").value = "LEVEL=3 NOTE='a b'"
        field(app, "conf").value = "spark.x=1"  # has no meaning here, and is kept for where it has
        await pilot.press("ctrl+t")
        await until(pilot, lambda: command(app).endswith("--max-restarts 2 --env LEVEL=3 --env 'NOTE=a b'"))
        assert "--max-restarts 2" in app.screen.query_one("#fold", Fold)._text
        await pilot.press("ctrl+r")
        await until(pilot, lambda: bool(commands.started))

    spec = commands.started[0].spec
    assert (spec.max_restarts, spec.env) == (2, {"LEVEL": "3", "NOTE": "a b"})


async def test_what_is_unfolded_takes_the_room_there_is(open_app: Open, until: Until) -> None:
    app = open_app()
    async with app.run_test(size=(80, 26)) as pilot:
        await opened(app, pilot, until, "script.py")
        await pilot.press("ctrl+t")
        await until(pilot, lambda: has_field(app, "env") and field(app, "workdir").has_focus)
        await until(pilot, lambda: form(app).content_region.contains_region(field(app, "env").region))
        assert form(app).content_region.contains_region(field(app, "workdir").region)


async def test_a_wrong_option_is_told_beside_its_field_and_unfolds_at_launch(
    open_app: Open, until: Until, commands: FakeCommands
) -> None:
    app = open_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(app, pilot, until, "script.py")
        form(app).query_one(MoreForm).fill({"timeout_s": "soon"})
        await until(pilot, lambda: "a number of seconds" in wrong(app).get("timeout_s", ""))
        await pilot.press("ctrl+r")
        await until(pilot, lambda: field(app, "timeout_s").has_focus)
        await until(pilot, lambda: form(app).content_region.contains_region(field(app, "timeout_s").region))

        assert row(app, "timeout_s").region.height >= 2
    assert commands.started == []


async def test_leaving_and_returning_loses_nothing(open_app: Open, until: Until, root: Path) -> None:
    record_demo(root, seconds=20)
    app = open_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await with_params(app, pilot, until, "train.py:main")
        await until(pilot, lambda: bool(app.screen.query_one(RecentRuns).length))
        field(app, "lr").value = "0.5"
        form(app).query_one(MoreForm).fill({"name": "mine"})
        await until(pilot, lambda: command(app).endswith("--param lr=0.5 --name mine"))
        await pilot.press("f6", "enter")
        await until(pilot, lambda: isinstance(app.screen, RunScreen))
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen))
        await pilot.pause()

        assert command(app).endswith("run train.py:main -n 1 --param lr=0.5 --name mine")


async def test_the_preflight_shows_the_plan_and_starts_nothing(
    open_app: Open, until: Until, commands: FakeCommands
) -> None:
    app = open_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(app, pilot, until, "script.py")
        field(app, "processes").value = "2"
        form(app).query_one("#gpu", Choice).value = "no"
        await pilot.press("f5")
        await until(pilot, lambda: isinstance(app.screen, PreflightScreen))
        await until(pilot, lambda: bool(app.screen.query_one(Checks).lines))
        said = dict(app.screen.query_one(Checks).lines)
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen))

    assert said["room"].startswith("1 node × 2")
    assert "CPU" in said["rank 1"]
    assert commands.started == []


async def test_the_preflight_asks_the_hosts_and_the_form_keeps_the_summary(
    open_app: Open, until: Until, commands: FakeCommands
) -> None:
    found = [
        failed("slots", "no \x1b[31mroom", "wait"),
        passed("java", "there is one"),
        passed("clock", "fine"),
    ]
    commands.report = CheckReport(in_order(found))
    app = open_app()
    async with app.run_test(size=(100, 30)) as pilot:
        await opened(app, pilot, until, "script.py")
        await pilot.press("f5")
        await until(pilot, lambda: isinstance(app.screen, PreflightScreen))
        await until(pilot, lambda: bool(app.screen.query_one(Checks).lines))
        await pilot.press("d")
        await until(pilot, lambda: ("", "→ wait") in app.screen.query_one(Checks).lines)
        lines = app.screen.query_one(Checks).lines
        await pilot.press("escape")
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen))
        line = app.screen.query_one(CommandLine)
        await until(pilot, lambda: "2 checks pass · 1 failure" in str(line._verdict()))
        field(app, "processes").value = "3"
        await until(pilot, lambda: "failure" not in str(line._verdict()))

    assert ("fail", "slots: no \\x1b[31mroom") in lines
    assert [request.spec.target.source.rpartition("/")[2] for request in commands.checked] == ["script.py"]
    assert commands.started == []


async def test_hosts_that_cannot_be_asked_hold_up_nothing(
    open_app: Open, until: Until, commands: FakeCommands
) -> None:
    app = open_app()
    async with app.run_test(size=(100, 30)) as pilot:
        await opened(app, pilot, until, "script.py")
        await pilot.press("f5")
        await until(pilot, lambda: isinstance(app.screen, PreflightScreen))
        await until(pilot, lambda: bool(app.screen.query_one(Checks).lines))
        commands.error = CannotPlace("there is no engine")
        await pilot.press("d")
        await until(
            pilot, lambda: "there is no engine" in str(app.screen.query_one("#verdict", Static).content)
        )
        commands.error = None
        await pilot.press("ctrl+r")
        await until(pilot, lambda: bool(commands.started))


@pytest.mark.parametrize(
    ("changes", "name", "said"),
    [
        ({"target": ""}, "target", "choose a file"),
        ({"target": "train.py:main"}, "lr", "needs lr"),
        ({"extras": {"workdir": "gone"}}, "workdir", "does not exist"),
        ({"processes": "4:2"}, "processes", "1 to 2"),
        ({"mode": Mode.CONNECT}, "mode", ""),
    ],
)
async def test_the_preflight_goes_to_the_field_that_is_wrong(
    open_app: Open,
    until: Until,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict[str, object],
    name: str,
    said: str,
) -> None:
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    app = open_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(app, pilot, until)
        draft = replace(Draft(target="script.py"), **changes)  # type: ignore[arg-type]
        app.screen.query_one(LaunchForm).fill(draft)
        await until(pilot, lambda: draft.target in command(app))
        if name == "lr":
            await until(pilot, lambda: has_field(app, "lr"))
        await pilot.press("f5")
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen) and said in wrong(app).get(name, "-"))
        await until(pilot, lambda: row(app, name).has_focus_within)


async def test_a_preset_is_saved_picked_and_removed(open_app: Open, until: Until, project: Path) -> None:
    app = open_app()
    async with app.run_test(size=(80, 24), notifications=True) as pilot:
        await opened(app, pilot, until, "script.py")
        form(app).query_one(MoreForm).fill({"env": "API_TOKEN=s3cret LEVEL=3"})
        await until(pilot, lambda: "LEVEL=3" in command(app))
        await pilot.press("escape", "s")
        await until(pilot, lambda: isinstance(app.screen, SaveScreen))
        await pilot.press("slash", "enter")
        await until(pilot, lambda: "preset's name" in str(app.screen.query_one("#said", Static).render()))
        await pilot.press("backspace", *"smoke", "enter")
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen))
        assert ["smoke"] == [p.name for p in list_presets(presets_folder(), project)]
        form(app).fill(Draft(target="train.py", workdir=project))
        await until(pilot, lambda: "train.py" in command(app))

        await pilot.press("escape", "o")
        await until(pilot, lambda: isinstance(app.screen, PresetsScreen))
        await until(pilot, lambda: app.screen.query_one(Presets).length == 1)
        await pilot.press("enter")
        await until(pilot, lambda: command_is(app, "rankdeck run script.py -n 1 --env LEVEL=3"))

        await pilot.press("escape", "o")
        await until(pilot, lambda: isinstance(app.screen, PresetsScreen))
        await until(pilot, lambda: app.screen.query_one(Presets).length == 1)
        await pilot.press("d", "y")
        await until(pilot, lambda: list_presets(presets_folder(), project) == [])
        await until(pilot, lambda: app.screen.query_one(Presets).length == 0)


def command_is(app: RankdeckApp, expected: str) -> bool:
    return isinstance(app.screen, LaunchScreen) and command(app) == expected


async def test_a_name_that_is_taken_needs_a_second_enter(open_app: Open, until: Until, project: Path) -> None:
    save_preset(presets_folder(), "smoke", Draft(target="old.py"))
    app = open_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(app, pilot, until, "script.py")
        await pilot.press("escape", "s")
        await until(pilot, lambda: isinstance(app.screen, SaveScreen))
        await pilot.press(*"smoke", "enter")
        await until(pilot, lambda: "there already" in str(app.screen.query_one("#said", Static).render()))
        (preset,) = list_presets(presets_folder(), project)
        assert preset.draft is not None
        assert preset.draft.target == "old.py"
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen))

    (preset,) = list_presets(presets_folder(), project)
    assert preset.draft is not None
    assert preset.draft.target == "script.py"


async def test_what_was_run_lately_comes_first_in_the_picker(
    open_app: Open, until: Until, root: Path, project: Path
) -> None:
    folder = create_folder(root, 0.0)
    source = str(project / "train.py")
    writer = RunWriter(folder, JobSpec(Target(TargetKind.FUNCTION, source, "other"), workdir=str(project)))
    writer.append(
        ev.RunSubmitted(time=1.0, name="x", target=f"{source}:other", mode="local", num_processes=1)
    )
    writer.close()
    app = open_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(app, pilot, until)
        await until(pilot, lambda: app.screen.query_one(RecentRuns).length)
        await pilot.press("ctrl+f")
        await until(pilot, lambda: isinstance(app.screen, PickerScreen))
        await until(pilot, lambda: app.screen.query_one(Candidates).length == 5)
        first, *others = app.screen.query_one(Candidates).items

    assert (first.target, first.recent) == ("train.py:other", True)
    assert first.takes.startswith("(lr")
    assert "train.py:other" not in [c.target for c in others]


async def test_no_control_character_of_a_record_reaches_the_terminal(open_app: Open, until: Until) -> None:
    app = open_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(app, pilot, until, "script.py")
        form(app).fill(Draft(target="script.py", args="a\x1b]0;title\x07b\x9b2J", extras={"name": "\x1b[2J"}))
        form(app).toggle_more()
        await until(pilot, lambda: "title" in command(app))
        lines = [line for widget in app.screen.query("*") for line in painted(widget)]

    assert any("title" in line for line in lines)
    assert all(line.isprintable() for line in lines)


def painted(widget: Widget) -> list[str]:
    return [widget.render_line(y).text for y in range(widget.size.height)]


class Counted(HeadlessDriver):
    """Counts what a terminal would be sent."""

    sent = 0

    @property
    def is_headless(self) -> bool:
        return False

    def write(self, data: str) -> None:
        Counted.sent += len(data.encode())


async def test_going_from_field_to_field_paints_the_two_and_no_more(open_app: Open, until: Until) -> None:
    app = open_app()
    app.driver_class = Counted
    async with app.run_test(size=(160, 50), headless=False) as pilot:
        await opened(app, pilot, until, "script.py")
        await until(pilot, lambda: bool(app.screen.query_one("#hint-row").display))
        await until(pilot, lambda: app.screen.query_one(LaunchPlan).complete)
        await pilot.pause(0.1)
        Counted.sent = 0
        for _ in range(4):
            await pilot.press("tab")
            await pilot.pause(0.1)

    assert Counted.sent < 4 * 2000


async def test_the_keys_below_follow_the_focus_and_can_be_clicked(open_app: Open, until: Until) -> None:
    app = open_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(app, pilot, until, "script.py")
        line = app.screen.query_one(KeyLine)
        assert "f5 Preflight" in line.render_line(0).text
        assert line.render_line(0).text.rstrip().endswith("f1 Help")
        await pilot.press("escape")
        await until(pilot, lambda: " p Preflight" in line.render_line(0).text)
        await pilot.click(KeyLine, offset=(line.render_line(0).text.index("Find"), 0))
        await until(pilot, lambda: isinstance(app.screen, PickerScreen))


@pytest.mark.parametrize(
    ("source", "typed"),
    [
        ("'adam'", "adam"),
        ("Path('7b.yaml')", "7b.yaml"),
        ('pathlib.Path("conf/7b.yaml")', "conf/7b.yaml"),
        ("Path(HOME)", "Path(HOME)"),
        ("Path('a', 'b')", "Path('a', 'b')"),
        ("open('x')", "open('x')"),
        ("3", "3"),
        ("not python (", "not python ("),
        (None, None),
    ],
)
def test_a_default_is_told_as_it_would_be_typed(source: str | None, typed: str | None) -> None:
    assert typed == typed_default(Parameter("p", ParameterKind.POSITIONAL, default=source))


async def test_the_form_shows_the_framework_that_the_target_uses(
    open_app: Open, project: Path, until: Until
) -> None:
    (project / "train.py").write_text("import lightning\n" + SOURCE)

    def shown(app: RankdeckApp) -> str:
        return app.screen.query_one("#entry-row", FormRow)._remark or ""

    app = open_app()
    async with app.run_test(size=(100, 30)) as pilot:
        await opened(app, pilot, until, "train.py")
        await until(pilot, lambda: shown(app) == "lightning (found in the source)")
        form(app).fill(replace(form(app).draft, extras={"framework": "deepspeed"}))
        await until(pilot, lambda: shown(app) == "deepspeed (asked for)")
        form(app).fill(replace(form(app).draft, target="script.py", extras={}))
        await until(pilot, lambda: shown(app) == "")
        form(app).fill(replace(form(app).draft, extras={"framework": "nope"}))
        await until(pilot, lambda: "there is no framework 'nope'" in wrong(app).get("framework", ""))
