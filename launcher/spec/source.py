"""Reading Python source as text, of a file or of a module by its name: nothing is imported.

Importing a training module may take ten seconds, claim a GPU or start the training; reading it does none of
these. What reading cannot decide is accepted: if it is wrong, the ranks fail with Python's own error.
"""

from __future__ import annotations

import ast
import io
import keyword
import pkgutil
import sys
import tokenize
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from difflib import get_close_matches
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path

from ..errors import SpecError
from .signature import Parameter, ParameterKind, Signature, signature_of

ANYTHING = (
    Parameter("args", ParameterKind.VAR_POSITIONAL),
    Parameter("kwargs", ParameterKind.VAR_KEYWORD),
)

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def described(path: Path) -> tuple[str, tuple[Signature, ...]]:
    """The first line of a file's docstring, empty without one, and its public functions in source order.

    Raises:
        SpecError: the file cannot be read, or is not Python.
    """
    module = read_module(path)
    nodes = {n.name: n for n in module.body if isinstance(n, ast.FunctionDef)}
    shown = (signature_of(n) for n in nodes.values() if not n.name.startswith("_"))
    summary = " ".join((ast.get_docstring(module) or "").strip().partition("\n")[0].split())
    return summary, tuple(sorted(shown, key=lambda s: s.line))


