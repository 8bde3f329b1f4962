"""The parameters of a training function, read from its source, and the conversion of text to their values.

Pure: syntax trees and strings in, values out. Nothing here imports or runs the function, so an annotation
that only its own module could resolve allows any value.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import Any

from ..errors import SpecError


class ParameterKind(StrEnum):
    """How a parameter may be given."""

    POSITIONAL = "positional"
    KEYWORD = "keyword"
    VAR_POSITIONAL = "var_positional"
    VAR_KEYWORD = "var_keyword"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter, from the source.

    Attributes:
        annotation: source text of the annotation, or empty.
        default: source text of the default, or None.
        choices: the values that a `Literal` allows, as a person would type them.
        unnamed: it is positional-only.
    """

    name: str
    kind: ParameterKind
    annotation: str = ""
    default: str | None = None
    choices: tuple[str, ...] = ()
    unnamed: bool = False

    @property
    def required(self) -> bool:
        """Whether a call must give it."""
        return self.default is None and self.kind in (ParameterKind.POSITIONAL, ParameterKind.KEYWORD)


@dataclass(frozen=True, slots=True)
class Signature:
    """One function of a file: its parameters, its line, and the first line of its docstring.

    `decorated` is true if a decorator may have changed the parameters.
    """

    name: str
    parameters: tuple[Parameter, ...]
    line: int = 0
    doc: str = ""
    decorated: bool = False


# These decorators do not change the parameters.
_TRANSPARENT = {"record", "no_grad", "inference_mode", "enable_grad", "cache", "lru_cache"}


def signature_of(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Signature:
    """The signature of a function definition."""
    doc = (ast.get_docstring(node) or "").partition("\n")[0]
    decorators = (d.func if isinstance(d, ast.Call) else d for d in node.decorator_list)
    decorated = any(last_name(d) not in _TRANSPARENT for d in decorators)
    return Signature(node.name, tuple(_parameters(node.args)), node.lineno, doc, decorated)


def _parameters(args: ast.arguments) -> Iterator[Parameter]:
    leading = [*args.posonlyargs, *args.args]
    defaults = [*[None] * (len(leading) - len(args.defaults)), *args.defaults]
    for index, (arg, default) in enumerate(zip(leading, defaults, strict=True)):
        unnamed = index < len(args.posonlyargs)
        yield _parameter(arg, ParameterKind.POSITIONAL, default, unnamed=unnamed)
    if args.vararg:
        yield _parameter(args.vararg, ParameterKind.VAR_POSITIONAL)
    for arg, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        yield _parameter(arg, ParameterKind.KEYWORD, default)
    if args.kwarg:
        yield _parameter(args.kwarg, ParameterKind.VAR_KEYWORD)


def _parameter(
    arg: ast.arg, kind: ParameterKind, default: ast.expr | None = None, *, unnamed: bool = False
) -> Parameter:
    hint = _unquoted(arg.annotation) if arg.annotation else None
    literals = (o for o in _options(hint or _ANYTHING) if _shape(o)[0] == "Literal")
    choices = [value for option in literals for value in _values(option)]
    return Parameter(
        name=arg.arg,
        kind=kind,
        annotation=ast.unparse(hint) if hint else "",
        default=ast.unparse(default) if default else None,
        choices=tuple(map(str, choices)),
        unnamed=unnamed,
    )


# From text to value: an annotation is a list of options, tried from the narrowest to the widest. A value that
# does not fit an option raises what Python's own conversions raise.
_MISFITS = (ValueError, TypeError, OverflowError)
_BOOLS = {"True": True, "true": True, "1": True, "False": False, "false": False, "0": False}
_SCALARS: dict[str, type] = {
    "int": int, "bool": bool, "complex": complex, "bytes": bytes, "str": str, "NoneType": type(None),
}  # fmt: skip
_CONTAINERS: dict[str, Any] = {"list": list, "tuple": tuple, "set": set, "dict": dict}
_ALIASES = {
    "Path": "str", "PurePath": "str", "PathLike": "str",
    "List": "list", "Sequence": "list", "MutableSequence": "list", "Iterable": "list", "Collection": "list",
    "Tuple": "tuple", "Set": "set", "Dict": "dict", "Mapping": "dict", "MutableMapping": "dict",
}  # fmt: skip
_ANYTHING = ast.Name("Any", ast.Load())
_ORDER = (
    "NoneType", "Literal", "int", "float", "complex", "bool", "list", "tuple", "set", "dict", "bytes", "str",
)  # fmt: skip


def literal(parameter: Parameter, text: str) -> str:
    """The Python literal of the value that a person typed for a parameter.

    If the parameter takes text, the text is the value, and quotes are part of it.

    Raises:
        SpecError: the parameter's annotation, or the type of its default, does not allow it.
    """
    for option in _options(_hint(parameter)):
        try:
            return _written(_from_text(option, text))
        except _MISFITS:
            continue
    raise _mistyped(parameter, text)


def _mistyped(parameter: Parameter, text: str) -> SpecError:
    expected = parameter.annotation or f"a value like its default {parameter.default}"
    hint = None
    if parameter.choices:
        near = get_close_matches(text, parameter.choices, 1)
        hint = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(parameter.choices)}"
    elif expected == "bool" or parameter.default in ("True", "False"):
        hint = "write true or false"
    return SpecError(f"parameter {parameter.name!r} takes {expected}, not {text!r}", hint=hint)


