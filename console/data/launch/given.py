"""What a launch was given, by a person and by settings: the mode that it means, and which values hold.

What is given is by option, as values. What is settled is by the keys of ``[defaults]`` in ``config.toml``, as
the texts that a person would type into the form.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from launcher.errors import SpecError
from launcher.spec.job import LAUNCH_OPTIONS, applies
from launcher.spec.modes import DEFAULT_MODE, Mode, implied_mode, modes_taking
from launcher.spec.options import PAIRS, Option, split

CONNECT_ADDRESS = "sc://"


def mode_of(
    given: Mapping[str, Any], settled: Mapping[str, str] | None = None, usual: Mode = DEFAULT_MODE
) -> Mode:
    """The mode that is given, or that of the Spark that is named, or the one that is settled."""
    if "mode" in given:
        return Mode(given["mode"])
    return implied_mode(given) or Mode((settled or {}).get("mode") or usual)


def require_effect(given: Mapping[str, Any], mode: Mode) -> None:
    """Refuse options that would have no effect.

    Raises:
        SpecError: one is given.
    """
    for option in LAUNCH_OPTIONS:
        if given.get(option.name, option.default) != option.default and not applies(option, mode):
            raise SpecError(
                f"{option.flag_name} is for {option.group.capitalize()}, and the mode is {mode}",
                hint=f"add --mode {' or '.join(modes_taking(option.group))}",
            )
    if given.get("remote") and not mode.traits.through_server:
        raise SpecError("--remote names a Connect server", hint="use --mode connect")
    if given.get("master") and mode.traits.through_server:
        raise SpecError("--master names a cluster", hint="use --mode cluster, or --remote")


def settled_for(settled: Mapping[str, str], mode: Mode) -> Iterator[tuple[Option, str]]:
    """The options that are settled and have a meaning in a mode, each with its text."""
    for option in LAUNCH_OPTIONS:
        text = settled.get(option.setting or "", "")
        if text.strip() and applies(option, mode) and (option.row != "spark" or _suits(option, text, mode)):
            yield option, text


def _suits(option: Option, address: str, mode: Mode) -> bool:
    """Whether a settled address is one of the mode, and this the option that names such."""
    of_server = address.strip().startswith(CONNECT_ADDRESS)
    return option.name == mode.traits.address and of_server is mode.traits.through_server


def with_settled(
    given: Mapping[str, Any], settled: Mapping[str, str], mode: Mode, here: Path
) -> dict[str, Any]:
    """What is given, and of what is settled all that is not; names with values are added to.

    Raises:
        SpecError: a text means no value.
    """
    values = dict(given)
    for option, text in settled_for(settled, mode):
        value = option.read_text(text, here)
        if option.name not in given:
            values[option.name] = value
        elif option.kind is PAIRS:
            values[option.name] = {**value, **given[option.name]}
    return values


def leaves_nothing(said: Mapping[str, str], settled: Mapping[str, str], mode: Mode, here: Path) -> bool:
    """Whether texts, by the keys of settings, say all that would else be as it is settled."""
    held = settled_for(settled, mode)
    return all(_says(option, said.get(option.setting or "", ""), text, here) for option, text in held)


def _says(option: Option, said: str, settled: str, here: Path) -> bool:
    try:
        value = option.read_text(settled, here)
        named = {word.partition("=")[0] for word in split(said)} if option.kind is PAIRS else ()
    except SpecError:
        return True  # it is told as wrong where it is read
    if option.kind is PAIRS:
        return bool(value.keys() <= set(named))
    return bool(said.strip()) or value == option.default
