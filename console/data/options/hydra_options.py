"""What can be overridden in a script of Hydra: values of its config, and the choices of its config groups.

The config is read from its folder of YAML files, or from the dataclass that is stored under its name.
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from launcher.spec.signature import last_name

from .config_yaml import Scalar, Table, read_config
from .dataclass_options import Style, of_types
from .modules import Function, Module, Sources, is_file, keywords_of
from .option import MOST_CHOICES, MOST_OPTIONS, SWITCH, ScriptOption

_MOST_BYTES = 256 << 10
_MOST_FILES = 100
_MOST_DEPTH = 8
_SUFFIXES = (".yaml", ".yml")
MISSING = "???"
"""What a config says of a value that a command line must give."""


@dataclass(frozen=True, slots=True)
class _ConfigPlace:
    """Where a script's config is: its folder, which may not exist, and its name."""

    folder: Path | None
    name: str


def hydra_options(module: Module, chosen: Mapping[str, str]) -> tuple[ScriptOption, ...] | None:
    """The values and groups of a script's config; None if the script has none of Hydra.

    `chosen` are the configs that a command line chooses of some groups.
    """
    for node in ast.walk(module.tree):
        if isinstance(node, Function):
            for each in node.decorator_list:
                if isinstance(each, ast.Call) and _is_main(module, each.func):
                    return _of(module, _place(module, each), chosen)
    return None


def _is_main(module: Module, node: ast.expr) -> bool:
    if last_name(node) != "main":
        return False
    if isinstance(node, ast.Attribute):
        return last_name(node.value) == "hydra"
    return isinstance(node, ast.Name) and module.imports.get(node.id, ("",))[0].partition(".")[0] == "hydra"


def _place(module: Module, call: ast.Call) -> _ConfigPlace:
    keywords = keywords_of(call)
    given = [module.value(each) for each in call.args[:2]]
    path = module.value(keywords.get("config_path")) if "config_path" in keywords else (given or [None])[0]
    name = module.text(keywords.get("config_name")) or (given[1] if len(given) > 1 else "")
    folder = (
        module.path.parent / path
        if isinstance(path, str) and "://" not in path and "\0" not in path
        else None
    )
    return _ConfigPlace(folder, name if isinstance(name, str) else "")


def _of(module: Module, place: _ConfigPlace, chosen: Mapping[str, str]) -> tuple[ScriptOption, ...]:
    configs = _Configs(place.folder, module.sources, chosen)
    options = list(configs.options(place.name)) if place.folder is not None and place.name else []
    if not options:
        options = list(_stored(module, place.name))
    return tuple({o.names[0]: o for o in options}.values())[:MOST_OPTIONS]


def _stored(module: Module, name: str) -> Iterator[ScriptOption]:
    """The fields of a dataclass that is stored as the config of this name."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and last_name(node.func) == "store":
            keywords = keywords_of(node)
            given = dict(zip(("name", "node"), node.args, strict=False)) | keywords
            if module.text(given.get("name")) == name and "group" not in given and "node" in given:
                target = given["node"].func if isinstance(given["node"], ast.Call) else given["node"]
                for option in of_types(module, [target], Style.DOTTED, "hydra").options:
                    yield _assigned(option)


def _assigned(option: ScriptOption) -> ScriptOption:
    """The option of a dataclass's field as an override."""
    missing = last_missing(option.default)
    return replace(
        option,
        names=(option.names[0].removeprefix("--"),),
        assigned=True,
        required=option.required or missing,
        default=None if missing else option.default,
    )


def last_missing(default: str | None) -> bool:
    """Whether a default says that a value must be given."""
    return default is not None and (
        default.strip("'\"") == MISSING or default.rpartition(".")[2] == "MISSING"
    )


