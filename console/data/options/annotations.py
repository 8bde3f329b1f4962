"""What the annotation of a field or parameter says about the values that can be typed for it."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace

from launcher.spec.signature import last_name

from .modules import Module, members

_LISTS = {"list", "List", "Sequence", "Iterable", "set", "Set", "frozenset", "FrozenSet", "Collection"}
_TUPLES = {"tuple", "Tuple"}
_OUTER = {
    "Annotated",
    "Final",
    "ClassVar",
    "Optional",
    "InitVar",
    "Required",
    "Suppress",
    "Fixed",
    "Positional",
}
_MOST_NESTED = 12


@dataclass(frozen=True, slots=True)
class Hint:
    """An annotation.

    Attributes:
        name: the name of the innermost type, without its module; empty if it has none.
        node: the innermost type.
        choices: the values of a literal type or an enum.
        optional: None is allowed.
        many: ``*`` for a list, a number for a tuple of this size; else empty.
        extras: what `Annotated` adds.
        outer: names of types around it.
    """

    name: str = ""
    node: ast.expr | None = None
    choices: tuple[str, ...] = ()
    optional: bool = False
    many: str = ""
    extras: tuple[ast.expr, ...] = ()
    outer: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        """The type as shown; empty for text."""
        return "" if self.choices or self.name in ("str", "Any", "object") else self.name


def hint_of(module: Module, node: ast.expr | None, depth: int = 0) -> Hint:
    """What an annotation says; nothing if it is nested too deeply."""
    if node is None or depth > _MOST_NESTED:
        return Hint()
    match node:
        case ast.Constant(value=str() as text):
            try:
                return hint_of(module, ast.parse(text[:500], mode="eval").body, depth + 1)
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                return Hint()
        case ast.BinOp(op=ast.BitOr()):
            return _union(module, _members(node), depth)
        case ast.Subscript(value=outer, slice=inner):
            parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            return _generic(module, last_name(outer), parts, depth)
    return _named(module, node)


def _named(module: Module, node: ast.expr) -> Hint:
    name = last_name(node)
    found = module.find(node)
    values = [str(v) for _, v in members(*found)] if found else []
    hint = Hint(name, node, tuple(v for v in values if v.isprintable()))
    return replace(hint, many="*") if name in _LISTS else hint


def _generic(module: Module, name: str, parts: list[ast.expr], depth: int) -> Hint:
    if name == "Literal":
        values = [module.value(part) for part in parts]
        texts = tuple(str(v) for v in values if v is not None)
        return Hint("Literal", None, tuple(t for t in texts if t.isprintable() and t), None in values)
    if name == "Union":
        return _union(module, parts, depth)
    if not parts:
        return Hint(name)
    inner = hint_of(module, parts[0], depth + 1)
    if name in _LISTS:
        return replace(inner, many="*")
    if name in _TUPLES:
        open_end = isinstance(parts[-1], ast.Constant) and parts[-1].value is ...
        return replace(inner, many="*" if open_end else str(len(parts)))
    if name in _OUTER:
        extras = (*inner.extras, *parts[1:]) if name == "Annotated" else inner.extras
        return replace(
            inner, extras=extras, optional=inner.optional or name == "Optional", outer=(name, *inner.outer)
        )
    return Hint(name)


def _members(node: ast.expr) -> list[ast.expr]:
    """The members of ``A | B | …``, without recursion: a chain may be long."""
    parts: list[ast.expr] = []
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        parts.insert(0, node.right)
        node = node.left
    return [node, *parts]


def _union(module: Module, parts: list[ast.expr], depth: int) -> Hint:
    """The first member says the type; a type that takes any text comes last."""
    nothing = [p for p in parts if isinstance(p, ast.Constant) and p.value is None]
    hints = [hint_of(module, p, depth + 1) for p in parts[:8] if p not in nothing]
    if not hints:
        return Hint(optional=True)
    optional = bool(nothing) or any(h.optional for h in hints)
    if len(hints) == 1:
        return replace(hints[0], optional=optional)
    numbers = {h.name for h in hints} <= {"int", "float"}
    return Hint("float" if numbers else "|".join(h.name for h in hints if h.name), None, optional=optional)
