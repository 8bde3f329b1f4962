"""Find and check what to run, by reading source: files, functions, and arguments that fit them.

Importing a training module may take ten seconds, claim a GPU or start the training; reading it does none
of these. So nothing here may import what it finds. What reading cannot decide is accepted, and the ranks
will say: a name that is assigned or imported, a module that is compiled or zipped.
"""

from __future__ import annotations

import ast
import importlib
import io
import keyword
import os
import pkgutil
import stat
import subprocess
import sys
import tokenize
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path, PurePath

from launcher.errors import SpecError
from launcher.signature import Parameter, ParameterKind, Signature, literal, signature_of
from launcher.spec import Target, TargetKind

_ANY = "..."
_REST = (
    Parameter("args", ParameterKind.VAR_POSITIONAL),
    Parameter("kwargs", ParameterKind.VAR_KEYWORD),
)


def resolve(text: str, *, params: Mapping[str, str], args: Sequence[str], workdir: Path) -> Target:
    """What a person means by ``train.py``, ``train.py:fn`` or ``package.module:fn``, checked.

    Args:
        params: a function's keyword arguments, as typed.
        args: a script's argv; a function's positional arguments, as typed.
        workdir: where relative paths and modules are looked for first.

    Raises:
        SpecError: there is no such thing to run, or the arguments do not fit it.
    """
    source, name = _split(text, workdir)
    if not name:
        return _script(source, params=params, args=args, workdir=workdir)
    place, signature = _place(source, name, workdir)
    positional, keywords = _bind(signature, params=params, args=args)
    return Target(TargetKind.FUNCTION, place, name, args=positional, kwargs=keywords)


def resolve_call(text: str, *, count: int, names: Iterable[str], workdir: Path) -> Target:
    """The function of a call from Python: its values are Python's own, so only their places are checked.

    Args:
        count: how many arguments are given by position.
        names: the arguments given by name.

    Raises:
        SpecError: there is no such function, or it does not take these arguments.
    """
    source, name = _split(text, workdir)
    place, signature = _place(source, name, workdir)
    untyped = (
        replace(p, annotation="", default=p.default and _ANY, choices=()) for p in signature.parameters
    )
    _bind(
        replace(signature, parameters=tuple(untyped)), params=dict.fromkeys(names, _ANY), args=[_ANY] * count
    )
    return Target(TargetKind.FUNCTION, place, name)


def _place(source: str, name: str, workdir: Path) -> tuple[str, Signature]:
    """Where a function is found again, and what it takes."""
    if source.endswith(".py") or "/" in source:
        path: Path | None = _file(source, workdir)
        place = str(path)
    else:
        path, place = _module_file(source, workdir), source
    return place, _function(path, name, source) if path else Signature(name, _REST)


def _script(source: str, *, params: Mapping[str, str], args: Sequence[str], workdir: Path) -> Target:
    path = _file(source, workdir)
    read_module(path)
    if params:
        raise SpecError(
            f"{source} is a script, and --param is for functions",
            hint=f"give a script its arguments after --, or name a function: {source}:FUNCTION",
        )
    return Target(TargetKind.SCRIPT, str(path), args=tuple(args))


def _split(text: str, workdir: Path) -> tuple[str, str]:
    """A target's file or module, and its function's name; the name of a script is empty."""
    if not text or "\0" in text:
        raise SpecError(
            "the target is empty or holds a NUL", hint="name a file, or a function as train.py:train"
        )
    source, colon, name = text.rpartition(":")
    if not colon or os.path.exists(_absolute(text, workdir)):
        return text, ""
    if not source or not name:
        raise SpecError(f"{text!r} is half a target", hint="write FILE.py:FUNCTION or MODULE:FUNCTION")
    if all(map(str.isidentifier, name.split("."))) and "." in name:
        raise SpecError(
            f"{name!r} is an attribute or a method, which cannot be a target",
            hint="call it in a function at the top level of the file, and name that",
        )
    if not name.isidentifier() or keyword.iskeyword(name):
        raise SpecError(f"{name!r} cannot be a function's name", hint="write FILE.py:FUNCTION")
    return source, name


# --- files


def _absolute(text: str, workdir: Path) -> Path:
    return Path(os.path.abspath(workdir / os.path.expanduser(text)))


def _file(text: str, workdir: Path) -> Path:
    """The absolute path of a Python file that exists."""
    path = _absolute(text, workdir)
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise _no_file(text, path, workdir) from None
    except OSError as error:
        raise SpecError(f"{path} cannot be read: {error.strerror}") from error
    if stat.S_ISDIR(mode):
        raise SpecError(f"{text} is a folder", hint="name a Python file in it")
    if path.suffix != ".py" or not stat.S_ISREG(mode):
        raise SpecError(f"{text} is not a Python file", hint="a target is a .py file or MODULE:FUNCTION")
    return path


