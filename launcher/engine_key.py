"""Which engine a run goes to: one for each user, target and version of rankdeck.

Local runs share one. Runs on Spark share one where they share a session: the same master or server, the
same settings, and the same words about Spark in their environments.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import launcher
from launcher.engine_slots import embedded_slots
from launcher.redaction import redacted_text
from launcher.request import Request
from launcher.spec import Mode

ROOT = str(Path(launcher.__file__).resolve().parent.parent)
_SPARKS_OWN = re.compile(r"(SPARK|PYSPARK|HADOOP|YARN|KRB5|AWS|AZURE|GOOGLE)_|JAVA_HOME$|SLURM_JOB_ID$")
_PER_JOB = re.compile(r"SLURM_JOB_ID$")


@dataclass(frozen=True, slots=True)
class EngineKey:
    """An engine's name.

    Attributes:
        target: what it is for, in words for people: ``local``, or where its Spark is.
        version: of rankdeck.
        build: the state of rankdeck's own files; an engine that was started before they changed is another.
        digest: all that tells it from the user's other engines, as a file's name.
    """

    target: str
    version: str
    build: str
    digest: str


def key_for(request: Request) -> EngineKey:
    """The engine that carries a request."""
    spec = request.spec
    local = spec.mode is Mode.LOCAL
    names = _PER_JOB if local else _SPARKS_OWN
    around = {k: v for k, v in request.environ.items() if names.match(k)}
    facts: dict[str, Any] = {"around": around, "host": os.uname().nodename, "world": _world()}
    if not local:
        spark = spec.spark
        facts |= {"master": spark.master, "remote": spark.remote, "conf": dict(spark.conf)}
        facts |= {"mode": spec.mode, "python": sys.executable}
        if not (spark.master or spark.remote):
            facts["slots"] = embedded_slots(spec.num_processes)
    target = "local" if local else spec.spark.remote or spec.spark.master or f"{spec.mode} by the environment"
    target = redacted_text(target.partition(";")[0])  # it is shown, and is in the command line of the engine
    version, build = launcher.__version__, fingerprint()
    told = json.dumps([target, version, build, ROOT, facts], sort_keys=True)
    return EngineKey(target, version, build, hashlib.sha256(told.encode()).hexdigest()[:16])


def _world() -> list[str]:
    """The network and the processes that this process can see: an engine in another container is another."""
    return [os.readlink(f"/proc/self/ns/{kind}") for kind in ("net", "pid", "user")]


def fingerprint() -> str:
    """The state of our own files: an upgrade, or an edit, under a running engine changes it."""
    seen = hashlib.sha256()
    for folder, folders, files in os.walk(Path(ROOT, "launcher")):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        for name in sorted(files):
            if name.endswith(".py"):
                found = os.stat(os.path.join(folder, name))
                seen.update(f"{name} {found.st_size} {found.st_mtime_ns}\n".encode())
    return seen.hexdigest()[:12]
