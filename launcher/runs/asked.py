"""`spec.json`: what was asked for."""

from __future__ import annotations

import json
from pathlib import Path

from launcher.codec import to_plain
from launcher.runs import paths
from launcher.runs.private import write_whole
from launcher.spec import JobSpec


def write_spec(run: Path, spec: JobSpec) -> None:
    """Write the request down, without what looks secret in it."""
    write_whole(run / paths.SPEC, json.dumps(to_plain(spec.redacted()), indent=1).encode())
