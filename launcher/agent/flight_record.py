"""The last collectives of this rank, from torch's flight recorder, where that is on.

It is on by default with NCCL, elsewhere with ``TORCH_FR_BUFFER_SIZE`` in the environment. What it gives is
that of torch 2.13 (`torch/csrc/distributed/c10d/FlightRecorder.hpp`).
"""

from __future__ import annotations

import json
import sys
from typing import Any

_GROUPS, _TEXT = 4, 120
_MOST_BYTES = 16 << 20
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


def _last(record: dict[str, Any]) -> list[dict[str, Any]]:
    newest: dict[str, dict[str, Any]] = {}
    for entry in record.get("entries", ()):
        if not entry.get("is_p2p"):
            newest[str(entry["process_group"])] = entry
    latest = sorted(newest.values(), key=lambda entry: -int(entry["record_id"]))
    return [_call(entry) for entry in latest[:_GROUPS]]


def _call(entry: dict[str, Any]) -> dict[str, Any]:
    name, description = entry["process_group"]
    return {
        "group": str(description or name)[:_TEXT],
        "number": int(entry["collective_seq_id"]),
        "operation": str(entry["profiling_name"]).rpartition(":")[2][:_TEXT],
        "sizes": str(entry["input_sizes"])[:_TEXT],
    }
