"""What could be launched below a folder, found by reading source; nothing is imported to find out."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from console.sources.drafts import split_target
from launcher.discovery import find_sources
from launcher.errors import SpecError
from launcher.signature import Parameter, ParameterKind, Signature
from launcher.source import functions_in

_BATCH = 50


@dataclass(frozen=True, slots=True)
class Candidate:
    """Something to run: how it is typed, what it takes, and what it says of itself."""

    target: str
    takes: str = ""
    doc: str = ""


def candidates(workdir: Path) -> Iterator[list[Candidate]]:
    """Every script and every public function below `workdir`, a few files at a time."""
    batch: list[Candidate] = []
    for path in find_sources(workdir):
        batch += _of_file(path, workdir)
        if len(batch) >= _BATCH:
            yield batch
            batch = []
    yield batch


def _of_file(path: Path, workdir: Path) -> list[Candidate]:
    name = os.path.relpath(path, workdir)
    try:
        functions = functions_in(path)
    except SpecError as error:
        return [Candidate(name, "script", error.message)]
    found = [Candidate(f"{name}:{f.name}", takes(f), f.doc) for f in functions]
    return [Candidate(name, "script"), *found]


def takes(signature: Signature) -> str:
    """A signature as a person reads it."""
    return f"({', '.join(map(_parameter, signature.parameters))})"


def _parameter(parameter: Parameter) -> str:
    stars = {ParameterKind.VAR_POSITIONAL: "*", ParameterKind.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    typed = f": {parameter.annotation}" if parameter.annotation else ""
    given = f" = {parameter.default}" if parameter.default is not None else ""
    return f"{stars}{parameter.name}{typed}{given}"


def narrow(found: Sequence[Candidate], query: str, *, limit: int = 200) -> list[Candidate]:
    """Those whose name holds the letters of `query` in their order, the tightest match first."""
    letters = [re.escape(c) for c in query.strip().lower() if not c.isspace()]
    if not letters:
        return list(found[:limit])
    pattern = re.compile("(?=(" + ".*?".join(letters) + "))")
    ranked = [(score, c) for c in found if (score := _score(pattern, c.target.lower())) is not None]
    ranked.sort(key=lambda pair: pair[0])
    return [c for _, c in ranked[:limit]]


def _score(pattern: re.Pattern[str], name: str) -> tuple[int, int, str] | None:
    spans = [len(m.group(1)) for m in pattern.finditer(name)]
    return (min(spans), len(name), name) if spans else None


def functions_of(target: str, workdir: Path) -> tuple[Signature, ...]:
    """The public functions of the file or module that a target names; none if it cannot be read."""
    source, _ = split_target(target)
    if not source:
        return ()
    path = workdir / os.path.expanduser(source)
    if not source.endswith(".py") and "/" not in source:
        path = (workdir / source.replace(".", "/")).with_suffix(".py")
    if not path.is_file():
        return ()
    try:
        return functions_in(path)
    except SpecError:
        return ()
