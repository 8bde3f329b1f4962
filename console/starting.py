"""How a run is started from a command line: at once, detached, or only planned."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from console.launching import launch_options, request_from

if TYPE_CHECKING:
    from launcher.request import Request

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option("--detach", is_flag=True, help="Start it, print its id, and leave it running."),
    click.option("--dry-run", is_flag=True, help="Print the plan and start nothing."),
    click.option("--output", type=click.Choice(["text", "jsonl"]), default="text", show_default=True),
    click.option(
        "--ranks", default="all", show_default=True, metavar="all|none|0,3-5", help="Whose output to print."
    ),
    click.option(
        "--on-disconnect",
        type=click.Choice(["detach", "stop"]),
        help="If this command is killed: by default the run goes on if a terminal started it.",
    ),
)


def start_options(command: F) -> F:
    """Add what says how to start, and not what."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


@click.command()
@click.argument("target")
@click.argument("args", nargs=-1, type=click.UNPROCESSED)
@launch_options
@start_options
def run(target: str, args: tuple[str, ...], **options: Any) -> int:
    """Run TARGET on every rank: train.py, train.py:function or package.module:function.

    A script's own ARGS go after --.
    """
    return start(request_from(target, args, options), options)


def start(request: Request, options: dict[str, Any]) -> int:
    """Start it as `start_options` say; the exit code."""
    from console import foreground, headless

    if options["dry_run"]:
        from console.planning import print_plan

        return print_plan(request)
    output, ranks = options["output"], options["ranks"]
    if options["detach"]:
        return headless.detach(request, output=output, ranks=ranks)
    return foreground.run(request, output=output, ranks=ranks, on_disconnect=options["on_disconnect"])
