"""Finding and checking the target before anything starts: a file, a function, its arguments.

Nothing here imports the target. What reading cannot decide is accepted, and fails in the ranks if it is
wrong: a name that is assigned or imported, a module that is compiled or zipped.
"""

from __future__ import annotations

import ast
import contextlib
import keyword
import os
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from ..errors import SpecError
from .files.file_search import find_sources
from .job import RUN_MODULE, Target, TargetKind, named_module
from .program import find_program
from .signature import Parameter, ParameterKind, Signature, literal
from .source import (
    ANYTHING,
    find_module,
    function_in,
    listed,
    module_file,
    read_module,
    suggestion,
)

_ANY = "..."
FORMS = "FILE.py, FILE.py:FUNCTION, MODULE:FUNCTION, -m MODULE, or a program"


def resolve(text: str, *, params: Mapping[str, str], args: Sequence[str], workdir: Path) -> Target:
    """The checked target for the text that a person types.

    That is ``train.py``, ``-m package.module``, ``./run.sh`` or another program, ``train.py:fn`` or
    ``package.module:fn``.

    Args:
        params: a function's keyword arguments, as typed.
        args: the argv of a script, module or program; a function's positional arguments, as typed.
        workdir: where relative paths and modules are looked for first.

    Raises:
        SpecError: there is no such file, module, program or function, or it does not take these arguments.
    """
    source, name = _split(text, workdir)
    if not name:
        kind, place = _main_program(source, workdir)
        if params:
            raise _no_params(source, kind)
        return Target(kind, place, args=tuple(args))
    place, signature = _place(source, name, workdir)
    positional, keywords = _bind(signature, params=params, args=args)
    return Target(TargetKind.FUNCTION, place, name, args=positional, kwargs=keywords)


