"""What a person sees of a target before it is picked: docstring, imports, functions, source. Reads only.

Of a large file only the beginning is read; what is no Python is shown as text, with the reason.
"""

from __future__ import annotations

import ast
import warnings
from dataclasses import dataclass
from pathlib import Path

from launcher.spec.files.file_search import open_file
from launcher.spec.signature import signature_of

from ..options.reading import source_file
from .draft import split_target
from .ranking import docstring, first_sentence, judge
from .targets import takes

_BYTES = 256 << 10
_LINES = 600
_COLUMNS = 240
_FUNCTIONS = 12
_DOC_LINES = 12


@dataclass(frozen=True, slots=True)
class Preview:
    """A target's file as a person would skim it.

    Attributes:
        target: the target.
        doc: the lines of its docstring: the function's own, else the file's.
        uses: the frameworks that it imports.
        functions: name, signature and summary of the public functions; the target's own first.
        lines: the source, from the target's function or from the start of the file.
        first: the number of the first of these lines.
        more: whether the file goes on after them.
        problem: why it cannot be read, or is no Python; empty if it is.
    """

    target: str
    doc: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    functions: tuple[tuple[str, str, str], ...] = ()
    lines: tuple[str, ...] = ()
    first: int = 1
    more: bool = False
    problem: str = ""


def preview_of(target: str, workdir: Path) -> Preview:
    """Read a target's file; blocks."""
    source, name = split_target(target)
    path = source_file(source, workdir)
    if path is None:
        return Preview(target, problem="it is no file below this folder")
    try:
        with open_file(path) as file:
            data = file.read(_BYTES + 1)
    except OSError as error:
        return Preview(target, problem=f"it cannot be read: {error.strerror}")
    if b"\0" in data:
        return Preview(target, problem="it is no text")
    return _of_text(target, name, data[:_BYTES].decode("utf-8", "replace"), whole=len(data) <= _BYTES)


def _of_text(target: str, name: str, text: str, *, whole: bool) -> Preview:
    lines = text.split("\n")
    functions, problem = _functions(text) if whole else ([], "")
    functions.sort(key=lambda node: node.name != name)
    own = next((node for node in functions if node.name == name), None)
    doc = (ast.get_docstring(own) if own else None) or docstring(text)
    first = max(own.lineno - len(own.decorator_list), 1) if own else 1
    shown = lines[first - 1 : first - 1 + _LINES]
    return Preview(
        target,
        doc=tuple(line[:_COLUMNS].rstrip() for line in doc.split("\n")[:_DOC_LINES]),
        uses=judge(text, target).uses,
        functions=tuple(_described(node) for node in functions[:_FUNCTIONS]),
        lines=tuple(line[:_COLUMNS].expandtabs(4).rstrip() for line in shown),
        first=first,
        more=not whole or first - 1 + len(shown) < len(lines),
        problem=problem,
    )


def _functions(text: str) -> tuple[list[ast.FunctionDef], str]:
    """The public functions at the top of a source text, and why it is no Python."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except SyntaxError as error:
        return [], f"line {error.lineno or 1} is not valid Python: {error.msg}"
    except (RecursionError, MemoryError, ValueError):
        return [], "it cannot be parsed"
    nodes = {n.name: n for n in tree.body if isinstance(n, ast.FunctionDef) and not n.name.startswith("_")}
    return list(nodes.values()), ""


def _described(node: ast.FunctionDef) -> tuple[str, str, str]:
    return node.name, takes(signature_of(node)), first_sentence(ast.get_docstring(node) or "")
