"""What a run from elsewhere would do here: told before it is run, for it runs as whoever says yes."""

from __future__ import annotations

import shlex
import sys

from console.sources.cleaning import escaped
from launcher.spec import JobSpec, Mode, TargetKind

FOREIGN = "This run was not launched here. Run its code?"
_MOST = 400


def what_would_run(spec: JobSpec) -> list[str]:
    """A line for each thing that decides what happens; nothing in it is left out unseen."""
    spec = spec.redacted()
    spark = spec.spark
    pickled = spec.target.kind is TargetKind.CALLABLE or spec.target.pickled
    python = sys.executable if spec.mode is Mode.LOCAL else "the executors' own"
    rows = [
        ("target", shlex.join([spec.target.label, *spec.target.args])),
        ("with", " ".join(f"{name}={value}" for name, value in spec.target.kwargs)),
        ("pickle", "code and data of whoever made it, which every rank runs as you" if pickled else ""),
        ("ranks", f"{spec.num_processes}, {spec.mode}"),
        ("master", spark.master),
        ("remote", spark.remote),
        ("conf", " ".join(f"{name}={value}" for name, value in spark.conf.items())),
        ("sent", " ".join(spec.py_files)),
        ("listen", spark.listen),
        ("spool", spark.spool),
        ("env", " ".join(spec.env)),
        ("workdir", spec.workdir),
        ("python", python),
    ]
    return [f"{name:<8} {_short(escaped(text))}" for name, text in rows if text]


def _short(text: str) -> str:
    return text if len(text) <= _MOST else f"{text[:_MOST]}… ({len(text) - _MOST} more characters)"
