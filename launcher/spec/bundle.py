"""A bundle: the caller's own sources as a zip, which is made by the caller and unpacked on other hosts.

For a script or function in a file, it holds the Python files of that file's folder and below; for a function
of a package, those of the folder from which the package is imported; for a callable, the packages of its
process that were not installed. To all of them, ``--py-files`` are added. Installed packages are not sent:
executors have their own.

    src/…          every file by its absolute path on the caller's machine
    named/…        modules whose file names differ from the names by which they are imported
    bundle.json    {"main", "lead", "path", "copies"}: the target's file, the first folder of the import path,
                   the other folders and zips to import from, and those to import from in the unpacked copy

A host that has exactly the same files under the same paths (shared storage, or the caller's own machine) runs
them there, so that data beside them is found. Any other host runs the unpacked copies.
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
from .file_search import find_sources
from .job import JobSpec, Target, TargetKind
from .request import Request, py_file, require_py_files
from .source import find_module

LIMIT = 32 << 20
FILES = 10_000
_DATE = (1980, 1, 1, 0, 0, 0)
_SYSTEM = ("/bin/", "/sbin/", "/usr/")
# Never sent: executors have them. Spark's packages may lie outside of the folders of installed packages.
_NOT_SENT = frozenset({"__main__", "__mp_main__", names.own(), names.SECOND, "pyspark", "py4j"})


@dataclass(slots=True)
class _Collected:
    """Files by their place in the zip, and the folders to import from; a person named those in `needed`."""

    lead: Path
    main: str = ""
    path: dict[str, None] = field(default_factory=dict)
    copies: dict[str, None] = field(default_factory=dict)
    files: dict[str, Path] = field(default_factory=dict)
    needed: set[str] = field(default_factory=set)

    def add(self, file: Path, *, needed: bool = False) -> None:
        """Add a file. One whose name is not UTF-8 is left out: a zip cannot hold it, nor can it be imported.

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
        """Add a folder's sources, and import from that folder."""
        self.path[str(folder)] = None
        self.add_sources(folder)

    def add_sources(self, folder: Path) -> None:
        """Add a folder's sources."""
        for file in _sources(folder):
            self.add(file)


def with_bundle(request: Request) -> Request:
    """The request with the sources that its target needs, where the ranks run on other hosts.

    The bundle is made once, by the process whose paths the request names. Paths of this host mean nothing
    on an executor, so the request loses its `path` and `python`.

    Raises:
        SpecError: a file that the target needs does not exist, or the mode sends no files.
    """
    mode = request.spec.mode
    if not mode.traits.ships_sources and request.spec.py_files:
        raise SpecError(f"Python files are sent to executors, and the mode is {mode}", hint="use PYTHONPATH")
    if not mode.traits.ships_sources or request.bundle is not None:
        return request
    return replace(request, bundle=make_bundle(request.spec), path=(), python="")


def make_bundle(spec: JobSpec) -> bytes:
    """The zip of all that a run's target needs from this machine.

    Raises:
        SpecError: a file of ``--py-files`` does not exist, or the files are too many or too large.
    """
    collected = _collect(spec.target, Path(os.path.abspath(spec.workdir)))
    require_py_files(spec)
    for text in spec.py_files:
        _add_library(collected, Path(py_file(spec, text)))
    return _zipped(collected)


def _collect(target: Target, workdir: Path) -> _Collected:
    collected = _Collected(workdir)
    if target.kind is TargetKind.CALLABLE:
        _add_own_modules(collected)
    elif target.kind is TargetKind.PROGRAM and not _is_own_program(target):
        pass
    elif target.is_file:
        main = Path(os.path.realpath(workdir / target.source))
        collected.main, collected.lead = str(main), main.parent
        collected.add_folder(main.parent)
        collected.add(main, needed=True)
    elif root := _import_root(target.source, workdir):
        collected.add_folder(root)
    return collected


def _is_own_program(target: Target) -> bool:
    """Whether a program is the user's own: executors have the system's, and those of an installed package."""
    return target.is_file and not target.source.startswith((*_SYSTEM, sys.prefix, sys.base_prefix))


def _import_root(module: str, workdir: Path) -> Path | None:
    """The folder that a module is imported from; None if it was installed, or belongs to rankdeck."""
    first = module.partition(".")[0]
    spec = find_module(first, workdir)
    if spec is None or (not spec.submodule_search_locations and not spec.has_location):
        return None
    place = next(iter(spec.submodule_search_locations or ()), spec.origin) or ""
    ours = importlib.util.find_spec(names.own())
    if is_installed(place) or (ours and place in (ours.submodule_search_locations or ())):
        return None
    return Path(os.path.abspath(place)).parent


