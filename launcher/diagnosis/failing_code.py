"""The traceback of a failure for people: the user's frames with their source, libraries' frames folded. Pure.

It is made from the text that Python printed in the rank, so that causes, notes, groups and tracebacks that a
message quotes stay where they are. The whole text is in the record.
"""

from __future__ import annotations

import itertools
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from ..errors import counted
from ..state.events import RankRaised, SourceExcerpt, Variable
from ..state.library_code import is_library, library_path

# Bounds of what is read of a record: anybody may have written it.
_TEXT, _LINES, _LONGEST = 256 << 10, 5000, 4000
_MOST_AROUND, _MOST_VARIABLES, _NAME = 9, 60, 32
_FIRST, _LAST = 4, 12  # of the user's frames in a row that are shown, as in a recursion

Kind = Literal["text", "frame", "source", "failing", "folded", "variable"]


@dataclass(frozen=True, slots=True)
class ShownLine:
    """One line and what it is, by which a screen may style it; `place` is the file and line of a frame."""

    text: str
    kind: Kind = "text"
    place: tuple[str, int] | None = None


@dataclass(slots=True)
class _PrintedFrame:
    """A frame as Python prints it.

    Attributes:
        bar: what stands before it in a group of exceptions.
        indent: that, and the spaces after it.
        head: its first line, which names `file` and `line`.
        body: the lines below: source, markers, and how often it was repeated.
        excerpt: the source around it, where that is to be shown.
    """

    bar: str
    indent: str
    head: str
    file: str
    line: int
    body: list[str] = field(default_factory=list)
    excerpt: SourceExcerpt | None = None

    @property
    def place(self) -> tuple[str, int]:
        """What its excerpt is found by."""
        return self.file, self.line

    @property
    def repeated(self) -> Iterator[re.Match[str]]:
        """What tells that it was entered more often in a row."""
        return (found for line in self.body if (found := _REPEATED.fullmatch(line.removeprefix(self.bar))))


Printed = _PrintedFrame | str


def traceback_text(raised: RankRaised) -> str:
    """The traceback for people, without a line end."""
    return "\n".join(line.text for line in traceback_lines(raised))


@lru_cache(maxsize=16)  # a screen asks at every poll
def traceback_lines(raised: RankRaised) -> tuple[ShownLine, ...]:
    """The lines of the traceback, and then those of the failing frame's variables."""
    text = raised.traceback[:_TEXT].rstrip()
    printed = _parsed(_cut(line) for line in text.split("\n")[:_LINES])
    shown = [*_shown(printed, raised)]
    if len(raised.traceback) > _TEXT or text.count("\n") >= _LINES:
        shown.append(ShownLine("… the rest is left out here", "folded"))
    return (*shown, *variable_lines(raised))


_FRAME = re.compile(
    r'(?P<bar>(?: *\|)*)(?P<pad> +)File "(?P<file>[^"]*)", line (?P<line>\d{1,18})(?:, in .*)?'
)
_MARKER = re.compile(r" *[~^]+ *")
_REPEATED = re.compile(r" *\[Previous line repeated (\d{1,18}) more times?\]")


def _parsed(lines: Iterable[str]) -> list[Printed]:
    """The frames, and the other lines as they are."""
    printed = list[Printed]()
    last = None
    for line in lines:
        if found := _FRAME.fullmatch(line):
            bar, indent = found["bar"], found["bar"] + found["pad"]
            last = _PrintedFrame(bar, indent, line, found["file"], int(found["line"]))
            printed.append(last)
        elif last is not None and _is_body(line, last):
            last.body.append(line)
        else:
            last = None
            printed.append(line)
    return printed


def _cut(line: str) -> str:
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"


def _is_body(line: str, frame: _PrintedFrame) -> bool:
    """Whether a line belongs to the frame above: it is indented further, or counts repetitions."""
    further = line.startswith(f"{frame.indent} ") and line[len(frame.indent) :].strip() != ""
    return further or _REPEATED.fullmatch(line.removeprefix(frame.bar)) is not None


def _shown(printed: Sequence[Printed], raised: RankRaised) -> Iterator[ShownLine]:
    excerpts = {(each.file, each.line): each for each in raised.excerpts}
    own = excerpts.keys() | {(file, line) for file, line, _ in raised.frames}
    for each in reversed(printed):  # a place that is named again has its excerpt where it is named last
        if isinstance(each, _PrintedFrame):
            each.excerpt = excerpts.pop(each.place, None)
    for users, group in itertools.groupby(printed, lambda each: _is_users(each, own)):
        if users is None:
            yield from (ShownLine(each) for each in group if isinstance(each, str))
            continue
        frames = [each for each in group if isinstance(each, _PrintedFrame)]
        if users:
            yield from _users_lines(frames)
        else:
            yield ShownLine(_folded(frames), "folded")


