"""The last collectives of a rank, from torch's flight recorder, where that is on.

It is on by default with NCCL, elsewhere with ``TORCH_FR_BUFFER_SIZE`` in the environment. A rank that raises
asks it; of one that NCCL's watchdog aborts, the agent reads the file that the watchdog has written before.
Both are those of torch 2.13 (`torch/csrc/distributed/c10d/FlightRecorder.hpp`).
"""

from __future__ import annotations

import io
import json
import os
import pickle
import stat
import sys
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from ..state.process_groups import group_label

_GROUPS, _TEXT = 4, 120
_MOST_BYTES = 16 << 20
_FILES = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
_USUAL = ("comm_lib_trace_rank_", "nccl_trace_rank_")  # since torch 2.9, and before
_DUMPS = ("_dump_fr_trace_json", "_dump_nccl_trace_json")


def last_collectives() -> list[dict[str, Any]]:
    """The fields of a `CollectiveCall` for the last call in each group, the newest group first.

    Empty if torch's groups are not in use here, or nothing is recorded.
    """
    c10d = sys.modules.get("torch._C._distributed_c10d")
    dump = next(filter(None, (getattr(c10d, name, None) for name in _DUMPS)), None)
    if dump is None:
        return []
    recorded = dump(includeCollectives=True, onlyActive=False)
    return _last(json.loads(recorded)) if len(recorded) <= _MOST_BYTES else []


def files_of(environ: Mapping[str, str], rank: int) -> Iterator[str]:
    """The files that NCCL's watchdog may have written in a rank of this environment."""
    named = [environ[name] for name in _FILES if environ.get(name)]
    if named:
        yield f"{named[0]}{rank}"
        return
    cache = environ.get("XDG_CACHE_HOME") or os.path.join(environ.get("HOME", ""), ".cache")
    for name in _USUAL:
        yield os.path.join(cache, "torch", f"{name}{rank}")


def collectives_in(path: str, since: float) -> list[dict[str, Any]]:
    """Like `last_collectives`, from a file of a rank that was started at a time of day.

    Empty if there is no such file, or if it is older or of a program that began earlier.
    """
    try:
        with open(path, "rb", opener=_opened_at_once) as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_mtime < since or found.st_size > _MOST_BYTES:
                return []
            record = _Plain(io.BytesIO(file.read(_MOST_BYTES))).load()
        began = min(entry["time_created_ns"] for entry in record["entries"]) / 1e9
        return _last(record) if began >= since else []
    except Exception:  # noqa: BLE001  a file that is not whole, or of another version, may raise anything
        return []


def _opened_at_once(path: str, flags: int) -> int:
    """A pipe or a terminal of that name must not have the agent wait."""
    return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY)


class _Plain(pickle.Unpickler):
    """Reads a pickle of plain values: the file may be anybody's."""

    def find_class(self, module: str, name: str, /) -> NoReturn:
        raise pickle.UnpicklingError(f"{module}.{name} is no plain value")


def _last(record: dict[str, Any]) -> list[dict[str, Any]]:
    newest: dict[tuple[str, ...], dict[str, Any]] = {}
    for entry in record.get("entries", ()):
        if not entry.get("is_p2p"):
            newest[tuple(map(_text, entry["process_group"]))] = entry
    latest = sorted(newest.values(), key=lambda entry: -int(entry["record_id"]))
    return [_call(entry) for entry in latest[:_GROUPS]]


def _call(entry: dict[str, Any]) -> dict[str, Any]:
    name, description = map(_text, entry["process_group"])
    return {
        "group": group_label(name, description),
        "number": int(entry["collective_seq_id"]),
        "operation": _text(entry["profiling_name"]).rpartition(":")[2],
        "sizes": _sizes(entry["input_sizes"]),
    }


def _text(value: object) -> str:
    return value[:_TEXT] if isinstance(value, str) else ""


def _sizes(value: object) -> str:
    """Sizes as ``[[2, 5]]``; empty for what is not that: its text might have no end."""
    known = isinstance(value, list) and all(
        isinstance(each, list) and len(each) <= _TEXT and all(type(size) is int for size in each)
        for each in value[:_GROUPS]
    )
    return str(value[:_GROUPS])[:_TEXT] if known and isinstance(value, list) else ""
