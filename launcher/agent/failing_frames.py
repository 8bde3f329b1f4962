"""What a failing rank's frames hold beside the traceback: the source around their lines, and variables.

The source is recorded because the file may be another one when somebody reads the record. The types, shapes
and lengths of values are read by C code that a class cannot replace: a user's `__repr__`, `__len__` or
property may fail, wait for another rank, or take all memory.
"""

from __future__ import annotations

import inspect
import itertools
import json
import linecache
import os
import re
import sys
import types
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ..spec.redaction import Redactor, redacted_source
from ..state.library_code import is_library
from . import linux
from .exceptions import strip, user_steps
from .program import Naming

AROUND = 2
"""How many lines are shown before and after a frame's own."""
MOST_EXCERPTS, MOST_VARIABLES = 12, 40
_EXCERPTS, _VARIABLES = 24 << 10, 10 << 10  # bytes of JSON
_LINE, _SEARCHED = 240, 2000  # characters of a line that are kept, and in which secrets are looked for
_NAME, _PATH, _TEXT = 80, 4096, 160
_LINKED = 32  # exceptions of a chain or group
_EDITED_S = 1.0  # a start is known to the second

Described = Iterable[Mapping[str, Any]]


def seen(
    error: BaseException, tb: types.TracebackType | None, naming: Naming, *, values: bool, room: int
) -> dict[str, Any]:
    """The fields `excerpts` and `variables` of a `RankRaised`, in at most `room` bytes of JSON.

    Args:
        error: the exception.
        tb: its traceback, without our own frames.
        naming: how tracebacks name the target's files.
        values: whether plain values are recorded.
        room: bytes for both.
    """
    steps = user_steps(tb)
    found = variables(*steps[-1], values=values) if steps else ()
    locals_ = _within(found, min(_VARIABLES, room // 2))
    room = min(_EXCERPTS, room - len(json.dumps(locals_)) - 100)
    return {"excerpts": _within(excerpts(error, tb, naming), room), "variables": locals_}


def _within(described: Described, room: int) -> list[Mapping[str, Any]]:
    """The first of them that have room together."""
    kept = []
    for each in described:
        room -= len(json.dumps(each)) + 2
        if room < 0:
            break
        kept.append(each)
    return kept


@dataclass(frozen=True, slots=True)
class _NamedLine:
    """A line that a traceback names; `names` are the globals of its module, which finds the source."""

    file: str
    line: int
    function: str = ""
    names: dict[str, Any] | None = None


def excerpts(
    error: BaseException, tb: types.TracebackType | None, naming: Naming
) -> Iterator[dict[str, Any]]:
    """The fields of a `SourceExcerpt` for each of the user's frames, the innermost first; at most 12.

    The exception's own frames go first, then those of its causes and of a group's members, then those of a
    traceback that a message quotes, as that of a loader's worker does.
    """
    own, linked = _places(tb), _linked(error)
    others = (place for each in linked for place in (*_of(each, error), *_quoted(each)))
    places = itertools.islice(_distinct(itertools.chain(own, others)), MOST_EXCERPTS)
    start = linux.started(os.getpid())
    return (made for place in places if (made := _excerpt(place, naming, start)) is not None)


def _distinct(places: Iterable[_NamedLine]) -> Iterator[_NamedLine]:
    known = set[tuple[str, int]]()
    for place in places:
        if (key := (place.file, place.line)) not in known:
            known.add(key)
            yield place


def _places(tb: types.TracebackType | None) -> Iterator[_NamedLine]:
    """The user's frames, the innermost first."""
    for f, line in reversed(user_steps(tb)):
        yield _NamedLine(f.f_code.co_filename, line or 0, f.f_code.co_name, f.f_globals)


def _of(each: BaseException, error: BaseException) -> Iterator[_NamedLine]:
    """Where one exception of a chain was raised; the line of a syntax error is in no frame."""
    if isinstance(each, SyntaxError) and type(each.filename) is str and type(each.lineno) is int:
        yield _NamedLine(each.filename, each.lineno)
    if each is not error:
        yield from _places(strip(each.__traceback__))


def _linked(error: BaseException) -> Iterator[BaseException]:
    """The exception, and those that Python prints with it: causes, contexts, and the members of a group."""
    waiting, known = deque([error]), set[int]()
    while waiting and len(known) < _LINKED:
        each = waiting.popleft()
        if id(each) in known:
            continue
        known.add(id(each))
        yield each
        before = (
            each.__context__ if each.__cause__ is None and not each.__suppress_context__ else each.__cause__
        )
        members = each.exceptions if isinstance(each, BaseExceptionGroup) else ()
        waiting.extend(other for other in (before, *members) if other is not None)


_FRAME = re.compile(r'^\s*File "([^"\n]{1,4096})", line (\d{1,9}), in (\S{1,200})', re.MULTILINE)


def _quoted(error: BaseException) -> list[_NamedLine]:
    """The frames of a traceback that is the exception's message, the innermost first."""
    message = error.args[0] if error.args else None
    text = (
        str.__str__(message) if isinstance(message, str) else ""
    )  # a KeyError's may be of a class of torch's
    found = [_NamedLine(file, int(line), name) for file, line, name in _FRAME.findall(text[-_EXCERPTS:])]
    return [p for p in reversed(found) if not is_library(p.file) and os.path.isfile(p.file)]


def _excerpt(place: _NamedLine, naming: Naming, start: float | None) -> dict[str, Any] | None:
    """The lines around a place; None if its source cannot be read, or is shorter now.

    Args:
        place: the frame's line.
        naming: how tracebacks name the target's files.
        start: when this process started; None if unknown.
    """
    source = linecache.getlines(place.file, place.names)
    if not 1 <= place.line <= len(source):
        return None
    first = max(place.line - AROUND, 1)
    lines = [_shortened(line) for line in source[first - 1 : place.line + AROUND]]
    if any("\0" in line for line in lines):
        return None
    return {
        "file": naming(place.file)[:_PATH],
        "line": place.line,
        "function": place.function[:_NAME],
        "first": first,
        "lines": lines,
        "changed": start is not None and _written(place.file) > start + _EDITED_S,
    }


def _shortened(line: str) -> str:
    text = redacted_source(line[:_SEARCHED].rstrip())
    return text if len(text) <= _LINE else f"{text[:_LINE]}…"


def _written(file: str) -> float:
    try:
        return os.stat(file).st_mtime
    except (OSError, ValueError):  # a notebook's cell, or a module in a zip
        return 0.0


_MODULE, _QUALNAME, _MRO = (vars(type)[name].__get__ for name in ("__module__", "__qualname__", "__mro__"))
_SIZED: tuple[tuple[type, str], ...] = (
    (str, "character"),
    (bytes, "byte"),
    (bytearray, "byte"),
    (list, "item"),
    (tuple, "item"),
    (dict, "item"),
    (set, "item"),
    (frozenset, "item"),
    (deque, "item"),
    (range, "item"),
)
_DEFINED = (types.FunctionType, types.BuiltinFunctionType, type)


def variables(frame: types.FrameType, line: int, *, values: bool) -> Iterator[dict[str, Any]]:
    """The fields of a `Variable` for each local variable of a frame; at most 40.

    Those that the failing line names go first. A module's own functions and classes, and the modules that it
    imports, are left out. A frame that still runs has none: asking for them would keep its objects alive.
    """
    names = _names(frame)
    used = set(re.findall(r"\w+", linecache.getline(frame.f_code.co_filename, line or 0, frame.f_globals)))
    for name in itertools.islice(sorted(names, key=lambda name: name not in used), MOST_VARIABLES):
        yield _variable(name, names[name], values=values)


def _names(frame: types.FrameType) -> Mapping[str, Any]:
    """The variables to describe, by name."""
    if _runs(frame):
        return {}
    is_function = bool(frame.f_code.co_flags & inspect.CO_OPTIMIZED)
    found = frame.f_locals
    if not is_function and type(found) is not dict:  # a namespace of the user's own
        return {}
    left_out = (types.ModuleType,) if is_function else (types.ModuleType, *_DEFINED)
    return {
        name: value
        for name, value in found.items()
        if type(name) is str and name.isidentifier() and name[:2] != "__" and not _is_a(value, left_out)
    }


def _runs(frame: types.FrameType) -> bool:
    here: types.FrameType | None = sys._getframe()  # noqa: SLF001  the documented way to the stack
    while here is not None and here is not frame:
        here = here.f_back
    return here is not None


def _is_a(value: object, kinds: tuple[type, ...]) -> bool:
    """`isinstance`, by the classes that the value has and not by those that it claims."""
    return any(base is kind for base in _MRO(type(value)) for kind in kinds)


def _variable(name: str, value: object, *, values: bool) -> dict[str, Any]:
    fields = {"name": name[:_NAME], "type": type_name(type(value))}
    if about := _about(value):
        fields["about"] = about
    text = _text(value) if values else None
    if text is not None:
        fields["text"] = Redactor().mask(text, name)
    return fields


def type_name(kind: type) -> str:
    """A class's qualified name, without `builtins`."""
    module, name = _MODULE(kind), _QUALNAME(kind)
    whole = f"{module}.{name}" if type(module) is str and module != "builtins" else str(name)
    return whole[:_NAME]


def _about(value: object) -> str:
    """A tensor's shape, dtype and device, or a container's length; empty for anything else."""
    if shape := _of_tensor(value) or _of_array(value):
        return shape[:_TEXT]
    for kind, unit in _SIZED:
        if _is_a(value, (kind,)):
            size = vars(kind)["__len__"](value)
            return f"{size:,} {unit}{'' if size == 1 else 's'}"
    return ""


def _of_tensor(value: Any) -> str:
    """Of torch's own tensors; subclasses may compute their shape."""
    torch = sys.modules.get("torch")
    own = vars(torch) if torch is not None else {}
    kinds = (own.get("Tensor"), vars(own["nn"]).get("Parameter") if "nn" in own else None)
    core = own.get("_C")
    if core is None or not any(type(value) is kind for kind in kinds):
        return ""
    with core.DisableTorchFunction():
        device = f" on {value.device}" if str(value.device) != "cpu" else ""
        return f"{_shape(value.shape)} {str(value.dtype).removeprefix('torch.')}{device}"


def _of_array(value: Any) -> str:
    numpy = sys.modules.get("numpy")
    if numpy is None or type(value) is not vars(numpy).get("ndarray"):
        return ""
    return f"{_shape(value.shape)} {value.dtype}"


def _shape(sizes: Iterable[object]) -> str:
    return f"({', '.join(map(str, sizes))})"


_PLAIN: tuple[tuple[type, Callable[[Any], str]], ...] = (
    (type(None), repr),
    (bool, repr),
    (float, repr),
    (complex, repr),
    (int, lambda number: repr(number) if number.bit_length() <= 256 else ""),
    (str, lambda text: repr(text[:_TEXT])),
    (bytes, lambda data: repr(data[:_TEXT])),
)
_SHOWN = 6


def _text(value: Any) -> str | None:
    """A plain value, or a collection of plain ones, in short; None for any other."""
    kind = type(value)  # to compare or hash classes may run code of their metaclass
    if kind is list or kind is tuple:
        text = ", ".join(_item(each) for each in value[:_SHOWN])
        more = ", …" if len(value) > _SHOWN else ""
        text = f"[{text}{more}]" if kind is list else f"({text}{more})"
    elif kind is dict:
        pairs = [f"{_item(k)}: {_item(v)}" for k, v in itertools.islice(value.items(), _SHOWN)]
        text = f"{{{', '.join(pairs)}{', …' if len(value) > _SHOWN else ''}}}"
    else:
        text = _plain(value)
    return (text if len(text) <= _TEXT else f"{text[:_TEXT]}…") if text else None


def _plain(value: object) -> str:
    """A plain value; empty for any other."""
    return next((show(value) for kind, show in _PLAIN if type(value) is kind), "")


def _item(value: object) -> str:
    return _plain(value) or f"<{type_name(type(value))}>"
