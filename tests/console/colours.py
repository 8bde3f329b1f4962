"""Colours as eyes see them: WCAG contrast, distance, and what red-green colour blindness makes of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from textual.color import Color

Triple = tuple[float, float, float]

# Machado, Oliveira and Fernandes 2009, severity 1.0, on linear RGB
_BLINDNESS: dict[str, tuple[Triple, Triple, Triple]] = {
    "protanopia": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
    "deuteranopia": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
}
BLINDNESS = tuple(_BLINDNESS)
_XYZ = (
    (0.4124564, 0.3575761, 0.1804375),
    (0.2126729, 0.7151522, 0.0721750),
    (0.0193339, 0.1191920, 0.9503041),
)
_WHITE = (0.95047, 1.0, 1.08883)


def linear(color: Color) -> Triple:
    """Light, not signal: 0 to 1 for each of red, green and blue."""
    red, green, blue = (_light(part / 255) for part in (color.r, color.g, color.b))
    return red, green, blue


def _light(share: float) -> float:
    return share / 12.92 if share <= 0.04045 else float(((share + 0.055) / 1.055) ** 2.4)


def contrast(one: Color, other: Color) -> float:
    """WCAG 2's ratio: 1 for the same colour, 21 for black and white."""
    lighter, darker = sorted((luminance(one), luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def luminance(color: Color) -> float:
    red, green, blue = linear(color)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def distance(one: Color, other: Color, blindness: str = "") -> float:
    """How different two colours look (CIE 1976), to all or to the colour blind; above 10 is plain to see."""
    return math.dist(_lab(one, blindness), _lab(other, blindness))


def _lab(color: Color, blindness: str) -> Triple:
    light: Sequence[float] = linear(color)
    if blindness:
        light = [min(max(part, 0.0), 1.0) for part in _times(_BLINDNESS[blindness], light)]
    x, y, z = (_cube_root(part / white) for part, white in zip(_times(_XYZ, light), _WHITE, strict=True))
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def _times(rows: Sequence[Triple], vector: Sequence[float]) -> list[float]:
    return [sum(a * b for a, b in zip(row, vector, strict=True)) for row in rows]


def _cube_root(share: float) -> float:
    return float(share ** (1 / 3)) if share > 0.008856 else 7.787 * share + 16 / 116
