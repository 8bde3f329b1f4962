"""``rankdeck help``: the topics of the manual, one of them, or the help of a command."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

import click

from ..echo import page, print_text
from ..manual import readable, topics

_GAP = 3
_WAYS = ("rankdeck help TOPIC    shows a topic", "rankdeck help COMMAND  shows the options of a command")


@click.command("help")
@click.argument("words", nargs=-1, metavar="[TOPIC]")
@click.pass_context
def help_(context: click.Context, words: tuple[str, ...]) -> int:
    """Show the manual: its topics, or one of them. The name of a command shows its options."""
    if not words:
        print_text(_contents())
        return 0
    root = context.find_root()
    if (topic := topics().get(" ".join(words))) is not None:
        page(readable(topic.text).rstrip("\n"))
    elif (text := _command_help(root, words)) is not None:
        print_text(text)
    else:
        raise _unknown(" ".join(words), [*topics(), *_commands(root)])
    return 0


def _contents() -> str:
    """Every topic with its summary, and the commands that show one."""
    width = max(map(len, topics())) + _GAP
    lines = [f"  {topic.name:<{width}}{topic.summary}" for topic in topics().values()]
    return "\n".join(["Topics of the manual:", *lines, "", *_WAYS])


def _command_help(root: click.Context, words: Sequence[str]) -> str | None:
    """The ``--help`` text of the command that `words` name; None if there is none."""
    context = root
    for word in words:
        group = context.command
        command = group.get_command(context, word) if isinstance(group, click.Group) else None
        if command is None:
            return None
        context = click.Context(command, info_name=word, parent=context)
    return context.get_help()


def _commands(root: click.Context) -> list[str]:
    return root.command.list_commands(root) if isinstance(root.command, click.Group) else []


def _unknown(name: str, known: Iterable[str]) -> Exception:
    """The error for an unknown topic; its exit code is 2."""
    from launcher.errors import SpecError

    near = get_close_matches(name, list(known), 3)
    hint = f"near it: {', '.join(near)}" if near else "rankdeck help lists the topics"
    return SpecError(f"there is no topic or command {name!r}", hint=hint)
