"""A launch's mode and values, from the options that the user gave and the defaults of the settings.

Given options are values by the options' names. Defaults are texts as typed into the form, by the keys of
``[defaults]`` in ``config.toml``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from launcher.errors import SpecError
from launcher.spec.job import LAUNCH_OPTIONS, applies, without_effect
from launcher.spec.modes import DEFAULT_MODE, Mode, implied_mode
from launcher.spec.options import Option, split

CONNECT_ADDRESS = "sc://"


def mode_of(
    given: Mapping[str, Any], defaults: Mapping[str, str] | None = None, fallback: Mode = DEFAULT_MODE
) -> Mode:
    """The given mode, else the mode implied by a given Spark address, else the mode of the defaults."""
    if "mode" in given:
        return Mode(given["mode"])
    return implied_mode(given) or Mode((defaults or {}).get("mode") or fallback)


def require_effect(given: Mapping[str, Any], mode: Mode) -> None:
    """Refuse options that have no effect in a mode.

    Raises:
        SpecError: such an option is given.
    """
    for option in LAUNCH_OPTIONS:
        if given.get(option.name, option.default) != option.default and not applies(option, mode):
            raise without_effect(option, mode)
    if given.get("remote") and not mode.traits.through_server:
        raise SpecError("--remote names a Connect server", hint="use --mode connect")
    if given.get("master") and mode.traits.through_server:
        raise SpecError("--master names a cluster", hint="use --mode cluster, or --remote")


def defaults_for(defaults: Mapping[str, str], mode: Mode) -> Iterator[tuple[Option, str]]:
    """The options that apply in a mode and have a default, each with the default's text."""
    for option in LAUNCH_OPTIONS:
        text = defaults.get(option.setting or "", "")
        if text.strip() and applies(option, mode) and (option.row != "spark" or _suits(option, text, mode)):
            yield option, text


def _suits(option: Option, address: str, mode: Mode) -> bool:
    """Whether `option` is the mode's address option, and `address` of the kind that the mode takes."""
    of_server = address.strip().startswith(CONNECT_ADDRESS)
    return option.name == mode.traits.address and of_server is mode.traits.through_server


def with_defaults(
    given: Mapping[str, Any], defaults: Mapping[str, str], mode: Mode, here: Path
) -> dict[str, Any]:
    """The given values, and the defaults of all other options; the pairs of both are merged.

    Raises:
        SpecError: a default's text is invalid.
    """
    values = dict(given)
    for option, text in defaults_for(defaults, mode):
        value = option.read_text(text, here)
        if option.name not in given:
            values[option.name] = value
        elif option.kind.paired:
            values[option.name] = {**value, **given[option.name]}
    return values


def overrides_all(texts: Mapping[str, str], defaults: Mapping[str, str], mode: Mode, here: Path) -> bool:
    """Whether texts, by the keys of settings, override every default that would change the launch."""
    options = defaults_for(defaults, mode)
    return all(
        _overrides(option, texts.get(option.setting or "", ""), text, here) for option, text in options
    )


def _overrides(option: Option, text: str, default: str, here: Path) -> bool:
    try:
        value = option.read_text(default, here)
        names = {word.partition("=")[0] for word in split(text)} if option.kind.paired else ()
    except SpecError:
        return True  # the error is reported where the text is read
    if option.kind.paired:
        return bool(value.keys() <= set(names))
    return bool(text.strip()) or value == option.default
