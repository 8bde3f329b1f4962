"""The commands `rankdeck serve`, and `serve-page`, which runs the console of one page."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from launcher.errors import SpecError

_PORT = 7265
_PAGES = 16
_TEXTUAL = {
    "TEXTUAL_DRIVER": "console.ui.rendering.page_driver:PageDriver",
    "TEXTUAL_COLOR_SYSTEM": "truecolor",
}


@click.command()
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=_PORT,
    show_default=True,
    help="Where to listen, on the loopback interface; 0 for any free port.",
)
@click.option(
    "--open/--no-open", "open_page", default=None, help="Start a browser; by default where it is seen."
)
@click.option(
    "--pages",
    type=click.IntRange(1, 1000),
    default=_PAGES,
    show_default=True,
    metavar="N",
    help="How many may be open at once; each is a process.",
)
@click.pass_obj
def serve(look: Mapping[str, Any], port: int, open_page: bool | None, pages: int) -> int:
    """Show the console in browsers on this machine, through a tunnel over SSH.

    The address that it prints opens once, for whoever has it; Enter prints another. Each page is its own
    console. Ctrl-C ends them, and no run.
    """
    from . import auth

    try:
        from . import server
    except ModuleNotFoundError as error:
        reason = f"serving needs {error.name}, which is not installed"
        raise SpecError(reason, hint="pip install 'rankdeck[serve]'") from error
    opens = auth.has_screen(os.environ) if open_page is None else open_page
    command = [sys.executable, "-P", "-m", "console", *look_options(look), "serve-page"]
    return server.serve(server.listen(port), command, open_page=opens, max_pages=pages)


@click.command("serve-page", hidden=True)
@click.argument("columns", type=int)
@click.argument("rows", type=int)
@click.pass_obj
def serve_page(look: Mapping[str, Any], columns: int, rows: int) -> int:
    """Run the console of a page of `serve`, which is connected to the standard streams."""
    from launcher.runs.paths import runs_root

    with _temporarily_set(_TEXTUAL):
        from ..app import run_console
    return run_console(root=runs_root(), workdir=Path.cwd(), look=look, page=(columns, rows))


def look_options(look: Mapping[str, Any]) -> list[str]:
    """The command line options for the settings in `look`; None means not given."""
    theme = [] if look["theme"] is None else [f"--theme={look['theme']}"]
    switches = {name: look[name] for name in ("mouse", "ascii") if look[name] is not None}
    return theme + [f"--{name}" if on else f"--no-{name}" for name, on in switches.items()]


@contextmanager
def _temporarily_set(variables: Mapping[str, str]) -> Iterator[None]:
    """Set variables that Textual reads at import, and restore them, so that runs do not inherit them."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
