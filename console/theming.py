"""Themes from TOML files, bundled and the user's own.

A file's keys are those of `textual.theme.Theme`, and a `variables` table for ours. Listing names reads
no Textual, so that the command line can do it; colours are decided in the files, never here.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from textual.theme import Theme

DEFAULT_THEME = "rankdeck-dark"

FALLBACKS = {
    "rank-ok": "ansi_green",
    "rank-waiting": "ansi_bright_black",
    "rank-behind": "ansi_yellow",
    "rank-stale": "ansi_magenta",
    "rank-hung": "ansi_bright_yellow",
    "rank-failed": "ansi_red",
    "rank-lost": "ansi_bright_red",
    "rank-done": "ansi_cyan",
    "rank-stopped": "ansi_white",
    "muted": "ansi_bright_black",
    "log-stderr": "ansi_yellow",
    "log-warn": "ansi_yellow",
    "log-error": "ansi_red",
    "log-match": "ansi_blue",
    "bar": "ansi_cyan",
    "bar-track": "ansi_black",
    "cursor-row": "ansi_bright_black",
    "rule": "ansi_bright_black",
    "tint-0": "ansi_cyan",
    "tint-1": "ansi_yellow",
    "tint-2": "ansi_green",
    "tint-3": "ansi_magenta",
    "tint-4": "ansi_bright_cyan",
    "tint-5": "ansi_bright_yellow",
    "tint-6": "ansi_bright_magenta",
    "tint-7": "ansi_white",
}
"""Our own variables, for themes that do not define them (Textual's built-in ones)."""


def user_folder() -> Path:
    """Where a person's own themes lie."""
    if override := os.environ.get("RANKDECK_HOME"):
        return Path(override).expanduser().absolute() / "config" / "themes"
    from platformdirs import user_config_path

    return user_config_path("rankdeck") / "themes"


def theme_names(folder: Path | None = None) -> list[str]:
    """The names of all themes that can be read, the default first; reads no Textual."""
    names = {str(data["name"]) for _, data in _documents(folder, []) if "name" in data}
    return sorted(names, key=lambda name: (name != DEFAULT_THEME, name))


def load_themes(folder: Path | None = None, *, problems: list[str] | None = None) -> list[Theme]:
    """Every theme; the user's replace bundled ones of the same name.

    A file that is no theme is skipped, and one sentence that names it is added to `problems`.
    """
    told: list[str] = [] if problems is None else problems
    themes: dict[str, Theme] = {}
    for origin, data in _documents(folder, told):
        try:
            theme = parse_theme(data)
        except (TypeError, ValueError) as error:
            told.append(f"theme {origin} was skipped: {error}")
        else:
            themes[theme.name] = theme
    return list(themes.values())


def parse_theme(data: dict[str, Any]) -> Theme:
    """One file's content as a theme.

    Raises:
        TypeError: a key is missing, unknown or not of its type.
        ValueError: a value is no colour.
    """
    from textual.theme import Theme

    if not isinstance(data.get("variables", {}), dict):
        raise TypeError("`variables` must be a table")
    theme = Theme(**data)
    for key, value in data.items():
        if key not in _NOT_COLOURS:
            _check_colour(key, value)
    for key, value in theme.variables.items():
        if not key.endswith("style"):
            _check_colour(key, value)
    return theme


_NOT_COLOURS = frozenset({"name", "dark", "variables", "luminosity_spread", "text_alpha", "ansi"})


def _check_colour(key: str, value: object) -> None:
    from textual.color import Color, ColorParseError

    if not isinstance(value, str):
        raise TypeError(f"`{key}` must be text, not {value!r}")
    try:
        Color.parse(value)
    except ColorParseError:
        raise ValueError(f"`{key}` is no colour: {value!r}") from None


def _documents(folder: Path | None, problems: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    for file in _theme_files(user_folder() if folder is None else folder):
        try:
            yield file.name, tomllib.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            problems.append(f"theme {file.name} was skipped: {error}")


def _theme_files(folder: Path) -> Iterator[Traversable]:
    bundled = (entry for entry in files("themes").iterdir() if entry.name.endswith(".toml"))
    yield from sorted(bundled, key=lambda entry: entry.name)
    if folder.is_dir():
        yield from sorted(folder.glob("*.toml"))
