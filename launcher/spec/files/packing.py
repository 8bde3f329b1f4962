"""What a run's target needs from this machine, packed into a bundle for hosts that have none of it.

For a script or function in a file these are the sources of that file's folder and below; for a function of a
package, those of the folder from which the package is imported; for a callable, the packages of its process
that were not installed. To all of them ``--py-files`` are added. Installed packages are not sent: executors
have their own.

Beside the sources travels what `project_files` selects of one folder: the caller's, if the target lies there,
else the target's. ``--files`` are sent whatever they are.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import site
import sys
import sysconfig
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path, PurePath

from ... import names
from ...errors import SpecError, size_text
from ..job import JobSpec, Target, TargetKind
from ..request import Request, require_sent_files, sent_path
from ..source import find_module
from .bundle import NAMED, SOURCES, Bundle, Manifest, SentFile, place_led_to
from .file_search import find_sources, open_file
from .named_files import find_named
from .project_files import ProjectFiles, is_private, select_files

LIMIT = 32 << 20
FILES = 10_000
# Above this size a file is not copied into the bundle, but read when a host lacks it.
LARGE = 1 << 20
# To read this much takes a second or more.
SLOW = 256 << 20
Tell = Callable[[str], object] | None
_SYSTEM = ("/bin/", "/sbin/", "/usr/")
# Never sent: executors have them. Spark's packages may lie outside of the folders of installed packages.
_NOT_SENT = frozenset({"__main__", "__mp_main__", names.own(), names.SECOND, "pyspark", "py4j"})


@dataclass(slots=True)
class _Collected:
    """Files by their place in the bundle, and the folders to import from.

    Attributes:
        lead: the first folder of the import path, if the target is no file.
        base: the target's folder.
        workdir: the folder of which not only sources travel; the working directory of copies.
        needed: places whose files must be readable: a person named them.
        large: places of files that need not be in the bundle.
        keys: how many files of folders that ``--files`` named look like keys.
    """

    lead: Path
    base: Path
    workdir: Path
    main: str = ""
    path: dict[str, None] = field(default_factory=dict)
    copies: dict[str, None] = field(default_factory=dict)
    files: dict[str, Path] = field(default_factory=dict)
    needed: set[str] = field(default_factory=set)
    large: set[str] = field(default_factory=set)
    links: dict[str, str] = field(default_factory=dict)
    own_folder: bool = False
    private: str = ""
    keys: int = 0
    project: ProjectFiles = field(default_factory=ProjectFiles)

    def add(self, file: Path, *, needed: bool = False, place: str = "") -> str:
        """Add a file; its place. One whose name is not UTF-8 is left out: a manifest cannot hold it.

        Raises:
            SpecError: it has such a name, and it is needed.
        """
        place = place or f"{SOURCES}{file}"
        if _is_unicode(place):
            self.files[place] = file
            if needed:
                self.needed.add(place)
        elif needed:
            raise SpecError(f"{place!a} cannot be sent to executors: its name is not UTF-8")
        return place

    def add_folder(self, folder: Path) -> None:
        """Add a folder's sources, and import from that folder."""
        self.path[str(folder)] = None
        self.add_sources(folder)

    def add_sources(self, folder: Path) -> None:
        """Add a folder's sources."""
        for file in _sources(folder):
            self.add(file)


def with_bundle(request: Request, tell: Tell = None) -> Request:
    """The request with the sources that its target needs, where the ranks run on other hosts.

    The bundle is made once, by the process whose paths the request names. Paths of this host mean nothing
    on an executor, so the request loses its `path` and `python`.

    Args:
        request: what to run.
        tell: called with a sentence on what takes a while.

    Raises:
        SpecError: a file that the target needs does not exist, or the mode sends no files.
    """
    mode = request.spec.mode
    if not mode.traits.ships_sources and request.spec.py_files:
        raise SpecError(f"Python files are sent to executors, and the mode is {mode}", hint="use PYTHONPATH")
    if not mode.traits.ships_sources and request.spec.files:
        raise SpecError(f"files are sent to executors, and the mode is {mode}", hint="ranks see yours")
    by_value = request.spec.prediction is not None  # Spark brings its function to workers
    if not mode.traits.ships_sources or request.bundle is not None or by_value:
        return request
    return replace(request, bundle=make_bundle(request.spec, tell), path=(), python="")


