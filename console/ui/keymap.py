"""Every binding by its id, and whether the keys that a person gives them can be.

The bindings are read from the classes themselves: what has an id can be given other keys.
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
        # a class that gives an inherited binding other keys leaves it its id
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
    """What is wrong with the keys that a person gives: the binding's id, and a sentence."""
    for name, text in keys.items():
        if name not in known:
            yield name, f"keys.{name} names no binding; `rankdeck config print` lists them"
        for key in text.split(","):
            if not is_key(key.strip()):
                yield name, f"keys.{name} = {key.strip()!r} is no key"
    yield from _clashes(keys, known)


def usable(keys: Mapping[str, str], known: Mapping[str, KnownBinding], problems: list[str]) -> dict[str, str]:
    """The keys that can be taken, as Textual calls them; what is wrong with the rest goes to `problems`."""
    problems += (why for _, why in key_problems(keys, known))
    taken = {name: ",".join(_taken(text)) for name, text in keys.items() if name in known}
    return {name: text for name, text in taken.items() if text}


def _taken(keys: str) -> tuple[str, ...]:
    good = [key for key in keys.split(",") if is_key(key.strip())]
    return normal(",".join(good)) if good else ()


def _clashes(keys: Mapping[str, str], known: Mapping[str, KnownBinding]) -> Iterator[tuple[str, str]]:
    now = {i: frozenset(_taken(keys[i]) if i in keys else k.keys) for i, k in known.items()}
    told: set[frozenset[str]] = set()
    for name in (name for name in keys if name in known):
        for other, binding in known.items():
            both = now[name] & now[other] - (set(known[name].keys) & set(binding.keys))
            pair = frozenset((name, other))
            if both and other != name and pair not in told and _meet(known[name], binding):
                told.add(pair)
                yield name, f"keys.{name} = {min(both)!r} is also the key of {other} ({binding.description})"


def _meet(one: KnownBinding, other: KnownBinding) -> bool:
    """Whether both can be there at once: one inherits the other, is the app's, or is a part of its screen."""
    ours, theirs = one.owner, other.owner
    if issubclass(ours, theirs) or issubclass(theirs, ours):
        return True
    homes = {ours.__module__, theirs.__module__}
    if "console.app" in homes or not (_parts(ours) | _parts(theirs)).isdisjoint(homes):
        return True
    return len(homes) == 1 and not (issubclass(ours, Screen) and issubclass(theirs, Screen))


def _parts(owner: type) -> set[str]:
    """The modules of the widgets that a class can have in it, whichever way it is inherited."""
    heirs, seen = [owner], set[str]()
    for heir in heirs:
        heirs += heir.__subclasses__()
    left = [owner.__module__ for owner in heirs]
    for module in left:
        used = {v.__module__ for v in vars(sys.modules[module]).values() if _is_part(v)}
        fresh = {name for name in used if name.startswith("console.ui.")} - seen - set(left)
        seen |= fresh
        left += fresh
    return seen - {heir.__module__ for heir in heirs}


def _is_part(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Widget) and not issubclass(value, Screen)


def normal(keys: str) -> tuple[str, ...]:
    """The keys of a list as terminals send them and Textual calls them."""
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
    """Whether there is a key of that name: a character or a name, perhaps after ``ctrl+`` and the like."""
    *modifiers, key = name.split("+") if len(name) > 1 else (name,)
    if any(modifier not in _MODIFIERS for modifier in modifiers):
        return False
    if len(key) == 1:
        return key.isprintable() and key not in " ,"
    return key in _NAMED or key in REPLACED_KEYS or key_to_character(key) is not None


def key_text(binding: Binding, *, ascii: bool = False) -> str:  # noqa: A002
    """A key as it is shown: short, and without signs where only ASCII can be shown."""
    if binding.key_display:
        return binding.key_display
    *modifiers, key = binding.key.split("+")
    short = _SHORT.get(key) or format_key(key)
    shown = key if ascii and not short.isascii() else short
    return "".join("^" if modifier == "ctrl" else f"{modifier}+" for modifier in modifiers) + shown


def keys_now(known: Iterable[KnownBinding], keys: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """The keys that each binding has, by id."""
    return {k.id: normal(keys[k.id]) if k.id in keys else k.keys for k in known}
