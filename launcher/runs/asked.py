"""`spec.json`: what was asked for; and `private.json`: what of it is not written there.

Who may read the first may see what ran. The second holds the secrets, for running the same again: it never
leaves the folder that its owner's launch made.
"""

from __future__ import annotations

import json
from pathlib import Path

from launcher.codec import to_plain
from launcher.runs import paths
from launcher.runs.opening import read_whole
from launcher.runs.private import write_whole
from launcher.spec import JobSpec


def write_spec(run: Path, spec: JobSpec) -> None:
    """Write the request down, without what is secret in it."""
    write_whole(run / paths.SPEC, json.dumps(to_plain(spec.redacted()), indent=1).encode())


def write_private(run: Path, spec: JobSpec) -> None:
    """Write down what `write_spec` leaves out, by its place; no file if that is nothing."""
    if private := spec.private():
        write_whole(run / paths.PRIVATE, json.dumps(private).encode())


def read_private(run: Path) -> dict[str, str]:
    """What was left out, by its place; empty where that is not known."""
    try:
        found = json.loads(read_whole(run, run / paths.PRIVATE))
    except (OSError, ValueError, RecursionError):
        return {}
    known = found.items() if isinstance(found, dict) else ()
    return {place: text for place, text in known if isinstance(text, str)}
