"""Commands of the user: what is wrong with them is told, and no text becomes an option or a command."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from console.data.finding.own import PLACEHOLDERS, SCREENS, OwnCommand, filled, own_commands, own_problems
from console.settings import load, read
from launcher.errors import SpecError


def told(toml: str) -> list[str]:
    return [why for _, why in own_problems(tomllib.loads(toml)["commands"])]


def test_a_command_is_read() -> None:
    table = {"code": {"argv": ["code", "-g", "{file}:{line}"], "keys": "ctrl+g", "where": ["run"]}}

    (command,) = own_commands(table).values()

    assert OwnCommand("code", ("code", "-g", "{file}:{line}"), "ctrl+g", "", ("run",)) == command
    assert {"file", "line"} == command.needs
    assert "code -g {file}:{line}" == command.says
    assert SCREENS == own_commands({"a": {"argv": ["a"]}})["a"].where


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("", "commands.x needs an argv"),
        ('argv = "ls"', "commands.x.argv must be a list of texts, the program first, not 'ls'"),
        ("argv = []", "commands.x.argv must be a list of texts"),
        ('argv = ["ls", 3]', "commands.x.argv must be a list of texts"),
        ('argv = [["ls"]]', "commands.x.argv must be a list of texts"),
        ('argv = [" "]', "commands.x.argv must begin with a program"),
        ('argv = ["{file}"]', "commands.x.argv must begin with a program, not '{file}'"),
        ('argv = ["ls\\u0000"]', "commands.x.argv cannot hold a NUL character"),
        ('argv = ["ls", "{files}"]', "commands.x.argv has {files}, which is unknown; there are {run}, "),
        ('argv = ["awk", "{print $1}"]', "commands.x.argv has {print $1}, which is unknown"),
        ('argv = ["ls", "{file"]', "commands.x.argv has a single { in '{file'; a brace is written twice"),
        ('argv = ["ls"]\nkeys = ["x"]', "commands.x.keys must be a text in quotes, not ['x']"),
        ('argv = ["ls"]\nabout = 3', "commands.x.about must be a text in quotes, not 3"),
        ('argv = ["ls"]\nwhere = "run"', 'commands.x.where must be a list of "launch", "run"'),
        ('argv = ["ls"]\nwhere = []', "commands.x.where must be a list"),
        ('argv = ["ls"]\nwhere = ["moon"]', "commands.x.where must be a list"),
        ('argv = ["ls"]\nterminal = 1', "commands.x.terminal must be true or false, not 1"),
        ('argv = ["ls"]\nshell = true', "commands.x.shell is no setting of a command; there are keys, argv"),
    ],
)
def test_each_problem_is_one_sentence(settings: str, said: str) -> None:
    toml = f"[commands.x]\n{settings}\n"

    (sentence,) = told(toml)

    assert sentence.startswith(said)
    assert {} == own_commands(tomllib.loads(toml)["commands"]), "a wrong command is left out"


@pytest.mark.parametrize("name", ['"A b"', '""', '"x\\u001b[2J"', f'"{"x" * 33}"', '"-x"', '"a.b"'])
def test_names_are_plain(name: str) -> None:
    assert "is no name for a command" in told(f'[commands.{name}]\nargv = ["ls"]\n')[0]


def test_something_else_than_a_table_is_told() -> None:
    assert ["commands.x must be a table with an argv, not 3"] == told("[commands]\nx = 3\n")


VALUES = {name: f"<{name}>" for name in PLACEHOLDERS}


def argv(*words: str, **values: str) -> list[str]:
    return filled(OwnCommand("x", ("prog", *words)), VALUES | values)


def test_placeholders_are_filled_and_braces_stay() -> None:
    assert ["prog", "<run>", "<file>:<line>", "{}", "{run}"] == argv(
        "{run}", "{file}:{line}", "{{}}", "{{run}}"
    )
    assert ["prog", "{run}"] == argv("{run}", run="{run}"), "a value is not filled again"


@pytest.mark.parametrize("value", ["a b", "$(id)", "`id`; rm -rf ~", "'\"", "*", "a=b", "~", "\\"])
def test_a_value_stays_one_argument(value: str) -> None:
    assert ["prog", value, f"--host={value}"] == argv("{host}", "--host={host}", host=value)


@pytest.mark.parametrize("value", ["-", "-oProxyCommand=x", "--help"])
def test_a_value_cannot_become_an_option(value: str) -> None:
    with pytest.raises(SpecError, match="would be read as an option"):
        argv("{host}", host=value)
    with pytest.raises(SpecError, match="would be read as an option"):
        argv("{host}:{file}", host=value)

    assert ["prog", f"-h{value}", f"ada@{value}"] == argv("-h{host}", "ada@{host}", host=value)


@pytest.mark.parametrize("value", ["a\nb", "a\0b", "\x1b]52;c;x\a", "a\u202eb"])
def test_a_value_with_control_characters_starts_nothing(value: str) -> None:
    with pytest.raises(SpecError) as refused:
        argv("--host={host}", host=value)

    assert str(refused.value).isprintable()


def test_a_value_that_is_not_known_is_told() -> None:
    with pytest.raises(SpecError, match=r"x needs \{pid\}, its process: there is none here"):
        argv("{pid}", pid="")


def test_problems_have_their_lines_and_the_rest_of_the_file_applies(home: Path) -> None:
    (home / "config").mkdir(parents=True)
    (home / "config" / "config.toml").write_text(
        '[console]\ntheme = "paper"\n\n[commands.good]\nargv = ["ls"]\n\n'
        '[commands.bad]\nargv = ["ls", "{nope}"]\nwhere = 3\n'
    )
    settings = load()

    assert ["good"] == list(settings.commands)
    assert "paper" == settings.theme
    assert [(8, "commands.bad.argv"), (9, "commands.bad.where")] == [
        (problem.line, problem.text.split()[0]) for problem in read().problems
    ]


@pytest.mark.parametrize("text", ["commands = 3\n", "[[commands]]\nargv = ['x']\n", "commands = 'x'\n"])
def test_a_table_of_another_kind_is_told(home: Path, text: str) -> None:
    (home / "config").mkdir(parents=True)
    (home / "config" / "config.toml").write_text(text)

    assert {} == load().commands
    assert any("commands must be a table" in problem for problem in load().problems)
