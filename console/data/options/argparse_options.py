"""Options of argparse, by following how a script builds its parsers: the calls on them, in their order.

Functions that get or return a parser are followed, also into modules beside the script. Options that are made
in a loop, or whose names are computed, are not seen.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from launcher.spec.signature import last_name

from .modules import Function, Module, keywords_of, statements
from .option import MOST_OPTIONS, ScriptOption

_NO_VALUE = {"store_true", "store_false", "store_const", "append_const", "count", "help", "version"}
_UNSHOWN = {"help", "version"}
_MAKERS = ("ArgumentParser", "ArgParser")
_OF_PARSERS = {"add_argument", "set_defaults", "parse_args", "parse_known_args"}
_TYPES = {"FileType": "Path", "PosixPath": "Path"}
_MOST_CALLS = 400
_MOST_DEPTH = 8


@dataclass(eq=False)
class _BuiltParser:
    """A parser, or a group of one: what was added to it."""

    options: list[ScriptOption] = field(default_factory=list)
    commands: dict[str, _BuiltParser] = field(default_factory=dict)
    commands_at: tuple[str, str, bool] | None = None
    parsed: bool = False
    inherited: bool = False
    loose: bool = False
    exclusive: int = 0
    dataclasses: list[tuple[Module, ast.expr]] = field(default_factory=list)


Scope = dict[str, _BuiltParser]


@dataclass(frozen=True, slots=True)
class Built:
    """What argparse was told: the options, whether others pass, and classes that were added as a whole."""

    options: tuple[ScriptOption, ...]
    loose: bool
    classes: tuple[tuple[Module, ast.expr], ...] = ()


def argparse_options(module: Module) -> Built:
    """What the parsers take that a script builds."""
    follower = _Follower()
    follower.run(module, module.tree.body, {})
    for node in ast.walk(module.tree):  # what nothing calls here, such as methods
        if isinstance(node, Function) and node not in follower.followed and _adds(node):
            follower.run(module, node.body, {}, depth=1)
    parsers = follower.chosen()
    options = [option for parser in parsers for option in _all(parser)]
    unique = {option.key: option for option in options}
    return Built(
        tuple(unique.values())[:MOST_OPTIONS],
        any(parser.loose for parser in parsers),
        tuple(each for parser in parsers for each in parser.dataclasses),
    )


def _adds(node: Function) -> bool:
    calls = (each.func for each in ast.walk(node) if isinstance(each, ast.Call))
    return any(last_name(call) == "add_argument" for call in calls)


def _all(parser: _BuiltParser, command: str = "") -> Iterator[ScriptOption]:
    """The options of a parser and of its subcommands; a subcommand's own subcommands are left out."""
    positions = [o for o in parser.options if o.positional]
    yield from (replace(o, command=command) for o in parser.options)
    if parser.commands_at is not None and not command:
        name, about, required = parser.commands_at
        yield ScriptOption(
            (name,),
            choices=tuple(parser.commands),
            help=about,
            required=required or bool(positions),
            commands=True,
        )
        for key, each in parser.commands.items():
            yield from _all(each, key)


