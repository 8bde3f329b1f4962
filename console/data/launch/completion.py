"""Completion of a script's arguments, and of paths. Pure except `complete_path`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from ..options.option import ScriptOption

_MOST_ENTRIES = 5000


def complete_options(options: Sequence[ScriptOption], text: str) -> str | None:
    """The line with its last word completed: to an option, or to one of the values that the option takes."""
    *before, last = text.split(" ")
    option = _awaiting(options, before[-1] if before else "")
    if option is not None:
        words = list(option.choices)
    elif "=" in last and (named := _named(options, last.partition("=")[0])):
        words = [f"{last.partition('=')[0]}={choice}" for choice in named.choices]
    else:
        left = [o for o in options if not _given(o, before)]
        dashed = [n for o in left for n in (*o.names, *o.off) if n.startswith("--")]
        words = [*dashed, *(f"{o.names[0]}=" for o in left if o.assigned)]
    completed = next((w for w in words if last and w.startswith(last) and w != last), None)
    return None if completed is None else " ".join([*before, completed])


def takes_path(options: Sequence[ScriptOption], text: str) -> bool:
    """Whether the last word of the line is the value of an option that names a file."""
    *before, _ = text.split(" ")
    option = _awaiting(options, before[-1] if before else "")
    return option is not None and (option.kind.endswith("Path") or names_path(option.names[0]))


def names_path(name: str) -> bool:
    """Whether an option of this name usually takes a path."""
    last = name.replace("-", "_").rpartition("_")[2].lower()
    return last in ("path", "file", "dir", "folder", "root", "checkpoint")


def describe(options: Sequence[ScriptOption], text: str) -> str:
    """The description of the option that is being typed; empty if none is."""
    words = text.split(" ")
    for word in reversed(words[-2:]):
        if option := _named(options, word.partition("=")[0]):
            return option_line(option)
    return ""


def option_line(option: ScriptOption) -> str:
    """An option's names, the values that it takes, its default and its help."""
    kind = "" if option.flag or option.switch else option.kind or "text"
    takes = "" if option.switch else "|".join(option.choices[:8]) or kind
    default = "" if option.default in (None, "None") or option.flag else f" = {option.default}"
    needed = ", required" if option.required else ""
    about = f" · {option.help}" if option.help else ""
    return f"{', '.join(option.names)} {takes}{default}{needed}{about}".strip()


def _named(options: Sequence[ScriptOption], name: str) -> ScriptOption | None:
    """The option of this name, or the only one that begins with it, as argparse allows."""
    if exact := next((o for o in options if name in (*o.names, *o.off) and not o.positional), None):
        return exact
    prefixed = [o for o in options if name.startswith("--") and any(n.startswith(name) for n in o.names)]
    return prefixed[0] if len(prefixed) == 1 else None


def _awaiting(options: Sequence[ScriptOption], word: str) -> ScriptOption | None:
    """The option whose value is the next word after `word`."""
    option = _named(options, word)
    return option if option and not option.flag and "=" not in word else None


def _given(option: ScriptOption, words: Sequence[str]) -> bool:
    return any(word.partition("=")[0] in option.names for word in words)


def complete_path(text: str, here: Path) -> str | None:
    """The path, its last part completed to the first entry with that prefix; folders get a slash. Blocks."""
    folder, _, part = text.rpartition("/")
    parent = here / os.path.expanduser(f"{folder}/" if "/" in text else "")
    names = sorted(_entries(parent, part))
    if not part or not names:
        return None
    completed = f"{folder}/{names[0]}" if "/" in text else names[0]
    if os.path.isdir(parent / names[0]):
        completed += "/"
    return completed if completed != text else None


def _entries(folder: Path, part: str) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            for number, entry in enumerate(entries):
                if number >= _MOST_ENTRIES:
                    return
                if entry.name.startswith(part) and entry.name.isprintable():
                    yield entry.name
    except OSError:
        return  # a folder that cannot be listed offers no completion
