"""All that a script takes, read from its source and config files. Nothing is imported or run; may block."""

from __future__ import annotations

import ast
import os
from pathlib import Path

from launcher.spec.job import named_module

from .argparse_options import argparse_options
from .arguments import read_line
from .click_options import click_options, typer_options
from .dataclass_options import FromTypes, Style, dataclass_options, of_types
from .docstrings import described_parameters
from .hydra_options import hydra_options
from .modules import Module, Sources, is_file, stamp
from .option import MOST_OPTIONS, ScriptOption, ScriptParser


def parser_of(source: str, workdir: Path, args: str = "") -> ScriptParser:
    """What a script takes, a file or module in `workdir`; nothing if it cannot be read.

    The values of a config of Hydra depend on the groups that its arguments choose.
    """
    path = source_file(source, workdir)
    if path is None:
        return ScriptParser()
    parser = _KNOWN.parser(path, workdir)
    groups = [option for option in parser.options if option.kind == "group"]
    line = read_line(groups, args) if groups else None
    chosen = {o.names[0]: line.value(o) or "" for o in groups if line.of(o)} if line is not None else {}
    return _KNOWN.parser(path, workdir, tuple(sorted(chosen.items()))) if chosen else parser


def parameter_texts(source: str, name: str, workdir: Path) -> dict[str, str]:
    """What the docstring of a function of a file or module says about its parameters."""
    path = source_file(source, workdir)
    module = Sources((workdir,)).read(path) if path is not None else None
    found = module.find(ast.Name(name, ast.Load())) if module is not None else None
    return described_parameters(ast.get_docstring(found[1]) or "") if found is not None else {}


def parser_in(path: Path, workdir: Path) -> ScriptParser:
    """What the script in a file takes."""
    return _KNOWN.parser(path, workdir)


class _ReadParsers:
    """What was read of scripts, and the versions of all files that it was read of."""

    _MOST = 32

    def __init__(self) -> None:
        self._parsers: dict[
            tuple[Path, Path, tuple[tuple[str, str], ...]], tuple[dict[Path, tuple[int, int]], ScriptParser]
        ] = {}

    def parser(self, path: Path, workdir: Path, chosen: tuple[tuple[str, str], ...] = ()) -> ScriptParser:
        """What the script in a file takes; read again if one of the files has changed."""
        key = (path, workdir, chosen)
        used, parser = self._parsers.get(key, ({}, ScriptParser()))
        if not used or any(stamp(each) != version for each, version in used.items()):
            sources = Sources((workdir,))
            module = sources.read(path)
            parser = _parser(module, dict(chosen)) if module is not None else ScriptParser()
            if len(self._parsers) >= self._MOST:
                self._parsers.clear()
            self._parsers[key] = (sources.used, parser)
        return parser


_KNOWN = _ReadParsers()


def _parser(module: Module, chosen: dict[str, str]) -> ScriptParser:
    """The options by the library that reads them; a script that builds parsers itself is believed first."""
    hydra = hydra_options(module, chosen) if "hydra" in module.libraries else None
    if hydra is not None:
        return _made(hydra, "Hydra", loose=True)
    libraries = module.libraries
    typed = dataclass_options(module)
    if typed.library in ("HfArgumentParser", "TrlParser", "H4ArgumentParser", "LightningCLI"):
        return _of_types(typed)
    built = argparse_options(module)
    classes = [of_types(there, [node], Style.SIMPLE, "simple_parsing") for there, node in built.classes]
    if built.options or classes:
        inner = tuple(o for each in classes for o in each.options)
        unread = tuple(name for each in classes for name in each.unread)
        return _made((*built.options, *inner), "argparse", unread, loose=built.loose or bool(unread))
    if typed.library:
        return _of_types(typed)
    if "typer" in libraries and (options := typer_options(module)):
        return _made(options, "typer")
    if libraries & {"click", "rich_click"} and (options := click_options(module)):
        return _made(options, "click")
    return ScriptParser()


def _of_types(found: FromTypes) -> ScriptParser:
    loose = bool(found.unread)
    return _made(found.options, found.library, found.unread, loose=loose)


def _made(
    options: tuple[ScriptOption, ...], library: str, unread: tuple[str, ...] = (), *, loose: bool = False
) -> ScriptParser:
    loose = loose or len(options) >= MOST_OPTIONS
    return ScriptParser(options[:MOST_OPTIONS], library, tuple(dict.fromkeys(unread)), loose)


def source_file(source: str, workdir: Path) -> Path | None:
    """The file that a target's first part names, relative to `workdir`; None if there is none."""
    if not source or "\0" in source:
        return None
    source = named_module(source) or source
    path = workdir / os.path.expanduser(source)
    if not source.endswith(".py") and "/" not in source:
        path = (workdir / source.replace(".", "/")).with_suffix(".py")
    return path if is_file(path) else None