class _Follower:
    """Follows the statements that build parsers."""

    def __init__(self) -> None:
        self.followed: set[Function] = set()
        self._parsers: list[_BuiltParser] = []
        self._unnamed = _BuiltParser()
        self._own: Scope = {}  # attributes, such as ``self.parser``
        self._groups = 0
        self._calls = 0

    def chosen(self) -> list[_BuiltParser]:
        """The parsers that read the command line: those that do so, else all that no other one includes."""
        reading = [p for p in self._parsers if p.parsed]
        alone = [p for p in self._parsers if not p.inherited]
        return [*(reading or alone), self._unnamed]

    def run(
        self, module: Module, body: Sequence[ast.stmt], scope: Scope, depth: int = 0
    ) -> _BuiltParser | None:
        """Follow statements; the parser that they return."""
        for node in statements(body):
            match node:
                case ast.Assign(targets=targets, value=value):
                    self._bind(targets, self._of(module, value, scope, depth), scope)
                case ast.AnnAssign(target=target, value=ast.expr() as value):
                    self._bind([target], self._of(module, value, scope, depth), scope)
                case ast.Expr(value=value):
                    self._of(module, value, scope, depth)
                case ast.Return(value=ast.expr() as value):
                    if (parser := self._of(module, value, scope, depth)) is not None:
                        return parser
                case ast.With(items=items):
                    for item in items:
                        self._bind(
                            [item.optional_vars] if item.optional_vars else [],
                            self._of(module, item.context_expr, scope, depth),
                            scope,
                        )
        return None

    def _bind(self, targets: Sequence[ast.expr], parser: _BuiltParser | None, scope: Scope) -> None:
        for target in targets:
            if isinstance(target, ast.Name):
                if parser is not None:
                    scope[target.id] = parser
            elif isinstance(target, ast.Attribute) and parser is not None:
                self._own[target.attr] = parser

    def _of(self, module: Module, node: ast.expr, scope: Scope, depth: int) -> _BuiltParser | None:
        """The parser that an expression is; what it does to parsers is done."""
        match node:
            case ast.Name(id=name):
                return scope.get(name)
            case ast.Attribute(attr=name):
                return self._own.get(name)
            case ast.Await(value=inner) | ast.Starred(value=inner):
                return self._of(module, inner, scope, depth)
            case ast.Tuple(elts=elements) | ast.List(elts=elements):
                found = [self._of(module, each, scope, depth) for each in elements[:8]]
                return next((each for each in found if each is not None), None)
            case ast.Call():
                return self._call(module, node, scope, depth)
        return None

    def _call(self, module: Module, call: ast.Call, scope: Scope, depth: int) -> _BuiltParser | None:
        self._calls += 1
        if self._calls > _MOST_CALLS + 4 * MOST_OPTIONS or depth > _MOST_DEPTH:
            return None
        name = last_name(call.func)
        if isinstance(call.func, ast.Attribute):
            on = self._of(module, call.func.value, scope, depth)
            if on is None and name in _OF_PARSERS:
                on = self._unnamed
            if on is not None:
                return self._method(module, on, name, call, scope)
        if name.endswith(_MAKERS) and name != "HfArgumentParser":
            return self._parser(module, call, scope)
        return self._function(module, call, scope, depth)

    def _parser(self, module: Module, call: ast.Call, scope: Scope) -> _BuiltParser:
        parser = _BuiltParser()
        self._parsers.append(parser)
        self._include(module, parser, call, scope)
        return parser

    def _include(self, module: Module, parser: _BuiltParser, call: ast.Call, scope: Scope) -> None:
        """Take over the options of ``parents=[…]``."""
        parents = keywords_of(call).get("parents")
        for each in getattr(parents, "elts", ()):
            parent = self._of(module, each, scope, 0)
            if parent is not None:
                parent.inherited = True
                parser.options += parent.options

    def _method(
        self, module: Module, on: _BuiltParser, name: str, call: ast.Call, scope: Scope
    ) -> _BuiltParser | None:
        match name:
            case "add_argument":
                if not _is_off(module, on, call):
                    on.options += _option(module, call, on.exclusive)[: MOST_OPTIONS - len(on.options)]
            case "add_arguments" if call.args:
                on.dataclasses.append((module, call.args[0]))
            case "parse_args" | "parse_known_args" | "parse_intermixed_args":
                on.parsed = True
                on.loose = on.loose or name == "parse_known_args"
            case "add_argument_group":
                return _BuiltParser(on.options, on.commands, exclusive=on.exclusive)
            case "add_mutually_exclusive_group":
                self._groups += 1
                return _BuiltParser(on.options, exclusive=self._groups)
            case "add_subparsers":
                on.commands_at = _command_argument(module, call)
                return _BuiltParser(commands=on.commands)
            case "add_parser":
                return self._command(module, on, call, scope)
            case "set_defaults":
                _set_defaults(module, on, call)
        return None

    def _command(self, module: Module, on: _BuiltParser, call: ast.Call, scope: Scope) -> _BuiltParser:
        parser = _BuiltParser()
        name = module.value(call.args[0]) if call.args else None
        if isinstance(name, str) and name.isprintable() and name:
            on.commands[name] = parser
        self._include(module, parser, call, scope)
        return parser

    def _function(self, module: Module, call: ast.Call, scope: Scope, depth: int) -> _BuiltParser | None:
        """Follow a function of the script that is called: with a parser, or to get one."""
        found = module.find(call.func)
        node = found[1] if found is not None else None
        if found is None or not isinstance(node, Function):
            for each in call.args[:8]:
                self._of(module, each, scope, depth + 1)
            return None
        there = found[0]
        inner = self._arguments(module, node, call, scope, depth)
        if node in self.followed and not inner:
            return self._again(there, node, depth)
        self.followed.add(node)
        return self.run(there, node.body, inner, depth + 1)

    def _again(self, module: Module, node: Function, depth: int) -> _BuiltParser | None:
        """A function that is called twice makes another parser with the same options."""
        returns = any(isinstance(each, ast.Return) and each.value for each in ast.walk(node))
        return self.run(module, node.body, {}, depth + 1) if returns else None

    def _arguments(self, module: Module, node: Function, call: ast.Call, scope: Scope, depth: int) -> Scope:
        names = [arg.arg for arg in (*node.args.posonlyargs, *node.args.args)]
        given = [*zip(names, call.args, strict=False), *keywords_of(call).items()]
        inner = {name: self._of(module, value, scope, depth + 1) for name, value in given[:16]}
        return {name: parser for name, parser in inner.items() if parser is not None}


