"""A field for each parameter of a function, made from its signature."""

from __future__ import annotations

import ast
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from textual import on
from textual.containers import Vertical

from launcher.errors import SpecError
from launcher.spec.signature import Parameter, ParameterKind, Signature, literal

from ... import formatting as fig
from ...data.launch.completion import names_path
from ...data.launch.draft import split_pairs
from ..widgets.fields import Choice, Field, FormRow, PathSuggester, Toggle, harmless

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.widget import Widget

_NAMED = (ParameterKind.POSITIONAL, ParameterKind.KEYWORD)
_SWITCHES = ("bool", "bool | None", "None | bool", "Optional[bool]", "typing.Optional[bool]")
OTHERS = "others"


class ParamForm(Vertical):
    """The parameters that can be passed by name. An empty field means the default.

    A last field takes ``NAME=VALUE`` for other parameters, if the function has ``**``, or if no signature
    could be read.
    """

    DEFAULT_CSS = """
    ParamForm { height: auto; }
    ParamForm .label { color: $foreground; }
    ParamForm .remark { width: 18; }
    ParamForm.-told Field, ParamForm.-told Choice { min-width: 18; }
    ParamForm.-told .remark { width: 1.5fr; }
    """

    def __init__(self, workdir: Path, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.signature: Signature | None = None
        self._workdir = workdir
        self._given: Mapping[str, str] = {}
        self._open = False
        self.about: Mapping[str, str] = {}

    def compose(self) -> ComposeResult:
        """A line for each parameter."""
        for parameter in named(self.signature):
            label = f" {fig.shorten(parameter.name, 11)}"
            yield FormRow(label, self._field(parameter), remark=self._note(parameter), name=parameter.name)
        if self._open:
            text = shlex.join(f"{name}={value}" for name, value in self._others().items())
            field = Field(value=text, placeholder="name=value other='a b'", id=OTHERS)
            yield FormRow(" others", field, name=OTHERS)

    async def show(self, signature: Signature | None, given: Mapping[str, str], *, is_function: bool) -> None:
        """Make the fields of another function, filled with the values `given`."""
        self.signature, self._given = signature, given
        self.set_class(bool(self.about), "-told")
        self._open = is_function and (takes_others(signature) or bool(self._others()))
        await self.recompose()

    @property
    def is_open(self) -> bool:
        """Whether there is a field for other parameters, whose content is of one target only."""
        return self._open

    @property
    def values(self) -> dict[str, str]:
        """The values that differ from the defaults, by name, as typed."""
        values = {}
        for parameter in named(self.signature):
            value = self._value_of(parameter.name)
            if value and value != typed_default(parameter):
                values[parameter.name] = value
        try:
            return {**self._typed_others(), **values}
        except SpecError:
            return values

    def judge(self, name: str | None, problem: str | None) -> None:
        """Show what is wrong with a parameter, and every value that cannot be of its parameter's type."""
        for row in self.query(FormRow):
            parameter = next((p for p in named(self.signature) if p.name == row.name), None)
            own = self._value_problem(parameter) if parameter else self._others_problem()
            row.judge(own or (problem if row.name == name else None))

    @on(Field.Changed)
    @on(Choice.Changed)
    def _typed(self) -> None:
        self.judge(None, None)

    def _value_problem(self, parameter: Parameter) -> str | None:
        text = self._value_of(parameter.name)
        try:
            if text and text != typed_default(parameter):
                literal(parameter, text)
        except SpecError as error:
            return str(error)
        return None

    def _others_problem(self) -> str | None:
        try:
            self._typed_others()
        except SpecError as error:
            return str(error)
        return None

    def _typed_others(self) -> dict[str, str]:
        field = next(iter(self.query(f"#{OTHERS}").results(Field)), None)
        return split_pairs(field.value) if field else {}

    def _others(self) -> dict[str, str]:
        known = {p.name for p in named(self.signature)}
        return {name: value for name, value in self._given.items() if name not in known}

    def _value_of(self, name: str) -> str:
        for field in self.query("Input, Choice"):
            if field.name == name and isinstance(field, (Field, Choice)):
                return "" if field.value == fig.UNKNOWN else field.value
        return ""

    def _note(self, parameter: Parameter) -> str:
        """The type, and what the docstring says."""
        kind = "" if choices_of(parameter) else fig.shorten(parameter.annotation, 16)
        return harmless(" · ".join(filter(None, [kind, self.about.get(parameter.name, "")])))

    def _field(self, parameter: Parameter) -> Widget:
        default, given = typed_default(parameter), self._given.get(parameter.name)
        values = choices_of(parameter)
        if values:
            start = given or default or fig.UNKNOWN
            kind = Toggle if is_switch(parameter) else Choice
            return kind(values if start in values else (start, *values), start, name=parameter.name)
        hint = _required(parameter) if parameter.required else default or parameter.default or ""
        suggester = PathSuggester(self._workdir) if is_path(parameter) else None
        return Field(value=given or "", placeholder=hint, name=parameter.name, suggester=suggester)


def named(signature: Signature | None) -> Iterator[Parameter]:
    """The parameters that can be passed by name."""
    if signature is not None:
        yield from (p for p in signature.parameters if p.kind in _NAMED and not p.unnamed)


def takes_positional(signature: Signature | None) -> bool:
    """Whether some arguments can be passed only by position."""
    if signature is None:
        return False
    return any(p.unnamed or p.kind is ParameterKind.VAR_POSITIONAL for p in signature.parameters)


def takes_others(signature: Signature | None) -> bool:
    """Whether the function takes other named arguments; True if the signature is unknown."""
    if signature is None:
        return True
    return any(p.kind is ParameterKind.VAR_KEYWORD for p in signature.parameters)


def is_switch(parameter: Parameter) -> bool:
    """Whether a parameter is a bool."""
    untyped = not parameter.annotation and parameter.default in ("True", "False")
    return untyped or parameter.annotation in _SWITCHES


def is_path(parameter: Parameter) -> bool:
    """Whether a parameter names a file or a folder."""
    if "Path" in parameter.annotation:
        return True
    return parameter.annotation in ("", "str", "str | None") and names_path(parameter.name)


def choices_of(parameter: Parameter) -> tuple[str, ...]:
    """The values of a parameter with a fixed set of values; else empty."""
    if parameter.choices:
        return parameter.choices
    return ("False", "True") if is_switch(parameter) else ()


def typed_default(parameter: Parameter) -> str | None:
    """The default as a person would type it: a string without quotes, and a path without its class."""
    if parameter.default is None:
        return None
    try:
        value = ast.literal_eval(_inside_path(ast.parse(parameter.default, mode="eval").body))
    except (ValueError, SyntaxError):
        return parameter.default
    return value if isinstance(value, str) else parameter.default


def _inside_path(node: ast.expr) -> ast.expr:
    """The argument of ``Path(…)``; any other expression unchanged."""
    if not isinstance(node, ast.Call) or len(node.args) != 1 or node.keywords:
        return node
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return node.args[0] if name == "Path" else node


_EXAMPLES = (("list", "['a', 'b']"), ("tuple", "(1, 2)"), ("dict", "{'a': 1}"))


def _required(parameter: Parameter) -> str:
    """What an empty field shows of a parameter without default: how to write a container."""
    kind = parameter.annotation.lower().removeprefix("typing.")
    example = next((text for name, text in _EXAMPLES if kind.startswith((name, f"optional[{name}"))), "")
    example = "[1, 2]" if example[:1] == "[" and ("int" in kind or "float" in kind) else example
    return f"required, such as {example}" if example else "required"