def _no_file(text: str, path: Path, workdir: Path) -> SpecError:
    if path.suffix != ".py" and all(map(str.isidentifier, text.split("."))):
        return _no_function_named(text, workdir)
    nearby = [os.path.relpath(p, workdir) for p in [*path.parent.glob("*.py"), *find_sources(workdir)]]
    hint = _suggestion(text, nearby) or f"paths are taken from {workdir}"
    return SpecError(f"there is no file {text}", hint=hint)


def _no_function_named(text: str, workdir: Path) -> SpecError:
    """The mistake in a dotted name without a colon."""
    if _absolute(f"{text}.py", workdir).is_file():
        return SpecError(f"there is no file {text}", hint=f"did you mean {text}.py?")
    module, _, last = text.rpartition(".")
    if module and _find_module(text, workdir) is None:
        return SpecError(f"{text} is neither a file nor a module", hint=f"write {module}:{last}")
    return SpecError(f"{text} does not say which function to run", hint=f"write {text}:FUNCTION")


def find_sources(workdir: Path, limit: int = 2000) -> list[Path]:
    """Python files below a folder that its owner wrote: not ignored by git, in no virtual environment.

    The shallowest come first, and at most `limit` come at all.
    """
    found = _listed_by_git(workdir) or _walked(workdir, limit)
    return sorted(found, key=lambda p: (len(p.parts), p))[:limit]


_FOREIGN = {"__pycache__", "node_modules", "site-packages"}


