"""A field for each option of a script: a view of the line of arguments, which is what is launched."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.containers import Vertical

from ... import formatting as fig
from ...data.launch.completion import names_path
from ...data.options.arguments import ArgumentLine, read_line, split_line, suited, write_value
from ...data.options.check import doubts, problem_of
from ...data.options.option import SWITCH, ScriptOption, ScriptParser
from ..widgets.fields import Choice, Field, FormRow, PathSuggester, Toggle, harmless
from .more import Fold

if TYPE_CHECKING:
    from textual.app import ComposeResult
    from textual.widget import Widget

SHOWN = 24
"""How many options have a field at once; the fields of the others are made when they are unfolded."""

_LONG = (11, 18)  # names up to these lengths have a narrow column, and a wider one
_MOST_CHOICES = 200
_NAME = "option:"  # before an option's own name, which may be that of another row


class OptionForm(Vertical):
    """The options of a script. An empty field means the default, and sends nothing.

    Args:
        line: gives the whole line of arguments.
        on_written: called with the line when a field has changed it.
    """

    DEFAULT_CSS = """
    OptionForm { height: auto; }
    OptionForm .label { color: $foreground; }
    OptionForm.-long .label { width: 20; }
    OptionForm.-longer .label { width: 30; }
    OptionForm.-long .wrong { padding-left: 20; }
    OptionForm.-longer .wrong { padding-left: 30; }
    OptionForm Field, OptionForm Choice { min-width: 18; }
    OptionForm .remark { width: 1.5fr; }
    """
    HELD: ClassVar[str] = "the arguments before it come first"

    def __init__(
        self,
        workdir: Path,
        line: Callable[[], str],
        on_written: Callable[[str], None],
        *,
        id: str | None = None,  # noqa: A002
    ) -> None:
        super().__init__(id=id)
        self.parser = ScriptParser()
        self._workdir, self._read_line, self._on_written = workdir, line, on_written
        self._text = ""
        self._line = ArgumentLine([])
        self._unfolded = False
        self._fields: dict[str, Field | Choice] = {}
        self._rows: dict[str, FormRow] = {}
        self._options: dict[str, ScriptOption] = {}
        self._fold = Fold(id="other-options")
        self._fold_row = FormRow("", self._fold)

    def compose(self) -> ComposeResult:
        """The line that unfolds what has no field yet."""
        yield self._fold_row

    def on_mount(self) -> None:
        """Hide the line: there are no options yet."""
        self._fold_row.display = False

    async def show(self, parser: ScriptParser, text: str) -> None:
        """Make the fields of a script, filled with what the line says. Fields that are there already stay."""
        if parser == self.parser:
            self.follow(text)
            return
        self.parser, self._unfolded = parser, self._unfolded and parser.library == self.parser.library
        self._text, self._line = text, read_line(parser.options, text) or ArgumentLine([])
        longest = max((len(o.label) for o in parser.options), default=0)
        self.set_class(_LONG[0] < longest <= _LONG[1], "-long")
        self.set_class(longest > _LONG[1], "-longer")
        await self._fit()
        for option in self.parser.options:
            self._set(option, self._line.value(option))

    async def _fit(self) -> None:
        """Have a row for each option that is shown; rows that stay keep the focus."""
        wanted = list(self._shown())
        kept = {o.key for o in wanted if self._options.get(o.key) == o}
        gone = [key for key in self._rows if key not in kept]
        rows = [self._rows.pop(key) for key in gone]
        for key in gone:
            del self._fields[key], self._options[key]
        with self.app.batch_update():
            if rows:
                await self.remove_children(rows)
            new: list[FormRow] = []
            for option in wanted:
                if option.key not in kept:
                    new.append(self._row(option))
                elif new:
                    await self.mount_all(new, before=self._rows[option.key])
                    new = []
            if new:
                await self.mount_all(new, before=self._fold_row)
            folded = len(self._suited()) - len(wanted)
            self._fold.show(f"▸ {fig.number(folded, 'more option')} …")
            self._fold_row.display = folded > 0
        self._judge()

    def follow(self, text: str, but: ScriptOption | None = None) -> None:
        """Show what a line says, which was typed or filled in; an open quotation changes no field.

        The field of the option `but` stays as it is.
        """
        if text == self._text:
            return
        self._text = text
        line = read_line(self.parser.options, text)
        if line is None:
            return
        command, self._line = self._line.command, line
        if command != line.command:
            self.call_later(self._fit)
        for option in self.parser.options:
            if option is not but:
                self._set(option, line.value(option))
        self._judge()

    @on(Fold.Toggled)
    async def _unfold(self, message: Fold.Toggled) -> None:
        message.stop()
        self._unfolded = True
        known = set(self._rows)
        await self._fit()
        first = next((key for key in (o.key for o in self._suited()) if key not in known), None)
        if first in self._fields:
            self._fields[first].focus()

    @on(Field.Changed)
    @on(Choice.Changed)
    def _typed(self, message: Field.Changed | Choice.Changed) -> None:
        """Write a changed field into the line."""
        message.stop()
        field = message.control
        option = self.option_at(field)
        if option is None or not isinstance(field, (Field, Choice)):
            return
        self.follow(self._read_line(), but=option)
        value = _value_of(field)
        if value == (self._line.value(option) or "") or (
            isinstance(field, Choice) and value == option.typed_default and not self._line.of(option)
        ):
            self._judge()
            return
        wanted = "" if problem_of(option, value) == "has an open quotation" else value
        text = write_value(self.parser.options, self._text, option, wanted)
        if text is None or (line := read_line(self.parser.options, text)) is None:
            self._rows[option.key].judge(self.HELD if split_line(self._text) is not None else _OPEN)
            return
        command, self._text, self._line = self._line.command, text, line
        self._on_written(text)
        if command != line.command:
            self.call_later(self._fit)
        self._judge()

    def first(self) -> Widget | None:
        """The first field."""
        return next((self._fields[o.key] for o in self._suited() if o.key in self._fields), None)

    def option_at(self, field: Widget | None) -> ScriptOption | None:
        """The option whose field this is."""
        name = field.name or "" if field is not None and field in self._fields.values() else ""
        return self._options.get(name.removeprefix(_NAME))

    def _judge(self) -> None:
        """Show below each field what the script would probably refuse."""
        told = {o.key: why for o, why in doubts(self.parser, self._text) if o and self._line.of(o)}
        for option in self.parser.options:
            row, field = self._rows.get(option.key), self._fields.get(option.key)
            if row is not None and field is not None:
                value = _value_of(field)
                held = value and isinstance(field, Field) and not self._line.of(option)
                wrong = problem_of(option, value) or told.get(option.key, "")
                if not wrong and held and option.positional:
                    wrong = self.HELD
                row.judge(wrong or None)

    # --- fields --------------------------------------------------------------------------------------

    def _suited(self) -> list[ScriptOption]:
        return suited(self.parser.options, self._line.command)

    def _shown(self) -> Iterator[ScriptOption]:
        """The options with a field: the first ones, those that must be given, and those that are."""
        for number, option in enumerate(self._suited()):
            if self._unfolded or number < SHOWN or option.required or self._line.of(option):
                yield option

    def _row(self, option: ScriptOption) -> FormRow:
        field = self._field(option)
        self._fields[option.key], self._options[option.key] = field, option
        label = f" {fig.shorten(harmless(option.label), 27)}"
        row = FormRow(label, field, remark=harmless(remark_of(option)), name=f"{_NAME}{option.key}")
        self._rows[option.key] = row
        return row

    def _field(self, option: ScriptOption) -> Field | Choice:
        given = self._line.value(option)
        if choices := values_of(option):
            start = given or option.typed_default or choices[0]
            kind = Toggle if option.switch else Choice
            return kind(_with(choices, start), start, name=f"{_NAME}{option.key}")
        path = option.kind == "Path" or (option.kind == "" and names_path(option.label))
        suggester = PathSuggester(self._workdir) if path else None
        return Field(
            value=given or "", placeholder=hint_of(option), name=f"{_NAME}{option.key}", suggester=suggester
        )

    def _set(self, option: ScriptOption, value: str | None) -> None:
        """Show a value; text that means the same as what is there stays as it was typed."""
        field = self._fields.get(option.key)
        if isinstance(field, Choice):
            choices = values_of(option)
            shown = value or option.typed_default or choices[0]
            field.offer(_with(choices, shown), shown)
        elif isinstance(field, Field) and not _same(option, field.value, value or ""):
            field.value = value or ""


_OPEN = "first close the quotation in Arguments"


def _value_of(field: Field | Choice) -> str:
    return "" if field.value == fig.UNKNOWN else field.value


def _same(option: ScriptOption, one: str, other: str) -> bool:
    if one == other or not option.listed:
        return one == other
    words, others = split_line(one), split_line(other)
    return words is not None and others is not None and [w.text for w in words] == [w.text for w in others]


def _with(values: tuple[str, ...], value: str) -> tuple[str, ...]:
    return values if value in values else (*values, value)


def values_of(option: ScriptOption) -> tuple[str, ...]:
    """The values that a field offers; the first one stands for nothing if there is no default."""
    values = SWITCH if option.switch else () if option.listed else option.choices
    if not values or len(values) > _MOST_CHOICES:
        return ()
    known = option.typed_default in values or (
        option.switch and option.default is None and not option.required
    )
    if option.switch and option.default is None and not option.off and option.flag:
        known = True
    return values if known else (fig.UNKNOWN, *values)


def hint_of(option: ScriptOption) -> str:
    """What an empty field shows: the default, or why there is none."""
    if option.computed:
        return "computed"
    default = option.typed_default
    if default:
        return harmless(default)
    return "required" if option.required else ""


def remark_of(option: ScriptOption) -> str:
    """The type of an option and what the script says about it."""
    choices = values_of(option)
    kind = "" if choices else option.kind or ("times" if option.counts else "")
    many = {"": "", "?": "", "*": "any number", "+": "one or more"}.get(option.many, f"{option.many} values")
    parts = [kind, "" if choices else "repeats" if option.repeats else many]
    shown = " ".join(filter(None, parts))
    needed = "required" if option.required and choices else ""
    computed = f"default {option.default}" if option.computed and option.default != "…" else ""
    return " · ".join(filter(None, [shown, needed, option.help, computed]))
