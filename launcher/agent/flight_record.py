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
import sys
from collections.abc import Mapping
from typing import Any, NoReturn

_GROUPS, _TEXT = 4, 120
_NAMELESS = "undefined"  # what torch puts where a group was made without a description
_MOST_BYTES = 16 << 20
_FILES = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
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


def file_of(environ: Mapping[str, str], rank: int) -> str:
    """The file that NCCL's watchdog writes in a rank of this environment; empty if that is not known."""
    begin = next((environ[name] for name in _FILES if environ.get(name)), "")
    return begin and f"{begin}{rank}"


def with_file_in(folder: str, environ: Mapping[str, str]) -> Mapping[str, str]:
    """The environment with a folder for that file, unless it names one.

    The other variable would do as well, but a warm rank's environment may only differ in those of NCCL.
    """
    if file_of(environ, 0):
        return environ
    return {**environ, _FILES[-1]: os.path.join(folder, "nccl_trace_rank_")}


def collectives_in(path: str, since: float) -> list[dict[str, Any]]:
    """Like `last_collectives`, from a file; empty if there is none that was written since a time of day."""
    try:
        with open(path, "rb") as file:
            found = os.fstat(file.fileno())
            if found.st_mtime < since or found.st_size > _MOST_BYTES:
                return []
            return _last(_Plain(io.BytesIO(file.read(_MOST_BYTES))).load())
    except Exception:  # noqa: BLE001  a file that is not whole, or of another version, may raise anything
        return []


class _Plain(pickle.Unpickler):
    """Reads a pickle of plain values: the file may be anybody's."""

    def find_class(self, module: str, name: str, /) -> NoReturn:
        raise pickle.UnpicklingError(f"{module}.{name} is no plain value")


def _last(record: dict[str, Any]) -> list[dict[str, Any]]:
    newest: dict[str, dict[str, Any]] = {}
    for entry in record.get("entries", ()):
        if not entry.get("is_p2p"):
            newest[str(entry["process_group"])] = entry
    latest = sorted(newest.values(), key=lambda entry: -int(entry["record_id"]))
    return [_call(entry) for entry in latest[:_GROUPS]]


def _call(entry: dict[str, Any]) -> dict[str, Any]:
    name, description = map(str, entry["process_group"])
    return {
        "group": (name if description in ("", _NAMELESS) else description)[:_TEXT],
        "number": int(entry["collective_seq_id"]),
        "operation": str(entry["profiling_name"]).rpartition(":")[2][:_TEXT],
        "sizes": str(entry["input_sizes"])[:_TEXT],
    }
