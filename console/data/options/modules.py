"""A script and the modules beside it as syntax trees, and their constants. Nothing is imported or run."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from launcher.errors import SpecError
from launcher.spec.signature import last_name
from launcher.spec.source import read_module, read_text

from .option import MOST_CHOICES, MOST_HELP

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
Function = ast.FunctionDef | ast.AsyncFunctionDef

_MOST_BYTES = 2 << 20
_MOST_MODULES = 24
_MOST_STEPS = 6  # from one import, name or type to the next
_MOST_TEXT = 500
UNKNOWN = object()
"""The value of an expression that only running the script tells."""

_ENUMS = {"Enum", "StrEnum", "IntEnum", "ChoiceEnum", "ExplicitEnum"}
_SUMS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul,
    ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow,
}  # fmt: skip
_SAME = {"list", "sorted", "tuple", "set", "frozenset"}


@dataclass(eq=False)
class Module:
    """One file: its definitions, what it imports, and what its names are bound to, once, at the top level."""

    path: Path
    tree: ast.Module
    sources: Sources = field(repr=False)
    definitions: dict[str, Definition] = field(default_factory=dict)
    imports: dict[str, tuple[str, str, int]] = field(default_factory=dict)
    constants: dict[str, ast.expr] = field(default_factory=dict)

    def __post_init__(self) -> None:
        bound: dict[str, int] = {}
        for node in statements(self.tree.body):
            match node:
                case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                    self.definitions[node.name] = node
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    self.constants[name] = value
                    bound[name] = bound.get(name, 0) + 1
                case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                    self.constants[name] = value
                    bound[name] = bound.get(name, 0) + 1
        for name in (n for n, times in bound.items() if times > 1):
            del self.constants[name]
        for each in ast.walk(self.tree):
            self._note_import(each)

    def _note_import(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import):
            for alias in node.names:
                self.imports[alias.asname or alias.name.partition(".")[0]] = (alias.name, "", 0)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                self.imports[alias.asname or alias.name] = (node.module or "", alias.name, node.level)

    @property
    def libraries(self) -> set[str]:
        """The first part of the name of each module that it imports."""
        return {name.partition(".")[0] for name, _, level in self.imports.values() if not level}

    def find(self, node: ast.expr | None, steps: int = 0) -> tuple[Module, Definition] | None:
        """The function or class that an expression names, here or in a module beside the script."""
        if steps > _MOST_STEPS or node is None:
            return None
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            return self.named(node.value, steps)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            other = self._imported(node.value.id)
            return other.named(node.attr, steps + 1) if other else None
        return self.named(node.id, steps) if isinstance(node, ast.Name) else None

    def named(self, name: str, steps: int = 0) -> tuple[Module, Definition] | None:
        """The function or class of a name, here or in a module beside the script."""
        if name in self.definitions:
            return self, self.definitions[name]
        if steps > _MOST_STEPS or name not in self.imports:
            return None
        dotted, attribute, level = self.imports[name]
        other = self.sources.module(self, dotted, level) if attribute else None
        return other.named(attribute, steps + 1) if other else None

    def _imported(self, name: str) -> Module | None:
        """The module that a name is bound to by an import."""
        if name not in self.imports:
            return None
        dotted, attribute, level = self.imports[name]
        return self.sources.module(self, f"{dotted}.{attribute}".strip(".") if attribute else dotted, level)

    # --- values --------------------------------------------------------------------------------------

    def value(self, node: ast.expr | None, steps: int = 0) -> Any:
        """The value of a constant expression, else `UNKNOWN`; None for no expression."""
        if node is None:
            return None
        if steps > _MOST_STEPS:
            return UNKNOWN
        try:
            return ast.literal_eval(node)
        except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
            pass
        match node:
            case ast.Name(id=name) if name in self.constants:
                return self.value(self.constants[name], steps + 1)
            case ast.Name(id=name) if name in self.imports:
                return self._imported_value(name, steps)
            case ast.Attribute(attr=attribute):
                found = self.find(node.value)
                return dict(members(*found)).get(attribute, UNKNOWN) if found else UNKNOWN
            case ast.BinOp():
                return _sum(node, self.value(node.left, steps + 1), self.value(node.right, steps + 1))
            case ast.Call(func=func, args=[only], keywords=[]) if last_name(func) in ("Path", "str"):
                return self.value(only, steps + 1)
        return UNKNOWN

    def _imported_value(self, name: str, steps: int) -> Any:
        dotted, attribute, level = self.imports[name]
        other = self.sources.module(self, dotted, level) if attribute else None
        if other is None:
            return UNKNOWN
        return other.value(ast.Name(attribute, ast.Load()), steps + 1)

    def text(self, node: ast.expr | None) -> str:
        """A constant text on one line; else empty."""
        value = self.value(node)
        return plain(value) if isinstance(value, str) else ""

    def written(self, node: ast.expr | None) -> str | None:
        """Source of an expression: of its value if it is constant. None for no expression."""
        if node is None:
            return None
        value = self.value(node)
        try:
            return (ast.unparse(node) if value is UNKNOWN else repr(value))[:_MOST_TEXT]
        except (RecursionError, ValueError):
            return "…"

    def items(self, node: ast.expr | None, steps: int = 0) -> tuple[str, ...]:
        """The values that a constant list, the keys of a dict, a range or an enum has, as typed."""
        values = self._items(node, steps) if node is not None and steps <= _MOST_STEPS else []
        if any(value is UNKNOWN for value in values):
            return ()
        return tuple(text for text in map(str, values) if text.isprintable() and text)[:MOST_CHOICES]

    def _items(self, node: ast.expr, steps: int) -> Sequence[Any]:
        match node:
            case ast.List(elts=elements) | ast.Tuple(elts=elements) | ast.Set(elts=elements):
                return [self.value(each) for each in elements[:MOST_CHOICES]]
            case ast.Dict(keys=keys):
                return [self.value(key) for key in keys[:MOST_CHOICES]]
            case ast.Call(func=ast.Name(id="range"), args=bounds):
                return _range([self.value(each) for each in bounds])
            case ast.Call(func=func, args=[only]) if last_name(func) in _SAME:
                return self.items(only, steps + 1)
            case ast.Call(func=ast.Attribute(value=of, attr="keys"), args=[]):
                return self.items(of, steps + 1)
            case ast.ListComp(elt=ast.Attribute(attr="value" | "name" as part), generators=[one]):
                found = self.find(one.iter)
                return [pair[part == "value"] for pair in members(*found)] if found else []
            case ast.Name(id=name) if name in self.constants:
                return self.items(self.constants[name], steps + 1)
            case ast.Name(id=name) if name in self.imports and name not in self.definitions:
                dotted, attribute, level = self.imports[name]
                other = self.sources.module(self, dotted, level) if attribute else None
                if other is not None and attribute not in other.definitions:
                    return other.items(ast.Name(attribute, ast.Load()), steps + 1)
        found = self.find(node)
        return [value for _, value in members(*found)] if found else []

    def comment(self, node: ast.AST) -> str:
        """The comment behind a statement, on its last line."""
        line, column = getattr(node, "end_lineno", 0), getattr(node, "end_col_offset", 0)
        lines = self.sources.lines(self.path)
        rest = lines[line - 1].encode()[column:] if 0 < line <= len(lines) else b""
        text = rest.decode(errors="replace").strip()
        return plain(text.lstrip("# ")) if text.startswith("#") else ""


class Sources:
    """Reads the modules of a script: those in its folder, in the working directory, and below them. Bounded.

    Args:
        folders: where modules are searched.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders
        self._modules: dict[Path, Module | None] = {}
        self._lines: dict[Path, list[str]] = {}
        self.used: dict[Path, tuple[int, int]] = {}

    def note(self, path: Path) -> None:
        """Remember in which version a file or folder was read."""
        self.used.setdefault(path, stamp(path))

    def read(self, path: Path) -> Module | None:
        """The module in a file; None if it is too large, cannot be read, or is not Python."""
        if path not in self._modules:
            if len(self._modules) >= _MOST_MODULES:
                return None
            self._modules[path] = None  # while it is read, and if it cannot be
            self.note(path)
            self.note(path.parent)
            if (tree := _tree(path)) is not None:
                self._modules[path] = Module(path, tree, self)
        return self._modules[path]

    def module(self, importer: Module, dotted: str, level: int = 0) -> Module | None:
        """The module of a name that another one imports; None if it is not beside the script."""
        if level:
            folder = importer.path.parent
            for _ in range(level - 1):
                folder = folder.parent
            folders: Sequence[Path] = (folder,)
        else:
            folders = (importer.path.parent, *self._folders)
        for folder in folders:
            base = folder.joinpath(*dotted.split(".")) if dotted else folder
            for path in (base.with_name(f"{base.name}.py"), base / "__init__.py"):
                if is_file(path):
                    return self.read(path)
        return None

    def lines(self, path: Path) -> list[str]:
        """The lines of a file that was read."""
        if path not in self._lines:
            try:
                self._lines[path] = read_text(path).splitlines()
            except SpecError:  # it is gone since
                self._lines[path] = []
        return self._lines[path]


