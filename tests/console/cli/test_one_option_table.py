"""The table of launch options, and everything that is derived from it: an option is told in one place."""

from __future__ import annotations

import inspect
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from console import settings
from console.cli.rerun import rerun
from console.cli.run import given_options, launch_options, request_from, run
from console.data.launch.draft import EXTRAS, Draft, command_text, command_words, draft_of
from console.data.launch.presets import list_presets, save_preset
from console.data.launch.rerun import changed
from launcher.distributor import Distributor, LaunchOptions
from launcher.errors import SpecError
from launcher.settings import config_file
from launcher.spec.job import LAUNCH_OPTIONS, JobSpec, SparkSpec, Target, TargetKind
from launcher.spec.modes import SPARK, Mode
from launcher.spec.options import FLAG, SWITCH, Option, options_of

ROOT = Path(__file__).parents[3]
FLAGS = [each for each in LAUNCH_OPTIONS if each.flag]
SETTABLE = [each for each in LAUNCH_OPTIONS if each.setting]
WORDS: Mapping[str, tuple[str, ...]] = {
    "num_processes": ("2:4",),
    "mode": ("cluster",),
    "gpu": ("no",),
    "workdir": ("/",),
    "python": ("python3",),
    "framework": ("deepspeed",),
    "roles": ("chief=1",),
    "ray_options": ("num-cpus=2",),
    "require_group": ("yes",),
    "fresh": ("yes",),
    "record_locals": ("yes",),
    "deepspeed_config": ("config.json",),
    "master": ("spark://h:7077",),
    "remote": ("sc://h",),
    "env": ("A=1", "B=b c"),
    "env_all": ("yes",),
    "conf": ("spark.a=1",),
    "param": ("lr=0.5",),
    "files": ("/",),
    "py_files": ("/",),
    "track": ("tensorboard=/",),
}
"""What is said of an option whose value is no number and no plain text."""


def words(option: Option) -> tuple[str, ...]:
    number = "7" if isinstance(option.default, (int, float)) or option.noun else "some-text"
    return WORDS.get(option.name, (number,))


def mode_for(option: Option) -> Mode:
    return Mode.LOCAL if option.group != SPARK else Mode.CONNECT if option.name == "remote" else Mode.CLUSTER


@click.command()
@launch_options
@click.option("--no-defaults", is_flag=True)
@click.pass_context
def parse(context: click.Context, /, **_: Any) -> dict[str, Any]:
    return given_options(context)


def spec_of(*said: str, settled: Mapping[str, str] | None = None, target: str = "train.py:main") -> JobSpec:
    """What `rankdeck run` makes of its words, where settings hold what is settled."""
    aside = "--no-defaults" in said
    given = parse.main(list(said), standalone_mode=False)
    return request_from(target, (), given, {} if aside else settled).spec


