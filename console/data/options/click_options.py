"""Options of click and typer: decorators, and parameters of the functions that typer runs."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from launcher.spec.signature import last_name

from .annotations import Hint, hint_of
from .argparse_options import kind_of
from .modules import UNKNOWN, Function, Module, keywords_of, statements
from .option import SWITCH, ScriptOption

_KINDS = {
    "INT": "int", "IntRange": "int", "FLOAT": "float", "FloatRange": "float", "BOOL": "bool", "STRING": "",
    "Path": "Path", "File": "Path",
}  # fmt: skip
_ENDINGS = ("_command", "_cmd", "_group", "_grp")


@dataclass(frozen=True, slots=True)
class _RunFunction:
    """A function that is run for a command line, and the name of its command."""

    name: str
    options: tuple[ScriptOption, ...]
    help: str = ""


def click_options(module: Module) -> tuple[ScriptOption, ...]:
    """The options of a script's command, or of its group and the commands in it."""
    shared: list[ScriptOption] = []
    commands: list[_RunFunction] = []
    for node in _functions(module):
        options = tuple(o for d in node.decorator_list if (o := _click(module, d)) is not None)
        decorators = [d for d in node.decorator_list if _name(d) in ("command", "group")]
        below = any(isinstance(_callee(d), ast.Attribute) and not _is_click(_callee(d)) for d in decorators)
        if below:
            commands.append(_RunFunction(_command_name(module, node, decorators[0]), options, _about(node)))
        else:
            shared += options
    return _joined(shared, commands)


def typer_options(module: Module) -> tuple[ScriptOption, ...]:
    """The options of the functions that typer runs."""
    run = {
        last_name(node.args[0])
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call) and last_name(node.func) == "run" and node.args
    }
    shared: list[ScriptOption] = []
    commands: list[_RunFunction] = []
    called_back = False
    for node in _functions(module):
        decorators = [d for d in node.decorator_list if _name(d) in ("command", "callback")]
        if node.name in run or any(_name(d) == "callback" for d in decorators):
            called_back = called_back or node.name not in run
            shared += _typer(module, node)
        elif decorators:
            name = _command_name(module, node, decorators[0])
            commands.append(_RunFunction(name, tuple(_typer(module, node)), _about(node)))
    if len(commands) == 1 and not called_back:  # typer asks for no name then
        return (*shared, *commands[0].options)
    return _joined(shared, commands)


def _functions(module: Module) -> Iterator[Function]:
    yield from (node for node in statements(module.tree.body) if isinstance(node, Function))


def _joined(shared: Sequence[ScriptOption], commands: Sequence[_RunFunction]) -> tuple[ScriptOption, ...]:
    if not commands:
        return tuple(shared)
    told = " · ".join(f"{c.name}: {c.help}" for c in commands if c.help)
    names = tuple(command.name for command in commands)
    choice = ScriptOption(("command",), choices=names, help=told, required=True, commands=True)
    own = (replace(o, command=command.name) for command in commands for o in command.options)
    return (*shared, choice, *own)


def _callee(decorator: ast.expr) -> ast.expr:
    return decorator.func if isinstance(decorator, ast.Call) else decorator


def _name(decorator: ast.expr) -> str:
    return last_name(_callee(decorator))


