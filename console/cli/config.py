"""Commands about ``config.toml``: its path, the effective settings with their origins, and its problems."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import groupby
from typing import TYPE_CHECKING

import click

from ..echo import print_json, print_text, say
from ..sanitize import escaped, json_escaped

if TYPE_CHECKING:
    from ..settings import Config, Entry, Problem

_ORIGIN = 44


@click.group()
def config() -> None:
    """Show where the settings are, their values, and what is wrong with them."""


@config.command()
def path() -> int:
    """Print where config.toml is, or would be."""
    from launcher.settings import config_file

    print_text(str(config_file()))
    return 0


@config.command("print")
@click.option("--json", "as_list", is_flag=True, help="A list of objects: table, key, value, origin.")
def print_(*, as_list: bool) -> int:
    """Print every setting and where it comes from; the output is a valid config.toml."""
    from ..settings import read

    parsed = read()
    entries = list(_entries(parsed))
    if as_list:
        print_json([asdict(entry) for entry in entries])
        return 0
    print_text(f"# {escaped(str(parsed.path))}{'' if parsed.path.exists() else ' (there is none yet)'}")
    for table, members in groupby(entries, key=lambda entry: entry.table):
        print_text(f"\n[{table}]")
        for entry in members:
            print_text(f"{f'{entry.key} = {_toml(entry.value)}':<{_ORIGIN}}  # {escaped(entry.origin)}")
    return 0


@config.command()
def validate() -> int:
    """Print everything that is wrong with the settings and your own themes; exit with 2 if anything is."""
    from ..settings import read

    parsed = read()
    problems = [*parsed.problems, *_name_problems(parsed)]
    for problem in sorted(problems, key=lambda problem: problem.line):
        at = f"{parsed.path}:{problem.line}: " if problem.line else ""
        print_text(escaped(f"{at}{problem.text}"))
    if not problems:
        state = "is right" if parsed.path.exists() else "is not there; everything has its default"
        say(f"{escaped(str(parsed.path))} {state}")
    return 2 if problems else 0


def _entries(parsed: Config) -> Iterator[Entry]:
    from .. import settings
    from ..themes import DEFAULT_THEME

    yield from settings.launcher_entries(parsed, os.environ)
    for entry in settings.console_entries(parsed, os.environ):
        yield replace(entry, value=entry.value or DEFAULT_THEME) if entry.key == "theme" else entry
    yield from settings.notify_entries(parsed)
    yield from settings.column_entries(parsed)
    yield from settings.form_entries(parsed)
    yield from settings.command_entries(parsed)
    yield from _key_entries(parsed)


def _key_entries(parsed: Config) -> Iterator[Entry]:
    from ..app import RankdeckApp
    from ..settings import DEFAULT, Entry, keys_of
    from ..ui.keymap import keys_now, known_bindings

    known, keys = known_bindings(RankdeckApp), keys_of(parsed)
    for name, now in keys_now(known.values(), keys).items():
        yield Entry("keys", name, ",".join(now), parsed.origin("keys", name) if name in keys else DEFAULT)


def _name_problems(parsed: Config) -> Iterator[Problem]:
    """Problems that only the console's own lists can show: unknown themes and bindings, bad theme files."""
    from ..app import RankdeckApp
    from ..settings import Problem, commands_of, console_entries, keys_of
    from ..themes import choose_theme, load_themes
    from ..ui.keymap import key_problems, known_bindings, own_key_problems

    skipped: list[str] = []
    names = {theme.name for theme in load_themes(problems=skipped)}
    yield from (Problem(0, text) for text in skipped)
    missing: list[str] = []
    theme = next(entry for entry in console_entries(parsed, os.environ) if entry.key == "theme")
    choose_theme(str(theme.value), names, missing)
    line = parsed.line("console", "theme") if theme.origin == parsed.origin("console", "theme") else 0
    yield from (Problem(line, text) for text in missing)
    known, keys = known_bindings(RankdeckApp), keys_of(parsed)
    for name, text in key_problems(keys, known):
        yield Problem(parsed.line("keys", name), text)
    for name, _, text in own_key_problems(commands_of(parsed), keys, known):
        yield Problem(parsed.line("commands", name, "keys"), text)


def _toml(value: object) -> str:
    if isinstance(value, dict):
        inner = ", ".join(f"{_toml(key)} = {_toml(each)}" for key, each in value.items())
        return f"{{ {inner} }}" if inner else "{}"
    return json_escaped(json.dumps(value, ensure_ascii=False))