def make_bundle(spec: JobSpec, tell: Tell = None) -> Bundle:
    """All that a run's target needs from this machine.

    Args:
        spec: the request.
        tell: called with a sentence on each file that takes a while.

    Raises:
        SpecError: a file of ``--py-files`` or ``--files`` does not exist, or the sources are too many or too
            large.
    """
    collected = _collect(spec.target, Path(os.path.abspath(spec.workdir)))
    require_sent_files(spec)
    for text in spec.py_files:
        _add_library(collected, Path(sent_path(spec, text)))
    _check_size(collected)
    for path in dict.fromkeys(Path(sent_path(spec, text)) for text in spec.files):
        _add_named(collected, path)
    return _packed(collected, tell)


def _collect(target: Target, workdir: Path) -> _Collected:
    collected = _Collected(workdir, workdir, workdir)
    if target.kind is TargetKind.CALLABLE:
        _add_own_modules(collected)
    elif target.kind is TargetKind.PROGRAM and not _is_own_program(target):
        pass
    elif target.is_file:
        main = Path(os.path.realpath(workdir / target.source))
        collected.main, collected.lead, collected.base = str(main), main.parent, main.parent
        collected.add_folder(main.parent)
        collected.add(main, needed=True)
    elif root := _import_root(target.source, workdir):
        collected.base = root
        collected.add_folder(root)
    _add_project(collected)
    return collected


def _add_project(collected: _Collected) -> None:
    """Add what travels of the caller's folder, if it contains the target's, else of the target's folder."""
    workdir, base = collected.workdir, collected.base
    if not base.is_relative_to(workdir):  # a script's own path has no links in it
        workdir = Path(os.path.realpath(workdir))
    root = workdir if base.is_relative_to(workdir) and not is_private(workdir) else base
    collected.workdir = root
    if is_private(root):
        collected.private = str(root)
        return
    collected.project = select_files(root)
    for file in collected.project.files:
        collected.add(file)


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
    folder, name = os.path.split(file)
    real = os.path.realpath(file) if os.path.islink(file) else f"{_real(folder)}{os.sep}{name}"
    return real.startswith(_installed())


@cache
def _real(folder: str) -> str:
    """A folder without links: most of a process's modules are in a few folders."""
    return os.path.realpath(folder)


def _sources(folder: Path) -> list[Path]:
    """The Python files of a folder that can be imported.

    Files that git ignores are included if they lie beside files that it does not ignore, because generated
    modules are imported too. Packages that are linked into the folder are included as well.

    Of a private folder, only the files directly in it and its packages are included.

    Raises:
        SpecError: there are too many.
    """
    found: dict[Path, None] = {}
    for part in _packages_in(folder) if is_private(folder) else [folder]:
        found.update(dict.fromkeys(find_sources(part, FILES + 1)))
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


def _packages_in(folder: Path) -> list[Path]:
    return [place for place in _listed(folder) if (place / "__init__.py").is_file()]


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
        collected.large.add(collected.add(path, needed=True))
        collected.path[str(path)] = None
    else:
        raise SpecError(f"--py-files takes Python files, folders, zips and wheels, not {path}")


def _add_named(collected: _Collected, path: Path) -> None:
    """Add what ``--files`` names: at its own path below the working directory, else there by its name.

    Raises:
        SpecError: it cannot be sent, or its place is taken.
    """
    found = find_named(path)
    if not path.is_relative_to(collected.workdir):
        path = Path(os.path.realpath(path.parent), path.name)
    below = path.is_relative_to(collected.workdir)
    base = path if below else collected.workdir / path.name
    _require_free(collected, f"{SOURCES}{base}", path, below=below)
    if not below:
        collected.own_folder = True
    elif path != collected.workdir != path.parent:
        _add_link(collected, path)
    collected.keys += found.keys
    for name, file in found.files.items():
        place = f"{SOURCES}{os.path.join(base, name) if name else base}"
        collected.large.add(collected.add(file, needed=True, place=place))


