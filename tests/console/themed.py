"""An app without the console's screens, in its colours: for tests of one widget alone."""

from __future__ import annotations

from textual.app import App

from console.themes import FALLBACKS, load_themes


class ThemedApp(App[int]):
    """Has our themes and their variables; a test says which widgets are in it."""

    def __init__(self) -> None:
        super().__init__()
        for theme in load_themes():
            self.register_theme(theme)
        self.theme = "rankdeck-dark"

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return FALLBACKS