def stamp(path: Path) -> tuple[int, int]:
    """What changes when a file or folder does."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return 0, 0
    return status.st_mtime_ns, status.st_size


def is_file(path: Path) -> bool:
    """Whether a regular file is there."""
    try:
        return path.is_file()
    except (OSError, ValueError):  # a name that is too long, or with a NUL
        return False


def _tree(path: Path) -> ast.Module | None:
    try:
        return read_module(path) if path.stat().st_size <= _MOST_BYTES else None
    except (OSError, SpecError):
        return None


def statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements in the order of the source, with those under ``if``, ``try``, ``with`` and loops."""
    for node in body:
        yield node
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            for part in ("body", "handlers", "orelse", "finalbody", "cases"):
                for inner in getattr(node, part, ()):
                    yield from statements([inner] if isinstance(inner, ast.stmt) else inner.body)


def members(module: Module, node: Definition) -> list[tuple[str, Any]]:
    """The names and values of an enum; none for anything else."""
    if not isinstance(node, ast.ClassDef) or not any(last_name(b) in _ENUMS for b in node.bases):
        return []
    found: list[tuple[str, Any]] = []
    for each in node.body:
        if isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name):
            name, value = each.targets[0].id, module.value(each.value)
            auto = isinstance(each.value, ast.Call) and last_name(each.value.func) == "auto"
            found.append((name, name.lower() if auto else value))
    return found


def keywords_of(call: ast.Call) -> dict[str, ast.expr]:
    """The keyword arguments of a call."""
    return {k.arg: k.value for k in call.keywords if k.arg}


def plain(text: str) -> str:
    """A text on one line, shortened to `MOST_HELP` characters."""
    return " ".join(text[: 2 * MOST_HELP].split())[:MOST_HELP]


def _range(bounds: Sequence[Any]) -> Sequence[Any]:
    try:
        return range(*bounds)[:MOST_CHOICES]
    except (TypeError, ValueError):
        return ()


def _sum(node: ast.BinOp, left: Any, right: Any) -> Any:
    """A sum of two small numbers, or of two texts."""
    compute = _SUMS.get(type(node.op))
    numbers = all(type(v) in (int, float) and abs(v) < 1e12 for v in (left, right))
    texts = isinstance(node.op, ast.Add) and isinstance(left, str) and isinstance(right, str)
    if compute is None or not (numbers or texts) or (isinstance(node.op, ast.Pow) and abs(right) > 64):
        return UNKNOWN
    try:
        return compute(left, right)
    except (ArithmeticError, ValueError):
        return UNKNOWN
