"""Pictures of a terminal for people: SVG of one screen, or of several that follow each other.

Text has the length of its cells whatever the font is, and lines, blocks and dots are shapes (`glyph_shapes`).
Of several screens, what they have in common is drawn once, and shown while a screen has it. Where nothing may
move, and where SVG is read without style sheets, one of them stands still.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby, pairwise

from tests.console.glyph_shapes import DOTS, FAINT, FILL, HEIGHT, STROKE, WIDTH, number, rectangle, shape_of
from tests.console.pictures import Cells

BAR, MARGIN = 30, 8
_FONT = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"
_GROUND, _TEXT = "ground", "text"
_LAYERS = (_GROUND, FAINT, FILL, STROKE, DOTS, _TEXT)
_CLASSES = {FAINT: "f", STROKE: "s", DOTS: "d"}
_AS_LETTERS = frozenset("–—…‹›·’“”")
_FALLBACK = "#d0d4d8"


@dataclass(frozen=True, slots=True)
class Frame:
    """A screen, for how long it is shown, and what is said of it at the top."""

    cells: Cells
    seconds: float = 1.0
    said: str = ""


@dataclass(frozen=True, slots=True)
class Look:
    """The colours of the window around the screen."""

    ground: str
    rule: str
    muted: str
    foreground: str


@dataclass(frozen=True, slots=True)
class Atom:
    """The least thing that is drawn: a layer, a style of it, and its text or path."""

    layer: str
    style: str
    drawn: str


def svg(frames: Sequence[Frame], title: str, look: Look, *, still: int = 0) -> str:
    """The frames in turn, without end; `still` is the one to show where nothing may move."""
    columns, rows = len(frames[0].cells[0]), len(frames[0].cells)
    width, height = columns * WIDTH + 2 * MARGIN, rows * HEIGHT + BAR + MARGIN
    holders: dict[Atom, set[int]] = {}
    for index, frame in enumerate(frames):
        for atom in _atoms(frame, look, columns):
            holders.setdefault(atom, set()).add(index)
    groups: dict[frozenset[int], list[Atom]] = {}
    for atom, found in holders.items():
        groups.setdefault(frozenset(found), []).append(atom)
    every = frozenset(range(len(frames)))
    shown = sorted(groups, key=lambda each: (each != every, sorted(each)))
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
        f"<title>{escape(title)}</title>",
        f"<style>{_style(frames, [each for each in shown if each != every])}</style>",
        *_window(width, height, look, title),
    ]
    moving = [each for each in shown if each != every]
    for layer in _LAYERS:
        for each in shown:
            inner = list(_drawn(layer, groups[each]))
            if inner:
                name = f' class="k{moving.index(each)}"' if each != every else ""
                hidden = ' visibility="hidden"' if still not in each else ""
                lines += [f"<g{name}{hidden}>", *inner, "</g>"]
    return "\n".join([*lines, "</svg>", ""])


def _style(frames: Sequence[Frame], moving: Sequence[frozenset[int]]) -> str:
    """What all text and lines have, and when each group is shown."""
    rules = [
        f"text{{font:13.3px {_FONT};white-space:pre}}",
        ".b{font-weight:700}.f{fill-opacity:.3}.m{text-anchor:middle}",
        ".s{fill:none;stroke-width:1.2}.d{fill:none;stroke-width:3.2;stroke-linecap:round}",
    ]
    total = sum(frame.seconds for frame in frames)
    if moving:
        names = "".join(f".k{n}{{animation-name:k{n}}}" for n, _ in enumerate(moving))
        loop = f"[class^=k]{{animation:{number(total)}s step-end infinite}}"
        rules.append(f"@media (prefers-reduced-motion:no-preference){{{loop}{names}}}")
    starts = [0.0]
    for frame in frames:
        starts.append(starts[-1] + frame.seconds / total * 100)
    for n, each in enumerate(moving):
        steps = [0, *(b for a, b in pairwise(range(len(frames))) if (a in each) != (b in each))]
        told = "".join(
            f"{number(starts[s])}%{{visibility:{'visible' if s in each else 'hidden'}}}" for s in steps
        )
        rules.append(f"@keyframes k{n}{{{told}}}")
    return "\n".join(rules)


def _window(width: int, height: int, look: Look, title: str) -> Iterator[str]:
    """A plain window: its ground, three buttons, its title."""
    yield (
        f'<rect x=".5" y=".5" width="{width - 1}" height="{height - 1}" rx="8" '
        f'fill="{look.ground}" stroke="{look.rule}"/>'
    )
    for n in range(3):
        yield f'<circle cx="{18 + 16 * n}" cy="15" r="5" fill="{look.rule}"/>'
    yield f'<text class="m" x="{width / 2:g}" y="19.5" fill="{look.muted}">{escape(title)}</text>'


def _drawn(layer: str, atoms: Sequence[Atom]) -> Iterator[str]:
    """The atoms of a layer, those of one style together."""
    mine = sorted((atom for atom in atoms if atom.layer == layer), key=lambda atom: atom.style)
    for style, same in groupby(mine, key=lambda atom: atom.style):
        parts = [atom.drawn for atom in same]
        if layer == _TEXT:
            color, _, weight = style.partition(" ")
            bold = ' class="b"' if weight else ""
            yield f'<g fill="{color}"{bold}>{"".join(parts)}</g>'
        else:
            name = f' class="{_CLASSES[layer]}"' if layer in _CLASSES else ""
            paint = "stroke" if layer in (STROKE, DOTS) else "fill"
            yield f'<path{name} {paint}="{style}" d="{"".join(parts)}"/>'


def drawn_in(frame: Frame, look: Look) -> set[str]:
    """Everything that is drawn of a frame, as it stands in the SVG."""
    return {atom.drawn for atom in _atoms(frame, look, len(frame.cells[0]))}


def _atoms(frame: Frame, look: Look, columns: int) -> Iterator[Atom]:
    if frame.said:
        x = columns * WIDTH + MARGIN - 8
        said = f'<text x="{x}" y="19.5" text-anchor="end">{escape(frame.said)}</text>'
        yield Atom(_TEXT, f"{look.foreground} bold", said)
    for line, cells in enumerate(frame.cells):
        plain = [(text, *_colors(style, look)) for text, style in cells]
        yield from _grounds(line, plain, look)
        yield from _shapes(line, plain)
        yield from _texts(line, plain)


Plain = Sequence[tuple[str, str, str, bool]]
"""Of each cell its text, the colour of it and of the ground, and whether it is bold."""


def _colors(style: str, look: Look) -> tuple[str, str, bool]:
    front, _, rest = style.rpartition("on ")
    back, *flags = rest.split()
    color = front.strip() or _FALLBACK
    color = color if color.startswith("#") else look.foreground
    back = back if back.startswith("#") else look.ground
    if "reverse" in flags:
        color, back = back, color
    return color, back, "bold" in flags


def _grounds(line: int, cells: Plain, look: Look) -> Iterator[Atom]:
    at = 0
    for back, same in groupby(cell[2] for cell in cells):
        count = len(list(same))
        if back != look.ground:
            yield Atom(_GROUND, back, rectangle(*_place(at, line), count * WIDTH, HEIGHT))
        at += count


def _place(column: int, line: int) -> tuple[int, int]:
    return MARGIN + column * WIDTH, BAR + line * HEIGHT


def _shapes(line: int, cells: Plain) -> Iterator[Atom]:
    """Each glyph that is a shape; rows of the same glyph as one, where it reaches from side to side."""
    at = 0
    for (glyph, color), same in groupby((cell[0], cell[1]) for cell in cells):
        count = len(list(same))
        shape = shape_of(glyph) if glyph else None
        if shape is not None:
            kind, paths = shape
            yield from (Atom(kind, color, path) for path in _repeated(paths, at, line, count))
        at += count


def _repeated(paths: Sequence[tuple[float, float, str]], at: int, line: int, count: int) -> Iterator[str]:
    x0, y0 = _place(at, line)
    across = f"h{WIDTH}"
    for x, y, rest in paths:
        if x == 0 and rest.startswith(across):  # as wide as the cell: it goes on in the next one
            rest = rest.replace(across, f"h{count * WIDTH}").replace(f"h-{WIDTH}", f"h-{count * WIDTH}")
            yield f"M{number(x0 + x)} {number(y0 + y)}{rest}"
        else:
            yield from (f"M{number(x0 + n * WIDTH + x)} {number(y0 + y)}{rest}" for n in range(count))


def _texts(line: int, cells: Plain) -> Iterator[Atom]:
    """Words of one style; single spaces belong to them."""
    at = 0
    while at < len(cells):
        text, color, _, bold = cells[at]
        if not text or text.isspace() or shape_of(text):
            at += 1
            continue
        end = at + 1
        if _is_letter(text):
            end = _end_of(cells, at)
        x, y = _place(at, line)
        said = escape("".join(cell[0] for cell in cells[at:end]), quote=False)
        style = f"{color} bold" if bold else color
        yield Atom(_TEXT, style, _text_of(said, x, y + 12, end - at, _is_letter(text)))
        at = end


def _text_of(said: str, x: int, y: int, count: int, letters: bool) -> str:
    if letters:
        return f'<text x="{x}" y="{y}" textLength="{count * WIDTH}">{said}</text>'
    return f'<text class="m" x="{x + WIDTH // 2}" y="{y}">{said}</text>'


def _end_of(cells: Plain, start: int) -> int:
    """Where the letters of one style that begin here end."""
    _, color, _, bold = cells[start]
    end = at = start
    while at < len(cells):
        text, its, _, heavy = cells[at]
        if text and not text.isspace() and _is_letter(text) and (its, heavy) == (color, bold):
            at = end = at + 1
        elif text.isspace() and at == end:
            at += 1
        else:
            break
    return end


def _is_letter(text: str) -> bool:
    """Whether every font for terminals has it, as wide as the others."""
    return bool(text) and (ord(text[0]) < 0x250 or text in _AS_LETTERS)