class _Configs:
    """Reads the files of a config folder. Bounded."""

    def __init__(self, folder: Path | None, sources: Sources, chosen: Mapping[str, str]) -> None:
        self._folder, self._sources, self._chosen = folder, sources, chosen
        self._read = 0

    def options(self, name: str) -> Iterator[ScriptOption]:
        """The groups that a config chooses from, then its values; those of its base files come first."""
        groups: dict[str, ScriptOption] = {}
        values: dict[str, ScriptOption] = {}
        self._config(name, "", groups, values, 0)
        yield from groups.values()
        yield from values.values()

    def _config(
        self,
        name: str,
        package: str,
        groups: dict[str, ScriptOption],
        values: dict[str, ScriptOption],
        depth: int,
    ) -> None:
        """Note the groups and values of a file, whose values are in a `package`."""
        text = self._text(name) if depth <= _MOST_DEPTH else None
        if text is None:
            return
        if "@package _global_" in text[:2000]:
            package = ""
        config = read_config(text)
        defaults = config.entries.pop("defaults", [])
        own = {o.names[0]: o for o in flattened(config, package)}
        last = True
        for each in defaults[:_MOST_FILES] if isinstance(defaults, list) else []:
            if isinstance(each, Scalar) and each.text == "_self_":
                last = False
                values |= own
            else:
                self._default(each, name, package, groups, values, depth)
        if last:
            values |= own

    def _default(
        self,
        entry: Scalar | Table,
        name: str,
        package: str,
        groups: dict[str, ScriptOption],
        values: dict[str, ScriptOption],
        depth: int,
    ) -> None:
        """Note what one entry of the list of defaults brings."""
        folder = name.rpartition("/")[0]
        if isinstance(entry, Scalar):
            self._config(_joined(folder, entry.text), package, groups, values, depth + 1)
            return
        for key, value in list(entry.entries.items())[:1]:
            words = key.split()
            group, _, at = words[-1].partition("@")
            if (
                not isinstance(value, Scalar)
                or "override" in words[:-1]
                or group.partition("/")[0] == "hydra"
            ):
                continue
            path = _joined(folder, group)
            chosen = value.text if value.source is not None else ""
            option = self._group(words[-1].lstrip("/"), path, value, chosen)
            if option.choices:
                groups[words[-1]] = option
            chosen = self._chosen.get(words[-1].lstrip("/"), chosen)
            if chosen and "${" not in chosen and chosen != MISSING:
                inside = at if at and at != "_global_" else "" if at else path.replace("/", ".")
                self._config(f"{path}/{chosen}", inside, groups, values, depth + 1)

    def _group(self, key: str, path: str, value: Scalar, chosen: str) -> ScriptOption:
        missing = chosen == MISSING
        return ScriptOption(
            (key,),
            kind="group",
            choices=self._names(path),
            default=None if missing or not chosen else value.source if "${" in chosen else repr(chosen),
            help=value.comment,
            required=missing,
            assigned=True,
        )

    def _text(self, name: str) -> str | None:
        """The text of a config; None if it is not in the folder, too large, or one of too many."""
        self._read += 1
        if self._folder is None or self._read > _MOST_FILES or "\0" in name or ".." in name.split("/"):
            return None
        base = name.removesuffix(".yaml").removesuffix(".yml")
        for suffix in _SUFFIXES:
            path = self._folder / f"{base}{suffix}"
            try:
                self._sources.note(path)
                if is_file(path) and path.stat().st_size <= _MOST_BYTES:
                    return path.read_text(errors="replace")
            except OSError:
                return None
        return None

    def _names(self, path: str) -> tuple[str, ...]:
        """The configs of a group."""
        if self._folder is None or ".." in path.split("/"):
            return ()
        self._sources.note(self._folder / path)
        try:
            with os.scandir(self._folder / path) as entries:
                names = [e.name for e, _ in zip(entries, range(5000), strict=False)]
        except OSError:
            return ()
        stems = (n.rpartition(".")[0] for n in sorted(names) if n.endswith(_SUFFIXES) and n.isprintable())
        return tuple(stem for stem in stems if stem)[:MOST_CHOICES]


def _joined(folder: str, name: str) -> str:
    """A name in the folder of the config that gives it; from the root with a leading slash."""
    return name.lstrip("/") if name.startswith("/") or not folder else f"{folder}/{name}"


def flattened(config: Table, package: str) -> Iterator[ScriptOption]:
    """An option for each value of a config, by its key with dots.

    Lists of mappings, and keys of Hydra's own such as ``_target_``, are left out.
    """
    for key, value in config.entries.items():
        name = f"{package}.{key}" if package else key
        if (
            key.startswith("_")
            or not name.isprintable()
            or " " in name
            or "=" in name
            or name.startswith("hydra.")
        ):
            continue
        if isinstance(value, Table):
            yield from flattened(value, name)
        elif isinstance(value, list):
            if all(isinstance(each, Scalar) for each in value):
                texts = [each.text for each in value if isinstance(each, Scalar)]
                yield ScriptOption((name,), kind="list", default=f"[{','.join(texts)}]", assigned=True)
        elif name != "hydra":
            yield _value(name, value)


def _value(name: str, value: Scalar) -> ScriptOption:
    missing = value.text == MISSING
    kind = value.kind
    return ScriptOption(
        (name,),
        kind="" if kind == "bool" else kind,
        choices=SWITCH if kind == "bool" else (),
        default=None if missing else value.source,
        help=value.comment,
        required=missing,
        assigned=True,
    )
