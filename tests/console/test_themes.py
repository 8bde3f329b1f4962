from __future__ import annotations

import subprocess
import sys
from itertools import combinations, product
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from textual.color import Color

from console.themes import DEFAULT_THEME, FALLBACKS, choose_theme, load_themes, theme_names
from tests.console.colours import BLINDNESS, contrast, distance

if TYPE_CHECKING:
    from textual.theme import Theme

BUNDLED = {t.name: t for t in load_themes(Path("/nonexistent"))}
EVERY = pytest.mark.parametrize("theme", BUNDLED.values(), ids=BUNDLED.keys())
GROUNDS = ("background", "surface", "panel", "cursor-row")
NO_TEXT = ("log-match", "bar-track", "cursor-row", "rule", "bar")
TEXT = ["foreground", *(key for key in FALLBACKS if key not in NO_TEXT)]
FAMILIES = (("ok", "done"), ("waiting", "stopped"), ("behind",), ("stale",), ("hung", "failed", "lost"))
PLAIN_TO_SEE = 10.0


def colour(theme: Theme, key: str) -> Color:
    return Color.parse(str(theme.variables.get(key) or getattr(theme, key)))


def test_themes_of_every_kind_are_bundled_and_the_default_comes_first() -> None:
    names = theme_names(Path("/nonexistent"))
    light = {name for name, theme in BUNDLED.items() if not theme.dark}

    assert names[0] == DEFAULT_THEME
    assert set(names) == set(BUNDLED)
    assert len(names) >= 8
    assert {"okabe-ito-dark", "okabe-ito-light", "high-contrast", "high-contrast-light"} <= set(names)
    assert len(light - {"okabe-ito-light", "high-contrast-light"}) >= 2


@EVERY
def test_every_bundled_theme_defines_the_same_variables(theme: Theme) -> None:
    assert set(theme.variables) == set(BUNDLED[DEFAULT_THEME].variables)
    assert set(FALLBACKS) <= set(theme.variables)


@EVERY
def test_text_can_be_read_on_every_ground(theme: Theme) -> None:
    faint = {
        (key, ground): round(contrast(colour(theme, key), colour(theme, ground)), 2)
        for key in TEXT
        for ground in GROUNDS
        if contrast(colour(theme, key), colour(theme, ground)) < 4.5
    }

    assert faint == {}


@EVERY
def test_bars_and_frames_can_be_seen(theme: Theme) -> None:
    contrasting = "high-contrast" in theme.name
    for key in ("bar", "border", "scrollbar-active", *(["border-blurred", "rule"] if contrasting else [])):
        assert contrast(colour(theme, key), colour(theme, "background")) >= 3, key


@pytest.mark.parametrize("name", ["high-contrast", "high-contrast-light"])
def test_high_contrast_is_higher(name: str) -> None:
    theme = BUNDLED[name]
    for key in TEXT:
        assert contrast(colour(theme, key), colour(theme, "background")) >= 7, key


@EVERY
def test_text_can_be_read_in_a_match(theme: Theme) -> None:
    assert contrast(colour(theme, "foreground"), colour(theme, "log-match")) >= 4.5


@pytest.mark.parametrize("eyes", ["", *BLINDNESS])
@EVERY
def test_what_a_rank_does_can_be_told_by_colour_with_every_colour_vision(theme: Theme, eyes: str) -> None:
    near = {
        (one, other): round(apart, 1)
        for family, another in combinations(FAMILIES, 2)
        for one, other in product(family, another)
        if (apart := distance(colour(theme, f"rank-{one}"), colour(theme, f"rank-{other}"), eyes))
        < PLAIN_TO_SEE
    }

    assert near == {}


def test_a_users_theme_replaces_a_bundled_one(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('name = "rankdeck-dark"\nprimary = "#123456"\n')

    themes = {t.name: t for t in load_themes(tmp_path)}

    assert themes["rankdeck-dark"].primary == "#123456"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('name = "x"\nprimary = "#12"\n', "`primary` is no colour"),
        ('name = "x"\nprimray = "#123456"\n', "primray"),
        ('name = "x"\nprimary = "red"\n[variables]\nrank-ok = 3\n', "`rank-ok` must be text"),
        ("name = ", "broken.toml"),
        ('primary = "red"', "name"),
        ('name = 3\nprimary = "red"\n', "`name` must be text, not 3"),
        ('name = "[red]\\n"\nprimary = "red"\n', "a few letters and digits"),
        ('name = "x"\nprimary = "red"\nluminosity_spread = "much"\n', "`luminosity_spread` must be a number"),
        ('name = "x"\nprimary = "red"\ndark = "yes"\n', "`dark` must be true or false"),
        ('name = "x"\nprimary = "red"\nvariables = 3\n', "`variables` must be a table"),
        ('name = "x"\nprimary = "red"\n[variables]\nblock-cursor-text-style = "loud"\n', "no text style"),
        ("a=" + "[" * 5000 + "]" * 5000, "recursion"),
    ],
)
def test_a_bad_file_is_named_and_skipped(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "broken.toml").write_text(text)
    problems: list[str] = []

    themes = load_themes(tmp_path, problems=problems)

    assert len(themes) == len(BUNDLED)
    assert len(problems) == 1
    assert "broken.toml" in problems[0]
    assert said in problems[0]


def test_a_folder_that_cannot_be_read_is_said(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    (tmp_path / "own.toml").mkdir()
    loop: list[str] = []
    inside: list[str] = []

    load_themes(tmp_path / "a", problems=loop)
    themes = load_themes(tmp_path, problems=inside)

    assert len(themes) == len(BUNDLED)
    assert "were skipped" in loop[0]
    assert "own.toml was skipped" in inside[0]


def test_an_unknown_theme_is_named_and_the_default_taken() -> None:
    problems: list[str] = []

    assert choose_theme("paper", {"paper"}, problems) == "paper"
    assert choose_theme("", {"paper"}, problems) == DEFAULT_THEME
    assert problems == []
    assert choose_theme("nope", {"paper"}, problems) == DEFAULT_THEME
    assert "no theme 'nope'" in problems[0]


def test_listing_names_does_not_import_textual() -> None:
    code = (
        "import sys; from console.themes import theme_names; theme_names(); print('textual' in sys.modules)"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "False"
