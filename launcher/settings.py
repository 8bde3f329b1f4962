"""Settings for all runs: ``config.toml`` in the config folder, and a few environment variables.

[retention]              [engine]
runs = 10_000            idle_s = 900
days = 0                 session_idle_s = 300
bytes = 0                max_local_runs = 8

A setting that is left out has its default; 0 in `retention` means no limit. ``RANKDECK_ENGINE_IDLE_S``,
``RANKDECK_SESSION_IDLE_S`` and ``RANKDECK_MAX_LOCAL_RUNS`` override the file. The console's tables are in the
same file; only their names are known here.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .errors import SpecError

FILE = "config.toml"
CONSOLE_TABLES = ("console", "columns", "keys", "defaults", "commands", "notify")
"""Tables of the same file that others read and check."""

_DAY_S = 86400.0
_MOST = 1e18
VARIABLES = {
    "RANKDECK_ENGINE_IDLE_S": "idle_s",
    "RANKDECK_SESSION_IDLE_S": "session_idle_s",
    "RANKDECK_MAX_LOCAL_RUNS": "max_local_runs",
}


@dataclass(frozen=True, slots=True)
class Policy:
    """Which runs are kept: the newest `count`, none older than `age_s`, `bytes` in all; None: no limit."""

    count: int | None = 10_000
    age_s: float | None = None
    bytes: int | None = None


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """How long an engine and its Spark session stay when idle, and how many local runs go on at once."""

    idle_s: float = 900.0
    session_idle_s: float = 300.0
    max_local_runs: int = field(default_factory=lambda: max(8, 4 * len(os.sched_getaffinity(0))))


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings of the launcher."""

    retention: Policy = field(default_factory=Policy)
    engine: EngineSettings = field(default_factory=EngineSettings)


def config_file(environ: Mapping[str, str] = os.environ) -> Path:
    """The settings file: under ``$RANKDECK_HOME``, else in the XDG config folder."""
    if override := environ.get("RANKDECK_HOME"):
        return Path(override).expanduser().absolute() / "config" / FILE
    from platformdirs import user_config_path

    return user_config_path("rankdeck") / FILE


def load(environ: Mapping[str, str] = os.environ) -> Settings:
    """The settings; the defaults where there is no file.

    Raises:
        SpecError: the file or a variable has a wrong value, which the message names.
    """
    path = config_file(environ)
    tables = read(path)
    for _, error in complaints(tables, str(path)):
        raise error
    engine = {key: _ENGINE[key](value) for key, value in tables.get("engine", {}).items()}
    chosen = {name: environ[variable] for variable, name in VARIABLES.items() if environ.get(variable)}
    engine |= {name: from_text(name, text) for name, text in chosen.items()}
    return Settings(_policy(tables.get("retention", {})), EngineSettings(**engine))


def complaints(tables: Mapping[str, Any], where: str) -> Iterator[tuple[tuple[str, ...], SpecError]]:
    """The errors in the file `where`, each with its table and key; the console's tables are skipped."""
    known = [*TABLES, *CONSOLE_TABLES]
    for name, table in tables.items():
        if name not in known:
            yield (name,), unknown(where, name, known)
        elif not isinstance(table, dict):
            yield (name,), SpecError(f"{where}: {name} must be a table")
        elif name in TABLES:
            yield from _wrong_numbers(name, table, where)


def _wrong_numbers(
    name: str, table: Mapping[str, Any], where: str
) -> Iterator[tuple[tuple[str, ...], SpecError]]:
    kinds = TABLES[name]
    for key, value in table.items():
        if key not in kinds:
            yield (name, key), unknown(where, f"{name}.{key}", kinds)
            continue
        try:
            _number(value, kinds[key], f"{where}: {name}.{key}", key)
        except SpecError as error:
            yield (name, key), error


def unknown(where: str, key: str, known: Iterable[str]) -> SpecError:
    """The error for an unknown setting."""
    return SpecError(f"{where} sets {key}, which is unknown", hint=f"it may have {', '.join(known)}")


def defaults() -> dict[str, dict[str, float]]:
    """The launcher's tables of a file that changes nothing."""
    kept, engine = Policy(), EngineSettings()
    days = (kept.age_s or 0) / _DAY_S
    return {
        "retention": {"runs": kept.count or 0, "days": days, "bytes": kept.bytes or 0},
        "engine": {key: getattr(engine, key) for key in _ENGINE},
    }


_ENGINE: dict[str, type] = {"idle_s": float, "session_idle_s": float, "max_local_runs": int}
TABLES: Mapping[str, Mapping[str, type]] = {
    "retention": {"runs": int, "days": float, "bytes": int},
    "engine": _ENGINE,
}
"""The keys of the launcher's tables, and the types of their values."""


def _policy(kept: Mapping[str, Any]) -> Policy:
    """The policy of the table `retention`, in which 0 means no limit."""
    default = Policy()
    return Policy(
        count=kept.get("runs", default.count) or None,
        age_s=kept["days"] * _DAY_S or None if "days" in kept else default.age_s,
        bytes=kept.get("bytes", default.bytes) or None,
    )


def read(path: Path) -> dict[str, Any]:
    """The file's tables, unchecked; none where there is no file.

    Raises:
        SpecError: it cannot be read, or is no TOML.
    """
    import tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise SpecError(f"{path} cannot be read: {error}") from error


def _number(value: object, kind: type, what: str, key: str) -> float:
    """The value, if it is a number of its kind within bounds.

    Raises:
        SpecError: it is not.
    """
    fits = isinstance(value, (int, float) if kind is float else int) and not isinstance(value, bool)
    least = 1 if key == "max_local_runs" else 0
    if not fits or not least <= value <= _MOST:  # type: ignore[operator]
        noun = "a number" if kind is float else "a whole number"
        raise SpecError(f"{what} must be {noun} of at least {least}, not {value!r}")
    return kind(value)  # type: ignore[no-any-return]


def from_text(name: str, text: str) -> float:
    """The value of an engine setting from its environment variable.

    Raises:
        SpecError: it is no number of its kind within bounds.
    """
    variable = next(v for v, n in VARIABLES.items() if n == name)
    try:
        value: object = _ENGINE[name](text)
    except ValueError:
        value = text
    return _number(value, _ENGINE[name], variable, name)
