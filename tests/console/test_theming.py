from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from textual.color import Color

from console.theming import DEFAULT_THEME, FALLBACKS, load_themes, theme_names

if TYPE_CHECKING:
    from textual.theme import Theme

BUNDLED = {t.name: t for t in load_themes(Path("/nonexistent"))}
TEXT = [key for key in FALLBACKS if key not in ("log-match", "bar-track", "cursor-row", "rule", "bar")]


def test_four_themes_are_bundled_and_the_default_comes_first() -> None:
    names = theme_names(Path("/nonexistent"))

    assert names[0] == DEFAULT_THEME
    assert set(names) == {"rankdeck-dark", "okabe-ito-dark", "okabe-ito-light", "high-contrast"}


@pytest.mark.parametrize("theme", BUNDLED.values(), ids=BUNDLED.keys())
def test_every_bundled_theme_defines_the_same_variables(theme: Theme) -> None:
    assert set(theme.variables) == set(BUNDLED[DEFAULT_THEME].variables)
    assert set(FALLBACKS) <= set(theme.variables)


@pytest.mark.parametrize("key", TEXT)
@pytest.mark.parametrize("theme", BUNDLED.values(), ids=BUNDLED.keys())
def test_text_can_be_read_on_the_background(theme: Theme, key: str) -> None:
    ground = Color.parse(str(theme.background))

    assert contrast(Color.parse(theme.variables[key]), ground) >= 4.5


@pytest.mark.parametrize("theme", BUNDLED.values(), ids=BUNDLED.keys())
def test_text_can_be_read_under_the_cursor_and_in_a_match(theme: Theme) -> None:
    text = Color.parse(str(theme.foreground))

    assert contrast(text, Color.parse(theme.variables["cursor-row"])) >= 4.5
    assert contrast(text, Color.parse(theme.variables["log-match"])) >= 4.5


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


def test_listing_names_does_not_import_textual() -> None:
    code = (
        "import sys; from console.theming import theme_names; theme_names(); print('textual' in sys.modules)"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "False"


def contrast(one: Color, other: Color) -> float:
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def luminance(color: Color) -> float:
    def linear(part: int) -> float:
        share = part / 255
        return share / 12.92 if share <= 0.03928 else float(((share + 0.055) / 1.055) ** 2.4)

    return 0.2126 * linear(color.r) + 0.7152 * linear(color.g) + 0.0722 * linear(color.b)