def _listed_by_git(workdir: Path) -> list[Path]:
    command = ["git", "-C", str(workdir), "ls-files", "-coz", "--exclude-standard", "--", "*.py"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=5, stdin=subprocess.DEVNULL, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    names = {PurePath(os.fsdecode(name)) for name in done.stdout.split(b"\0") if name}
    folders = {f for n in names for f in n.parents if f.name}
    foreign = {f for f in folders if _foreign(workdir / f)}
    own = (workdir / n for n in names if foreign.isdisjoint(n.parents))
    return [p for p in own if os.path.isfile(p)]


def _foreign(folder: Path) -> bool:
    """Whether what lies in a folder was installed or generated rather than written."""
    hidden = folder.name.startswith(".") or folder.name in _FOREIGN
    return hidden or os.path.exists(folder / "pyvenv.cfg")


def _walked(workdir: Path, limit: int) -> list[Path]:
    """The same without git, level by level, so that the limit cuts the deepest."""
    found: list[Path] = []
    level, seen = [workdir], 0
    while level and len(found) < limit and seen < 10 * limit:
        seen += len(level)
        entries = [e for folder in level for e in _entries(folder)]
        found += [Path(e.path) for e in entries if e.name.endswith(".py") and os.path.isfile(e.path)]
        folders = (Path(e.path) for e in entries if e.is_dir(follow_symlinks=False))
        level = [f for f in folders if not _foreign(f)]
    return found


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []  # a folder that cannot be listed has nothing to offer


# --- modules


def _module_file(module: str, workdir: Path) -> Path | None:
    """The source file of a module, found without importing its parents; None if it has another form."""
    if not all(p.isidentifier() and not keyword.iskeyword(p) for p in module.split(".")):
        raise SpecError(f"{module!r} is neither a Python file nor a module", hint="write FILE.py:FUNCTION")
    spec = _find_module(module, workdir)
    if spec is None:
        raise _no_module(module, workdir)
    if isinstance(spec.loader, SourceFileLoader):
        return Path(spec.loader.path)
    if spec.origin is None and spec.submodule_search_locations is not None:
        raise SpecError(
            f"{module} is a folder without __init__.py", hint=f"name a module in it: {module}.MODULE:FUNCTION"
        )
    return None


def _find_module(module: str, workdir: Path) -> ModuleSpec | None:
    importlib.invalidate_caches()  # a console is open for hours, and files appear meanwhile
    first, *rest = module.split(".")
    spec = PathFinder.find_spec(first, _search_path(workdir)) or _found_elsewhere(first)
    for part in rest:
        locations = spec.submodule_search_locations if spec else None
        if locations is None:
            return None
        # The bare name keeps the finder from asking for the parent package, which is not imported.
        spec = PathFinder.find_spec(part, list(locations))
    return spec


def _search_path(workdir: Path) -> list[str]:
    return [str(workdir), *(p for p in sys.path if p)]


def _found_elsewhere(name: str) -> ModuleSpec | None:
    """A module that no folder holds: built in, or made known by an editable install."""
    finders = (f for f in sys.meta_path if f is not PathFinder)
    return next(filter(None, (f.find_spec(name, None) for f in finders)), None)


def _no_module(module: str, workdir: Path) -> SpecError:
    parent, _, last = module.rpartition(".")
    if not parent:
        locations: Iterable[str] = _search_path(workdir)
    elif found := _find_module(parent, workdir):
        locations = found.submodule_search_locations or []
    else:
        return _no_module(parent, workdir)
    names = [m.name for m in pkgutil.iter_modules([*locations])]
    where = f"in {parent}" if parent else f"in {workdir} or on sys.path"
    return SpecError(f"there is no module {last} {where}", hint=_suggestion(last, names))


# --- functions

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def functions_in(path: Path) -> tuple[Signature, ...]:
    """The public functions at the top level of a file, in source order.

    Raises:
        SpecError: the file cannot be read, or is not Python.
    """
    nodes = {n.name: n for n in read_module(path).body if isinstance(n, ast.FunctionDef)}
    shown = (signature_of(n) for n in nodes.values() if not n.name.startswith("_"))
    return tuple(sorted(shown, key=lambda s: s.line))


def read_module(path: Path) -> ast.Module:
    """The syntax tree of a file that would also compile.

    Raises:
        SpecError: the file cannot be read, or is not Python.
    """
    source = _read(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what is odd in the user's source is for its own run to say
            tree = ast.parse(source, str(path))
            compile(tree, str(path), "exec", dont_inherit=True)
    except SyntaxError as error:
        raise SpecError(f"{path}:{error.lineno or 1} is not valid Python: {error.msg}") from error
    except (RecursionError, MemoryError, ValueError, OverflowError) as error:
        raise SpecError(f"{path} cannot be parsed: {str(error) or 'it is nested too deeply'}") from error
    return tree


def _read(path: Path) -> str:
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


def _function(path: Path, name: str, label: str) -> Signature:
    """What `name` takes in a file; anything, if only running the file could tell."""
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
        return Signature(name, _REST)
    signature = signature_of(node)
    return _loosened(signature) if signature.decorated else signature


def _bindings(body: Iterable[ast.AST]) -> Iterator[tuple[str, ast.AST | None]]:
    """The names that a module's code binds, in order; with the definition where there is no doubt of it."""
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
    hint = _suggestion(name, names) or (f"it has {_listed(names)}" if names else "it defines none")
    return SpecError(f"{label} has no function {name}", hint=hint)


def _defines(node: ast.stmt, name: str) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name == name


def _loosened(signature: Signature) -> Signature:
    """The same, but nothing must be given and anything more may be."""
    named = (ParameterKind.POSITIONAL, ParameterKind.KEYWORD)
    known = (replace(p, default=p.default or "...") for p in signature.parameters if p.kind in named)
    return replace(signature, parameters=(*known, *_REST))


# --- arguments


def _bind(
    signature: Signature, *, params: Mapping[str, str], args: Sequence[str]
) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Positional and keyword arguments as literals, each checked against its parameter."""
    by_kind = {kind: [p for p in signature.parameters if p.kind is kind] for kind in ParameterKind}
    takers = by_kind[ParameterKind.POSITIONAL]
    rest = by_kind[ParameterKind.VAR_POSITIONAL]
    if len(args) > len(takers) and not rest:
        raise _too_many(signature, takers, args)
    takers = takers[: len(args)] + rest * (len(args) - len(takers))
    positional = tuple(literal(p, text) for p, text in zip(takers, args, strict=True))
    filled = {p.name for p in takers if p not in rest}
    keywords = tuple((k, literal(_named(signature, k, filled), v)) for k, v in params.items())
    missing = [p for p in signature.parameters if p.required and p.name not in filled | params.keys()]
    if missing:
        ways = " ".join("-- …" if p.unnamed else f"--param {p.name}=…" for p in missing)
        raise SpecError(f"{signature.name} needs {_listed([p.name for p in missing])}", hint=f"add {ways}")
    return positional, keywords


def _named(signature: Signature, name: str, filled: set[str]) -> Parameter:
    """The parameter that a keyword argument is for."""
    named = {
        p.name: p for p in signature.parameters if p.kind in (ParameterKind.POSITIONAL, ParameterKind.KEYWORD)
    }
    rest = [p for p in signature.parameters if p.kind is ParameterKind.VAR_KEYWORD]
    found = named.get(name)
    if found and not found.unnamed:
        if name in filled:
            raise SpecError(
                f"{signature.name} is given {name!r} twice", hint="by position after --, and by --param"
            )
        return found
    if rest:
        return rest[0]
    if found:
        raise SpecError(f"{signature.name} takes {name!r} by position only", hint="give it after --")
    takes = f"it takes {_listed(list(named))}" if named else "it takes none by name"
    raise SpecError(f"{signature.name} has no parameter {name!r}", hint=_suggestion(name, named) or takes)


def _too_many(signature: Signature, takers: Sequence[Parameter], args: Sequence[str]) -> SpecError:
    takes = f"{len(takers)} ({_listed([p.name for p in takers])})" if takers else "none"
    named = [p.name for p in signature.parameters if p.kind is ParameterKind.KEYWORD]
    hint = f"{_listed(named)} must be named: --param {named[0]}=…" if named else None
    return SpecError(f"{signature.name} takes {takes} by position, not {len(args)}", hint=hint)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + (", …" if len(names) > 8 else "")


def _suggestion(wanted: str, names: Iterable[str]) -> str | None:
    near = get_close_matches(wanted, list(names), 1)
    return f"did you mean {near[0]}?" if near else None