def _add_own_modules(collected: _Collected) -> None:
    """Add the modules of this process that are the user's own source, and not installed.

    Packages are added whole, because a function may import modules of them that this process has not.
    """
    packages: dict[Path, None] = {}
    roots: dict[str, None] = {}
    for name, module in sorted(sys.modules.items()):
        file, top = getattr(module, "__file__", None), name.partition(".")[0]
        if not file or not file.endswith(".py") or top in _NOT_SENT or is_installed(file):
            continue
        path = Path(os.path.abspath(file))
        if not path.is_file():
            continue
        if (root := _root_of(name, path)) is None:
            place = f"{NAMED}/{name.replace('.', '/')}"
            collected.files[f"{place}/__init__.py" if path.name == "__init__.py" else f"{place}.py"] = path
            collected.copies[NAMED] = None
            continue
        roots[str(root)] = None
        collected.add(path)
        if path.parent != root:
            packages[root / top] = None
    order = {folder: index for index, folder in enumerate(sys.path)}
    collected.path.update(dict.fromkeys(sorted(roots, key=lambda r: order.get(r, len(order)))))
    for package in packages:
        collected.add_sources(package)


def _root_of(name: str, file: Path) -> Path | None:
    """The folder in which a module is found by its name; None if it was loaded in another way."""
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


def is_installed(file: str) -> bool:
    """Whether a file, or a folder with a slash at its end, is part of Python or was installed for it."""
    return os.path.realpath(file).startswith(_installed())


def _sources(folder: Path) -> list[Path]:
    """The Python files of a folder that can be imported.

    Files that git ignores are included if they lie beside files that it does not ignore, because generated
    modules are imported too. Packages that are linked into the folder are included as well.

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
    """Whether it is a link to a package, but not to a package that contains the link."""
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


def _add_library(collected: _Collected, path: Path) -> None:
    if path.is_dir():
        if (path / "__init__.py").exists():
            collected.add_sources(path)
            collected.copies[f"{SOURCES}{path.parent}"] = None
        else:
            collected.add_folder(path)
    elif path.is_file() and path.suffix == ".py":
        collected.add(path, needed=True)
        collected.copies[f"{SOURCES}{path.parent}"] = None
    elif path.is_file() and path.suffix in (".zip", ".whl", ".egg") and zipfile.is_zipfile(path):
        collected.add(path, needed=True)
        collected.path[str(path)] = None
    else:
        raise SpecError(f"--py-files takes Python files, folders, zips and wheels, not {path}")


def _zipped(collected: _Collected) -> bytes:
    _check_size(collected)
    manifest = {
        "lead": str(collected.lead),
        "main": collected.main,
        "path": list(collected.path),
        "copies": list(collected.copies),
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as zipped:
        zipped.writestr(zipfile.ZipInfo(MANIFEST, _DATE), json.dumps(manifest))
        for place, data in _read(collected.files.items(), collected.needed):
            zipped.writestr(zipfile.ZipInfo(place, _DATE), data, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def _check_size(collected: _Collected) -> None:
    sizes: dict[Path, int] = {}
    for file in collected.files.values():
        try:
            sizes[file] = file.stat().st_size
        except OSError:
            continue  # reading it fails later, with an error if it is needed
    if (total := sum(sizes.values())) > LIMIT:
        largest = max(sizes, key=sizes.__getitem__)
        raise SpecError(
            f"the Python files around {collected.lead} come to {total >> 20} MiB, and {LIMIT >> 20} MiB can "
            f"be sent to executors; the largest is {largest}",
            hint="put the program into a folder of its own",
        )


def _read(files: Iterable[tuple[str, Path]], needed: set[str]) -> Iterator[tuple[str, bytes]]:
    """The content of the files; one that cannot be read is skipped unless it is needed."""
    for place, file in files:
        try:
            data = file.read_bytes()
        except OSError as error:
            if place in needed:
                raise SpecError(f"{file} cannot be read: {error.strerror}") from error
            continue
        yield place, data


MANIFEST = "bundle.json"
_OWNERS = 0o700
SOURCES = "src"
NAMED = "named"


@dataclass(frozen=True, slots=True)
class UnpackedBundle:
    """A bundle on this host.

    Attributes:
        folder: where it is unpacked: a folder of the agent's.
        source: the file to run instead of the target's path; empty if the target is not a file.
        path: folders and zips to import from.
        lead: the first folder of the import path, if the target is not a file.
        copied: the folder with the unpacked files, below it by their paths on the caller's machine.
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
        shared = _is_shared(archive)
    copied = os.path.join(folder, SOURCES)
    prefix = "" if shared else copied
    main, lead = manifest["main"], manifest["lead"]
    if main:
        os.chmod(copied + main, _OWNERS)  # it may be a program
    if not (shared and os.path.isdir(lead)):
        lead = copied + lead
        os.makedirs(lead, exist_ok=True)  # it may hold no sources
    imports = [prefix + entry for entry in manifest["path"]]
    copies = [os.path.join(folder, entry) for entry in manifest["copies"]]
    return UnpackedBundle(folder, main and prefix + main, (*imports, *copies), lead, copied)


def _is_shared(archive: zipfile.ZipFile) -> bool:
    """Whether this host has every file of the bundle under the same path, with the same content."""
    names = [name for name in archive.namelist() if name.startswith(f"{SOURCES}/")]
    return bool(names) and all(_is_same(archive, name) for name in names)


def _is_same(archive: zipfile.ZipFile, name: str) -> bool:
    try:
        with open(name.removeprefix(SOURCES), "rb") as file:
            return file.read() == archive.read(name)
    except OSError:
        return False
