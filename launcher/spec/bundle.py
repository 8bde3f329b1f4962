"""The caller's own sources as one zip, both ends: made at the caller, unpacked on hosts without them.

A script or function in a file brings what lies beside it and below; a function of a package, the folder
that it is imported from; a callable, the packages of its process that were not installed; all, what
``--py-files`` names. Nothing that was installed is sent: executors have their own.

    src/…          every file by its absolute path on the caller's machine
    named/…        modules whose files are called otherwise than they are imported
    bundle.json    {"main", "lead", "path", "copies"}: the target's file, the folder that leads the import
                   path, what to import from, and what to import from here in any case

A host that has the very same files under the same paths (shared storage, or the caller's own machine)
runs them there, so that data beside them is found as it is at home. Anywhere else all of them are copies.
"""

from __future__ import annotations

import importlib.util
import io
import json
import os
import site
import sys
import sysconfig
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from .. import names
from ..errors import SpecError
from .job import JobSpec, Target, TargetKind
from .request import Request, py_file, require_py_files
from .source import find_module, find_sources

LIMIT = 32 << 20
FILES = 10_000
_DATE = (1980, 1, 1, 0, 0, 0)
# Spark's own may lie outside of what counts as installed, and executors have it.
_ELSEWHERE = frozenset({"__main__", "__mp_main__", names.own(), names.SECOND, "pyspark", "py4j"})


@dataclass(slots=True)
class _Collected:
    """Files by their place in the zip, and what to import from; `needed` are those that a person named."""

    lead: Path
    main: str = ""
    path: dict[str, None] = field(default_factory=dict)
    copies: dict[str, None] = field(default_factory=dict)
    files: dict[str, Path] = field(default_factory=dict)
    needed: set[str] = field(default_factory=set)

    def add(self, file: Path, *, needed: bool = False) -> None:
        """A file at its own place. One whose name is no UTF-8 has none in a zip, nor can it be imported.

        Raises:
            SpecError: it has such a name, and it is needed.
        """
        place = f"{SOURCES}{file}"
        if _is_unicode(place):
            self.files[place] = file
            if needed:
                self.needed.add(place)
        elif needed:
            raise SpecError(f"{place!a} cannot be sent to executors: its name is not UTF-8")

    def add_folder(self, folder: Path) -> None:
        """A folder's sources, to be imported from there."""
        self.path[str(folder)] = None
        self.add_sources(folder)

    def add_sources(self, folder: Path) -> None:
        """A folder's sources."""
        for file in _sources(folder):
            self.add(file)


def with_bundle(request: Request) -> Request:
    """The request with the sources that its target needs, where the ranks run on other hosts.

    The bundle is made once, by the process whose paths the request names. Paths of this host mean nothing
    on an executor, so the request loses its `path` and `python`.

    Raises:
        SpecError: a file that the target needs is not here, or the mode sends no files.
    """
    mode = request.spec.mode
    if not mode.traits.ships_sources and request.spec.py_files:
        raise SpecError(f"Python files are sent to executors, and the mode is {mode}", hint="use PYTHONPATH")
    if not mode.traits.ships_sources or request.bundle is not None:
        return request
    return replace(request, bundle=make_bundle(request.spec), path=(), python="")


def make_bundle(spec: JobSpec) -> bytes:
    """What a run's target needs from this machine.

    Raises:
        SpecError: a file of ``--py-files`` is not there, or it is all too much to send.
    """
    luggage = _collect(spec.target, Path(os.path.abspath(spec.workdir)))
    require_py_files(spec)
    for text in spec.py_files:
        _add_library(luggage, Path(py_file(spec, text)))
    return _zipped(luggage)


def _collect(target: Target, workdir: Path) -> _Collected:
    luggage = _Collected(workdir)
    if target.kind is TargetKind.CALLABLE:
        _add_own_modules(luggage)
    elif target.is_file:
        main = Path(os.path.realpath(workdir / target.source))
        luggage.main, luggage.lead = str(main), main.parent
        luggage.add_folder(main.parent)
        luggage.add(main, needed=True)
    elif root := _import_root(target.source, workdir):
        luggage.add_folder(root)
    return luggage


