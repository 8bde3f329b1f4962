"""What stands for our glyphs where only ASCII can be shown: one table, and the rule when to use it.

Glyphs are written as they are everywhere else. Whatever is about to reach a terminal that shows ASCII only
passes through here, so that no screen can forget to; a run's own output passes too.
"""

from __future__ import annotations

import codecs
import unicodedata
from collections.abc import Mapping
from functools import lru_cache

_PAIRS = (
    # the states of runs and ranks: no two look the same, and none looks like a shade
    *("●*", "○o", "✓+", "■s", "▼v", "✗x", "◐(", "◑)", "◌.", "◉0", "◎0", "⊘0", "✔+", "✘x", "⚠!", "⏸P", "⏹s"),
    # shades and levels, from little to much
    *("▁_", "▂.", "▃:", "▄;", "▅=", "▆%", "▇&", "█#", "░.", "▒:", "▓%"),
    # parts of cells
    *("▀'", "▔-", "▏|", "▎|", "▍|", "▌|", "▋#", "▊#", "▉#", "▐|", "▕|", "▖.", "▗.", "▘'", "▝'", "▙#", "▛#"),
    *("▜#", "▟#", "▚%", "▞%", "🬂-", "🬋-", "🬭-", "🮇|", "🮂-"),
    # bars, and lines that end in a cell's middle
    *("━=", "╸>", "╺-", "╍=", "┅=", "┉=", "╱/", "╲\\", "╳X"),
    *("╴-", "╶-", "╼-", "╾-", "╵|", "╷|", "╹|", "╻|"),
    # pointers
    *("←<", "→>", "↑^", "↓v", "↔-", "↕|", "‹<", "›>", "«<", "»>", "▶>", "►>", "▸>", "◀<", "◄<", "◂<", "▲^"),
    *("△^", "▴^", "▽v", "▾v", "⏎<", "↵<", "↩<", "↪>", "⇧^", "⌃^", "⌫<", "⇥>", "❯>", "❮<", "⟶>", "⟵<"),
    # marks in text
    *("·|", "•*", "∙*", "…~", "⋯~", "–-", "—-", "−-", "‐-", "‑-", "―-", "‖|", "×x", "÷/", "±~", "≈~", "∼~"),
    *("≤<", "≥>", "≠!", "≡=", "∞8", "√V", "°^", "µu", "μu", "Δd", "σs", "Ωo", "‘'", "’'", "“\"", "”\""),
    *("„\"", "′'", "″\"", "★*", "☆*", "◆*", "◇o", "□o", "▪s", "▫o", "◯o", "⬤*", "␣_", "¦|", "§S", "©c", "®r"),
)  # fmt: skip

TWINS: Mapping[str, str] = {pair[0]: pair[1] for pair in _PAIRS}
"""The twin of each glyph that the console itself draws, but for box drawing and braille, which have rules."""

ERRORS = "rankdeck.ascii"
"""An error handler for streams: what they cannot encode is written as its twin."""

_BRAILLE = range(0x2800, 0x2900)
_UPPER, _MIDDLE, _LOWER = 0b00001001, 0b00110110, 0b11000000  # a braille cell's dots, by row from above
_BOX = range(0x2500, 0x2580)


def ascii_text(text: str) -> str:
    """`text` in ASCII, as many cells wide: by twins, else bare letters, else question marks."""
    return text if text.isascii() else "".join(map(twin, text))


@lru_cache(4096)
def twin(character: str) -> str:
    """What stands for one character; empty for one that takes no cell."""
    if character.isascii():
        return character
    if found := TWINS.get(character):
        return found
    code = ord(character)
    if code in _BOX:
        return _line(character)
    return _dots(code - _BRAILLE.start) if code in _BRAILLE else _other(character)


def _line(character: str) -> str:
    name = unicodedata.name(character)
    if "HORIZONTAL" in name and "VERTICAL" not in name and " AND " not in name.replace("DASH", ""):
        return "=" if "DOUBLE" in name else "-"
    return "|" if "VERTICAL" in name and "HORIZONTAL" not in name and " AND " not in name else "+"


def _dots(pattern: int) -> str:
    if pattern.bit_count() > 4:
        return "#"
    upper, middle, lower = (bool(pattern & part) for part in (_UPPER, _MIDDLE, _LOWER))
    if upper and lower:
        return ":"
    return "'" if upper else "." if lower else "-" if middle else " "


def _other(character: str) -> str:
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return ""
    cells = 2 if unicodedata.east_asian_width(character) in "WF" else 1
    bare = unicodedata.normalize("NFKD", character)[:1]
    return (bare if bare.isascii() and bare.isprintable() else "?" * cells).ljust(cells)


def wants_ascii(environ: Mapping[str, str]) -> str | None:
    """Why only ASCII can be shown, if a locale says so: the variable and its value.

    Without any locale Python takes UTF-8, and so do terminals nowadays; a locale that is named is believed.
    """
    named = [(key, environ[key]) for key in ("LC_ALL", "LC_CTYPE", "LANG") if environ.get(key)]
    if named[1:] and named[0] == ("LC_CTYPE", "C.UTF-8") and named[1][1] in ("C", "POSIX"):
        del named[0]  # Python put it there, because the locale was C
    if not named or "utf8" in named[0][1].lower().replace("-", ""):
        return None
    return f"{named[0][0]}={named[0][1]}"


def register() -> None:
    """Make `ERRORS` known, so that streams can be given it."""
    codecs.register_error(ERRORS, _replaced)


def _replaced(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    # one for one: what is printed is aligned by characters
    return "".join(twin(c)[:1] for c in error.object[error.start : error.end]), error.end
