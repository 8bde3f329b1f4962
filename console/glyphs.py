"""ASCII replacements for glyphs, and the rule when a terminal needs them.

Other modules write glyphs freely. All output to a terminal that shows ASCII only is translated here, a run's
own output too, so that no screen can forget it.
"""

from __future__ import annotations

import codecs
import unicodedata
from collections.abc import Mapping
from functools import lru_cache

_PAIRS = (
    # states of runs and ranks: no two look the same, and none looks like a shade
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
    *("△^", "▴^", "▽v", "▾v", "⏎<", "↵<", "↩<", "↪>", "↻@", "⇧^", "⌃^", "⌫<", "⇥>", "❯>", "❮<", "⟶>", "⟵<"),
    # marks in text
    *("·|", "•*", "∙*", "…~", "⋯~", "–-", "—-", "−-", "‐-", "‑-", "―-", "‖|", "×x", "÷/", "±~", "≈~", "∼~"),
    *("≤<", "≥>", "≠!", "≡=", "∞8", "√V", "°^", "µu", "μu", "Δd", "σs", "Ωo", "‘'", "’'", "“\"", "”\""),
    *("„\"", "′'", "″\"", "★*", "☆*", "◆*", "◇o", "□o", "▪s", "▫o", "◯o", "⬤*", "␣_", "¦|", "§S", "©c", "®r"),
)  # fmt: skip

TWINS: Mapping[str, str] = {pair[0]: pair[1] for pair in _PAIRS}
"""The replacement of each glyph that the console draws; box drawing and braille are translated by rules."""

ERRORS = "rankdeck.ascii"
"""The name of an error handler for streams: it replaces characters that they cannot encode by their twins."""

_BRAILLE = range(0x2800, 0x2900)
_UPPER, _MIDDLE, _LOWER = 0b00001001, 0b00110110, 0b11000000  # a braille cell's dots, by row from above
_BOX = range(0x2500, 0x2580)


def ascii_text(text: str) -> str:
    """`text` in ASCII, as many cells wide: by twins, else letters without accents, else question marks."""
    return text if text.isascii() else "".join(map(twin, text))


@lru_cache(4096)
def twin(character: str) -> str:
    """The replacement of one character; empty if the character has no width."""
    if character.isascii():
        return character
    if replacement := TWINS.get(character):
        return replacement
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
    """The variable and value of a locale that is not UTF-8; None without one: glyphs can be shown.

    Without any locale Python uses UTF-8, and so do terminals nowadays.
    """
    named = [(key, environ[key]) for key in ("LC_ALL", "LC_CTYPE", "LANG") if environ.get(key)]
    if named[1:] and named[0] == ("LC_CTYPE", "C.UTF-8") and named[1][1] in ("C", "POSIX"):
        del named[0]  # Python put it there, because the locale was C
    if not named or "utf8" in named[0][1].lower().replace("-", ""):
        return None
    return f"{named[0][0]}={named[0][1]}"


def register() -> None:
    """Register the error handler `ERRORS`, so that streams can use it."""
    codecs.register_error(ERRORS, _replaced)


def _replaced(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    # one character for each: printed columns are aligned by characters
    return "".join(twin(c)[:1] for c in error.object[error.start : error.end]), error.end
