"""`config.toml` for the console: what holds and why, and every problem with its line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from console import settings
from console.cli.main import cli
from console.data.launch.draft import command_words
from console.settings import ConsoleSettings, Entry, form_draft, load, read
from launcher.settings import config_file
from launcher.spec.modes import Mode
from tests.commands import rankdeck

WRONG = """\
[retention]
runs = "x"

[console]
theme = "nop"
ascii = 1
colour = "red"

[keys]
run.stop = "q"
"run.zoom" = "nokey"
[keys.log]
follow = 3
nothing = "x"

[defaults]
num_processes = 0
mode = "moon"
[bogus]
"""


def settle(home: Path, text: str, **variables: str) -> dict[str, str]:
    environ = {"RANKDECK_HOME": str(home), **variables}
    config_file(environ).parent.mkdir(parents=True)
    config_file(environ).write_text(text)
    return environ


def command(*words: str) -> object:
    return cli.main(["config", *words], prog_name="rankdeck", standalone_mode=False)


def test_without_a_file_there_are_defaults(home: Path) -> None:
    assert load(environ={"RANKDECK_HOME": str(home)}) == ConsoleSettings()
    assert form_draft(ConsoleSettings(), home) is None


def test_a_file_settles_some_and_leaves_the_rest(home: Path) -> None:
    environ = settle(
        home,
        '[console]\ntheme = "paper"\ntimestamps = "clock"\n[keys]\nrun.stop = "S"\n"log.follow" = "F"\n'
        '[defaults]\nmode = "cluster"\nnum_processes = "2:8"\nspark = "spark://head:7077"\n',
    )

    found = load(environ=environ)
    draft = form_draft(found, home)

    assert (found.theme, found.timestamps, found.mouse, found.problems) == ("paper", "clock", True, ())
    assert found.keys == {"run.stop": "S", "log.follow": "F"}
    assert draft is not None
    assert (draft.mode, draft.processes, draft.gpu) == (Mode.CLUSTER, "2:8", "auto")
    assert (draft.spark, draft.workdir) == ("spark://head:7077", home)


def test_options_come_before_variables_and_those_before_the_file(home: Path) -> None:
    environ = settle(home, '[console]\ntheme = "paper"\nmouse = false\nascii = true\n')
    environ |= {"RANKDECK_THEME": "ember", "RANKDECK_MOUSE": "yes"}

    assert load({"theme": None}, environ) == ConsoleSettings(theme="ember", mouse=True, ascii=True)
    assert load({"theme": "midnight", "ascii": False}, environ).theme == "midnight"
    assert not load({"ascii": False}, environ).ascii


@pytest.mark.parametrize(
    ("variables", "ascii_", "origin"),
    [
        ({"LANG": "C.UTF-8"}, False, "default"),
        ({"LANG": "en_US.ISO-8859-1"}, True, "$LANG=en_US.ISO-8859-1"),
        ({"LANG": "C.UTF-8", "RANKDECK_ASCII": "1"}, True, "$RANKDECK_ASCII"),
        ({"LC_ALL": "C", "RANKDECK_ASCII": "0"}, False, "$RANKDECK_ASCII"),
    ],
)
def test_ascii_is_chosen_by_variable_or_locale(
    home: Path, variables: dict[str, str], ascii_: bool, origin: str
) -> None:
    environ = {"RANKDECK_HOME": str(home), **variables}
    entries = settings.console_entries(read(environ), environ)

    assert Entry("console", "ascii", ascii_, origin) in list(entries)
    assert load(environ=environ).ascii is ascii_


def test_every_problem_has_its_line_and_the_rest_holds(home: Path) -> None:
    found = read(settle(home, WRONG + "[console2]\n"))
    lines = [(problem.line, problem.text.split(" ")[0]) for problem in found.problems]

    assert lines == [
        (2, "the"),
        (6, "console.ascii"),
        (7, "console.colour"),
        (13, "keys.log.follow"),
        (17, "defaults.num_processes"),
        (18, "defaults.mode"),
        (19, "the"),
        (20, "the"),
    ]
    assert settings.keys_of(found) == {"run.stop": "q", "run.zoom": "nokey", "log.nothing": "x"}


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("[console]\ntheme = \n", 2, "Invalid value"),
        ("[console]\ntheme = 'a'\ntheme = 'b'\n", 3, "Cannot overwrite a value"),
        ("a=" + "[" * 5000, 0, "cannot be read"),
    ],
)
def test_a_file_that_is_no_toml_is_told_and_the_defaults_hold(
    home: Path, text: str, line: int, said: str
) -> None:
    environ = settle(home, text)
    [problem] = read(environ).problems

    assert (problem.line, said in problem.text) == (line, True)
    assert load(environ=environ) == ConsoleSettings(problems=load(environ=environ).problems)
    assert len(load(environ=environ).problems) == 1


def test_a_file_that_cannot_be_read_is_told(home: Path) -> None:
    environ = settle(home, "")
    config_file(environ).write_bytes(b"\xff\xfe")
    [problem] = read(environ).problems
    config_file(environ).unlink()
    config_file(environ).mkdir()
    [folder] = read(environ).problems

    assert "cannot be read" in problem.text
    assert "Is a directory" in folder.text


def test_variables_that_say_nothing_are_told(home: Path) -> None:
    environ = {"RANKDECK_HOME": str(home), "RANKDECK_ASCII": "perhaps", "RANKDECK_ENGINE_IDLE_S": "soon"}

    problems = [problem.text for problem in read(environ).problems]

    assert len(problems) == 2
    assert "RANKDECK_ENGINE_IDLE_S must be a number" in problems[0]
    assert problems[1] == "RANKDECK_ASCII must be 1 or 0, not 'perhaps'"
    assert not load(environ=environ).ascii


def test_config_path_says_where(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("path") == 0
    assert capsys.readouterr().out == f"{home}/config/config.toml\n"


def test_config_print_says_what_holds_and_why(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    settle(home, '[engine]\nidle_s = 7\n[console]\ntheme = "paper"\n[keys]\nrun.stop = "?"\n')
    monkeypatch.setenv("RANKDECK_MAX_LOCAL_RUNS", "3")
    assert command("print") == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]

    assert lines[0] == f"# {home}/config/config.toml"
    assert {"[retention]", "[engine]", "[console]", "[keys]", "[defaults]"} <= set(lines)
    assert "runs = 10000 # default" in lines
    assert "mouse = true # default" in lines
    assert "idle_s = 7 # config.toml:2" in lines
    assert "max_local_runs = 3 # $RANKDECK_MAX_LOCAL_RUNS" in lines
    assert 'theme = "paper" # config.toml:4' in lines
    assert 'run.stop = "question_mark" # config.toml:6' in lines
    assert 'run.zoom = "z" # default' in lines


def test_what_is_printed_can_be_the_file(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command("print")
    settle(home, capsys.readouterr().out)
    command("print", "--json")
    entries = json.loads(capsys.readouterr().out)

    assert command("validate") == 0
    assert "is right" in capsys.readouterr().err
    assert {entry["origin"] for entry in entries if entry["table"] != "console"} != {"default"}
    assert all(entry["origin"].startswith("config.toml:") for entry in entries)


@pytest.mark.process
def test_config_validate_tells_all(home: Path) -> None:
    settle(home, WRONG)
    (home / "config" / "themes").mkdir()
    (home / "config" / "themes" / "own.toml").write_text('name = "own"\nprimary = "\\u001b[2J"\n')

    done = rankdeck("config", "validate")
    said = [line.removeprefix(f"{home}/config/config.toml:") for line in done.stdout.splitlines()]

    assert done.returncode == 2
    assert "\x1b" not in done.stdout
    assert said[0].startswith("theme own.toml was skipped")
    assert "5: there is no theme 'nop'; `rankdeck themes` lists them" in said
    assert "10: keys.run.stop = 'q' is also the key of run.detach (Detach)" in said
    assert "11: keys.run.zoom = 'nokey' is no key" in said
    assert "14: keys.log.nothing names no binding; `rankdeck config print` lists them" in said
    assert len(said) == 12


def test_config_validate_without_a_file_is_right(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert command("validate") == 0
    assert "everything has its default" in capsys.readouterr().err


def test_variables_for_every_launch_are_in_the_form_and_in_its_command(home: Path) -> None:
    environ = settle(
        home,
        '[defaults]\nmode = "local"\n'
        '[defaults.env]\nNCCL_DEBUG = "WARN"\nOMP_NUM_THREADS = 4\nA = "b c\'d"\n',
    )
    found = load(environ=environ)
    draft = form_draft(found, home)

    assert found.problems == ()
    assert draft is not None
    command = command_words(replace(draft, target="t.py"))
    assert ["--env", "NCCL_DEBUG=WARN", "--env", "OMP_NUM_THREADS=4", "--env", "A=b c'd"] == command[-6:]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("max_restarts = 1.5", "max_restarts must be a whole number, not 1.5"),
        ("max_restarts = true", "max_restarts must be a whole number, not True"),
        ("max_restarts = -1", "max_restarts is invalid: the number of restarts must be 0 or more, not -1"),
        ('grace_s = "1"', "grace_s must be a number of seconds, not '1'"),
        ("num_processes = 0", "num_processes must be at least 1, not 0"),
        ('gpu = "perhaps"', 'gpu must be one of "auto", "yes", "no", not \'perhaps\''),
        ("py_files = [1]", "py_files must have texts in it, not 1"),
        ('name = "\\u0000"', "name cannot hold a NUL character"),
    ],
)
def test_options_that_cannot_be_are_told_with_their_line(home: Path, value: str, why: str) -> None:
    environ = settle(home, f"[defaults]\n{value}\n")

    assert [f"config.toml:2: defaults.{why}"] == list(load(environ=environ).problems)
    assert load(environ=environ).form == {}


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ('env = "A=1"', "must be a table of names and texts, not 'A=1'"),
        ("env.A = true", "must give A a text, not True"),
        ("env.A = [1]", "must give A a text, not [1]"),
        ('env."" = "x"', "cannot have the name ''"),
        ('env."A=B" = "x"', "cannot have the name 'A=B'"),
        ('env.A = "\\u0000"', "must give A a text, not '\\x00'"),
    ],
)
def test_variables_that_cannot_be_are_told_with_their_line(home: Path, value: str, why: str) -> None:
    environ = settle(home, f"[defaults]\n{value}\n")
    found = load(environ=environ)

    assert [f"config.toml:2: defaults.env {why}"] == list(found.problems)
    assert form_draft(found, home) is None


def test_variables_are_printed_as_they_can_be_written(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    environ = settle(home, '[defaults.env]\nA = "b # c"\nB = 3\n')
    command("print")
    printed = capsys.readouterr().out

    config_file(environ).write_text(printed)
    assert load(environ=environ).form["env"] == "'A=b # c' B=3"


def test_columns_are_chosen_in_the_file(home: Path) -> None:
    environ = settle(
        home, '[columns]\nranks = ["rank", "loss", "gpu"]\nhistory = ["name", "args", "val/acc"]\n'
    )
    found = load(environ=environ)

    assert () == found.problems
    assert {"ranks": ("rank", "loss", "gpu"), "history": ("name", "args", "val/acc")} == found.columns


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ('ranks = ["stpe"]', "ranks has no column 'stpe'; did you mean step? there are rank, state, chart,"),
        ('ranks = "loss"', "ranks must be a list of names in quotes, not 'loss'; there are rank, state,"),
        ('history = ["nme"]', "history has no column 'nme'; did you mean name? there are started, took,"),
        ('hosts = ["name"]', "hosts names no table; there are ranks, history"),
        ('ranks.x = ["name"]', "ranks must be a list of names in quotes, not {'x': ['name']};"),
        ('ranks = ["loss", "loss"]', "ranks has loss twice"),
        (f'ranks = ["{"x" * 16384}"]', "ranks has a column without a usable name, 'xxx"),
        ('ranks = ["\\u001b[2J"]', "ranks has a column without a usable name, '\\x1b[2J'"),
    ],
)
def test_wrong_columns_are_told_with_their_line(home: Path, value: str, why: str) -> None:
    environ = settle(home, f"[console]\n\n[columns]\n{value}\n")
    (problem,) = load(environ=environ).problems

    assert problem.startswith(f"config.toml:4: columns.{why}")
    assert {} == load(environ=environ).columns


def test_config_print_has_the_columns(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settle(home, '[columns]\nhistory = ["name", "loss"]\n')
    assert command("print") == 0
    out = capsys.readouterr().out

    assert '[columns]\nranks = ["rank", "state", "chart", "step",' in out
    assert 'history = ["name", "loss"]' in out
