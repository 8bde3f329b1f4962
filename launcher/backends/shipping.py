"""What travels to executors: `launcher` as one zip, so that nothing of ours need be installed there.

cloudpickle and pynvml go along, as pure Python; an executor's own copies come first.
"""

from __future__ import annotations

import importlib.util
import io
import marshal
import zipfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import launcher

# What only the side of the driver needs. A task's function and all that it carries stay below 1 MiB, where
# Spark begins to warn of it.
_LEFT_OUT = frozenset(
    {
        "channel/binding.py",
        "channel/certificates.py",
        "channel/guest.py",
        "channel/listener.py",
        "testing.py",
        "client.py",
        "comparing.py",
        "daemon.py",
        "engine.py",
        "engine_address.py",
        "engine_key.py",
        "engine_start.py",
        "engine_wire.py",
        "inventory.py",
        "options.py",
        "teller.py",
        "tidying.py",
        "runs/examining.py",
        "runs/index.py",
        "runs/last_lines.py",
        "runs/line_blocks.py",
        "runs/line_intake.py",
        "runs/line_rows.py",
        "runs/lines.py",
        "runs/log_files.py",
        "runs/mending.py",
        "runs/retention.py",
        "worker/multiplex.py",
        "worker/relay.py",
    }
)
_BACKENDS = ("__init__.py", "local.py", "newsbox.py")
_COMPANIONS = ("cloudpickle", "pynvml")
_DATE = (1980, 1, 1, 0, 0, 0)
_UNCHECKED = (1).to_bytes(4, "little")


@cache
def archive() -> bytes:
    """The zip, the same for every run of this process."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as zipped:
        for name, file in _modules():
            source = file.read_bytes()
            zipped.writestr(zipfile.ZipInfo(name, _DATE), source, zipfile.ZIP_DEFLATED)
            if "/" in name:  # a lone module is large, and not what a start waits for
                code = _compiled(file, source)
                zipped.writestr(zipfile.ZipInfo(f"{name}c", _DATE), code, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def _modules() -> Iterator[tuple[str, Path]]:
    """(path in the zip, file) of every module."""
    yield from _below(Path(launcher.__file__).parent)
    for name in _COMPANIONS:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            continue
        if spec.submodule_search_locations:
            yield from _below(Path(spec.origin).parent)
        else:
            yield Path(spec.origin).name, Path(spec.origin)


def _below(package: Path) -> Iterator[tuple[str, Path]]:
    for file in sorted(package.rglob("*.py")):
        name = file.relative_to(package.parent)
        mine = package.name == "launcher" and str(file.relative_to(package)) in _LEFT_OUT
        if not mine and (file.parent.name != "backends" or file.name in _BACKENDS):
            yield str(name), file


def _compiled(file: Path, source: bytes) -> bytes:
    """Bytecode that its reader takes without comparing it with the source beside it.

    Another version of Python knows by the first bytes that it is not for it, and compiles the source.
    """
    code = _cached(file) or marshal.dumps(compile(source, str(file), "exec", dont_inherit=True))
    return importlib.util.MAGIC_NUMBER + _UNCHECKED + importlib.util.source_hash(source) + code


def _cached(file: Path) -> bytes | None:
    """What Python itself has compiled from this very file, without its header."""
    try:
        data = Path(importlib.util.cache_from_source(str(file))).read_bytes()
        status = file.stat()
    except OSError:
        return None
    stamp = b"".join((int(n) & 0xFFFFFFFF).to_bytes(4, "little") for n in (status.st_mtime, status.st_size))
    fresh = data[:16] == importlib.util.MAGIC_NUMBER + bytes(4) + stamp
    return data[16:] if fresh else None