def _hint(parameter: Parameter) -> ast.expr:
    if parameter.annotation:
        hint = _expression(parameter.annotation)
        optional = parameter.default == "None"
        return ast.BinOp(hint, ast.BitOr(), ast.Constant(None)) if optional else hint
    try:
        default = _parsed(parameter.default or "None")
    except ValueError:
        return _ANYTHING
    if default is None:
        return _ANYTHING
    # a parameter `lr=1` takes 0.5 as well as 2
    return _expression("int | float" if type(default) is int else type(default).__name__)


def _options(hint: ast.expr) -> list[ast.expr]:
    """The members of a union, narrowest first."""
    return sorted(_members(hint), key=lambda option: _rank(_shape(option)[0]))


def _rank(name: str) -> int:
    return _ORDER.index(name) if name in _ORDER else len(_ORDER)


def _members(hint: ast.expr) -> Iterator[ast.expr]:
    hint = _unquoted(hint)
    if isinstance(hint, ast.BinOp) and isinstance(hint.op, ast.BitOr):
        yield from _members(hint.left)
        yield from _members(hint.right)
        return
    name, inner = _shape(hint)
    if name in ("Union", "Optional", "Annotated", "Final"):
        for part in inner[:1] if name in ("Annotated", "Final") else inner:
            yield from _members(part)
        if name == "Optional":
            yield ast.Constant(None)
        return
    yield hint


def _shape(hint: ast.expr) -> tuple[str, list[ast.expr]]:
    """The name of a type without its module, and its arguments in brackets."""
    inner: list[ast.expr] = []
    if isinstance(hint, ast.Subscript):
        inner = hint.slice.elts if isinstance(hint.slice, ast.Tuple) else [hint.slice]
        hint = hint.value
    if isinstance(hint, ast.Constant) and hint.value is None:
        return "NoneType", inner
    name = last_name(hint)
    return _ALIASES.get(name, name), inner


def last_name(node: ast.expr | None) -> str:
    """The last part of a dotted name; empty for anything else."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _from_text(option: ast.expr, text: str) -> Any:
    name, _ = _shape(option)
    if name == "str" or (name == "Literal" and text in _values(option)):
        return text
    if name == "bool" and text in _BOOLS:
        return _BOOLS[text]
    if name == "float":
        return float(text)
    if name in _ORDER:
        return _fit(option, _parsed(text))
    try:
        return _parsed(text)
    except ValueError:
        return text


def _fit(hint: ast.expr, value: Any) -> Any:
    """The value converted to the type; ValueError if the type has no such value."""
    for option in _options(hint):
        try:
            return _fit_one(option, value)
        except _MISFITS:
            continue
    raise ValueError


def _fit_one(option: ast.expr, value: Any) -> Any:
    name, inner = _shape(option)
    if name in _CONTAINERS:
        return _fit_container(name, inner, value)
    if name == "Literal":
        allowed = any(type(value) is type(v) and value == v for v in _values(option))
    elif name == "float":
        allowed = type(value) in (int, float)
        value = float(value) if allowed else value
    else:
        allowed = type(value) is _SCALARS.get(name, type(value))
    if not allowed:
        raise ValueError
    return value


def _fit_container(name: str, inner: list[ast.expr], value: Any) -> Any:
    kind = _CONTAINERS[name]
    if not isinstance(value, (list, tuple) if kind in (list, tuple) else kind):
        raise ValueError  # noqa: TRY004  # caught by the callers, and never shown
    if not inner:
        return kind(value)
    if isinstance(value, dict):
        key, item = inner
        return {_fit(key, k): _fit(item, v) for k, v in value.items()}
    if kind is tuple and ast.unparse(inner[-1]) != "...":
        return tuple(_fit(h, v) for h, v in zip(inner, value, strict=True))
    return kind(_fit(inner[0], v) for v in value)


def _values(option: ast.expr) -> list[Any]:
    """The values of a `Literal` that are written as literals; members of enums are left out."""
    return [_parsed(ast.unparse(e)) for e in _shape(option)[1] if isinstance(e, (ast.Constant, ast.UnaryOp))]


def _parsed(text: str) -> Any:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.literal_eval(text.strip())
    except (SyntaxError, TypeError, MemoryError, RecursionError) as error:
        raise ValueError(f"{text!r} is no Python literal") from error


def _written(value: Any) -> str:
    """Source of a value; unlike `repr`, it works for infinity. ValueError if there is none, as for NaN."""
    text = ast.unparse(ast.Constant(value))
    if ast.literal_eval(text) != value:
        raise ValueError(f"{value!r} cannot be written as a literal")
    return text


def _expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


def _unquoted(hint: ast.expr) -> ast.expr:
    if isinstance(hint, ast.Constant) and isinstance(hint.value, str):
        try:
            return _expression(hint.value)
        except (SyntaxError, ValueError):
            return _ANYTHING
    return hint