def read_module(path: Path) -> ast.Module:
    """The syntax tree of a file, which has also been compiled to check it.

    Raises:
        SpecError: the file cannot be read, or is not Python.
    """
    source = read_text(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the run itself shows warnings about the user's source
            tree = ast.parse(source, str(path))
            compile(tree, str(path), "exec", dont_inherit=True)
    except SyntaxError as error:
        raise SpecError(f"{path}:{error.lineno or 1} is not valid Python: {error.msg}") from error
    except (RecursionError, MemoryError, ValueError, OverflowError) as error:
        raise SpecError(f"{path} cannot be parsed: {str(error) or 'it is nested too deeply'}") from error
    return tree


def read_text(path: Path) -> str:
    """The text of a source file, in the encoding that it names.

    Raises:
        SpecError: it cannot be read, or is no text.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise SpecError(f"{path} cannot be read: {error.strerror}") from error
    if b"\0" in data:
        raise SpecError(f"{path} holds a NUL byte, so it is not Python source", hint="save it as UTF-8 text")
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        return data.decode(encoding)
    except (SyntaxError, UnicodeError, LookupError) as error:
        hint = "save it as UTF-8, or name its encoding in line 1"
        raise SpecError(f"{path} cannot be decoded: {error}", hint=hint) from error


def function_in(path: Path, name: str, label: str) -> Signature:
    """The signature of the function `name`; one that takes anything, if only running the file could tell.

    Args:
        label: the file as the person typed it, for the errors.

    Raises:
        SpecError: there is no such function, or the file is not Python.
    """
    tree = read_module(path)
    bound = dict(_bindings(tree.body))
    node = bound.get(name)
    if isinstance(node, ast.ClassDef):
        raise SpecError(f"{name} in {label} is a class", hint="name a function that makes one and trains")
    if isinstance(node, ast.AsyncFunctionDef) and not node.decorator_list:
        raise SpecError(f"{name} in {label} is async", hint="name a function that calls asyncio.run on it")
    if name not in bound and not {"*", "__getattr__"} & bound.keys():
        raise _no_function(tree, name, label)
    if not isinstance(node, ast.FunctionDef):
        return Signature(name, ANYTHING)
    signature = signature_of(node)
    return _loosened(signature) if signature.decorated else signature


def _bindings(body: Iterable[ast.AST]) -> Iterator[tuple[str, ast.AST | None]]:
    """The names that a module's code binds, in order; with the definition if it is unconditional."""
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name, node
            case ast.Import() | ast.ImportFrom():
                yield from ((alias.asname or alias.name.partition(".")[0], None) for alias in node.names)
            case ast.Name(ctx=ast.Store()):
                yield node.id, None
            case ast.Lambda() | ast.comprehension():
                pass
            case _:  # a definition under `if` or `try` is one of several
                yield from ((name, None) for name, _ in _bindings(ast.iter_child_nodes(node)))


def _no_function(tree: ast.Module, name: str, label: str) -> SpecError:
    for owner in ast.walk(tree):
        if isinstance(owner, _DEFINITIONS) and any(_defines(node, name) for node in owner.body):
            hint = "a target is a function at the top level of its file"
            return SpecError(f"{name} in {label} is defined inside {owner.name}", hint=hint)
    names = [n.name for n in tree.body if isinstance(n, ast.FunctionDef)]
    hint = suggestion(name, names) or (f"it has {listed(names)}" if names else "it defines none")
    return SpecError(f"{label} has no function {name}", hint=hint)


def _defines(node: ast.stmt, name: str) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name == name


def _loosened(signature: Signature) -> Signature:
    """The same signature, with no parameter required and further arguments allowed."""
    named = (ParameterKind.POSITIONAL, ParameterKind.KEYWORD)
    known = (replace(p, default=p.default or "...") for p in signature.parameters if p.kind in named)
    return replace(signature, parameters=(*known, *ANYTHING))


def listed(names: Sequence[str]) -> str:
    """Names as a list for a sentence, at most eight of them."""
    return ", ".join(names[:8]) + (", …" if len(names) > 8 else "")


def suggestion(wanted: str, names: Iterable[str]) -> str | None:
    """A question with the most similar name; None if no name is similar."""
    near = get_close_matches(wanted, list(names), 1)
    return f"did you mean {near[0]}?" if near else None


def find_source(module: str, workdir: Path) -> Path | None:
    """The source file of a module, found without importing its parents; None if there is none."""
    return _source_of(find_module(module, workdir)) if _is_dotted_name(module) else None


def module_file(module: str, workdir: Path) -> Path | None:
    """As `find_source`, for a module that must exist; None if it has no source file.

    Raises:
        SpecError: there is no such module.
    """
    if not _is_dotted_name(module):
        raise SpecError(f"{module!r} is neither a Python file nor a module", hint="write FILE.py:FUNCTION")
    spec = find_module(module, workdir)
    if spec is None:
        raise _no_module(module, workdir)
    if (source := _source_of(spec)) is not None:
        return source
    if spec.origin is None and spec.submodule_search_locations is not None:
        raise SpecError(
            f"{module} is a folder without __init__.py", hint=f"name a module in it: {module}.MODULE:FUNCTION"
        )
    return None


def _is_dotted_name(text: str) -> bool:
    return all(part.isidentifier() and not keyword.iskeyword(part) for part in text.split("."))


def _source_of(spec: ModuleSpec | None) -> Path | None:
    loader = spec.loader if spec else None
    return Path(loader.path) if isinstance(loader, SourceFileLoader) else None


def find_module(module: str, workdir: Path, path: Sequence[str] | None = None) -> ModuleSpec | None:
    """The module's spec, found in `workdir` or on `sys.path`; None if there is none.

    With another `path`, what no folder has is not looked for either.
    """
    first, *rest = module.split(".")
    folders = _search_path(workdir) if path is None else [str(workdir), *path]
    spec = _find_in(folders, first) or (_found_elsewhere(first) if path is None else None)
    for part in rest:
        locations = spec.submodule_search_locations if spec else None
        if locations is None:
            return None
        # The last part of the name only: with dots, the finder would need the imported parent package.
        spec = _find_in(list(locations), part)
    return spec


def _find_in(folders: list[str], name: str) -> ModuleSpec | None:
    """A module in these folders as they are now: a console is open for hours, and files appear meanwhile.

    `importlib.invalidate_caches` would forget all folders, and fails when two threads call it at once.
    """
    for folder in folders:
        sys.path_importer_cache.pop(folder, None)
    return PathFinder.find_spec(name, folders)


def _search_path(workdir: Path) -> list[str]:
    return [str(workdir), *(p for p in sys.path if p)]


def _found_elsewhere(name: str) -> ModuleSpec | None:
    """A module in no folder of the path: built in, or registered by an editable install."""
    finders = (f for f in sys.meta_path if f is not PathFinder)
    return next(filter(None, (f.find_spec(name, None) for f in finders)), None)


def _no_module(module: str, workdir: Path) -> SpecError:
    parent, _, last = module.rpartition(".")
    if not parent:
        locations: Iterable[str] = _search_path(workdir)
    elif found := find_module(parent, workdir):
        locations = found.submodule_search_locations or []
    else:
        return _no_module(parent, workdir)
    names = [m.name for m in pkgutil.iter_modules([*locations])]
    where = f"in {parent}" if parent else f"in {workdir} or on sys.path"
    return SpecError(f"there is no module {last} {where}", hint=suggestion(last, names))
