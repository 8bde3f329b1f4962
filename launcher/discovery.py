"""Where Python source is: the files below a folder, and the file of a module, without importing anything."""

from __future__ import annotations

import importlib
import keyword
import os
import pkgutil
import subprocess
import sys
from collections.abc import Iterable
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path, PurePath

from launcher.errors import SpecError
from launcher.ignoring import Rules
from launcher.source import suggestion

_FOREIGN = {"__pycache__", "node_modules", "site-packages"}


def find_sources(workdir: Path, limit: int = 2000) -> list[Path]:
    """Python files below a folder that its owner wrote: not ignored by git, in no virtual environment.

    The shallowest come first, and at most `limit` come at all.
    """
    found = _listed_by_git(workdir) or _walked(workdir, limit)
    return sorted(found, key=lambda p: (len(p.parts), p))[:limit]


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
    """The same without git, level by level, so that the limit cuts the deepest; ``.gitignore`` holds."""
    found: list[Path] = []
    level, seen = [(workdir, Rules().within(str(workdir)))], 0
    while level and len(found) < limit and seen < 10 * limit:
        seen += len(level)
        below = []
        for folder, rules in level:
            for entry in _entries(folder):
                if entry.is_dir(follow_symlinks=False):
                    if not _foreign(Path(entry.path)) and not rules.ignore(entry.path, is_folder=True):
                        below.append((Path(entry.path), rules.within(entry.path)))
                elif _is_source(entry) and not rules.ignore(entry.path, is_folder=False):
                    found.append(Path(entry.path))
        level = below
    return found


def _is_source(entry: os.DirEntry[str]) -> bool:
    return entry.name.endswith(".py") and os.path.isfile(entry.path)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []  # a folder that cannot be listed has nothing to offer


def module_file(module: str, workdir: Path) -> Path | None:
    """The source file of a module, found without importing its parents; None if it has another form.

    Raises:
        SpecError: there is no such module.
    """
    if not all(p.isidentifier() and not keyword.iskeyword(p) for p in module.split(".")):
        raise SpecError(f"{module!r} is neither a Python file nor a module", hint="write FILE.py:FUNCTION")
    spec = find_module(module, workdir)
    if spec is None:
        raise _no_module(module, workdir)
    if isinstance(spec.loader, SourceFileLoader):
        return Path(spec.loader.path)
    if spec.origin is None and spec.submodule_search_locations is not None:
        raise SpecError(
            f"{module} is a folder without __init__.py", hint=f"name a module in it: {module}.MODULE:FUNCTION"
        )
    return None


def find_module(module: str, workdir: Path) -> ModuleSpec | None:
    """The module's place, in `workdir` or on `sys.path`; None if there is none."""
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
    elif found := find_module(parent, workdir):
        locations = found.submodule_search_locations or []
    else:
        return _no_module(parent, workdir)
    names = [m.name for m in pkgutil.iter_modules([*locations])]
    where = f"in {parent}" if parent else f"in {workdir} or on sys.path"
    return SpecError(f"there is no module {last} {where}", hint=suggestion(last, names))
