"""The zip of `launcher` that agents on executors run from, and how it gets there.

It also contains cloudpickle, by which ranks read pickles, and pynvml, unless executors have their own.
"""

from __future__ import annotations

import importlib.util
import io
import marshal
import zipfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from ... import names

Archive = Callable[[], bytes]
"""Gives the zip in a task; it is pickled by value."""

# Folders and modules that only the driver's side needs. A task's function with all its data must stay below
# 1 MiB, where Spark begins to warn.
_DRIVER_ONLY = (
    "backends/spark/",
    "channel/certificates.py",
    "channel/listener.py",
    "channel/multiplex.py",
    "channel/relay.py",
    "data/sharing.py",
    "diagnosis/",
    "display/",
    "engine/",
    "estimators/keras_estimator.py",
    "estimators/keras_model.py",
    "estimators/parameters.py",
    "estimators/pickles.py",
    "estimators/predictor.py",
    "estimators/saved.py",
    "estimators/torch_estimator.py",
    "estimators/torch_model.py",
    "inference/",
    "notebook/",
    "notify/",
    "placement/inventory.py",
    "preflight.py",
    "runs/curves.py",
    "runs/index.py",
    "runs/logs/line_index.py",
    "runs/logs/printer.py",
    "runs/logs/tail.py",
    "runs/recovery.py",
    "runs/usage.py",
    "spec/callers_modules.py",
    "spec/files/named_files.py",
    "spec/files/packing.py",
    "spec/files/project_files.py",
    "spec/target_imports.py",
    "state/curves.py",
    "state/usage.py",
    "state/xids.py",
    "supervisor/examination.py",
    "supervisor/silence_watch.py",
    "testing.py",
    "tracking/",
)
# What neither agents nor ranks import at their start: sent without bytecode, which takes more room.
_RARELY_IMPORTED = (
    "agent/build_locks.py",
    "agent/cell.py",
    "agent/failing_frames.py",
    "agent/flight_record.py",
    "agent/host_probe.py",
    "agent/installed.py",
    "agent/native_stacks.py",
    "agent/services/",
    "agent/shares.py",
    "agent/trackers.py",
    "agent/warm/",
    "agent/watcher.py",
    "agent/xids.py",
    "as_rankdeck.py",
    "backends/",
    "channel/spool.py",
    "compat/",
    "data/",
    "distributor.py",
    "estimators/",
    "examples/",
    "frameworks/",
    "job.py",
    "placement/",
    "runs/",
    "runtime_dir.py",
    "settings.py",
    "spec/files/file_search.py",
    "spec/job.py",
    "spec/modes.py",
    "spec/options.py",
    "spec/prediction.py",
    "spec/redaction.py",
    "spec/request.py",
    "spec/signature.py",
    "spec/source.py",
    "spec/spark_address.py",
    "spec/target.py",
    "state/artifacts.py",
    "state/changes.py",
    "state/fold.py",
    "state/host_facts.py",
    "state/outcome_rules.py",
    "state/process_groups.py",
    "state/ranks.py",
    "state/run_state.py",
    "state/separate.py",
    "supervisor/",
)
_COMPANIONS = ("cloudpickle", "pynvml")
_DATE = (1980, 1, 1, 0, 0, 0)
_UNCHECKED = (1).to_bytes(4, "little")


@cache
def launcher_zip() -> bytes:
    """The zip for executors, the same for every run of this process."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compresslevel=9) as zipped:
        for name, file in _modules():
            source = file.read_bytes()
            zipped.writestr(zipfile.ZipInfo(name, _DATE), source, zipfile.ZIP_DEFLATED)
            # a single module (pynvml) is large, and no start waits for it either
            if "/" in name and not name.removeprefix("launcher/").startswith(_RARELY_IMPORTED):
                code = _compiled(file, source)
                zipped.writestr(zipfile.ZipInfo(f"{name}c", _DATE), code, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def _modules() -> Iterator[tuple[str, Path]]:
    """(path in the zip, file) of every module."""
    package = Path(__file__).parents[2]
    yield from _below(package)
    yield "rankdeck.py", names.second_module()
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
        if package.name != "launcher" or not str(file.relative_to(package)).startswith(_DRIVER_ONLY):
            yield str(name), file


def _compiled(file: Path, source: bytes) -> bytes:
    """Bytecode that Python loads without comparing it with the source beside it.

    Another version of Python rejects it by its first bytes, and compiles the source.
    """
    code = _cached(file) or marshal.dumps(compile(source, str(file), "exec", dont_inherit=True))
    return importlib.util.MAGIC_NUMBER + _UNCHECKED + importlib.util.source_hash(source) + code


def _cached(file: Path) -> bytes | None:
    """The bytecode of this file in Python's cache, without its header; None if it is missing or stale."""
    try:
        data = Path(importlib.util.cache_from_source(str(file))).read_bytes()
        status = file.stat()
    except OSError:
        return None
    stamp = b"".join((int(n) & 0xFFFFFFFF).to_bytes(4, "little") for n in (status.st_mtime, status.st_size))
    fresh = data[:16] == importlib.util.MAGIC_NUMBER + bytes(4) + stamp
    return data[16:] if fresh else None


_SENT: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
"""The broadcast of each SparkContext that has sent one."""


def by_broadcast(context: Any) -> Archive:
    """The zip as a broadcast variable, which executors fetch once for all runs of a session."""
    sent = _SENT.get(context)
    if sent is None:
        sent = _SENT[context] = context.broadcast(launcher_zip())
    return lambda: sent.value


def by_value() -> Archive:
    """The zip as a part of the task, where nothing can be broadcast."""
    data = launcher_zip()
    return lambda: data
