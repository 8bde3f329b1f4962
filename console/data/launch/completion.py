"""Completion and checks of a script's arguments, and completion of paths. Pure except `complete_path`."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from difflib import get_close_matches
from pathlib import Path

from launcher.spec.script_options import ScriptOption

_NUMBERS = {"int": int, "float": float}
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
        words = [n for o in options for n in o.names if n.startswith("--") and not _given(o, before)]
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
    """The description of the option that is being typed, else the names of all options."""
    words = text.split(" ")
    for word in reversed(words[-2:]):
        if option := _named(options, word.partition("=")[0]):
            return option_line(option)
    return "  ".join(option.names[0] for option in options)


def option_line(option: ScriptOption) -> str:
    """An option's names, the values that it takes, its default and its help."""
    takes = "|".join(option.choices) or ("" if option.flag else option.kind or "text")
    default = "" if option.default in (None, "None") else f" = {option.default}"
    needed = ", required" if option.required else ""
    about = f" · {option.help}" if option.help else ""
    return f"{', '.join(option.names)} {takes}{default}{needed}{about}".strip()


def misgiven(options: Sequence[ScriptOption], text: str) -> str:
    """Why a script would probably refuse these arguments, in a sentence; empty if it would not.

    This is only a warning: a script's options are known only as far as its source spells them out.
    """
    try:
        words = shlex.split(text)
    except ValueError:
        return ""  # the field itself reports this error
    for number, word in enumerate(words):
        name, equals, value = word.partition("=")
        if not options or not name.startswith("--") or name == "--":
            continue
        option = _named(options, name)
        if option is None:
            return _unknown(options, name)
        argument = value if equals else words[number + 1] if number + 1 < len(words) else None
        if argument is not None and not option.flag and (problem := _problem(option, argument)):
            return f"{name} {problem}, not {argument!r}"
    return ""


def _unknown(options: Sequence[ScriptOption], name: str) -> str:
    near = get_close_matches(name, [n for o in options for n in o.names], 1)
    return f"no {name} is found in its source" + (f": did you mean {near[0]}?" if near else "")


def _problem(option: ScriptOption, value: str) -> str:
    if option.choices and value not in option.choices:
        return f"takes {' or '.join(option.choices)}"
    convert = _NUMBERS.get(option.kind)
    try:
        if convert:
            convert(value)
    except ValueError:
        return "takes a whole number" if option.kind == "int" else "takes a number"
    return ""


def _named(options: Sequence[ScriptOption], name: str) -> ScriptOption | None:
    """The option of this name, or the only one that begins with it, as argparse allows."""
    if not name.startswith("-"):
        return None
    if exact := next((o for o in options if name in o.names), None):
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
