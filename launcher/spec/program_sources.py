"""The source texts of a target's program: its own file, then the user's modules that it imports, and so on.

Modules are looked for where Python would find the user's own: beside the target, or in the working directory.
Installed packages are not read. Nothing is imported.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from ..errors import SpecError
from .job import Target, TargetKind
from .source import find_source, read_text

_FILES, _BYTES = 100, 4 << 20  # reading them takes some 20 ms; what is imported first is read first
_IMPORT = re.compile(
    r"""^[ \t]*(?:
        from [ \t]+ (\.*[\w.]*) [ \t]+ import [ \t]+ ([\w, \t]+|[(*])  # names may be modules
        | import [ \t]+ ([\w., \t]+)
    )""",
    re.MULTILINE | re.VERBOSE,
)


def program_sources(target: Target, workdir: Path) -> Iterator[str]:
    """The texts, the target's own first; none if it cannot be read from here, or is no Python."""
    main = _main_file(target, workdir)
    if main is None:
        return
    root = main.parent if target.is_file else workdir
    waiting, seen, size = deque([main]), {main}, 0
    while waiting and size < _BYTES:
        file = waiting.popleft()
        text = _text(file)
        size += len(text)
        yield text
        new = dict.fromkeys(module for module in _imported(text, file, root) if module not in seen)
        room = list(new)[: _FILES - len(seen)]
        seen.update(room)
        waiting += room


def _main_file(target: Target, workdir: Path) -> Path | None:
    if target.kind is TargetKind.PROGRAM:
        return None
    # none: a module that only the ranks' hosts have, or a function of a notebook
    return Path(target.source) if target.is_file else find_source(target.source, workdir)


def _text(file: Path) -> str:
    try:
        return read_text(file)
    except SpecError:  # no Python: ranks will fail with it, or never import it
        return ""


def _imported(text: str, file: Path, root: Path) -> Iterator[Path]:
    """The files of the user's own modules that a source imports."""
    # first the few lines that matter: the pattern is slow
    lines = "\n".join(line for line in text.splitlines() if "import" in line)
    for base, names, plain in _IMPORT.findall(lines):
        for name in filter(None, re.split(r"[\s,]+", plain)):
            yield from _files(root, name)
        if base:
            dots = len(base) - len(base.lstrip("."))
            folder = file.parents[dots - 1] if 0 < dots <= len(file.parents) else root
            yield from _files(folder, base.lstrip("."))
            for name in filter(str.isidentifier, re.split(r"[\s,]+", names)):
                yield from _files(folder, f"{base.lstrip('.')}.{name}")


def _files(folder: Path, module: str) -> Iterator[Path]:
    """The file of a module, and those of the packages that it is in."""
    parts = [part for part in module.split(".") if part]
    for count in range(1, len(parts) + 1):
        place = folder.joinpath(*parts[:count])
        if place.is_dir():
            if (init := place / "__init__.py").is_file():
                yield init
        elif (source := place.with_name(f"{place.name}.py")).is_file():
            yield source
            return