def said(option: Option) -> list[str]:
    """The words of a command that give an option, in a mode in which it has a meaning."""
    yes, _, no = option.flag.partition("/")
    flags = [no if word == "no" else yes for word in words(option)]
    pairs = [part for word in words(option) for part in (option.flag_name, word)]
    mode = ["--mode", str(mode_for(option))] if option.group == SPARK else []
    return [
        *mode,
        *(flags if option.kind in (SWITCH, FLAG) else pairs),
        *(["-n7"] * (option.name == "gpus_per_task")),
        *(["--framework=tensorflow"] * (option.name == "roles")),
        *(["--framework=ray"] * (option.name == "ray_options")),
    ]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "train.py").write_text("import deepspeed\ndef main(lr: float = 0.1): ...\n")
    (tmp_path / "config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def of_each(options: Iterable[Option]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("option", [pytest.param(each, id=each.name) for each in options])


def test_names_flags_and_places_are_told_once() -> None:
    for told in ([each.name for each in LAUNCH_OPTIONS], [each.flag for each in FLAGS]):
        assert sorted(set(told)) == sorted(told)
    assert {"spark", "withheld", "prediction"} == {*JobSpec.__dataclass_fields__} - {
        each.path[0] for each in LAUNCH_OPTIONS if len(each.path) == 1
    } - {"target"}
    assert set(SparkSpec.__dataclass_fields__) == {e.path[1] for e in LAUNCH_OPTIONS if e.path[0] == "spark"}


@of_each([each for each in LAUNCH_OPTIONS if not each.flag])
def test_an_option_without_a_flag_says_which_one_says_it_too(option: Option) -> None:
    assert option.row in [each.row for each in FLAGS]


@of_each(FLAGS)
def test_a_command_has_it_with_its_help_and_its_default(here: Path, option: Option) -> None:
    found = next(each for each in parse.params if each.name == option.name)
    assert isinstance(found, click.Option)

    assert found.help == (option.help or None)
    assert option.flag_name in found.opts
    assert option.name in [each.name for each in rerun.params]
    if option.name != "param":
        assert option.value(spec_of()) == (option.default if option.name != "workdir" else str(here))
        assert option.value(spec_of(*said(option))) != option.default


@of_each(FLAGS)
def test_a_form_has_a_field_or_a_row_of_its_own_for_it(option: Option) -> None:
    assert (option in EXTRAS) is (not option.row)
    assert option.row or (option.label and option.placeholder)
    assert not option.row or hasattr(Draft(), option.row)


@of_each(FLAGS)
def test_the_form_that_a_recorded_run_fills_is_a_command_that_means_the_run(
    here: Path, option: Option
) -> None:
    spec = spec_of(*said(option))
    command = command_words(draft_of(spec, here))

    assert spec_of(*command[3:]) == spec


@of_each(EXTRAS)
def test_a_preset_keeps_it(here: Path, option: Option) -> None:
    draft = draft_of(spec_of(*said(option)), here)
    draft = replace(draft, extras={**draft.extras, "workdir": "/"})
    save_preset(here / "presets", "kept", draft)

    assert [preset.draft for preset in list_presets(here / "presets", here)] == [draft]


@of_each(FLAGS)
def test_a_run_again_keeps_it_and_takes_another(here: Path, option: Option) -> None:
    spec, plain = spec_of(*said(option)), spec_of("--mode", str(mode_for(option)))
    given = parse.main([*said(option)], standalone_mode=False)

    assert changed(spec, {}, ()) == spec
    assert changed(plain, given, ()).target.label == spec.target.label
    if option.name != "param":
        assert option.value(changed(plain, given, ())) == option.value(spec)


def settle(home: Path, option: Option) -> dict[str, str]:
    """A file that settles an option as its words have it."""
    value: Any = words(option)[-1]
    if dict in option.kind.types:
        value = "{ " + ", ".join(f'"{w.split("=")[0]}" = "{w.split("=")[1]}"' for w in words(option)) + " }"
    elif option.kind is FLAG:
        value = "true"
    elif option.kind.types not in ((int,), (int, float)):
        value = f'["{value}"]' if list in option.kind.types else f'"{value}"'
    file = config_file({"RANKDECK_HOME": str(home)})
    file.parent.mkdir(parents=True)
    file.write_text(f"[defaults]\n{option.setting} = {value}\n")
    return settings.launch_defaults({"RANKDECK_HOME": str(home)})


@of_each(SETTABLE)
def test_what_is_settled_holds_for_a_command_and_the_form_alike(
    here: Path, home: Path, option: Option
) -> None:
    settled = settle(home, option)
    mode = [] if option.name == "mode" else ["--mode", str(mode_for(option))]
    many = ["-n7"] if option.name == "gpus_per_task" else []
    found = spec_of(*mode, *many, settled=settled)
    told = settings.form_draft(settings.load(environ={"RANKDECK_HOME": str(home)}), here)
    assert told is not None
    draft = replace(told, target="train.py:main", processes="7" if many else told.processes)
    draft = draft if option.name == "mode" else replace(draft, mode=mode_for(option))

    assert option.value(found) == option.value(spec_of(*mode, *said(option)))
    assert option.value(found) != option.default
    assert draft.resolved() == found
    assert option.value(spec_of(*mode, "--no-defaults", settled=settled)) in (option.default, str(here))
    assert spec_of(*command_words(draft, settled)[3:], settled=settled) == found


@of_each([each for each in SETTABLE if each.name != "mode"])
def test_a_command_for_something_else_than_what_is_settled_says_so(
    here: Path, home: Path, option: Option
) -> None:
    settled = settle(home, option)
    draft = Draft("train.py:main", mode=mode_for(option), workdir=here)

    assert spec_of(*command_words(draft, settled)[3:], settled=settled) == draft.resolved()
    assert "--no-defaults" not in command_text(draft)


def test_a_command_refuses_settings_that_cannot_be_unless_it_leaves_them_aside(
    here: Path, home: Path
) -> None:
    file = config_file({"RANKDECK_HOME": str(home)})
    file.parent.mkdir(parents=True)
    file.write_text("[console]\nmouse = 3\n[defaults]\ntimeout_s = -1\nnum_processes = 3\n")

    with pytest.raises(
        SpecError, match=r"config.toml:4: defaults.timeout_s is invalid: the time limit must be"
    ):
        plan("train.py")
    assert "rank 1" not in plan("train.py", "--no-defaults")
    file.write_text("[console]\nmouse = 3\n[defaults]\nnum_processes = 3\n")
    assert "rank 2" in plan("train.py")
    assert "rank 2" not in plan("train.py", "-n", "2")


def plan(*said: str) -> str:
    """What `rankdeck run --dry-run` prints."""
    done = CliRunner().invoke(run, [*said, "--dry-run"], standalone_mode=False, catch_exceptions=False)
    return done.output


@of_each([each for each in options_of(JobSpec) if len(each.path) == 1])
def test_distributor_has_it_as_the_table_says(option: Option) -> None:
    parameter = inspect.signature(Distributor).parameters[option.name]

    assert parameter.default == option.default
    assert f"    {option.name}: {option.doc or option.help}" in (Distributor.__doc__ or "")
    assert option.name in {"num_processes", "mode", *LaunchOptions.__annotations__}


def test_distributor_knows_no_other_options_and_says_so() -> None:
    own = {each.name for each in options_of(JobSpec) if len(each.path) == 1}

    assert set(LaunchOptions.__annotations__) == own - {"num_processes", "mode"}
    with pytest.raises(
        SpecError, match=r"Distributor takes no option max_restart \(did you mean max_restarts"
    ):
        Distributor(2, max_restart=1)  # type: ignore[call-arg]


def test_distributor_without_options_is_a_command_without_options(here: Path) -> None:
    made = JobSpec(Target(TargetKind.SCRIPT, "train.py"), **Distributor()._options)

    assert replace(spec_of(), target=made.target) == made


ADDED = """
    spark: SparkSpec = field(default_factory=SparkSpec)
    patience: int = launch_option(
        3, "--patience", WHOLE, metavar="K", help="A throw-away.", label="Patience", hint="{} of them"
    )
"""
SEEN = """
import os, sys
from pathlib import Path
from click.testing import CliRunner
from console import settings
from console.cli.main import cli
from console.cli.run import run, given_options, request_from
from console.data.launch.draft import EXTRAS, command_text, draft_of
from console.data.launch.rerun import changed
from launcher.distributor import Distributor
from launcher.serialization import from_plain, to_plain
from launcher.spec.job import JobSpec

assert "A throw-away.  [default: 3]" in CliRunner().invoke(run, ["--help"], terminal_width=200).output
context = run.make_context("run", ["t.py", "--patience", "5"])
spec = request_from("t.py", (), given_options(context)).spec
assert spec.patience == 5
assert from_plain(JobSpec, to_plain(spec)) == spec
assert [(e.label, e.placeholder) for e in EXTRAS if e.name == "patience"] == [("Patience", "3 of them")]
draft = draft_of(spec, Path.cwd())
assert draft.resolved() == spec
assert command_text(draft) == "rankdeck run t.py -n 1 --patience 5", command_text(draft)
assert changed(spec, {"patience": 6}, ()).patience == 6
assert settings.launch_defaults() == {"patience": "8"}
assert request_from("t.py", (), {}, settings.launch_defaults()).spec.patience == 8
assert ("patience", 8) in [(e.key, e.value) for e in settings.form_entries(settings.read())]
assert Distributor(patience=9)._options["patience"] == 9
assert "patience: A throw-away." in Distributor.__doc__
"""


@pytest.mark.process
def test_an_option_that_is_added_to_the_table_is_everywhere(tmp_path: Path, home: Path) -> None:
    for package in ("launcher", "console", "themes"):
        ignored = shutil.ignore_patterns("__pycache__", "static")
        shutil.copytree(ROOT / package, tmp_path / "tree" / package, ignore=ignored)
    job = tmp_path / "tree" / "launcher" / "spec" / "job.py"
    source = job.read_text()
    line = "\n    spark: SparkSpec = field(default_factory=SparkSpec)\n"
    assert source.count(line) == 1
    job.write_text(source.replace(line, ADDED))
    (tmp_path / "t.py").write_text("")
    config_file({"RANKDECK_HOME": str(home)}).parent.mkdir(parents=True)
    config_file({"RANKDECK_HOME": str(home)}).write_text("[defaults]\npatience = 8\n")
    environ = {**os.environ, "PYTHONPATH": str(tmp_path / "tree"), "RANKDECK_HOME": str(home)}
    done = subprocess.run(
        [sys.executable, "-c", SEEN], cwd=tmp_path, env=environ, capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")
