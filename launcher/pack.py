"""A target from the Python API: what can be said in words is, the rest becomes a pickle beside the spec."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from launcher.errors import SpecError
from launcher.spec import Target, TargetKind, as_literal
from launcher.target import resolve, resolve_call
from launcher.worker.summary import preview

_SHORT = 80
_LONG = 64 << 10
_DEPTH = 20
_BITS = 12_000  # Python writes no longer numbers


def pack(
    target: Callable[..., Any] | str,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    *,
    workdir: Path,
) -> tuple[Target, bytes | None]:
    """The target and, if it needs one, its pickle.

    Raises:
        SpecError: no such file or function, arguments that do not fit, or something unpicklable.
    """
    if callable(target):
        return _pack_callable(target, args, kwargs)
    if not isinstance(target, str):
        raise SpecError(f"a target is a function or a path, not {type(target).__name__}")
    if ":" not in target.rpartition("/")[2]:
        return _pack_script(target, args, kwargs, workdir), None
    return _pack_named(target, args, kwargs, workdir)


def _pack_script(target: str, args: Sequence[Any], kwargs: Mapping[str, Any], workdir: Path) -> Target:
    if kwargs:
        raise SpecError(
            f"a script takes no keyword arguments ({', '.join(kwargs)})",
            hint='pass them as argv: start("train.py", "--lr=0.1")',
        )
    return resolve(target, params={}, args=[str(a) for a in args], workdir=workdir)


def _pack_named(
    target: str, args: Sequence[Any], kwargs: Mapping[str, Any], workdir: Path
) -> tuple[Target, bytes | None]:
    """A function found by name. Literal arguments are recorded as they are; others are pickled."""
    found = resolve_call(target, count=len(args), names=kwargs, workdir=workdir)
    if all(map(_is_literal, (*args, *kwargs.values()))):
        words = tuple((k, as_literal(v)) for k, v in kwargs.items())
        literals = replace(found, args=tuple(map(as_literal, args)), kwargs=words)
        if len(str(literals)) <= _LONG:
            return literals, None
    return _described(found, args, kwargs), _dumps((tuple(args), dict(kwargs)), "an argument")


def _pack_callable(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[Target, bytes]:
    try:
        inspect.signature(function).bind(*args, **kwargs)
    except TypeError as error:
        raise SpecError(f"the arguments do not fit {_name_of(function)}: {error}") from error
    except ValueError:  # a builtin without a signature: nothing to check against
        pass
    target = Target(TargetKind.CALLABLE, _source_of(function), _name_of(function))
    return _described(target, args, kwargs), _dumps((function, tuple(args), dict(kwargs)), _name_of(function))


def _source_of(function: Callable[..., Any]) -> str:
    """The file that defines a function; the module of what has no file, such as a builtin."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return (inspect.getsourcefile(code) if code else None) or getattr(function, "__module__", "") or ""


def _described(target: Target, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Target:
    return Target(
        target.kind,
        target.source,
        target.name,
        args=tuple(map(_short, args)),
        kwargs=tuple((k, _short(v)) for k, v in kwargs.items()),
        pickled=True,
    )


def _short(value: object) -> str:
    text = as_literal(value) if _is_literal(value) else preview(value)
    return text if len(text) <= _SHORT else text[: _SHORT - 1] + "…"


def _name_of(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", type(function).__name__)


def _is_literal(value: object, depth: int = _DEPTH) -> bool:
    """Whether a value's repr is Python source of the same value, down to its exact types."""
    kind = type(value)
    if isinstance(value, (list, tuple, set)):
        return kind in (list, tuple, set) and depth > 0 and all(_is_literal(v, depth - 1) for v in value)
    if isinstance(value, dict):
        parts = (part for item in value.items() for part in item)
        return kind is dict and depth > 0 and all(_is_literal(p, depth - 1) for p in parts)
    if isinstance(value, float):
        return kind is float and math.isfinite(value)
    if isinstance(value, int):
        return kind in (int, bool) and value.bit_length() < _BITS
    return kind in (str, bytes, type(None))


def _dumps(value: object, what: str) -> bytes:
    import cloudpickle

    try:
        data: bytes = cloudpickle.dumps(value)
    except Exception as error:  # a __reduce__ may raise anything; all of it means the same
        raise SpecError(f"{what} cannot be pickled: {error}") from error
    return data
