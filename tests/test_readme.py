"""README and the manual keep their word: commands and options exist, links lead somewhere, figures agree."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import click
import pytest

from console.cli.main import cli
from console.cli.originals.command import OriginalCommand
from console.manual import topics
from launcher import errors
from tests.documents import DOCUMENTS, MANUAL, NEEDS, ROOT, TOPICS, blocks, commands

README = (ROOT / "README.md").read_text()
CONTRIBUTING = ROOT / ".github" / "CONTRIBUTING.md"
LINKED = [*DOCUMENTS, CONTRIBUTING, ROOT / ".github" / "CHANGELOG.md", ROOT / ".github" / "PEERS.md"]
OF_SCRIPTS = {"--epochs", "--tensor", "--token"}
"""Options in sentences that are a training's own."""


def name(path: Path) -> str:
    return path.name


def rows(path: Path) -> list[list[str]]:
    """The cells of every table row of a document."""
    lines = [line for line in path.read_text().splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_ci_runs_readmes_test_command() -> None:
    found = [line for line in README.splitlines() if ".venv/bin/pytest" in line]

    assert 1 == len(found)
    assert "grep -m 1 -F '.venv/bin/pytest' README.md" in (ROOT / ".ci" / "run").read_text()


def test_both_commands_make_their_own_environment() -> None:
    found = [line for line in README.splitlines() if line.startswith("python3 -m venv .venv && ")]

    assert 2 == len(found)
    assert all("-c .constraints.txt" in command for command in found)


@pytest.mark.parametrize(
    ("heading", "limit"), [("From `rankdeck run` to the verdict", 25), ("A log line, from `write(2)`", 22)]
)
def test_a_way_through_the_house_enters_no_module_twice(heading: str, limit: int) -> None:
    section = CONTRIBUTING.read_text().partition(f"## {heading}")[2].partition("\n## ")[0]
    stations = re.findall(r"^\| (\d+) \| `([\w/]+)`", section, re.MULTILINE)
    modules = [module for _, module in stations]

    assert [str(n) for n in range(1, len(stations) + 1)] == [number for number, _ in stations]
    assert 10 < len(modules) <= limit
    assert sorted(set(modules)) == sorted(modules)
    assert [] == [module for module in modules if not (ROOT / f"{module}.py").is_file()]


def test_readme_is_one_page_and_names_every_topic() -> None:
    assert len(README.splitlines()) <= 150
    assert [] == [path.stem for path in TOPICS if f"[{path.stem}](console/manual/{path.name})" not in README]


def test_the_figures_of_readme_are_those_that_were_measured() -> None:
    measured = {row[0]: row[1:4] for row in rows(MANUAL / "measured.md")[1:]}
    shown = {row[0]: row[1:4] for row in rows(ROOT / "README.md")[1:]}

    assert 10 == len(shown)
    assert {what: measured.get(what) for what in shown} == shown


@pytest.mark.parametrize("path", TOPICS, ids=name)
def test_a_topic_begins_with_its_title_and_a_summary_in_one_line(path: Path) -> None:
    topic = topics()[path.stem]

    assert topic.text == path.read_text()
    assert re.fullmatch(r"# \S.*\n\n\S.*\.\n\n[^#].*", topic.text, re.DOTALL)
    assert topic.summary.endswith(".")
    assert "\n" not in topic.summary


@pytest.mark.parametrize("path", LINKED, ids=name)
def test_links_lead_to_files(path: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)\)", path.read_text())
    local = [link for link in links if "://" not in link]

    assert [] == [link for link in local if not (path.parent / link).exists()]


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_what_a_block_needs_is_one_of_a_few_things(path: Path) -> None:
    found = list(blocks(path))

    assert path.read_text().count("```") == 2 * len(found)
    assert {"sh", "python", "ipython", "toml", "text"} >= {block.language for block in found}
    assert NEEDS >= set(chain.from_iterable(block.needs for block in found))
    assert path.read_text().count("<!-- needs:") == sum(bool(block.needs) for block in found)


def options_of(words: list[str]) -> tuple[str, set[str]]:
    """The command that words lead to, and every option that it has, with those of the groups around it."""
    command: click.Command = cli
    context = click.Context(cli, info_name="rankdeck")
    known: set[str] = set()
    for word in [*words, ""]:
        parameters = command.get_params(context)
        known |= set(chain.from_iterable((*p.opts, *p.secondary_opts) for p in parameters))
        if isinstance(command, OriginalCommand):  # our own options stand before it
            known |= options_of(["run"])[1].union(*(row.spellings for row in command.original.rows))
        inner = command.get_command(context, word) if isinstance(command, click.Group) else None
        if inner is None:
            break
        command, context = inner, click.Context(inner, info_name=word, parent=context)
    return context.command_path, known


def strange_options(command: str) -> Iterator[str]:
    """Options of a command of ours that it does not have."""
    words = command.partition(" -- ")[0].partition(" #")[0].split()
    if words[:1] != ["rankdeck"]:
        return
    start = next((i for i, word in enumerate(words) if word in cli.after_options), 0)
    end = next((i for i, word in enumerate(words) if start and word.endswith(".py")), len(words))
    path, known = options_of(words[max(start, 1) :])
    for word in words[:end]:  # a script's own options are not ours to know
        option = word.partition("=")[0]
        if re.fullmatch(r"--?[a-z][a-z-]*", option) and option not in known:
            yield f"{path} {option}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_every_command_that_is_shown_has_the_options_that_are_shown(path: Path) -> None:
    assert [] == [each for command in commands(path) for each in strange_options(command)]


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_every_command_that_is_shown_exists(path: Path) -> None:
    words = [command.split() for command in commands(path) if command.startswith("rankdeck ")]
    named = {each[1] for each in words if re.fullmatch(r"[a-z]+", each[1])}

    assert set() == named - set(cli.list_commands(click.Context(cli)))


@pytest.mark.parametrize("path", TOPICS, ids=name)
def test_every_option_in_a_sentence_is_one_of_some_command(path: Path) -> None:
    context = click.Context(cli)
    known = options_of([])[1].union(*(options_of([each])[1] for each in cli.list_commands(context)))
    alone = [command for command in commands(path) if command.startswith("--")]
    shown = {word for command in alone for word in re.findall(r"--[a-z][a-z-]*", command)}

    assert set() == shown - known - OF_SCRIPTS


def test_every_exit_code_of_the_errors_is_explained() -> None:
    codes = {v.exit_code for v in vars(errors).values() if isinstance(v, type) and hasattr(v, "exit_code")}
    table = (MANUAL / "results.md").read_text().split("## Exit codes")[1].split("\n## ")[0]

    assert codes <= set(map(int, re.findall(r"\b\d+\b", table)))
