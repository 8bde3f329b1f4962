"""Every binding by its id, and checks of the keys that a person sets for them in the settings.

The bindings are read from the classes themselves. A binding with an id can be given other keys.
"""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from textual.binding import Binding
from textual.keys import REPLACED_KEYS, Keys, format_key, key_to_character
from textual.screen import Screen
from textual.widget import Widget

from ..data.finding.own import OwnCommand, shown_keys

_MODIFIERS = ("ctrl", "alt", "shift", "super", "hyper", "meta")
_NAMED = frozenset(key.value for key in Keys if "+" not in key.value and not key.value.startswith("<"))
_SHORT = {
    "pageup": "pgup",
    "pagedown": "pgdn",
    "escape": "esc",
    "enter": "enter",
}


@dataclass(frozen=True, slots=True)
class KnownBinding:
    """A binding that can be given other keys."""

    id: str
    keys: tuple[str, ...]
    description: str
    owner: type


def known_bindings(*roots: type) -> dict[str, KnownBinding]:
    """The bindings of all screens and widgets, and of `roots`, by id."""
    known: dict[str, KnownBinding] = {}
    for each in chain.from_iterable(_own(owner) for owner in (*roots, *_owners())):
        # a class that gives other keys to an inherited binding keeps its id
        if each.id not in known or issubclass(known[each.id].owner, each.owner):
            known[each.id] = each
    return known


def _own(owner: type) -> Iterator[KnownBinding]:
    for binding in Binding.make_bindings(vars(owner).get("BINDINGS", ())):
        if binding.id:
            keys = [b.key for b in Binding.make_bindings(vars(owner)["BINDINGS"]) if b.id == binding.id]
            yield KnownBinding(binding.id, tuple(keys), binding.description, owner)


def _owners() -> Iterator[type]:
    package = importlib.import_module(__package__)
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        for value in vars(importlib.import_module(module.name)).values():
            if isinstance(value, type) and value.__module__ == module.name and "BINDINGS" in vars(value):
                yield value


def key_problems(keys: Mapping[str, str], known: Mapping[str, KnownBinding]) -> Iterator[tuple[str, str]]:
    """What is wrong with the keys that a person set: the binding's id, and a sentence."""
    for name, text in keys.items():
        if name not in known:
            yield name, f"keys.{name} names no binding; `rankdeck config print` lists them"
        for key in text.split(","):
            if not is_key(key.strip()):
                yield name, f"keys.{name} = {key.strip()!r} is no key"
    yield from _clashes(keys, known)


def usable(keys: Mapping[str, str], known: Mapping[str, KnownBinding], problems: list[str]) -> dict[str, str]:
    """The valid keys, in Textual's names; a sentence about each invalid one is appended to `problems`."""
    problems += (why for _, why in key_problems(keys, known))
    valid = {name: ",".join(_valid(text)) for name, text in keys.items() if name in known}
    return {name: text for name, text in valid.items() if text}


def _valid(keys: str) -> tuple[str, ...]:
    good = [key for key in keys.split(",") if is_key(key.strip())]
    return normal(",".join(good)) if good else ()


def _clashes(keys: Mapping[str, str], known: Mapping[str, KnownBinding]) -> Iterator[tuple[str, str]]:
    now = {i: frozenset(_valid(keys[i]) if i in keys else k.keys) for i, k in known.items()}
    reported: set[frozenset[str]] = set()
    for name in (name for name in keys if name in known):
        for other, binding in known.items():
            both = now[name] & now[other] - (set(known[name].keys) & set(binding.keys))
            pair = frozenset((name, other))
            if both and other != name and pair not in reported and _active_together(known[name], binding):
                reported.add(pair)
                yield name, f"keys.{name} = {min(both)!r} is also the key of {other} ({binding.description})"


def _active_together(one: KnownBinding, other: KnownBinding) -> bool:
    """Whether both can be active at once.

    They can if one class inherits the other, if one is the app, or if one is a part of the other's screen.
    """
    left, right = one.owner, other.owner
    if issubclass(left, right) or issubclass(right, left):
        return True
    modules = {left.__module__, right.__module__}
    if "console.app" in modules or not (_parts(left) | _parts(right)).isdisjoint(modules):
        return True
    return len(modules) == 1 and not (issubclass(left, Screen) and issubclass(right, Screen))