def _is_click(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and last_name(node.value) in ("click", "rich_click")


def _command_name(module: Module, node: Function, decorator: ast.expr) -> str:
    if isinstance(decorator, ast.Call):
        given = module.value(decorator.args[0] if decorator.args else keywords_of(decorator).get("name"))
        if isinstance(given, str) and given.isprintable() and given:
            return given
    ending = next((e for e in _ENDINGS if node.name.endswith(e) and node.name != e), "")
    return node.name.removesuffix(ending).replace("_", "-").lower()


def _about(node: Function) -> str:
    return " ".join((ast.get_docstring(node) or "").partition("\n")[0].split())


# --- click -----------------------------------------------------------------------------------------------


def _click(module: Module, decorator: ast.expr) -> ScriptOption | None:
    """The option of a ``@click.option`` or ``@click.argument``."""
    if not isinstance(decorator, ast.Call) or last_name(decorator.func) not in ("option", "argument"):
        return None
    keywords, dashed = keywords_of(decorator), last_name(decorator.func) == "option"
    written = [module.value(node) for node in decorator.args]
    texts = [w for w in written if isinstance(w, str) and w.isprintable() and w.startswith("-") == dashed]
    names, off = names_of(texts if dashed else [w.lower() for w in texts])
    if not names or module.value(keywords.get("hidden")) is True:
        return None
    made = _click_value(module, ScriptOption(names, off=off), keywords)
    return _click_argument(module, made, keywords) if made.positional else made


def names_of(texts: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names in declarations such as ``--amp/--no-amp``: those that switch on, those that switch off."""
    pairs = [text.partition("/") for text in texts]
    return tuple(on.strip() for on, _, _ in pairs if on.strip()), tuple(
        o.strip() for _, _, o in pairs if o.strip()
    )


def _click_value(module: Module, option: ScriptOption, keywords: dict[str, ast.expr]) -> ScriptOption:
    kind, given = keywords.get("type"), keywords.get("default")
    default = module.value(given)
    choice = isinstance(kind, ast.Call) and last_name(kind.func) == "Choice"
    flag = bool(option.off) or module.value(keywords.get("is_flag")) is True or "flag_value" in keywords
    counts = module.value(keywords.get("count")) is True
    named = kind_of(kind)
    inferred = type(default).__name__ if type(default) in (int, float, bool) and kind is None else ""
    many = module.value(keywords.get("nargs"))
    written = module.written(given)
    return replace(
        option,
        kind="" if choice or flag else _KINDS.get(named, named) or inferred,
        choices=module.items(kind.args[0]) if choice and isinstance(kind, ast.Call) and kind.args else (),
        default=_on_or_off(default) if flag and not counts else written,
        help=module.text(keywords.get("help")),
        required=module.value(keywords.get("required")) is True,
        flag=flag or counts,
        many="*" if many == -1 else str(many) if isinstance(many, int) and many > 1 else "",
        repeats=module.value(keywords.get("multiple")) is True,
        counts=counts,
    )


def _on_or_off(default: object) -> str:
    return str(bool(default)) if default is not UNKNOWN else "…"


def _click_argument(module: Module, option: ScriptOption, keywords: dict[str, ast.expr]) -> ScriptOption:
    optional = option.default is not None or option.many == "*"
    asked = module.value(keywords.get("required"))
    return replace(option, required=asked if isinstance(asked, bool) else not optional)


# --- typer -----------------------------------------------------------------------------------------------


def _typer(module: Module, node: Function) -> Iterator[ScriptOption]:
    args = node.args
    leading = [*args.posonlyargs, *args.args]
    defaults: list[ast.expr | None] = [*[None] * (len(leading) - len(args.defaults)), *args.defaults]
    pairs = [*zip(leading, defaults, strict=True), *zip(args.kwonlyargs, args.kw_defaults, strict=True)]
    for arg, default in pairs:
        hint = hint_of(module, arg.annotation)
        if hint.name == "Context":
            continue
        option = _typed(module, arg.arg, hint, default)
        if option is not None:
            yield option


def _typed(module: Module, name: str, hint: Hint, default: ast.expr | None) -> ScriptOption | None:
    """The option of one parameter, told by ``Annotated[…, typer.Option(…)]`` or by its default."""
    told = next(
        (e for e in hint.extras if isinstance(e, ast.Call) and _name(e) in ("Option", "Argument")), None
    )
    if told is None and isinstance(default, ast.Call) and _name(default) in ("Option", "Argument"):
        told, default = default, default.args[0] if default.args else keywords_of(default).get("default")
        texts = told.args[1:]
    else:
        texts = told.args if told is not None else []
    keywords = keywords_of(told) if told is not None else {}
    needed = default is None or (isinstance(default, ast.Constant) and default.value is ...)
    if module.value(keywords.get("hidden")) is True:
        return None
    argument = _name(told) == "Argument" if told is not None else needed
    declared = [
        t for t in map(module.value, texts) if isinstance(t, str) and t.startswith("-") and t.isprintable()
    ]
    dashed = name.replace("_", "-")
    counts, switch = module.value(keywords.get("count")) is True, hint.name == "bool"
    names, off = names_of(declared)
    if argument:
        names, off = (dashed,), ()
    elif not names:
        names, off = (f"--{dashed}",), (f"--no-{dashed}",) if switch else ()
    flag = counts or (switch and not argument)
    return ScriptOption(
        names,
        kind="" if flag else hint.kind,
        choices=() if flag else SWITCH if switch else hint.choices,
        default=None if needed else "…" if "default_factory" in keywords else module.written(default),
        help=module.text(keywords.get("help")),
        required=needed and not hint.optional and "default_factory" not in keywords,
        flag=flag,
        off=off,
        many=hint.many if argument or hint.many.isdigit() else "",
        repeats=not argument and hint.many == "*",
        counts=counts,
    )