def _import_root(module: str, workdir: Path) -> Path | None:
    """The folder that a module is imported from; None if it was installed, or is ours."""
    first = module.partition(".")[0]
    spec = find_module(first, workdir)
    if spec is None or (not spec.submodule_search_locations and not spec.has_location):
        return None
    place = next(iter(spec.submodule_search_locations or ()), spec.origin) or ""
    ours = importlib.util.find_spec(names.own())
    if _is_installed(place) or (ours and place in (ours.submodule_search_locations or ())):
        return None
    return Path(os.path.abspath(place)).parent


def _add_own_modules(luggage: _Collected) -> None:
    """The packages and modules of this process that come from source which nobody installed.

    Whole packages, because a function may import more of them than has been imported here.
    """
    packages: dict[Path, None] = {}
    roots: dict[str, None] = {}
    for name, module in sorted(sys.modules.items()):
        file, top = getattr(module, "__file__", None), name.partition(".")[0]
        if not file or not file.endswith(".py") or top in _ELSEWHERE or _is_installed(file):
            continue
        path = Path(os.path.abspath(file))
        if not path.is_file():
            continue
        if (root := _root_of(name, path)) is None:
            place = f"{NAMED}/{name.replace('.', '/')}"
            luggage.files[f"{place}/__init__.py" if path.name == "__init__.py" else f"{place}.py"] = path
            luggage.copies[NAMED] = None
            continue
        roots[str(root)] = None
        luggage.add(path)
        if path.parent != root:
            packages[root / top] = None
    order = {folder: index for index, folder in enumerate(sys.path)}
    luggage.path.update(dict.fromkeys(sorted(roots, key=lambda r: order.get(r, len(order)))))
    for package in packages:
        luggage.add_sources(package)


def _root_of(name: str, file: Path) -> Path | None:
    """The folder in which a module is found by its name; None if it was loaded by another way."""
    stem = name.replace(".", "/")
    for tail in (f"/{stem}.py", f"/{stem}/__init__.py"):
        if str(file).endswith(tail):
            return Path(str(file).removesuffix(tail) or "/")
    return None


@cache
def _installed() -> tuple[str, ...]:
    folders = {sysconfig.get_path(p) for p in ("stdlib", "platstdlib", "purelib", "platlib")}
    folders |= {*site.getsitepackages(), site.getusersitepackages()}
    return tuple(os.path.realpath(folder) + os.sep for folder in folders)


def _is_installed(file: str) -> bool:
    return os.path.realpath(file).startswith(_installed())


def _sources(folder: Path) -> list[Path]:
    """The Python files of a folder that can be imported.

    What git ignores comes along where it lies beside what it does not: generated modules are imported too.
    So do packages that are linked into the folder.

    Raises:
        SpecError: there are too many.
    """
    found = dict.fromkeys(find_sources(folder, FILES + 1))
    for place in {folder, *(file.parent for file in found)}:
        found.update(dict.fromkeys(f for f in _listed(place) if f.suffix == ".py" and f.is_file()))
    for link in filter(_is_linked_package, _listed(folder)):
        found.update(dict.fromkeys(find_sources(link, FILES + 1)))
    if len(found) > FILES:
        raise SpecError(
            f"there are more than {FILES} Python files in {folder}, too many to send to executors",
            hint="put the program into a folder of its own",
        )
    return [*found]


def _is_linked_package(place: Path) -> bool:
    """Whether it is a link to a package, and not to one that it lies in."""
    if not place.is_symlink() or not (place / "__init__.py").is_file():
        return False
    return not place.parent.resolve().is_relative_to(place.resolve())


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []  # what cannot be listed cannot be imported here either


def _is_unicode(text: str) -> bool:
    return text.encode(errors="ignore").decode() == text