def _parts(owner: type) -> set[str]:
    """The modules of the widgets that a class or one of its subclasses may contain."""
    classes, seen = [owner], set[str]()
    for each in classes:
        classes += each.__subclasses__()
    queue = [each.__module__ for each in classes]
    for module in queue:
        used = {v.__module__ for v in vars(sys.modules[module]).values() if _is_part(v)}
        fresh = {name for name in used if name.startswith("console.ui.")} - seen - set(queue)
        seen |= fresh
        queue += fresh
    return seen - {each.__module__ for each in classes}


def _is_part(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Widget) and not issubclass(value, Screen)


def own_key_problems(
    commands: Mapping[str, OwnCommand], keys: Mapping[str, str], known: Mapping[str, KnownBinding]
) -> Iterator[tuple[str, str, str]]:
    """What is wrong with the keys of the user's commands: the command's name, the key, and a sentence."""
    taken = keys_now(known.values(), {name: text for name, text in keys.items() if _valid(text)})
    own: dict[str, list[OwnCommand]] = {}
    for command, key in shown_keys(commands):
        place = f"commands.{command.name}.keys"
        if not is_key(key):
            yield command.name, key, f"{place} = {key!r} is no key"
            continue
        (pressed,) = normal(key)
        ours = next((k for k in known.values() if pressed in taken[k.id] and _meets(command, k)), None)
        theirs = next((o for o in own.get(pressed, ()) if {*o.where} & {*command.where}), None)
        if ours is not None:
            yield command.name, key, f"{place} = {key!r} is also the key of {ours.id} ({ours.description})"
        elif theirs is not None:
            yield command.name, key, f"{place} = {key!r} is also the key of commands.{theirs.name}"
        else:
            own.setdefault(pressed, []).append(command)


def _meets(command: OwnCommand, binding: KnownBinding) -> bool:
    """Whether a command can be run where a binding is active."""
    for place in command.where:
        screen = importlib.import_module(f"console.ui.{place}.screen")
        owner = next(v for name, v in vars(screen).items() if name.lower() == f"{place}screen")
        if _active_together(KnownBinding("", (), "", owner), binding):
            return True
    return False


def normal(keys: str) -> tuple[str, ...]:
    """The keys of a comma-separated list as terminals send them, in Textual's names."""
    return tuple(_normal(key.strip()) for key in keys.split(","))


def _normal(name: str) -> str:
    *modifiers, key = name.split("+") if len(name) > 1 else (name,)
    if len(key) == 1 and "shift" in modifiers:
        modifiers.remove("shift")
        key = key.upper()
    elif len(key) == 1 and "ctrl" in modifiers:
        key = key.lower()
    return "+".join((*modifiers, *(b.key for b in Binding.make_bindings([Binding(key or "?", "")]))))


def is_key(name: str) -> bool:
    """Whether a key has that name: a character or a name, perhaps after modifiers such as ``ctrl+``."""
    *modifiers, key = name.split("+") if len(name) > 1 else (name,)
    if any(modifier not in _MODIFIERS for modifier in modifiers):
        return False
    if len(key) == 1:
        return key.isprintable() and key not in " ,"
    return key in _NAMED or key in REPLACED_KEYS or key_to_character(key) is not None


def key_text(binding: Binding, *, ascii: bool = False) -> str:  # noqa: A002
    """A key as it is shown: short, and in ASCII if the terminal shows nothing else."""
    if binding.key_display:
        return binding.key_display
    *modifiers, key = binding.key.split("+")
    short = _SHORT.get(key) or format_key(key)
    shown = key if ascii and not short.isascii() else short
    return "".join("^" if modifier == "ctrl" else f"{modifier}+" for modifier in modifiers) + shown


def keys_now(known: Iterable[KnownBinding], keys: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """The keys that each binding has, by id."""
    return {k.id: normal(keys[k.id]) if k.id in keys else k.keys for k in known}
