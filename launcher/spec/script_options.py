"""Which options a script takes, read from its source: argparse, click and typer.

Nothing is imported or run. Options that are made in a loop or by another module are not seen, so a script may
take more than is found here. Names and choices with control characters are left out, because people could not
type them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import SpecError
from .signature import Parameter, ParameterKind, last_name, signature_of
from .source import read_module

_NO_VALUE = {"store_true", "store_false", "store_const", "append_const", "count", "help", "version"}
_TYPES = {"INT": "int", "FLOAT": "float", "BOOL": "bool", "FileType": "Path", "File": "Path"}


@dataclass(frozen=True, slots=True)
class ScriptOption:
    """One option or positional argument.

    Attributes:
        names: ``--lr`` and ``-l``, or the bare name of a positional argument.
        kind: the name of the type as written, without its module; empty for text.
        choices: the allowed values, as typed; empty for any.
        default: source text of the default, or None.
        help: the script's help text for it.
        flag: it takes no value.
    """

    names: tuple[str, ...]
    kind: str = ""
    choices: tuple[str, ...] = ()
    default: str | None = None
    help: str = ""
    required: bool = False
    flag: bool = False

    @property
    def positional(self) -> bool:
        """Whether it is a positional argument."""
        return not self.names[0].startswith("-")


def options_in(path: Path) -> tuple[ScriptOption, ...]:
    """The options in a script's source, in that order; none if it cannot be read."""
    try:
        tree = read_module(path)
    except SpecError:
        return ()
    modules = _imported(tree)
    found: list[ScriptOption] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and last_name(node.func) == "add_argument":
            found += _argparse(node)
        elif isinstance(node, ast.FunctionDef) and "click" in modules:
            found += (o for d in node.decorator_list for o in _click(d))
    return (*found, *(_typer(tree) if "typer" in modules else ()))


def _imported(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add((node.module or "").partition(".")[0])
    return names


def _argparse(call: ast.Call) -> Iterator[ScriptOption]:
    """The option of an `add_argument`; none if its names are computed."""
    names = _strings(call.args)
    keywords = _keywords(call)
    action = _value(keywords.get("action"))
    negatable = last_name(keywords.get("action")) == "BooleanOptionalAction"
    if negatable:
        names += tuple(f"--no-{name[2:]}" for name in names if name.startswith("--"))
    if names:
        yield ScriptOption(
            names,
            kind=_kind(keywords.get("type")),
            choices=_choices(keywords.get("choices")),
            default=_default(keywords.get("default")),
            help=_text(keywords.get("help")),
            required=_value(keywords.get("required")) is True,
            flag=negatable or action in _NO_VALUE,
        )


def _click(decorator: ast.expr) -> Iterator[ScriptOption]:
    """The option of a ``@click.option`` or ``@click.argument``."""
    if not isinstance(decorator, ast.Call) or last_name(decorator.func) not in ("option", "argument"):
        return
    keywords, dashed = _keywords(decorator), last_name(decorator.func) == "option"
    written = [n for n in _strings(decorator.args) if n.startswith("-") == dashed]
    names = tuple(part for name in written for part in name.split("/"))
    if not names:
        return
    kind = keywords.get("type")
    choice = isinstance(kind, ast.Call) and last_name(kind.func) == "Choice"
    flags = (keywords.get("is_flag"), keywords.get("count"))
    yield ScriptOption(
        names,
        kind="" if choice else _kind(kind),
        choices=_choices(kind.args[0]) if isinstance(kind, ast.Call) and choice and kind.args else (),
        default=_default(keywords.get("default")),
        help=_text(keywords.get("help")),
        required=_value(keywords.get("required")) is True,
        flag=any("/" in n for n in written) or any(_value(f) is True for f in flags),
    )


def _typer(tree: ast.Module) -> Iterator[ScriptOption]:
    """Options from the parameters of the functions that typer runs."""
    run = {
        last_name(node.args[0])
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and last_name(node.func) == "run" and node.args
    }
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and (node.name in run or _is_command(node)):
            yield from map(_typed, signature_of(node).parameters)


def _is_command(node: ast.FunctionDef) -> bool:
    return any(last_name(d.func if isinstance(d, ast.Call) else d) == "command" for d in node.decorator_list)


def _typed(parameter: Parameter) -> ScriptOption:
    default, kind = parameter.default, parameter.annotation.rpartition(".")[2]
    dashed = parameter.name.replace("_", "-")
    bare = default is None and parameter.kind is ParameterKind.POSITIONAL
    if bare or (default or "").startswith(("typer.Argument", "Argument(")):
        return ScriptOption((dashed,), kind=kind, choices=parameter.choices, required=bare)
    flag = kind == "bool"
    names = (f"--{dashed}", f"--no-{dashed}") if flag else (f"--{dashed}",)
    shown = None if "Option(" in (default or "") else default
    return ScriptOption(names, kind=kind, choices=parameter.choices, default=shown, flag=flag)


def _keywords(call: ast.Call) -> dict[str, ast.expr]:
    return {k.arg: k.value for k in call.keywords if k.arg}


def _strings(nodes: list[ast.expr]) -> tuple[str, ...]:
    """The arguments if all are printable text literals; else none."""
    values = [_value(node) for node in nodes]
    fit = all(isinstance(v, str) and v and v.isprintable() for v in values)
    return tuple(values) if fit else ()


def _value(node: ast.expr | None) -> Any:
    try:
        return ast.literal_eval(node) if node is not None else None
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


def _text(node: ast.expr | None) -> str:
    value = _value(node)
    return " ".join(value.split()) if isinstance(value, str) else ""


def _choices(node: ast.expr | None) -> tuple[str, ...]:
    value = _value(node)
    choices = map(str, value) if isinstance(value, (list, tuple, set)) else ()
    return tuple(choice for choice in choices if choice.isprintable())


def _default(node: ast.expr | None) -> str | None:
    return None if node is None else ast.unparse(node)


def _kind(node: ast.expr | None) -> str:
    name = last_name(node.func if isinstance(node, ast.Call) else node)
    return "" if name == "str" else _TYPES.get(name, name)
