"""Options that are the fields of dataclasses, or the parameters of functions and classes."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto

from launcher.spec.signature import last_name

from .annotations import Hint, hint_of
from .docstrings import described_parameters
from .modules import Definition, Function, Module, keywords_of, members
from .option import MOST_OPTIONS, SWITCH, ScriptOption

_MOST_NESTED = 6
_MAKERS = {
    "field", "Field", "HfArg", "arg", "choice", "mutable_field", "list_field", "dict_field", "flag",
}  # fmt: skip
_COMMANDS = ("fit", "validate", "test", "predict")


class Style(Enum):
    """How a library makes options of fields."""

    HF = auto()
    """``--max_steps 3``; a bool may have a value."""
    SIMPLE = auto()
    """As `HF`; fields of inner dataclasses have no prefix."""
    TYRO = auto()
    """``--optim.max-steps 3``; a bool is ``--a`` or ``--no-a``."""
    DOTTED = auto()
    """``--optim.max_steps 3``; lists are one word."""
    TAP = auto()
    """``--max_steps 3``; a bool is a flag."""


_STYLES = {
    "HfArgumentParser": Style.HF, "TrlParser": Style.HF, "H4ArgumentParser": Style.HF,
    "simple_parsing": Style.SIMPLE, "tyro": Style.TYRO, "draccus": Style.DOTTED, "pyrallis": Style.DOTTED,
    "fire": Style.DOTTED, "jsonargparse": Style.DOTTED,
}  # fmt: skip
_CALLS = {
    "simple_parsing": {"parse"}, "tyro": {"cli"}, "draccus": {"parse", "wrap"}, "pyrallis": {"parse", "wrap"},
    "fire": {"Fire"}, "jsonargparse": {"CLI", "auto_cli"},
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TypedField:
    """One field or parameter: its annotation, its default if it has one, and whether that is computed."""

    name: str
    module: Module
    hint: Hint
    default: ast.expr | None = None
    computed: bool = False
    help: str = ""
    choices: tuple[str, ...] = ()

    @property
    def required(self) -> bool:
        """Whether a value must be given."""
        return self.default is None and not self.computed


@dataclass(frozen=True, slots=True)
class FromTypes:
    """Options, the library that makes them, and the names of types that could not be read."""

    options: tuple[ScriptOption, ...] = ()
    library: str = ""
    unread: tuple[str, ...] = ()


def dataclass_options(module: Module) -> FromTypes:
    """The options of the first call that makes a command line of types."""
    for node in ast.walk(module.tree):
        if isinstance(node, Function) and (found := _wrapped(module, node)) is not None:
            return found
        if isinstance(node, ast.Call) and (found := _called(module, node)) is not None:
            return found
    return _taps(module)


def _called(module: Module, call: ast.Call) -> FromTypes | None:
    name = last_name(call.func)
    if name in _STYLES:
        return of_types(module, _types(call), _STYLES[name], name)
    if name.endswith("LightningCLI") or _is_cli(module, call.func):
        return _lightning(module, call)
    library = _library(module, call.func)
    if name in _CALLS.get(library, ()):
        return of_types(module, _types(call), _STYLES[library], library)
    return None


def _types(call: ast.Call) -> list[ast.expr]:
    """The types that a call is given."""
    given = call.args[0] if call.args else None
    for name in ("dataclass_types", "config_class", "component", "f"):
        given = given or keywords_of(call).get(name)
    if isinstance(given, (ast.Tuple, ast.List)):
        return given.elts
    return [given] if given is not None else []


def _library(module: Module, node: ast.expr) -> str:
    """The library that a function is from, by the imports of the module."""
    first = node.value if isinstance(node, ast.Attribute) else node
    dotted, _, level = module.imports.get(first.id if isinstance(first, ast.Name) else "", ("", "", 1))
    return "" if level else dotted.partition(".")[0]


def _wrapped(module: Module, node: Function) -> FromTypes | None:
    """The options of a function under ``@pyrallis.wrap()``: its first parameter is the dataclass."""
    for each in node.decorator_list:
        callee = each.func if isinstance(each, ast.Call) else each
        library = _library(module, callee)
        if last_name(callee) == "wrap" and library in ("draccus", "pyrallis") and node.args.args:
            hint = node.args.args[0].annotation
            return of_types(module, [hint] if hint is not None else [], Style.DOTTED, library)
    return None


def _taps(module: Module) -> FromTypes:
    for node in module.definitions.values():
        if isinstance(node, ast.ClassDef) and any(last_name(b) == "Tap" for b in node.bases):
            return of_types(module, [ast.Name(node.name, ast.Load())], Style.TAP, "tap")
    return FromTypes()


def of_types(module: Module, types: Sequence[ast.expr], style: Style, library: str) -> FromTypes:
    """The options of these dataclasses or functions."""
    options: list[ScriptOption] = []
    unread: list[str] = []
    for node in types:
        found = module.find(node)
        if found is None:
            unread.append(last_name(node) or "a type")
            continue
        reader = _TypeReader(style)
        options += reader.options(*found)
        unread += reader.unread
    return FromTypes(tuple({o.key: o for o in options}.values())[:MOST_OPTIONS], library, tuple(unread))


class _TypeReader:
    """Makes options of the entries of a type, and of those inside."""

    def __init__(self, style: Style) -> None:
        self._style = style
        self.unread: list[str] = []
        self._made = 0

    def options(
        self, module: Module, node: Definition, prefix: str = "", inside: frozenset[str] = frozenset()
    ) -> Iterator[ScriptOption]:
        """The options of a dataclass or a function; a class inside itself is left out."""
        for entry in entries_of(module, node, self.unread).values():
            inner = entry.module.find(entry.hint.node)
            if inner is not None and isinstance(inner[1], ast.ClassDef) and not members(*inner):
                name = inner[1].name
                absent = isinstance(entry.default, ast.Constant) and entry.default.value is None
                if (
                    not absent
                    and name not in inside
                    and len(inside) < _MOST_NESTED
                    and self._style is not Style.HF
                ):
                    below = "" if self._style in (Style.SIMPLE, Style.TAP) else f"{prefix}{entry.name}."
                    yield from self.options(*inner, below, inside | {name})
                continue
            self._made += 1
            if self._made > MOST_OPTIONS:
                return
            yield self._option(entry, prefix)

    def _option(self, entry: TypedField, prefix: str) -> ScriptOption:
        style, hint = self._style, entry.hint
        name = f"{prefix}{entry.name}"
        shown = name.replace("_", "-") if style is Style.TYRO else name
        is_bool = hint.name == "bool" and not hint.many
        choices = entry.choices or hint.choices
        option = ScriptOption(
            (f"--{shown}",),
            kind="" if choices else hint.kind,
            choices=choices,
            default="…" if entry.computed else entry.module.written(entry.default),
            help=entry.help,
            required=entry.required and not (is_bool and style in (Style.HF, Style.TAP)),
            many={Style.HF: "+", Style.DOTTED: ""}.get(style, "*") if hint.many == "*" else hint.many,
        )
        if style is Style.DOTTED and hint.many:
            return replace(option, kind=f"list of {hint.kind or 'text'}", many="", choices=())
        return _switch(option, style, shown, prefix) if is_bool else option


def _switch(option: ScriptOption, style: Style, shown: str, prefix: str) -> ScriptOption:
    if style is Style.TYRO:
        before = prefix.replace("_", "-")
        return replace(option, kind="", flag=True, off=(f"--{before}no-{shown.removeprefix(before)}",))
    if style is Style.TAP:
        return replace(option, kind="", flag=True, default="False")
    default = option.default or "False"
    many = "?" if style in (Style.HF, Style.SIMPLE) else ""
    off = (f"--no_{shown}",) if style is Style.HF and default == "True" else ()
    return replace(option, kind="", choices=SWITCH, default=default, many=many, off=off)


# --- fields and parameters -------------------------------------------------------------------------------


def entries_of(module: Module, node: Definition, unread: list[str], depth: int = 0) -> dict[str, TypedField]:
    """The fields of a class, with those of its bases, or the parameters of a function, by name."""
    if isinstance(node, Function):
        return {e.name: e for e in _parameters(module, node)}
    entries: dict[str, TypedField] = {}
    for base in reversed(node.bases):
        found = module.find(base)
        if found is not None and found[1] is not node and depth < _MOST_NESTED:
            entries |= entries_of(*found, unread, depth + 1)
        elif found is None and last_name(base) not in (
            "object",
            "Generic",
            "Protocol",
            "ABC",
            "Tap",
            "Serializable",
        ):
            unread.append(last_name(base) or "a base class")
    told = described_parameters(ast.get_docstring(node) or "")
    below = [*node.body[1:], None]
    for each, after in zip(node.body, below, strict=True):
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            entry = _field(module, each, after, told)
            if entry is not None:
                entries[entry.name] = entry
    return entries or _constructor(module, node)


def _constructor(module: Module, node: ast.ClassDef) -> dict[str, TypedField]:
    made = next((n for n in node.body if isinstance(n, Function) and n.name == "__init__"), None)
    return {e.name: e for e in _parameters(module, made)} if made is not None else {}


def _field(
    module: Module, node: ast.AnnAssign, after: ast.stmt | None, told: Mapping[str, str]
) -> TypedField | None:
    """A field; None for a class variable, and for one that is no parameter of the constructor."""
    assert isinstance(node.target, ast.Name)
    name, hint = node.target.id, hint_of(module, node.annotation)
    if name.startswith("_") or "ClassVar" in hint.outer or hint.name == "ClassVar":
        return None
    below = after.value if isinstance(after, ast.Expr) else None
    about = inspect.cleandoc(module.text(below)) or module.comment(node) or told.get(name, "")
    value = node.value
    if not (isinstance(value, ast.Call) and last_name(value.func) in _MAKERS):
        return TypedField(name, module, hint, value, help=about)
    keywords = keywords_of(value)
    if module.value(keywords.get("init")) is False:
        return None
    told_by = _metadata(module, keywords)
    default, factory = keywords.get("default"), keywords.get("default_factory")
    if default is None and factory is None and value.args:
        default = value.args[0]
    made = _made_by(factory)
    return TypedField(
        name,
        module,
        hint,
        default if default is not None else made,
        computed=factory is not None and made is None,
        help=module.text(told_by.get("help") or keywords.get("help")) or about,
        choices=module.items(told_by.get("choices") or keywords.get("choices")),
    )


def _metadata(module: Module, keywords: Mapping[str, ast.expr]) -> dict[str, ast.expr]:
    given = keywords.get("metadata")
    if not isinstance(given, ast.Dict):
        return {}
    pairs = zip(given.keys, given.values, strict=True)
    return {key: value for k, value in pairs if isinstance(key := module.value(k), str)}


def _made_by(factory: ast.expr | None) -> ast.expr | None:
    """The expression that a default's factory returns; None if only running it tells."""
    if isinstance(factory, ast.Lambda):
        return factory.body
    empty = {"list": ast.List([], ast.Load()), "dict": ast.Dict([], []), "tuple": ast.Tuple([], ast.Load())}
    return empty.get(last_name(factory))


