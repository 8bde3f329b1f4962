"""Presets, which are launches saved under a name: a list to pick from or remove, and a dialog to save one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import on, work
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.screen import ModalScreen
from textual.widgets import Static

from launcher.errors import LauncherError

from ... import formatting as fig
from ...data.launch.draft import Draft, command_text
from ...data.launch.presets import (
    Preset,
    check_name,
    list_presets,
    presets_folder,
    remove_preset,
    save_preset,
)
from ..dialogs import ConfirmScreen
from ..widgets.fields import Field, harmless
from ..widgets.key_line import keys_of
from ..widgets.lists import CursorSheet
from ..widgets.rows import Row, clip

if TYPE_CHECKING:
    from textual.app import ComposeResult

_NAME_WIDTH = 18
_FRAME = 10


class Presets(CursorSheet[Preset]):
    """The presets, each with its name and command."""

    DEFAULT_CSS = """
    Presets { width: 100%; height: 4; }
    """

    def __init__(self) -> None:
        super().__init__(id="presets")

    def show(self, presets: Sequence[Preset]) -> None:
        """Show these presets, with the cursor on the same line as far as possible."""
        self.items, self.cursor = presets, min(self.cursor, max(len(presets) - 1, 0))
        self.refresh_rows()

    def empty_row(self) -> Row:
        """The text while there are no presets."""
        close, save = keys_of(self, "presets.close", "esc"), keys_of(self, "launch.save", "s")
        return ((f"none yet: {close}, and then {save} saves the form as one", "muted"),)

    def item_row(self, index: int, width: int, ground: str) -> Row:
        """The name, and the command or why the preset cannot be read."""
        preset = self.items[index]
        name = (f"{fig.shorten(preset.name, _NAME_WIDTH):<{_NAME_WIDTH}} ", f"bold{ground}")
        if preset.draft is None:
            return clip((name, (f"✗ {preset.problem}", f"rank-behind{ground}")), width)
        command = command_text(preset.draft).removeprefix("rankdeck run ")
        return clip((name, (command, f"muted{ground}")), width)


class PresetsScreen(ModalScreen[Draft]):
    """The list of presets; closes with the draft that was picked, or with nothing."""

    TOPIC = "targets"
    AUTO_FOCUS = "#presets"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss", "Close", show=False, id="presets.close"),
        Binding("d,delete", "remove", "Remove", show=False, id="presets.remove"),
    ]

    class PresetsListed(Message):
        """The presets were listed."""

        def __init__(self, presets: Sequence[Preset]) -> None:
            super().__init__()
            self.presets = presets

    def __init__(self, workdir: Path) -> None:
        super().__init__()
        self._workdir = workdir

    def compose(self) -> ComposeResult:
        """The list, and the keys."""
        with Vertical(id="dialog"):
            yield Static("Presets", classes="title", markup=False)
            yield Presets()
            fill, close = keys_of(self, "list.choose", "enter"), keys_of(self, "presets.close", "esc")
            hint = f"{fill} fills the form · {keys_of(self, 'presets.remove', 'd')} removes · {close} closes"
            yield Static(hint, classes="answers", markup=False)

    def on_mount(self) -> None:
        """Read the presets."""
        self._list()

    @work(thread=True, exclusive=True, group="presets")
    def _list(self) -> None:
        self.post_message(self.PresetsListed(list_presets(presets_folder(), self._workdir)))

    @on(PresetsListed)
    def _show(self, message: PresetsListed) -> None:
        room = max(self.app.size.height * 9 // 10 - _FRAME, 3)
        presets = self.query_one(Presets)
        presets.styles.height = min(max(len(message.presets), 1), room)
        presets.show(message.presets)

    @on(Presets.Chosen)
    def _chosen(self, message: Presets.Chosen) -> None:
        preset = self.query_one(Presets).items[message.index]
        if preset.draft is not None:
            self.dismiss(preset.draft)
        else:
            self.notify(preset.problem, severity="error", markup=False)

    def action_remove(self) -> None:
        """Remove the preset under the cursor if a person confirms."""
        if preset := self.query_one(Presets).chosen:
            name = preset.name
            question = ConfirmScreen(
                "Remove this preset?", [harmless(name)], verb="remove it", otherwise="keep it"
            )

            def answered(yes: bool | None) -> None:
                if yes:
                    self._remove(name)

            self.app.push_screen(question, answered)

    @work(thread=True, group="presets")
    def _remove(self, name: str) -> None:
        try:
            remove_preset(presets_folder(), name)
        except LauncherError as error:
            self.app.notify(str(error), severity="error", markup=False)
        self.post_message(self.PresetsListed(list_presets(presets_folder(), self._workdir)))


class SaveScreen(ModalScreen[None]):
    """Asks for a name, and saves a draft under it; replacing a preset needs a second enter."""

    TOPIC = "targets"
    AUTO_FOCUS = "Input"
    DEFAULT_CSS = """
    SaveScreen #dialog Static { width: 100%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "dismiss", "Close", show=False, id="save.close"),
    ]

    def __init__(self, draft: Draft) -> None:
        super().__init__()
        self._draft = draft
        self._warned_name = ""

    def compose(self) -> ComposeResult:
        """The field for the name, and a line for hints and errors."""
        with Vertical(id="dialog"):
            yield Static("Save the form as a preset", classes="title", markup=False)
            yield Field(placeholder="a name, such as smoke-2", max_length=48)
            hint = f"enter saves · {keys_of(self, 'save.close', 'esc')} closes"
            yield Static(hint, classes="answers", id="said", markup=False)

    @on(Field.Submitted)
    def _submitted(self, message: Field.Submitted) -> None:
        try:
            name = check_name(message.value)
        except LauncherError as error:
            self._show_text(f"✗ {error}")
            return
        self._save(name)

    @work(thread=True, exclusive=True, group="save")
    def _save(self, name: str) -> None:
        folder = presets_folder()
        if self._warned_name != name and (folder / f"{name}.toml").exists():
            self._warned_name = name
            self.app.call_from_thread(self._show_text, f"{name} is there already: enter again replaces it")
            return
        try:
            withheld = save_preset(folder, name, self._draft)
        except LauncherError as error:
            self.app.call_from_thread(self._show_text, f"✗ {harmless(str(error))}")
            return
        secret = f"; not saved, because they look secret: {', '.join(withheld)}" if withheld else ""
        self.app.notify(f"saved as {name}{secret}", markup=False)
        self.app.call_from_thread(self.dismiss)

    def _show_text(self, text: str) -> None:
        self.query_one("#said", Static).update(text)