def resolve_call(text: str, *, count: int, names: Iterable[str], workdir: Path) -> Target:
    """The target of a call from Python. Its arguments are values, so only their number and names are checked.

    Args:
        count: how many arguments are given by position.
        names: the names of the keyword arguments.

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


def resolve_loader(text: str, *, params: Mapping[str, str], workdir: Path) -> Target:
    """The target of a prediction, a function that is given a device; or a Pandas UDF.

    Args:
        params: its keyword arguments, as typed.

    Raises:
        SpecError: there is no such file, module or function, or no such parameter.
    """
    source, name = _split(text, workdir)
    if not name:
        raise SpecError(f"what predicts is a function, and {text} names none", hint=f"{text}:load")
    place, signature = _place(source, name, workdir)
    typed_params = {key: literal(_named(signature, key, set()), value) for key, value in params.items()}
    return Target(TargetKind.FUNCTION, place, name, kwargs=tuple(typed_params.items()))


def signature_for(text: str, workdir: Path) -> Signature | None:
    """The signature of a target's function; None for any other kind.

    Raises:
        SpecError: there is no such file, module or function.
    """
    source, name = _split(text, workdir)
    if name:
        return _place(source, name, workdir)[1]
    _main_program(source, workdir)
    return None


def misfitting(signature: Signature, params: Mapping[str, str], places: int) -> str | None:
    """The name of a parameter whose value does not fit, or that is missing; None if all fit.

    Args:
        places: how many arguments are given by position.
    """
    known = {p.name: p for p in signature.parameters}
    for name, text in params.items():
        try:
            if name in known:
                literal(known[name], text)
        except SpecError:
            return name
    filled = {p.name for p in signature.parameters[:places]} | params.keys()
    missing = (p.name for p in signature.parameters if p.required and not p.unnamed)
    return next((name for name in missing if name not in filled), None)


def typed(parameter: Parameter, value: str) -> str:
    """The text that a person would type to give a parameter this literal: the opposite of `literal`."""
    try:
        plain = ast.literal_eval(value)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return value
    for text in (plain, value):
        with contextlib.suppress(SpecError):
            if isinstance(text, str) and literal(parameter, text) == value:
                return text
    return value


def typed_arguments(target: Target, workdir: Path) -> tuple[tuple[str, ...], dict[str, str]]:
    """A recorded target's positional and named arguments as a person would type them.

    If the function cannot be read any more, they are left as they are.
    """
    by_name, by_index = _parameter_lookups(target, workdir)
    args = tuple(typed(p, v) if (p := by_index(i)) else v for i, v in enumerate(target.args))
    return args, {k: typed(p, v) if (p := by_name(k)) else v for k, v in target.kwargs}


def _parameter_lookups(
    target: Target, workdir: Path
) -> tuple[Callable[[str], Parameter | None], Callable[[int], Parameter | None]]:
    """Two functions that find the parameter for a keyword argument, and for a positional one."""
    try:
        signature = signature_for(target.label, workdir) if target.kind is TargetKind.FUNCTION else None
    except SpecError:
        signature = None
    parameters = signature.parameters if signature else ()
    by_kind = {kind: [p for p in parameters if p.kind is kind] for kind in ParameterKind}
    positional, rest = by_kind[ParameterKind.POSITIONAL], by_kind[ParameterKind.VAR_POSITIONAL]
    named = {p.name: p for p in positional + by_kind[ParameterKind.KEYWORD] if not p.unnamed}
    others = next(iter(by_kind[ParameterKind.VAR_KEYWORD]), None)
    return (
        lambda name: named.get(name, others),
        lambda index: positional[index] if index < len(positional) else next(iter(rest), None),
    )


def _place(source: str, name: str, workdir: Path) -> tuple[str, Signature]:
    """The absolute path or the module of a function, and its signature."""
    if source.endswith(".py") or "/" in source:
        path: Path | None = _file(source, workdir)
        place = str(path)
    else:
        path, place = module_file(source, workdir), source
    return place, function_in(path, name, source) if path else Signature(name, ANYTHING)


def _main_program(text: str, workdir: Path) -> tuple[TargetKind, str]:
    """The kind and the source of a target without a function, which is checked.

    Raises:
        SpecError: there is none, it cannot be run, or it is not valid Python.
    """
    if (module := named_module(text)) is not None:
        if (file := _main_file(module, workdir)) is not None:
            read_module(file)
        return TargetKind.MODULE, module
    if (program := find_program(text, workdir)) is not None:
        return TargetKind.PROGRAM, program
    path = _file(text, workdir)
    read_module(path)
    return TargetKind.SCRIPT, str(path)


def _main_file(module: str, workdir: Path) -> Path | None:
    """The source that ``python -m`` would run for a module; None if it has none.

    Raises:
        SpecError: there is no such module, or it is a package that cannot be run.
    """
    if ":" in module:
        raise SpecError(
            f"{RUN_MODULE} runs a module, and {module} names a function", hint=f"leave out {RUN_MODULE}"
        )
    file = module_file(module, workdir)
    spec = find_module(module, workdir)
    if spec is None or spec.submodule_search_locations is None:
        return file
    if find_module(f"{module}.__main__", workdir) is None:
        hint = f"name a module in it: {RUN_MODULE} {module}.MODULE"
        raise SpecError(f"{module} is a package without __main__.py", hint=hint)
    return module_file(f"{module}.__main__", workdir)


def _no_params(source: str, kind: TargetKind) -> SpecError:
    hint = "give it its arguments after --"
    if kind is TargetKind.SCRIPT:
        hint = f"give a script its arguments after --, or name a function: {source}:FUNCTION"
    return SpecError(f"{source} is a {kind}, and --param is for functions", hint=hint)


def _split(text: str, workdir: Path) -> tuple[str, str]:
    """A target's file, module or program, and its function's name; the name is empty without a function."""
    if not text or "\0" in text:
        raise SpecError(
            "the target is empty or holds a NUL", hint="name a file, or a function as train.py:train"
        )
    source, colon, name = text.rpartition(":")
    if not colon or os.path.exists(_absolute(text, workdir)) or named_module(text) is not None:
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
        raise SpecError(f"{text} is not a Python file", hint=f"a target is {FORMS}")
    return path


def _no_file(text: str, path: Path, workdir: Path) -> SpecError:
    if path.suffix != ".py" and _may_be_module(text, workdir):
        return _no_function_named(text, workdir)
    nearby = [os.path.relpath(p, workdir) for p in [*path.parent.glob("*.py"), *find_sources(workdir)]]
    hint = suggestion(text, nearby) or f"paths are taken from {workdir}"
    return SpecError(f"there is no file {text}", hint=hint)


def _may_be_module(text: str, workdir: Path) -> bool:
    if not all(map(str.isidentifier, text.split("."))):
        return False
    return "." in text or _absolute(f"{text}.py", workdir).is_file() or find_module(text, workdir) is not None


def _no_function_named(text: str, workdir: Path) -> SpecError:
    """The error for a dotted name without a colon."""
    if _absolute(f"{text}.py", workdir).is_file():
        return SpecError(f"there is no file {text}", hint=f"did you mean {text}.py?")
    module, _, last = text.rpartition(".")
    if module and find_module(text, workdir) is None:
        return SpecError(f"{text} is neither a file nor a module", hint=f"write {module}:{last}")
    hint = f"write {text}:FUNCTION, or {RUN_MODULE} {text} to run it as a program"
    return SpecError(f"{text} does not say which function to run", hint=hint)


def _bind(
    signature: Signature, *, params: Mapping[str, str], args: Sequence[str]
) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """Positional and keyword arguments as literals, each checked against its parameter."""
    by_kind = {kind: [p for p in signature.parameters if p.kind is kind] for kind in ParameterKind}
    accepting = by_kind[ParameterKind.POSITIONAL]
    rest = by_kind[ParameterKind.VAR_POSITIONAL]
    if len(args) > len(accepting) and not rest:
        raise _too_many(signature, accepting, args)
    accepting = accepting[: len(args)] + rest * (len(args) - len(accepting))
    positional = tuple(literal(p, text) for p, text in zip(accepting, args, strict=True))
    filled = {p.name for p in accepting if p not in rest}
    keywords = tuple((k, literal(_named(signature, k, filled), v)) for k, v in params.items())
    missing = [p for p in signature.parameters if p.required and p.name not in filled | params.keys()]
    if missing:
        ways = " ".join("-- …" if p.unnamed else f"--param {p.name}=…" for p in missing)
        raise SpecError(f"{signature.name} needs {listed([p.name for p in missing])}", hint=f"add {ways}")
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
    takes = f"it takes {listed(list(named))}" if named else "it takes none by name"
    raise SpecError(f"{signature.name} has no parameter {name!r}", hint=suggestion(name, named) or takes)


def _too_many(signature: Signature, positional: Sequence[Parameter], args: Sequence[str]) -> SpecError:
    takes = f"{len(positional)} ({listed([p.name for p in positional])})" if positional else "none"
    named = [p.name for p in signature.parameters if p.kind is ParameterKind.KEYWORD]
    hint = f"{listed(named)} must be named: --param {named[0]}=…" if named else None
    return SpecError(f"{signature.name} takes {takes} by position, not {len(args)}", hint=hint)