def _parameters(module: Module, node: Function) -> Iterator[TypedField]:
    told = described_parameters(ast.get_docstring(node) or "")
    args = node.args
    leading = [*args.posonlyargs, *args.args]
    defaults: list[ast.expr | None] = [*[None] * (len(leading) - len(args.defaults)), *args.defaults]
    pairs = [*zip(leading, defaults, strict=True), *zip(args.kwonlyargs, args.kw_defaults, strict=True)]
    for arg, default in pairs:
        if arg.arg not in ("self", "cls"):
            hint = hint_of(module, arg.annotation)
            if (
                not hint.name
                and isinstance(default, ast.Constant)
                and type(default.value) in (int, float, bool)
            ):
                hint = replace(hint, name=type(default.value).__name__)
            yield TypedField(arg.arg, module, hint, default, help=told.get(arg.arg, ""))


# --- Lightning -------------------------------------------------------------------------------------------


def _is_cli(module: Module, node: ast.expr) -> bool:
    found = module.find(node)
    return bool(
        found
        and isinstance(found[1], ast.ClassDef)
        and any(last_name(b).endswith("LightningCLI") for b in found[1].bases)
    )


def _lightning(module: Module, call: ast.Call) -> FromTypes:
    """The parameters of the model and of the data; those of the trainer are not read."""
    keywords = keywords_of(call)
    given = [*call.args[:2], *[None] * (2 - len(call.args[:2]))]
    types = {
        "model": given[0] or keywords.get("model_class"),
        "data": given[1] or keywords.get("datamodule_class"),
    }
    options = [ScriptOption(("--config", "-c"), kind="Path", help="a YAML file with values", repeats=True)]
    unread = ["Trainer"]
    for prefix, node in types.items():
        found = module.find(node)
        if node is not None and found is not None:
            reader = _TypeReader(Style.DOTTED)
            options += [replace(o, required=False) for o in reader.options(*found, f"{prefix}.")]
        elif node is not None:
            unread.append(last_name(node) or prefix)
    if module.value(keywords.get("run")) is False:
        return FromTypes(tuple(options), "LightningCLI", tuple(unread))
    choice = ScriptOption(("subcommand",), choices=_COMMANDS, required=True, commands=True)
    below = (replace(o, command=name) for name in _COMMANDS for o in options)
    return FromTypes((choice, *below)[:MOST_OPTIONS], "LightningCLI", tuple(unread))
