"""The scripts and functions below a folder that could be launched, found by reading source, not importing."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from launcher.errors import SpecError
from launcher.frameworks.registry import FrameworkChoice, choose
from launcher.runs.status import Status
from launcher.spec.files.file_search import find_sources
from launcher.spec.job import JobSpec, named_module
from launcher.spec.signature import Parameter, ParameterKind, Signature
from launcher.spec.source import described, read_text

from ...formatting import framework_text
from ..options.reading import source_file
from .draft import split_target
from .ranking import Judged, judge

_BATCH = 50
_MOST_BYTES, _JUDGED = 4 << 20, 64 << 10
_ASIDE = frozenset({"test", "tests", "example", "examples"})
_OWN_FILES = frozenset(
    {"__init__.py", "__main__.py", "conftest.py", "setup.py", "utils.py", "util.py", "helpers.py"}
)


@dataclass(frozen=True, slots=True)
class Candidate:
    """A possible target: its text for the form, its signature, and its docstring's first sentence.

    `score` is how likely it is a training (`ranking.judge`), `uses` the frameworks that its file imports.
    """

    target: str
    takes: str = ""
    doc: str = ""
    recent: bool = False
    score: float = 0.0
    uses: tuple[str, ...] = ()


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
    if not name.isprintable():
        return []  # such a name cannot be typed
    try:
        judged, functions = _read(path)
    except SpecError as error:
        return [Candidate(name, "script", error.message)]
    score = judged.score if judged.runs else judged.score / 4
    script = Candidate(name, "script", judged.doc, score=score, uses=judged.uses)
    return [script, *(_of_function(name, judged, each) for each in functions)]


def _of_function(file: str, judged: Judged, signature: Signature) -> Candidate:
    score = judged.score - 5.0 if signature.name == judged.entry else judged.score / 2
    target = f"{file}:{signature.name}"
    return Candidate(target, takes(signature), signature.doc, score=score, uses=judged.uses)


def _read(path: Path) -> tuple[Judged, tuple[Signature, ...]]:
    """What a file's text says of it, and its functions; it is read again only when it has changed."""
    try:
        stat = path.stat()
    except OSError as error:
        raise SpecError(f"{path} cannot be read: {error.strerror}") from error
    return _read_version(path, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=4096)
def _read_version(path: Path, _changed: int, size: int) -> tuple[Judged, tuple[Signature, ...]]:
    if size > _MOST_BYTES:
        raise SpecError(f"{path} is too large to be read here")
    return judge(read_text(path)[:_JUDGED], path.name), described(path)[1]


def recent_candidates(runs: Iterable[Status], workdir: Path, limit: int = 8) -> list[Candidate]:
    """The targets of recent runs, as typed in `workdir`; files that no longer exist are left out."""
    targets = dict.fromkeys(_relative(run.target, workdir) for run in runs if run.target)
    existing = (target for target in targets if _exists(target, workdir))
    return [
        Candidate(target, "recent", recent=True) for target, _ in zip(existing, range(limit), strict=False)
    ]


def _relative(target: str, workdir: Path) -> str:
    source, name = split_target(target)
    if os.path.isabs(source) and Path(source).is_relative_to(workdir):
        source = os.path.relpath(source, workdir)
    return f"{source}:{name}" if name else source


def _exists(target: str, workdir: Path) -> bool:
    source, name = split_target(target)
    is_module = name and not source.endswith(".py") and "/" not in source
    try:
        return bool(is_module or named_module(target)) or (workdir / source).is_file()
    except OSError:  # a name that is too long
        return False


def with_recent(found: Sequence[Candidate], recent: Sequence[Candidate]) -> list[Candidate]:
    """Each target once: those of recent runs, then the likeliest trainings, then what is seldom meant.

    Targets of recent runs have the signature and docstring of `found`; those of other folders are not first.
    """
    by_target = {c.target: c for c in found}
    first = [replace(by_target.get(c.target, c), recent=True) for c in recent]
    names = {c.target for c in first}
    return sorted([*first, *(c for c in found if c.target not in names)], key=_place)


def _place(candidate: Candidate) -> tuple[bool, bool, float]:
    near = candidate.recent and not os.path.isabs(candidate.target)
    return not near and is_aside(candidate.target), not near, 0.0 if near else -candidate.score


def is_aside(target: str) -> bool:
    """Whether a target is seldom meant: a test, an example, a package's own file."""
    *folders, file = split_target(target)[0].split("/")
    return bool(_ASIDE & {*folders}) or file in _OWN_FILES or file.startswith("test_")


def takes(signature: Signature) -> str:
    """A signature as text."""
    return f"({', '.join(map(_parameter, signature.parameters))})"


def _parameter(parameter: Parameter) -> str:
    stars = {ParameterKind.VAR_POSITIONAL: "*", ParameterKind.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    typed = f": {parameter.annotation}" if parameter.annotation else ""
    default = f" = {parameter.default}" if parameter.default is not None else ""
    return f"{stars}{parameter.name}{typed}{default}"


def narrow(found: Sequence[Candidate], query: str) -> list[Candidate]:
    """The candidates whose target contains the letters of `query` in their order, the shortest match first.

    Of equal matches the likelier training comes first; what is seldom meant (`is_aside`) comes last.
    """
    pattern = _pattern(query)
    if pattern is None:
        return list(found)
    ranked = [(score, c) for c in found if (score := _score(pattern, c.target.lower())) is not None]
    ranked.sort(key=lambda pair: _order(*pair))
    return [c for _, c in ranked]


def _order(score: tuple[int, int, str], candidate: Candidate) -> tuple[Any, ...]:
    tightness, *others = score
    return is_aside(candidate.target), tightness, not candidate.recent, -candidate.score, *others


def _pattern(query: str) -> re.Pattern[str] | None:
    letters = [re.escape(c) for c in query.lower() if not c.isspace()]
    return re.compile("(?=(" + ".*?".join(letters) + "))") if letters else None


def matched(target: str, query: str) -> frozenset[int]:
    """The positions in `target` of the letters of `query`, in their shortest match."""
    pattern, name = _pattern(query), target.lower()
    spans = [] if pattern is None else [m.span(1) for m in pattern.finditer(name)]
    if not spans:
        return frozenset()
    at, _ = min(spans, key=lambda span: span[1] - span[0])
    places = []
    for letter in (c for c in query.lower() if not c.isspace()):
        at = name.index(letter, at)
        places.append(at)
        at += 1
    return frozenset(places)


def _score(pattern: re.Pattern[str], name: str) -> tuple[int, int, str] | None:
    spans = [len(m.group(1)) for m in pattern.finditer(name)]
    return (min(spans), len(name), name) if spans else None


def functions_of(target: str, workdir: Path) -> tuple[Signature, ...]:
    """The public functions of the file or module that a target names; none if it cannot be read."""
    path = source_file(split_target(target)[0], workdir)
    if path is None:
        return ()
    try:
        return _read(path)[1]
    except SpecError:
        return ()


def framework_of(spec: JobSpec) -> str:
    """The framework of a target; empty if nothing names one."""
    choice = choose(spec)
    return choice_text(choice) if choice.detected or choice.asked else ""


def choice_text(choice: FrameworkChoice) -> str:
    """A framework, and how it was chosen."""
    return framework_text(choice.framework.name, asked=choice.asked, found=bool(choice.detected))
