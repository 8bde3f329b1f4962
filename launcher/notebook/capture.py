"""What of a notebook a cell needs in the ranks: the names that it reads, and their values as a pickle."""

from __future__ import annotations

import ast
import symtable
import sys
import types
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

_REASON = 200
_NOTEBOOKS_OWN = ("display", "get_ipython")  # builtins in a notebook, and nowhere else


@dataclass(frozen=True, slots=True)
class Captured:
    """What travels with a cell: the arguments of `launcher.agent.cell.Cell` of these names."""

    values: bytes
    modules: tuple[str, ...]
    left: Mapping[str, str]


def names_read(source: str) -> set[str]:
    """The names that top-level code may read before it has set them, builtins included.

    Raises:
        SyntaxError: it is no Python.
    """
    changed: set[str] = set()
    read: set[str] = set()
    known: set[str] = set()
    for statement in ast.parse(source).body:
        nodes = list(ast.walk(statement))
        targets = [node.target for node in nodes if isinstance(node, ast.AugAssign)]
        names = [node for node in nodes if isinstance(node, ast.Name)]
        modified = {node.id for node in names if node in targets or isinstance(node.ctx, ast.Del)}
        loaded = {node.id for node in names if isinstance(node.ctx, ast.Load)}
        changed |= modified
        read |= (loaded | modified) - known
        known |= set(_surely_set(statement))
    return read & (changed | set(_global_reads(symtable.symtable(source, "<cell>", "exec"))))


def _surely_set(statement: ast.stmt) -> Iterator[str]:
    """The names that a statement sets whenever it ends."""
    match statement:
        case ast.Assign(targets=targets):
            yield from (node.id for each in targets for node in _names(each))
        case ast.AnnAssign(target=ast.Name(id=name), value=value) if value is not None:
            yield name
        case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in aliases)
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name


def _names(target: ast.expr) -> Iterator[ast.Name]:
    """The names in an assignment's target; those in subscripts and attributes are only read."""
    if isinstance(target, ast.Name):
        yield target
    elif isinstance(target, ast.Starred):
        yield from _names(target.value)
    elif isinstance(target, (ast.Tuple, ast.List)):
        for each in target.elts:
            yield from _names(each)


def _global_reads(table: symtable.SymbolTable) -> Iterator[str]:
    """The global names that a scope or one inside it refers to; a function's own variables are none."""
    top = table.get_type() == "module"
    for symbol in table.get_symbols():
        if symbol.is_referenced() and (top or symbol.is_global()):
            yield symbol.get_name()
    for child in table.get_children():
        yield from _global_reads(child)


def submodules_read(source: str, modules: Mapping[str, str]) -> tuple[str, ...]:
    """The imported submodules that code reaches as attributes: ``a.b`` of ``a``.

    `modules` are the modules by the names that they have in the code.
    """
    found: dict[str, None] = {}
    for node in ast.walk(ast.parse(source)):
        parts = _dotted(node)
        if len(parts) > 1 and parts[0] in modules:
            name = modules[parts[0]]
            for part in parts[1:]:
                name = f"{name}.{part}"
                if name not in sys.modules:
                    break
                found[name] = None
    return tuple(found)


def _dotted(node: ast.AST) -> list[str]:
    """The parts of ``a.b.c``; none of any other expression."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return [*parts, node.id][::-1] if isinstance(node, ast.Name) else []


def capture(source: str, notebook: dict[str, Any], hidden: Mapping[str, Any]) -> Captured:
    """The values that a cell needs.

    Args:
        source: the cell's code.
        notebook: the notebook's variables.
        hidden: those of them that are IPython's own.
    """
    names = {name for name in names_read(source) if name in notebook}
    own = {name for name in names if name in hidden and hidden[name] is notebook[name]}
    left = dict.fromkeys((*own, *_NOTEBOOKS_OWN), "it is the notebook's own")
    values = {name: notebook[name] for name in sorted(names - own)}
    modules = {name: value.__name__ for name, value in values.items() if isinstance(value, types.ModuleType)}
    # its globals, once it was unpickled, are those of all of the notebook's functions
    function = types.FunctionType((lambda: None).__code__, notebook, "notebook")
    try:
        data = _pickle(function, values)
    except Exception:  # noqa: BLE001  one of them cannot be pickled: find out which
        left |= _unpicklable(function, values)
        data = _pickle(function, {name: value for name, value in values.items() if name not in left})
    kept = {name: module for name, module in modules.items() if name not in left}
    return Captured(data, submodules_read(source, kept), left)


def _pickle(function: types.FunctionType, values: Mapping[str, Any]) -> bytes:
    import cloudpickle

    data: bytes = cloudpickle.dumps((function, dict(values)))
    return data


def _unpicklable(function: types.FunctionType, values: Mapping[str, Any]) -> dict[str, str]:
    """Why some values cannot be pickled, by their names."""
    left = {}
    for name, value in values.items():
        try:
            _pickle(function, {name: value})
        except Exception as error:  # noqa: BLE001  a user's __reduce__ may raise anything
            left[name] = " ".join(f"it cannot be pickled ({type(error).__name__}: {error})".split())[:_REASON]
    return left
