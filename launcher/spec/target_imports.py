"""The modules that a target needs on its hosts: what it imports, without what travels with it. Reads only.

A script's imports are found in its source and in those of the user's own modules. A pickled function's are
the modules that its pickle names, which is read as a list of instructions and never loaded.
"""

from __future__ import annotations

import ast
import pickletools
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from .. import names
from .job import JobSpec, TargetKind
from .program_sources import program_sources
from .request import Request, sent_path

_CATCHES = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})
_ALWAYS = frozenset({"__main__", "__mp_main__", "__future__", names.own(), names.SECOND, "cloudpickle"})
_IMPORTERS = ("subimport", "dynamic_subimport")  # functions of cloudpickle's, called with a module's name
_IMPORTER = "\0importer"
_OPS = 1_000_000


@dataclass(frozen=True, slots=True)
class TargetImports:
    """Top-level modules that hosts must have.

    Attributes:
        needed: those that are imported in any case.
        lazy: those that only functions import.
        read: whether all of it could be read; None if the target is no Python.
    """

    needed: tuple[str, ...] = ()
    lazy: tuple[str, ...] = ()
    read: bool | None = None


def target_imports(request: Request) -> TargetImports:
    """What a launch's target needs on its hosts."""
    target = request.spec.target
    if target.kind is TargetKind.PROGRAM or not (target.source or request.payload):
        return TargetImports()
    always, lazy, sources = set[str](), set[str](), 0
    for text in program_sources(target, Path(request.spec.workdir)):
        sources += 1
        for name, is_lazy in imports_in(text):
            (lazy if is_lazy else always).add(name)
    if request.payload is not None:
        always |= set(modules_in(request.payload))
        sources += 1
    elif not sources and not target.is_file:  # a module that only the hosts have
        always.add(target.source.partition(".")[0])
        sources += 1
    here = own_folders(request.spec)
    needed = _foreign(always, here, request.spec)
    return TargetImports(
        needed, tuple(n for n in _foreign(lazy, here, request.spec) if n not in needed), sources > 0
    )


def imports_in(source: str) -> Iterator[tuple[str, bool]]:
    """The top-level modules that a source imports, each with whether only a function does.

    Left out: relative imports, those for type checkers, and those whose failure is caught.
    """
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return
    yield from _imports(tree.body, lazy=False)


def _imports(nodes: Iterable[ast.AST], *, lazy: bool) -> Iterator[tuple[str, bool]]:
    for node in nodes:
        match node:
            case ast.Import():
                yield from ((alias.name.partition(".")[0], lazy) for alias in node.names)
            case ast.ImportFrom() if node.module and not node.level:
                yield node.module.partition(".")[0], lazy
            case ast.Try() if any(map(_catches_imports, node.handlers)):
                yield from _imports((*node.orelse, *node.finalbody), lazy=lazy)
            case ast.If() if _is_for_type_checkers(node.test):
                yield from _imports(node.orelse, lazy=lazy)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                yield from _imports(node.body, lazy=True)
            case _:
                yield from _imports(ast.iter_child_nodes(node), lazy=lazy)


def _catches_imports(handler: ast.ExceptHandler) -> bool:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(kind is None or (isinstance(kind, ast.Name) and kind.id in _CATCHES) for kind in kinds)


def _is_for_type_checkers(test: ast.expr) -> bool:
    name = test.attr if isinstance(test, ast.Attribute) else test.id if isinstance(test, ast.Name) else ""
    return name == "TYPE_CHECKING"


def modules_in(pickled: bytes) -> Iterator[str]:
    """The top-level modules that a pickle names: of its classes and functions, and modules themselves."""
    texts = [""]  # those on the stack, the last ones at least
    memo: list[str] = []
    try:
        for code, argument, _ in islice(pickletools.genops(pickled), _OPS):
            match code.name:
                case "MEMOIZE" | "PUT" | "BINPUT" | "LONG_BINPUT":
                    memo.append(texts[-1])
                    continue
                case "GLOBAL":
                    module, _, name = str(argument).partition(" ")
                    yield module.partition(".")[0]
                    text = _IMPORTER if name in _IMPORTERS else ""
                case "STACK_GLOBAL":
                    yield texts[-2].partition(".")[0]
                    text = _IMPORTER if texts[-1] in _IMPORTERS else ""
                case "BINGET" | "LONG_BINGET" | "GET":
                    text = memo[int(str(argument))]
                case _ if isinstance(argument, str):
                    text = argument
                case _:
                    continue
            if texts[-1] == _IMPORTER and text:
                yield text.partition(".")[0]
            texts = [*texts[-2:], text]
    except (ValueError, IndexError):  # it is no pickle, or one of an older kind with marks of its own
        return


def own_folders(spec: JobSpec) -> tuple[Path, ...]:
    """The folders whose modules travel, or that ranks on this machine import from."""
    target = spec.target
    places = [Path(spec.workdir)]
    if target.is_file and target.source:
        places.insert(0, Path(target.source).parent)
    sent = [Path(sent_path(spec, text)) for text in spec.py_files]
    return (*places, *(path for each in sent for path in (each, each.parent)))


def _foreign(modules: Iterable[str], folders: Iterable[Path], spec: JobSpec) -> tuple[str, ...]:
    """The modules that are neither Python's, nor ours, nor in one of the folders, sorted."""
    sent = {Path(text).stem for text in spec.py_files}
    known = _ALWAYS | sys.stdlib_module_names | sent
    places = tuple(folders)
    return tuple(sorted(n for n in set(modules) - known if n.isidentifier() and not _is_own(n, places)))


def _is_own(module: str, folders: Iterable[Path]) -> bool:
    return any((f / module).is_dir() or (f / f"{module}.py").is_file() for f in folders)
