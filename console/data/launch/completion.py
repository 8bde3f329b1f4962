"""What could be typed next: a script's options, and names of files. Pure but for `complete_path`."""

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
    holder = _awaiting(options, before[-1] if before else "")
    if holder is not None:
        words = list(holder.choices)
    elif "=" in last and (named := _named(options, last.partition("=")[0])):
        words = [f"{last.partition('=')[0]}={choice}" for choice in named.choices]
    else:
        words = [n for o in options for n in o.names if n.startswith("--") and not _given(o, before)]
    found = next((w for w in words if last and w.startswith(last) and w != last), None)
    return None if found is None else " ".join([*before, found])


def takes_path(options: Sequence[ScriptOption], text: str) -> bool:
    """Whether the last word of the line is the value of an option that names a file."""
    *before, _ = text.split(" ")
    holder = _awaiting(options, before[-1] if before else "")
    return holder is not None and (holder.kind.endswith("Path") or names_path(holder.names[0]))


def names_path(name: str) -> bool:
    """Whether something of this name is usually a path."""
    last = name.replace("-", "_").rpartition("_")[2].lower()
    return last in ("path", "file", "dir", "folder", "root", "checkpoint")


def describe(options: Sequence[ScriptOption], text: str) -> str:
    """What the option that is being typed means; else all that there are."""
    words = text.split(" ")
    for word in reversed(words[-2:]):
        if option := _named(options, word.partition("=")[0]):
            return option_line(option)
    return "  ".join(option.names[0] for option in options)


def option_line(option: ScriptOption) -> str:
    """Names, what it takes, its default, and what it is for."""
    takes = "|".join(option.choices) or ("" if option.flag else option.kind or "text")
    default = "" if option.default in (None, "None") else f" = {option.default}"
    needed = ", required" if option.required else ""
    about = f" · {option.help}" if option.help else ""
    return f"{', '.join(option.names)} {takes}{default}{needed}{about}".strip()


def misgiven(options: Sequence[ScriptOption], text: str) -> str:
    """What a script would probably refuse in these arguments, in a sentence; empty if nothing.

    It is a doubt, not a refusal: what a script takes is only known as far as its source spells it out.
    """
    try:
        words = shlex.split(text)
    except ValueError:
        return ""  # that is said of the field anyway
    for number, word in enumerate(words):
        name, equals, value = word.partition("=")
        if not options or not name.startswith("--") or name == "--":
            continue
        option = _named(options, name)
        if option is None:
            return _unknown(options, name)
        given = value if equals else words[number + 1] if number + 1 < len(words) else None
        if given is not None and not option.flag and (doubt := _doubt(option, given)):
            return f"{name} {doubt}, not {given!r}"
    return ""


def _unknown(options: Sequence[ScriptOption], name: str) -> str:
    near = get_close_matches(name, [n for o in options for n in o.names], 1)
    return f"no {name} is found in its source" + (f": did you mean {near[0]}?" if near else "")


def _doubt(option: ScriptOption, value: str) -> str:
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
    """The option of this name, or the only one that begins so, as argparse allows."""
    if not name.startswith("-"):
        return None
    exact = [o for o in options if name in o.names]
    near = [o for o in options if any(n.startswith(name) for n in o.names)] if name.startswith("--") else []
    found = exact or near
    return found[0] if exact or len(found) == 1 else None


def _awaiting(options: Sequence[ScriptOption], word: str) -> ScriptOption | None:
    """The option whose value comes after this word."""
    option = _named(options, word)
    return option if option and not option.flag and "=" not in word else None


def _given(option: ScriptOption, words: Sequence[str]) -> bool:
    return any(word.partition("=")[0] in option.names for word in words)


def complete_path(text: str, here: Path) -> str | None:
    """A path's last part completed to the first entry that begins so; a folder with its slash. Blocks."""
    folder, _, part = text.rpartition("/")
    where = here / os.path.expanduser(f"{folder}/" if "/" in text else "")
    names = sorted(_entries(where, part))
    if not part or not names:
        return None
    found = names[0]
    done = f"{folder}/{found}" if "/" in text else found
    if os.path.isdir(where / found):
        done += "/"
    return done if done != text else None


def _entries(folder: Path, part: str) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            for number, entry in enumerate(entries):
                if number >= _MOST_ENTRIES:
                    return
                if entry.name.startswith(part) and entry.name.isprintable():
                    yield entry.name
    except OSError:
        return  # what cannot be listed has nothing to offer
