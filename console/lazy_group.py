"""A click group that imports a command when it is asked for: who opens the console waits for no other one."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click


class LazyGroup(click.Group):
    """Commands of its own, and those of `elsewhere`: a command's name, and its ``module:attribute``."""

    def __init__(self, *args: Any, elsewhere: Mapping[str, str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._elsewhere = elsewhere

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every name, sorted; nothing is imported for it."""
        return sorted({*super().list_commands(ctx), *self._elsewhere})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, imported if it must be; None if there is none."""
        if cmd_name not in self._elsewhere:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = self._elsewhere[cmd_name].partition(":")
        command: click.Command = getattr(import_module(module), attribute)
        return command