def _is_users(each: Printed, own: Set[tuple[str, int]]) -> bool | None:
    """Whether a frame is the user's; None for what is no frame. Recorded frames are, whatever their path."""
    if isinstance(each, str):
        return None
    return each.place in own or not is_library(each.file)


def _folded(frames: Sequence[_PrintedFrame]) -> str:
    """One line for frames of libraries in a row."""
    count = len(frames) + sum(int(found[1]) for frame in frames for found in frame.repeated)
    return f"{frames[0].indent}… {counted(count, 'frame')} in {_library([frame.file for frame in frames])}"


def _library(files: Sequence[str]) -> str:
    """The folder that all these files are in, from the package on; or else the names of the packages."""
    paths = [_in_package(file).split("/") for file in files]
    levels = zip(*(path[:-1] or path for path in paths), strict=False)
    common = [names[0] for names in itertools.takewhile(lambda names: len(set(names)) == 1, levels)]
    if common:
        return "/".join(common)
    packages = list(dict.fromkeys(path[0] for path in paths))
    return ", ".join(packages[:3]) + (" and others" if len(packages) > 3 else "")


def _in_package(file: str) -> str:
    """A module's path from its package on: ``torch/nn/modules/linear.py``, or ``importlib._bootstrap``."""
    return (library_path(file) or file).removesuffix(">").removesuffix(".py")


def _users_lines(frames: Sequence[_PrintedFrame]) -> Iterator[ShownLine]:
    """The user's frames in a row: all, or the first and the last of them."""
    left_out = max(len(frames) - _FIRST - _LAST, 0)
    for frame in frames[:_FIRST]:
        yield from _frame_lines(frame)
    if left_out:
        yield ShownLine(f"{frames[0].indent}… {counted(left_out, 'frame')} left out", "folded")
    for frame in frames[_FIRST + left_out :]:
        yield from _frame_lines(frame)


def _frame_lines(frame: _PrintedFrame) -> Iterator[ShownLine]:
    yield ShownLine(frame.head, "frame", frame.place)
    if frame.excerpt is None:
        yield from (ShownLine(line, "source") for line in frame.body)
        return
    yield from _excerpt_lines(frame.excerpt, frame)
    for found in frame.repeated:
        yield ShownLine(f"{frame.bar}{found[0]}", "folded")


def _excerpt_lines(excerpt: SourceExcerpt, frame: _PrintedFrame) -> Iterator[ShownLine]:
    """The excerpt with numbers of lines, a sign at the failing one, and Python's marker below that."""
    lines = [_cut(line).expandtabs(4) for line in excerpt.lines[:_MOST_AROUND]]
    lines = textwrap.dedent("\n".join(lines)).split("\n")
    digits = len(str(excerpt.first + len(lines)))
    for number, line in enumerate(lines, excerpt.first):
        failing = number == excerpt.line
        head = f"{frame.indent}  {'>' if failing else ' '} {number:>{digits}}  "
        yield ShownLine((head + line).rstrip(), "failing" if failing else "source")
        if failing and (marker := _marker(frame, line)):
            yield ShownLine(frame.bar + " " * (len(head) - len(frame.bar)) + marker, "failing")
    if excerpt.changed:
        yield ShownLine(f"{frame.indent}    the file was changed after the rank had started", "folded")


def _marker(frame: _PrintedFrame, line: str) -> str:
    """What Python printed below a single line to point at a part of it, shifted to where the line begins."""
    body = [each.removeprefix(frame.bar) for each in frame.body]
    if len(body) < 2 or not _MARKER.fullmatch(body[1]) or body[0].strip() != line.strip():
        return ""
    within = len(body[1]) - len(body[1].lstrip()) - (len(body[0]) - len(body[0].lstrip()))
    return " " * (len(line) - len(line.lstrip()) + within) + body[1].strip()


def variable_lines(raised: RankRaised) -> Iterator[ShownLine]:
    """A table of the variables of the user's innermost frame, after an empty line; nothing without any."""
    variables = raised.variables[:_MOST_VARIABLES]
    if not variables or not raised.frames:
        return
    file, line, function = raised.frames[-1]
    yield ShownLine("")
    yield ShownLine(_cut(f"variables of {function} at {file.rpartition('/')[2]}:{line}"))
    rows = [(each.name, each.type, _told(each)) for each in variables]
    names, types = (min(max(len(row[at]) for row in rows), _NAME) for at in (0, 1))
    for name, kind, told in rows:
        yield ShownLine(_cut(f"  {name:<{names}}  {kind:<{types}}  {told}".rstrip()), "variable")


def _told(variable: Variable) -> str:
    """What a value is like, and the value itself if it was recorded."""
    return "  ".join(filter(None, (variable.about, variable.text)))
