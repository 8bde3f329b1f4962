"""Commands about ``config.toml``: where it is, what holds and why, and what is wrong in it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import groupby
from typing import TYPE_CHECKING

import click

from ..echo import say, tell, tell_json
from ..sanitize import escaped, json_escaped

if TYPE_CHECKING:
    from ..settings import Config, Entry, Problem

_ORIGIN = 44


@click.group()
def config() -> None:
    """Say where the settings are, what holds, and what is wrong with them."""


@config.command()
def path() -> int:
    """Print where config.toml is, or would be."""
    from launcher.settings import config_file

    tell(str(config_file()))
    return 0


@config.command("print")
@click.option("--json", "as_list", is_flag=True, help="A list of objects: table, key, value, origin.")
def print_(*, as_list: bool) -> int:
    """Print every setting that holds, and where each comes from; what is printed can be the file."""
    from ..settings import read

    found = read()
    entries = list(_entries(found))
    if as_list:
        tell_json([asdict(entry) for entry in entries])
        return 0
    tell(f"# {escaped(str(found.path))}{'' if found.path.exists() else ' (there is none yet)'}")
    for table, members in groupby(entries, key=lambda entry: entry.table):
        tell(f"\n[{table}]")
        for entry in members:
            tell(f"{f'{entry.key} = {_toml(entry.value)}':<{_ORIGIN}}  # {escaped(entry.origin)}")
    return 0


@config.command()
def validate() -> int:
    """Print everything that is wrong with the settings and the own themes, and exit with 2 if anything is."""
    from ..settings import read

    found = read()
    problems = [*found.problems, *_name_problems(found)]
    for problem in sorted(problems, key=lambda problem: problem.line):
        at = f"{found.path}:{problem.line}: " if problem.line else ""
        tell(escaped(f"{at}{problem.text}"))
    if not problems:
        state = "is right" if found.path.exists() else "is not there; everything has its default"
        say(f"{escaped(str(found.path))} {state}")
    return 2 if problems else 0


def _entries(found: Config) -> Iterator[Entry]:
    from .. import settings
    from ..themes import DEFAULT_THEME

    yield from settings.launcher_entries(found, os.environ)
    for entry in settings.console_entries(found, os.environ):
        yield replace(entry, value=entry.value or DEFAULT_THEME) if entry.key == "theme" else entry
    yield from settings.form_entries(found)
    yield from _key_entries(found)


def _key_entries(found: Config) -> Iterator[Entry]:
    from ..app import RankdeckApp
    from ..settings import DEFAULT, Entry, keys_of
    from ..ui.keymap import keys_now, known_bindings

    known, keys = known_bindings(RankdeckApp), keys_of(found)
    for name, now in keys_now(known.values(), keys).items():
        yield Entry("keys", name, ",".join(now), found.origin("keys", name) if name in keys else DEFAULT)


def _name_problems(found: Config) -> Iterator[Problem]:
    """What only the console's own lists can tell: names of themes and bindings, and files of themes."""
    from ..app import RankdeckApp
    from ..settings import Problem, console_entries, keys_of
    from ..themes import choose_theme, load_themes
    from ..ui.keymap import key_problems, known_bindings

    told: list[str] = []
    names = {theme.name for theme in load_themes(problems=told)}
    yield from (Problem(0, text) for text in told)
    missing: list[str] = []
    theme = next(entry for entry in console_entries(found, os.environ) if entry.key == "theme")
    choose_theme(str(theme.value), names, missing)
    line = found.line("console", "theme") if theme.origin == found.origin("console", "theme") else 0
    yield from (Problem(line, text) for text in missing)
    for name, text in key_problems(keys_of(found), known_bindings(RankdeckApp)):
        yield Problem(found.line("keys", name), text)


def _toml(value: object) -> str:
    if isinstance(value, dict):
        inner = ", ".join(f"{_toml(key)} = {_toml(each)}" for key, each in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    return json_escaped(json.dumps(value, ensure_ascii=False))
