"""What a person may settle for the console, in the same ``config.toml`` as the launcher's settings.

[console]                [keys]                    [defaults]
theme = "rankdeck-dark"  run.stop = "ctrl+x"       mode = "cluster"
mouse = true             log.follow = "f,F"        num_processes = 8
ascii = false                                      gpu = "auto"
timestamps = "clock"                               spark = "spark://head:7077"
                                                   env.NCCL_DEBUG = "WARN"

An option of the command line comes first, then ``RANKDECK_THEME``, ``RANKDECK_MOUSE`` and ``RANKDECK_ASCII``,
then the file. What is wrong in it is told, and everything else of it holds.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from console.config_file import (
    FORM,
    LOOK,
    VARIABLES,
    Config,
    flat,
    form_problem,
    look_problem,
    read,
    table_of,
    value_of,
)
from console.glyphs import wants_ascii
from launcher import settings as launcher_settings
from launcher.errors import SpecError

if TYPE_CHECKING:
    from console.sources.drafts import Draft

DEFAULT = "default"
"""The origin of what nobody settled."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A setting that holds, and where it comes from."""

    table: str
    key: str
    value: object
    origin: str


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    """What holds for this console. `theme` is empty for the default one; `keys` are bindings' by their id."""

    theme: str = ""
    mouse: bool = True
    ascii: bool = False
    timestamps: str = ""
    keys: Mapping[str, str] = field(default_factory=dict)
    form: Mapping[str, str] = field(default_factory=dict)
    problems: tuple[str, ...] = ()


def load(
    given: Mapping[str, object] | None = None, environ: Mapping[str, str] = os.environ
) -> ConsoleSettings:
    """What holds, with what the command line gave first; problems are told in it, never raised."""
    config = read(environ)
    look = {entry.key: entry.value for entry in console_entries(config, environ, given)}
    form = {entry.key: _typed(entry.value) for entry in form_entries(config) if entry.origin != DEFAULT}
    told = tuple(f"{config.path.name}:{p.line}: {p.text}" if p.line else p.text for p in config.problems)
    return ConsoleSettings(**look, keys=keys_of(config), form=form, problems=told)  # type: ignore[arg-type]


def _typed(value: object) -> str:
    """A value as a person would type it into the form; variables as ``NAME=VALUE`` words."""
    if isinstance(value, Mapping):
        return shlex.join(f"{name}={text}" for name, text in value.items())
    return str(value)


def form_draft(settings: ConsoleSettings, workdir: Path) -> Draft | None:
    """What the launch form begins with, if the settings say anything of it."""
    form = settings.form
    if not form:
        return None
    from console.sources.drafts import Draft
    from console.sources.extras import ENV
    from launcher.spec import Mode

    usual = Draft()
    return Draft(
        processes=form.get("num_processes", usual.processes),
        mode=Mode(form.get("mode", usual.mode)),
        gpu=form.get("gpu", usual.gpu),
        spark=form.get("spark", usual.spark),
        extras={ENV: form[ENV]} if form.get(ENV) else {},
        workdir=workdir,
    )


def keys_of(config: Config) -> dict[str, str]:
    """The keys that the file gives to bindings, by id."""
    return {key: value for key, value in flat(table_of(config, "keys")).items() if isinstance(value, str)}


def console_entries(
    config: Config, environ: Mapping[str, str], given: Mapping[str, object] | None = None
) -> Iterator[Entry]:
    """How the console looks, every setting with its origin."""
    table = table_of(config, "console")
    for key, default in LOOK.items():
        text, chosen = environ.get(VARIABLES.get(key, ""), ""), (given or {}).get(key)
        said = value_of(key, text) if text else None
        if chosen is not None:
            yield Entry("console", key, chosen, "command line")
        elif said is not None:
            yield Entry("console", key, said, f"${VARIABLES[key]}")
        elif key in table and look_problem(key, table[key]) is None:
            yield Entry("console", key, table[key], config.origin("console", key))
        elif key == "ascii" and (locale := wants_ascii(environ)):
            yield Entry("console", key, True, f"${locale}")
        else:
            yield Entry("console", key, default, DEFAULT)


def form_entries(config: Config) -> Iterator[Entry]:
    """What the launch form begins with, every field with its origin."""
    table = table_of(config, "defaults")
    for key, default in FORM.items():
        ours = key in table and form_problem(key, table[key]) is None
        yield Entry(
            "defaults",
            key,
            table[key] if ours else default,
            config.origin("defaults", key) if ours else DEFAULT,
        )


def launcher_entries(config: Config, environ: Mapping[str, str]) -> Iterator[Entry]:
    """The launcher's settings, each with its origin."""
    wrong = {keys for keys, _ in launcher_settings.complaints(config.tables, "the file")}
    variables = {name: variable for variable, name in launcher_settings.VARIABLES.items()}
    for table, values in launcher_settings.defaults().items():
        for key, default in values.items():
            own = table_of(config, table)
            variable = variables.get(key, "")
            if (said := _number(key, environ.get(variable, ""))) is not None:
                yield Entry(table, key, said, f"${variable}")
            elif key in own and (table, key) not in wrong:
                yield Entry(table, key, own[key], config.origin(table, key))
            else:
                yield Entry(table, key, default, DEFAULT)


def _number(key: str, text: str) -> float | None:
    try:
        return launcher_settings.from_text(key, text) if text else None
    except SpecError:
        return None
