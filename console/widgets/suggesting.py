"""Completion in a field, shown dim behind the cursor and taken with the right arrow."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from textual.suggester import Suggester

from console.messages import Option, complete_options, complete_path, takes_path


class PathSuggester(Suggester):
    """Names of files below a folder."""

    def __init__(self, here: Path) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self._here = here

    async def get_suggestion(self, value: str) -> str | None:
        """The path as far as the first entry that fits; listing a folder may take long."""
        return await asyncio.to_thread(complete_path, value, self._here)


class ArgumentSuggester(Suggester):
    """Options of a script and their values; files where an option takes one."""

    def __init__(self, here: Path) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self._here = here
        self.options: Sequence[Option] = ()

    async def get_suggestion(self, value: str) -> str | None:
        """The line with its last word completed."""
        if found := complete_options(self.options, value):
            return found
        if not takes_path(self.options, value):
            return None
        before, space, last = value.rpartition(" ")
        path = await asyncio.to_thread(complete_path, last, self._here)
        return None if path is None else f"{before}{space}{path}"
