"""Fields for the options of scripts, and the line of arguments that they write."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from console.app import RankdeckApp
from console.data.launch.draft import Draft
from console.data.launch.presets import presets_folder, save_preset
from console.ui.launch.form import LaunchForm
from console.ui.launch.more import Fold
from console.ui.launch.options import SHOWN, OptionForm
from console.ui.launch.panes import CommandLine
from console.ui.launch.presets import Presets, PresetsScreen
from console.ui.launch.screen import LaunchScreen
from console.ui.widgets.fields import Choice, Field, FormRow, Toggle
from tests.console.data.options.scripts import FILES

if TYPE_CHECKING:
    from textual.pilot import Pilot

    from tests.console.conftest import FakeCommands, Until

Open = Callable[..., RankdeckApp]


@pytest.fixture
def project(project: Path) -> Path:
    for name in ("imagenet", "hydra", "subcommands"):
        for file, text in FILES[name].items():
            path = project / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    many = "".join(f"p.add_argument('--mode{n}', type=int, help='{'x' * 300}')\n" for n in range(100))
    (project / "many.py").write_text(many)
    (project / "odd.py").write_text(
        "p.add_argument('--mode', help='a\\x1b[2Jb')\np.add_argument('--target', default='[red]x')\n"
        "p.add_argument('--bad\\x1b[2J')\n"
    )
    return project


def fields(app: RankdeckApp) -> dict[str, Field | Choice]:
    found = app.screen.query_one(OptionForm).query("Input, Choice")
    return {str(f.name).removeprefix("option:"): f for f in found if isinstance(f, (Field, Choice))}


def arguments(app: RankdeckApp) -> Field:
    return app.screen.query_one("#args", Field)


def command(app: RankdeckApp) -> str:
    return app.screen.query_one(CommandLine).command


def wrong(app: RankdeckApp) -> dict[str, str]:
    rows = app.screen.query_one(OptionForm).query(FormRow)
    return {str(r.name).removeprefix("option:"): r.problem for r in rows if r.problem}


async def opened(app: RankdeckApp, pilot: Pilot[int], until: Until, target: str, name: str) -> None:
    await until(pilot, lambda: isinstance(app.screen, LaunchScreen))
    await pilot.pause()
    app.screen.query_one("#target", Field).value = target
    await until(pilot, lambda: name in fields(app))
    await pilot.pause()


async def put(app: RankdeckApp, pilot: Pilot[int], name: str, value: str) -> None:
    fields(app)[name].value = value
    await pilot.pause()


async def test_fields_write_the_line_and_the_line_fills_them_in(open_app: Open, until: Until) -> None:
    app = open_app()
    async with app.run_test(size=(100, 40)) as pilot:
        await opened(app, pilot, until, "imagenet/train.py", "--lr")
        await put(app, pilot, "--lr", "0.2")
        await put(app, pilot, "--tag", "a 'b c'")
        fields(app)["--compile"].focus()
        await pilot.press("space")
        await put(app, pilot, "data", "my images")
        said = "'my images' --lr 0.2 --tag a --tag 'b c' --no-compile"
        await until(pilot, lambda: command(app).endswith(f" -- {said}"))
        assert arguments(app).value == said

        arguments(app).focus()
        arguments(app).value = 'other  --compile -b 64 --x "it\'s" --steps 1 2'
        await until(pilot, lambda: fields(app)["-b"].value == "64")
        values = {name: field.value for name, field in fields(app).items()}
        assert (values["data"], values["--lr"], values["--tag"], values["--steps"]) == (
            "other",
            "",
            "",
            "1 2",
        )
        assert values["--compile"] == "True"
        await put(app, pilot, "--lr", "0.3")

        assert arguments(app).value == 'other  --compile -b 64 --x "it\'s" --steps 1 2 --lr 0.3'


async def test_what_is_typed_with_keys_arrives_in_order(open_app: Open, until: Until) -> None:
    app = open_app()
    async with app.run_test(size=(100, 40)) as pilot:
        await opened(app, pilot, until, "imagenet/train.py", "--lr")
        fields(app)["--lr"].focus()
        await pilot.press(*"0.25", "tab", "tab", *"7 8", "tab", "x")
        await until(pilot, lambda: arguments(app).value == "--lr 0.25 --steps 7 8 --tag x")


async def test_values_are_checked_beside_their_fields(open_app: Open, until: Until) -> None:
    app = open_app()
    async with app.run_test(size=(100, 40)) as pilot:
        await opened(app, pilot, until, "imagenet/train.py", "--lr")
        await put(app, pilot, "--lr", "fast")
        await put(app, pilot, "--steps", "1 x")
        arguments(app).value += " --fp16 --bf16"
        await until(pilot, lambda: len(wrong(app)) == 3)
        assert wrong(app)["--lr"] == "takes a number"
        assert "exclude each other" in wrong(app)["--bf16"]
        await until(pilot, lambda: "--lr takes a number" in app.screen.query_one(CommandLine).doubt)
        arguments(app).value = "'open"
        await put(app, pilot, "--seed", "1")
        await until(pilot, lambda: "close the quotation" in wrong(app).get("--seed", ""))

        assert arguments(app).value == "'open"


async def test_a_default_that_is_computed_is_shown_and_not_sent(open_app: Open, until: Until) -> None:
    app = open_app()
    async with app.run_test(size=(100, 40)) as pilot:
        await opened(app, pilot, until, "imagenet/train.py", "--workers")
        field = fields(app)["--workers"]
        assert isinstance(field, Field)
        row = next(r for r in app.screen.query(FormRow) if r.name == "option:--workers")

        assert (field.value, field.placeholder) == ("", "computed")
        assert "default os.cpu_count()" in str(row._remark)
        assert command(app) == "rankdeck run imagenet/train.py -n 1"


async def test_a_subcommand_brings_its_own_fields(
    open_app: Open, until: Until, commands: FakeCommands
) -> None:
    app = open_app()
    async with app.run_test(size=(100, 40)) as pilot:
        await opened(app, pilot, until, "subcommands/train.py", "mode")
        assert set(fields(app)) == {"--debug", "mode"}
        fields(app)["mode"].focus()
        await pilot.press("space")
        await until(pilot, lambda: "train --epochs" in fields(app))
        assert app.screen.focused is fields(app)["mode"]
        await put(app, pilot, "train --epochs", "5")
        fields(app)["--debug"].focus()
        await pilot.press("space")
        await until(pilot, lambda: command(app).endswith("-- --debug train --epochs 5"))
        await pilot.press("ctrl+r")
        await until(pilot, lambda: bool(commands.started))

    assert list(commands.started[0].spec.target.args) == ["--debug", "train", "--epochs", "5"]


async def test_a_config_group_brings_its_own_values(open_app: Open, until: Until) -> None:
    app = open_app()
    async with app.run_test(size=(100, 50)) as pilot:
        await opened(app, pilot, until, "hydra/train.py", "model.act")
        fields(app)["model"].focus()
        await pilot.press("space")
        await until(pilot, lambda: "model.act" not in fields(app))
        await put(app, pilot, "name", "a b")
        assert isinstance(fields(app)["amp"], Toggle)
        await until(pilot, lambda: command(app).endswith("-- model=large 'name=a b'"))

        width = fields(app)["model.width"]
        assert isinstance(width, Field)
        assert width.placeholder == "512"


async def test_options_beyond_the_first_are_unfolded(open_app: Open, until: Until) -> None:
    app = open_app()
    async with app.run_test(size=(100, 40)) as pilot:
        await opened(app, pilot, until, "many.py", "--mode0")
        assert len(fields(app)) == SHOWN
        app.screen.query_one("#other-options", Fold).focus()
        await pilot.press("enter")
        await until(pilot, lambda: len(fields(app)) == 100)
        await until(pilot, lambda: app.screen.focused is fields(app)[f"--mode{SHOWN}"])
        await pilot.press("7")
        await until(pilot, lambda: command(app).endswith(f"-- --mode{SHOWN} 7"))


async def test_names_of_other_rows_and_control_characters_do_no_harm(open_app: Open, until: Until) -> None:
    app = open_app()
    async with app.run_test(size=(80, 24)) as pilot:
        await opened(app, pilot, until, "odd.py", "--mode")
        await until(pilot, lambda: app.screen.query_one(LaunchForm)._detected is not None)
        assert set(fields(app)) == {"--mode", "--target"}
        row = next(r for r in app.screen.query(FormRow) if r.name == "option:--mode")
        fields(app)["--target"].focus()
        await pilot.pause()
        lines = [w.render_line(y).text for w in app.screen.query("*") for y in range(w.size.height)]

        assert row._remark == "a [2Jb"
        assert all(line.isprintable() for line in lines)


async def test_a_preset_fills_in_the_fields(open_app: Open, until: Until, project: Path) -> None:
    draft = Draft(target="imagenet/train.py", args="--lr 0.5 --fp16", workdir=project)
    save_preset(presets_folder(), "mine", draft)
    app = open_app()
    async with app.run_test(size=(100, 40)) as pilot:
        await opened(app, pilot, until, "subcommands/train.py", "mode")
        await pilot.press("escape", "o")
        await until(pilot, lambda: isinstance(app.screen, PresetsScreen))
        await until(pilot, lambda: app.screen.query_one(Presets).length == 1)
        await pilot.press("enter")
        await until(pilot, lambda: isinstance(app.screen, LaunchScreen) and "--lr" in fields(app))
        await until(pilot, lambda: fields(app)["--lr"].value == "0.5")

        assert fields(app)["--fp16"].value == "True"
        assert command(app).endswith("-- --lr 0.5 --fp16")


async def test_the_border_tells_of_the_option_in_focus(open_app: Open, until: Until) -> None:
    app = open_app()
    async with app.run_test(size=(100, 40)) as pilot:
        await opened(app, pilot, until, "imagenet/train.py", "--lr")
        form = app.screen.query_one(LaunchForm)
        fields(app)["-b"].focus()
        await until(pilot, lambda: "of all GPUs" in str(form.border_subtitle))
        app.screen.query_one("#processes", Field).focus()
        await until(pilot, lambda: not form.border_subtitle)