def _require_free(collected: _Collected, place: str, path: Path, *, below: bool) -> None:
    """Refuse what would lie where other files lie; what is below the working directory keeps its own place.

    Raises:
        SpecError: other files lie there.
    """
    for other, file in collected.files.items():
        overlaps = other == place or other.startswith(f"{place}/") or place.startswith(f"{other}/")
        if overlaps and not (below and other == f"{SOURCES}{file}"):
            raise SpecError(
                f"--files: {path} would lie where {file} lies", hint="rename it, or put it into a folder"
            )


def _add_link(collected: _Collected, path: Path) -> None:
    """Let a file that lies deeper be found by its name too, unless that name is taken."""
    place = f"{SOURCES}{collected.workdir / path.name}"
    if not os.path.lexists(collected.workdir / path.name):
        collected.links.setdefault(place, str(path.relative_to(collected.workdir)))


def _check_size(collected: _Collected) -> None:
    sizes: dict[Path, int] = {}
    for file in collected.files.values():
        if file.suffix != ".py":
            continue
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


def _packed(collected: _Collected, tell: Tell) -> Bundle:
    contents: dict[str, bytes] = {}
    sent = []
    for place, file in collected.files.items():
        try:
            if place in collected.large and (size := file.stat().st_size) > SLOW and tell:
                tell(f"reading {file}, {size_text(size)}, to name it by its content")
            sent.append(_sent(place, file, contents, kept=place not in collected.large))
        except OSError as error:
            if place in collected.needed:
                raise SpecError(f"{file} cannot be read: {error.strerror}") from error
    travelling = set(collected.files.values())
    linked = _add_folder_links(collected)
    manifest = Manifest(
        workdir=str(collected.workdir),
        lead=str(collected.lead),
        main=collected.main,
        path=tuple(collected.path),
        copies=tuple(collected.copies),
        files=tuple(sent),
        links=tuple(collected.links.items()),
        own_folder=collected.own_folder,
        linked=tuple(linked),
        left_out=tuple(
            (str(file), size) for file, size in collected.project.left_out if file not in travelling
        ),
        uncounted=collected.project.uncounted,
        keys=collected.keys + len(set(collected.project.keys) - travelling),
        private=collected.private,
        made=time.time(),
    )
    used = dict.fromkeys(file.digest for file in sent if not file.origin)
    return Bundle(manifest, b"".join(contents[digest] for digest in used))


def _add_folder_links(collected: _Collected) -> list[tuple[str, str]]:
    """Add the folder's links to folders that travel; those that lead to what does not, as `linked` has it."""
    folders = {os.path.dirname(place) for place in collected.files}
    folders |= {str(above) for folder in folders for above in PurePath(folder).parents}
    linked = []
    for link, leads_to in collected.project.linked:
        place = f"{SOURCES}{link}"
        if place in folders or place in collected.files or not _is_unicode(place + leads_to):
            continue
        if place_led_to(place, leads_to) in folders:
            collected.links.setdefault(place, leads_to)
        else:
            linked.append((place, leads_to))
    return linked


def _sent(place: str, file: Path, contents: dict[str, bytes], *, kept: bool) -> SentFile:
    """A file as the bundle has it; its content is added to `contents` if it is small or must be kept.

    Raises:
        OSError: it cannot be read.
    """
    with open_file(file) as opened:
        status = os.fstat(opened.fileno())
        executable = bool(status.st_mode & 0o111)
        if status.st_size > LARGE and not kept:
            digest = hashlib.file_digest(opened, "sha256").hexdigest()
            return SentFile(place, digest, opened.tell(), executable, origin=str(file))
        data = opened.read()
    digest = hashlib.sha256(data).hexdigest()
    contents[digest] = data
    return SentFile(place, digest, len(data), executable)