def _command_argument(module: Module, call: ast.Call) -> tuple[str, str, bool]:
    keywords = keywords_of(call)
    name = module.text(keywords.get("dest")) or module.text(keywords.get("metavar")) or "command"
    return name, module.text(keywords.get("help")), module.value(keywords.get("required")) is True


def _set_defaults(module: Module, on: _BuiltParser, call: ast.Call) -> None:
    for name, value in keywords_of(call).items():
        for at, option in enumerate(on.options):
            if option.label.replace("-", "_") == name and (option.off or not option.flag):
                on.options[at] = replace(option, default=module.written(value), required=False)


def _is_off(module: Module, on: _BuiltParser, call: ast.Call) -> bool:
    """Note the names of a flag that switches another one off: it has the ``dest`` of that one."""
    keywords, names = keywords_of(call), _strings(module, call.args)
    if not names or module.value(keywords.get("action")) != "store_false":
        return False
    for at, option in enumerate(on.options):
        same = option.label.replace("-", "_") == module.text(keywords.get("dest"))
        if same and option.flag and not option.counts:
            on.options[at] = replace(option, off=(*option.off, *names))
            return True
    return False


def _option(module: Module, call: ast.Call, exclusive: int) -> list[ScriptOption]:
    """The option of an `add_argument`; none if its names are computed, or if it only tells something."""
    names, keywords = _strings(module, call.args), keywords_of(call)
    action, negatable = module.value(keywords.get("action")), _negatable(keywords.get("action"))
    if not names or action in _UNSHOWN:
        return []
    off = tuple(f"--no-{name[2:]}" for name in names if name.startswith("--")) if negatable else ()
    flag = negatable or (isinstance(action, str) and action in _NO_VALUE)
    many = module.value(keywords.get("nargs"))
    default = module.written(keywords.get("default"))
    option = ScriptOption(
        names,
        kind=kind_of(keywords.get("type")),
        choices=() if flag else module.items(keywords.get("choices")),
        default="False" if action in ("store_true", "store_false") else default,
        help=module.text(keywords.get("help")),
        required=module.value(keywords.get("required")) is True,
        flag=flag,
        off=off,
        many="" if flag or many is None else _many(many),
        repeats=action in ("append", "extend"),
        counts=action == "count",
        exclusive=exclusive,
    )
    if option.positional:
        option = replace(option, required=option.many not in ("?", "*"))
    return [option]


def _negatable(action: ast.expr | None) -> bool:
    return last_name(action) == "BooleanOptionalAction"


def _many(value: object) -> str:
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return str(value)
    return value if value in ("?", "*", "+") and isinstance(value, str) else "*"


def _strings(module: Module, nodes: Sequence[ast.expr]) -> tuple[str, ...]:
    """The arguments if all are printable texts without spaces; else none."""
    values = [module.value(node) for node in nodes]
    fit = all(isinstance(v, str) and v and v.isprintable() and " " not in v for v in values)
    return tuple(values) if fit else ()


def kind_of(node: ast.expr | None) -> str:
    """The name of a type as it is shown; empty for text."""
    name = last_name(node.func if isinstance(node, ast.Call) else node)
    return "" if name == "str" else _TYPES.get(name, name)
