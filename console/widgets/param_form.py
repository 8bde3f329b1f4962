"""A field for each parameter of a function, from its signature as read."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from textual.containers import Horizontal, Vertical
from textual.widgets import Static

from console.widgets import figures as fig
from console.widgets.choice import Choice
from console.widgets.field import Field
from launcher.signature import Parameter, ParameterKind, Signature

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.widget import Widget

_NAMED = (ParameterKind.POSITIONAL, ParameterKind.KEYWORD)


class ParamForm(Vertical):
    """The parameters that can be given by name. What is left empty keeps its default."""

    DEFAULT_CSS = """
    ParamForm { height: auto; }
    """

    def __init__(self, *, id: str | None = None) -> None:  # noqa: A002
        super().__init__(id=id)
        self.signature: Signature | None = None
        self._given: Mapping[str, str] = {}

    def compose(self) -> ComposeResult:
        """One line a parameter."""
        for parameter in named(self.signature):
            with Horizontal(classes="row"):
                label = fig.shorten(parameter.name, 12)
                yield Static(f" {label}", classes="label parameter", markup=False)
                yield self._field(parameter)
                yield Static(_note(parameter), classes="note", markup=False)

    async def show(self, signature: Signature | None, given: Mapping[str, str]) -> None:
        """Make fields for another function, filled with what is given."""
        if signature == self.signature and not given:
            return
        self.signature, self._given = signature, given
        await self.recompose()

    @property
    def values(self) -> dict[str, str]:
        """What differs from the defaults, by name, as typed."""
        found = {}
        for parameter in named(self.signature):
            value = self._value_of(parameter.name)
            if value and value != spoken_default(parameter):
                found[parameter.name] = value
        return found

    def _value_of(self, name: str) -> str:
        for field in self.query("Input, Choice"):
            if field.name == name and isinstance(field, (Field, Choice)):
                return "" if field.value == fig.UNKNOWN else field.value
        return ""

    def _field(self, parameter: Parameter) -> Widget:
        default, given = spoken_default(parameter), self._given.get(parameter.name)
        values = choices_of(parameter)
        if values:
            start = given or default or fig.UNKNOWN
            return Choice(values if start in values else (start, *values), start, name=parameter.name)
        hint = "required" if parameter.required else parameter.default or ""
        return Field(value=given or "", placeholder=hint, name=parameter.name)


def named(signature: Signature | None) -> Iterator[Parameter]:
    """The parameters that can be given by name."""
    if signature is not None:
        yield from (p for p in signature.parameters if p.kind in _NAMED and not p.unnamed)


def takes_positional(signature: Signature | None) -> bool:
    """Whether some arguments can be given by place only."""
    if signature is None:
        return False
    return any(p.unnamed or p.kind is ParameterKind.VAR_POSITIONAL for p in signature.parameters)


def choices_of(parameter: Parameter) -> tuple[str, ...]:
    """The few values a parameter can have, if they are few."""
    if parameter.choices:
        return parameter.choices
    return ("False", "True") if parameter.annotation == "bool" else ()


def spoken_default(parameter: Parameter) -> str | None:
    """The default as a person would type it: text without its quotes."""
    if parameter.default is None:
        return None
    try:
        value = ast.literal_eval(parameter.default)
    except (ValueError, SyntaxError):
        return parameter.default
    return value if isinstance(value, str) else parameter.default


def _note(parameter: Parameter) -> str:
    return "" if choices_of(parameter) else parameter.annotation
