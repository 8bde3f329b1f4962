"""Themes from TOML files: the bundled ones and the user's own.

A file's keys are those of `textual.theme.Theme`; its table `variables` holds our own variables. Listing names
does not import Textual, for the command line. Colours are defined in the files, never here.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Container, Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from textual.theme import Theme

DEFAULT_THEME = "rankdeck-dark"

FALLBACKS = {
    "rank-ok": "ansi_cyan",
    "rank-waiting": "ansi_bright_black",
    "rank-behind": "ansi_yellow",
    "rank-stale": "ansi_magenta",
    "rank-hung": "ansi_bright_yellow",
    "rank-failed": "ansi_red",
    "rank-lost": "ansi_bright_red",
    "rank-done": "ansi_green",
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
"""Values of our own variables, for themes that do not define them (Textual's built-in themes)."""


def user_folder() -> Path:
    """The folder of the user's own themes."""
    if override := os.environ.get("RANKDECK_HOME"):
        return Path(override).expanduser().absolute() / "config" / "themes"
    from platformdirs import user_config_path

    return user_config_path("rankdeck") / "themes"


def theme_names(folder: Path | None = None) -> list[str]:
    """The names of all themes that can be read, the default first; does not import Textual."""
    names = {str(data["name"]) for _, data in _documents(folder, []) if "name" in data}
    return sorted(names, key=lambda name: (name != DEFAULT_THEME, name))


def choose_theme(name: str, available: Container[str], problems: list[str]) -> str:
    """`name` if it is available, else the default theme; an unknown name adds a sentence to `problems`."""
    if name and name not in available:
        problems.append(f"there is no theme {name!r}; `rankdeck themes` lists them")
    return name if name in available else DEFAULT_THEME


def first_theme(name: str = "", folder: Path | None = None) -> Theme | None:
    """The bundled theme of that name, or the default one; no other file is read.

    None if there is no bundled theme of that name, or if the user has own themes: one of them may replace it.
    """
    name = name or DEFAULT_THEME
    own = user_folder() if folder is None else folder
    file = files("themes") / f"{name}.toml"
    if not _NAME.fullmatch(name) or not file.is_file() or next(own.glob("*.toml"), None):
        return None
    return parse_theme(tomllib.loads(file.read_text(encoding="utf-8")))


def load_themes(folder: Path | None = None, *, problems: list[str] | None = None) -> list[Theme]:
    """Every theme; the user's themes replace bundled ones of the same name.

    A file that is not a valid theme is skipped, and a sentence that names it is added to `problems`.
    """
    problems = [] if problems is None else problems
    themes: dict[str, Theme] = {}
    for origin, data in _documents(folder, problems):
        try:
            theme = parse_theme(data)
        except (TypeError, ValueError) as error:
            problems.append(f"theme {origin} was skipped: {error}")
        else:
            themes[theme.name] = theme
    return list(themes.values())


def parse_theme(data: dict[str, Any]) -> Theme:
    """One file's content as a theme.

    Raises:
        TypeError: a key is missing, unknown or not of its type.
        ValueError: a value is not a colour.
    """
    from textual.theme import Theme

    for key, kind in _KINDS.items():
        if not isinstance(data.get(key, kind()), (int, float) if kind is float else kind):
            raise TypeError(f"`{key}` must be {_NOUNS[kind]}, not {data[key]!r}")
    theme = Theme(**data)
    if not _NAME.fullmatch(theme.name):
        raise ValueError(f"`name` must be a few letters and digits, not {theme.name[:40]!r}")
    for key, value in data.items():
        if key not in _KINDS:
            _check_colour(key, value)
    for key, value in theme.variables.items():
        _check_style(key, value) if key.endswith("style") else _check_colour(key, value)
    return theme


_KINDS: dict[str, type] = {
    "name": str,
    "dark": bool,
    "ansi": bool,
    "variables": dict,
    "luminosity_spread": float,
    "text_alpha": float,
}
_NOUNS = {str: "text", bool: "true or false", dict: "a table", float: "a number"}
_NAME = re.compile(r"\w[\w .-]{0,39}")
_STYLES = frozenset({"none", "not", "bold", "dim", "italic", "underline", "underline2", "reverse", "strike"})


def _check_style(key: str, value: object) -> None:
    if not isinstance(value, str) or not _STYLES.issuperset(value.split()):
        raise ValueError(f"`{key}` is no text style: {value!r}")


def _check_colour(key: str, value: object) -> None:
    from textual.color import Color, ColorParseError

    if not isinstance(value, str):
        raise TypeError(f"`{key}` must be text, not {value!r}")
    try:
        Color.parse(value)
    except ColorParseError:
        raise ValueError(f"`{key}` is no colour: {value!r}") from None


def _documents(folder: Path | None, problems: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    for file in _theme_files(user_folder() if folder is None else folder, problems):
        try:
            yield file.name, tomllib.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            problems.append(f"theme {file.name} was skipped: {error}")


def _theme_files(folder: Path, problems: list[str]) -> Iterator[Traversable]:
    bundled = (entry for entry in files("themes").iterdir() if entry.name.endswith(".toml"))
    yield from sorted(bundled, key=lambda entry: entry.name)
    try:
        own = sorted(entry for entry in folder.iterdir() if entry.suffix == ".toml")
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        problems.append(f"the themes in {folder} were skipped: {error.strerror}")
        return
    yield from own