def _add_library(luggage: _Collected, path: Path) -> None:
    if path.is_dir():
        if (path / "__init__.py").exists():
            luggage.add_sources(path)
            luggage.copies[f"{SOURCES}{path.parent}"] = None
        else:
            luggage.add_folder(path)
    elif path.is_file() and path.suffix == ".py":
        luggage.add(path, needed=True)
        luggage.copies[f"{SOURCES}{path.parent}"] = None
    elif path.is_file() and path.suffix in (".zip", ".whl", ".egg") and zipfile.is_zipfile(path):
        luggage.add(path, needed=True)
        luggage.path[str(path)] = None
    else:
        raise SpecError(f"--py-files takes Python files, folders, zips and wheels, not {path}")


def _zipped(luggage: _Collected) -> bytes:
    _check_size(luggage)
    manifest = {
        "lead": str(luggage.lead),
        "main": luggage.main,
        "path": list(luggage.path),
        "copies": list(luggage.copies),
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr(zipfile.ZipInfo(MANIFEST, _DATE), json.dumps(manifest))
        for place, data in _read(luggage.files.items(), luggage.needed):
            zipped.writestr(zipfile.ZipInfo(place, _DATE), data, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def _check_size(luggage: _Collected) -> None:
    sizes: dict[Path, int] = {}
    for file in luggage.files.values():
        try:
            sizes[file] = file.stat().st_size
        except OSError:
            continue  # reading it will tell
    if (total := sum(sizes.values())) > LIMIT:
        largest = max(sizes, key=sizes.__getitem__)
        raise SpecError(
            f"the Python files around {luggage.lead} come to {total >> 20} MiB, and {LIMIT >> 20} MiB can "
            f"be sent to executors; the largest is {largest}",
            hint="put the program into a folder of its own",
        )


def _read(files: Iterable[tuple[str, Path]], needed: set[str]) -> Iterator[tuple[str, bytes]]:
    """What can be read: a neighbour that cannot is none that could be imported."""
    for place, file in files:
        try:
            data = file.read_bytes()
        except OSError as error:
            if place in needed:
                raise SpecError(f"{file} cannot be read: {error.strerror}") from error
            continue
        yield place, data


MANIFEST = "bundle.json"
SOURCES = "src"
NAMED = "named"


@dataclass(frozen=True, slots=True)
class UnpackedBundle:
    """A bundle on this host.

    Attributes:
        folder: where it is unpacked: the agent's own.
        source: the file to run in place of the target's own path; empty to leave that as it is.
        path: folders and zips to import from.
        lead: the folder that leads the import path, where the target is not a file.
        copied: where files lie by the paths that they have on the caller's machine.
    """

    folder: str
    source: str
    path: tuple[str, ...]
    lead: str
    copied: str


def unpack_bundle(data: bytes, folder: str) -> UnpackedBundle:
    """Unpack a bundle into a folder of the agent's own.

    Raises:
        OSError: there is no room.
    """
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        archive.extractall(folder)
        manifest: dict[str, Any] = json.loads(archive.read(MANIFEST))
        at_home = _is_at_home(archive)
    copied = os.path.join(folder, SOURCES)
    here = "" if at_home else copied
    main, lead = manifest["main"], manifest["lead"]
    if not (at_home and os.path.isdir(lead)):
        lead = copied + lead
        os.makedirs(lead, exist_ok=True)  # it may hold no sources
    imports = [here + entry for entry in manifest["path"]]
    copies = [os.path.join(folder, entry) for entry in manifest["copies"]]
    return UnpackedBundle(folder, main and here + main, (*imports, *copies), lead, copied)


def _is_at_home(archive: zipfile.ZipFile) -> bool:
    """Whether this host has every file of it under the same path, with the same content."""
    names = [name for name in archive.namelist() if name.startswith(f"{SOURCES}/")]
    return bool(names) and all(_is_same(archive, name) for name in names)


def _is_same(archive: zipfile.ZipFile, name: str) -> bool:
    try:
        with open(name.removeprefix(SOURCES), "rb") as file:
            return file.read() == archive.read(name)
    except OSError:
        return False
