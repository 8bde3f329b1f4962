"""The support bundle: one .zip that a bug report needs, with secrets masked.

It is a run as `archive.export` packs it, without values, artifacts and whole logs. Beside the facts lie
the last output of every rank, the stacks, the logs of Spark and of the engine, versions, and what the doctor
finds. Ranks print what they like: what has the shape of a secret is masked here, unlike in the run folder.
"""

from __future__ import annotations

import html
import json
import os
import platform
import re
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from launcher.diagnosis.failing_code import traceback_text
from launcher.diagnosis.stacks import stacks_block
from launcher.errors import LauncherError, RecordError
from launcher.runs import files, paths
from launcher.runs.catalog import read_private
from launcher.runs.provenance import installed_versions
from launcher.runs.reader import known_status, read_spec, read_state
from launcher.spec.redaction import REDACTED, Redactor, hides, redacted_source
from launcher.state.run_state import RunState

from ..sanitize import printable
from .archive import PAGE, add_file, add_text, run_id, write_archive
from .report import cause_rows, report_page

FOLDER = "support"
TAIL_BYTES = 64 << 10
MOST_OUTPUT = 16 << 20
"""Output in all: of a gang of many ranks, each one's share is smaller than `TAIL_BYTES`."""
_LEAST_TAIL = 1 << 10
_LIMIT_S = 5.0
_MOST_ENGINES = 4
_MOST_EVENTS = 256 << 20
_DOCTOR = f"{FOLDER}/doctor.json"
_DOCUMENTS = (paths.STATUS, paths.EVENTS, paths.SPEC, paths.SUMMARY, _DOCTOR)
"""The parts that are JSON, and must stay so."""

_FIGURES = (paths.SAMPLES, paths.USAGE, paths.CURVES)
"""What is packed as it is: numbers, and the names of metrics and devices."""

_WORDS = ("event", "run", "schema", "state", "mode", "by", "certainty", "level", "signal", "uuid", "way")
_NAMES = (
    "id", "host", "user", "executor", "application", "file", "path", "function", "kind", "type", "frames",
    "python", "revision", "branch",
)  # fmt: skip
"""Fields of words of ours, which are left, and of names and places, in which only known secrets are masked.

All other texts may be anything that a person, a program or Spark has said.
"""
_FREE = ("value", "env", "conf", "metrics", "packages")
"""Fields whose values have fields that a user has named."""

Findings = Callable[[], Any]
"""Runs the doctor for the run; what it returns can be written as JSON."""


def export_support(run: Path, out: Path, *, findings: Findings, force: bool) -> Path:
    """Write the bundle of a run, and return its path.

    Args:
        run: the run's folder.
        out: the file, or a folder for it.
        findings: runs the doctor; its failure is told in the bundle.
        force: whether an existing file may be replaced.

    Raises:
        SpecError: the file exists.
        RecordError: the file cannot be written, or the run cannot be read.
    """
    if out.is_dir():
        out = out / f"{run.name}-support.zip"
    bundle = _Bundle(run, findings)
    return write_archive(out, bundle.pack, force=force)


class _Bundle:
    """What goes into the bundle of one run."""

    def __init__(self, run: Path, findings: Findings) -> None:
        self._run, self._findings = run, findings
        self._state = read_state(run)
        self._redactor = Redactor(_secrets_of(run))
        self._name = run_id(run)

    def pack(self, packed: zipfile.ZipFile) -> None:
        """Add every part. A part that cannot be read is left out; the overview names it."""
        missing: list[str] = []
        for name, make in self._parts():
            try:
                text = make()
            except (OSError, LauncherError) as error:
                missing.append(f"{name}: {error}")
                continue
            if text:
                add_text(packed, f"{self._name}/{name}", self._masked_all(name, text))
        for path in self._samples():
            add_file(packed, self._run, path, f"{self._name}/{path.relative_to(self._run).as_posix()}")
        add_text(packed, f"{self._name}/{FOLDER}/overview.txt", self._masked(self._overview(missing)))

    def _parts(self) -> Iterator[tuple[str, Callable[[], str]]]:
        for name in (paths.STATUS, paths.EVENTS, paths.SPEC, paths.SUMMARY):
            yield name, lambda name=name: _whole(self._run, name)  # type: ignore[misc]
        yield f"{FOLDER}/versions.json", _versions
        yield _DOCTOR, lambda: json.dumps(self._findings(), indent=1)
        yield f"{FOLDER}/stacks.txt", lambda: printable(stacks_block(self._state, most=None))
        yield f"{FOLDER}/{PAGE}", lambda: report_page(self._run, logs=False)
        yield f"{FOLDER}/spark.log", lambda: _tail(self._run, self._run / "spark.log", TAIL_BYTES)
        for path in _engine_logs(self._run, self._state.started):
            yield f"{FOLDER}/engine/{path.name}", lambda path=path: _tail(path.parent, path, TAIL_BYTES)  # type: ignore[misc]
        yield from self._outputs()

    def _outputs(self) -> Iterator[tuple[str, Callable[[], str]]]:
        """The end of what each rank wrote, in the last two attempts."""
        found = [
            path
            for attempt in paths.attempts(self._run)[-2:]
            for path in _log_files(self._run, paths.log_folder(self._run, attempt))
        ]
        share = max(min(TAIL_BYTES, MOST_OUTPUT // max(len(found), 1)), _LEAST_TAIL)
        for path in found:
            name = f"{FOLDER}/{path.relative_to(self._run).as_posix()}.txt"
            yield name, lambda path=path: _tail(self._run, path, share)  # type: ignore[misc]

    def _samples(self) -> Iterator[Path]:
        for path in files.files_below(self._run):
            if path.relative_to(self._run).parts[0] in _FIGURES and not path.name.startswith("."):
                yield path

    def _masked_all(self, name: str, text: str) -> str:
        """A part without secrets. One that is JSON stays JSON, so that our own reader reads it still."""
        if name == f"{FOLDER}/{PAGE}":
            return self._masked_page(text)
        if name not in _DOCUMENTS:
            return self._masked(text)
        if name == paths.EVENTS:  # a document a line, of which one may be torn
            return "\n".join(self._masked_document(line) for line in text.split("\n"))
        return self._masked_document(text)

    def _masked_document(self, text: str) -> str:
        """A JSON document with the secrets in its texts masked; one that is none is masked as text."""
        if not text:
            return text
        try:
            found = json.loads(text)
            words = self._words_in(found) if isinstance(found, dict) else {}
            masked = self._masked_value(found, "")
        except (ValueError, RecursionError):
            return self._masked(text)
        if words:
            masked |= words
        return text if masked == found else json.dumps(masked)

    def _words_in(self, found: dict[str, Any]) -> dict[str, str]:
        """The fields of our own words: a secret may have the letters of one."""
        return {name: word for name in _WORDS if isinstance(word := found.get(name), str)}

    def _masked_value(self, value: Any, field: str) -> Any:
        """A value of the field of this name; a list's items are of the field that the list is of."""
        if isinstance(value, str):
            return self._redactor.mask_place(value) if field in _NAMES else self._masked(value)
        if isinstance(value, list):
            return [self._masked_value(each, field) for each in value]
        if isinstance(value, dict):
            known = self._redactor.mask_known
            return {
                known(name): REDACTED
                if isinstance(each, str) and hides(name, each)
                else self._masked_value(each, field if field in _FREE else name)
                for name, each in value.items()
            }
        return value

    def _masked(self, text: str) -> str:
        # after a line break: else a text that begins with a secret's name and `=` is taken for its value
        masked = self._redactor.mask(f"\n{text}").removeprefix("\n")
        return redacted_source(masked, self._redactor)  # tracebacks and logs quote lines of Python

    def _masked_page(self, text: str) -> str:
        """A page of HTML with the secrets in its texts masked, which are written there with signs of HTML."""

        def between_tags(found: re.Match[str]) -> str:
            plain = html.unescape(found[1])
            masked = self._masked(plain)
            return found[0] if masked == plain else f">{html.escape(masked)}<"

        return self._masked(re.sub(r">([^<>]+)<", between_tags, text))

    def _overview(self, missing: list[str]) -> str:
        state, status = self._state, known_status(self._run)
        code = "" if status.exit_code is None else f", exit {status.exit_code}"
        lines = [f"run      {self._name}", f"state    {status.state.value}{code}"]
        lines += [f"why      {status.why}"] if status.why else []
        lines += [f"{name:<8} {value}" for name, value in cause_rows(state.found)]
        lines += [f"made     {time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())}"]
        lines += [f"missing  {each}" for each in missing]
        lines += ["", *_failure_lines(state)]
        return "\n".join(printable(line) for line in lines) + "\n"


def _failure_lines(state: RunState) -> Iterator[str]:
    first = state.first_failure
    if first is None:
        return
    yield f"rank {first.rank} on {first.host} failed first"
    if first.raised is not None:
        yield from traceback_text(first.raised).splitlines()


def _secrets_of(run: Path) -> set[str]:
    """The secrets of the request, which the recorded facts leave out, but ranks may have printed."""
    redactor = Redactor()
    for place, text in read_private(run).items():
        redactor.mask(text, place.partition(" ")[2])
    try:
        return set(redactor.known) | set(read_spec(run).secrets())
    except RecordError:
        return set(redactor.known)


def _whole(run: Path, name: str) -> str:
    """A file of the run as text; empty if there is none."""
    try:
        return files.read_whole(run, run / name, _MOST_EVENTS).decode(errors="replace")
    except FileNotFoundError:
        return ""


def _tail(root: Path, path: Path, most: int) -> str:
    """The last bytes of a file as plain text, from the first whole line on; empty if there is none."""
    try:
        with files.open_file(root, path) as file:
            skipped = max(0, os.fstat(file.fileno()).st_size - most)
            file.seek(skipped)
            data = file.read(most)
    except FileNotFoundError:
        return ""
    lines = data.split(b"\n", 1)[-1] if skipped and b"\n" in data else data
    return printable(lines.decode(errors="replace"))


def _engine_logs(run: Path, started: float | None) -> list[Path]:
    """What engines have written since a run of this machine started: one of them owned it."""
    if run.parent != paths.runs_root() or started is None:
        return []
    folder = paths.home() / "engine"
    written = [(path, path.stat().st_mtime) for path in folder.glob("*.log") if path.is_file()]
    return [path for path, time in sorted(written) if time >= started][:_MOST_ENGINES]


def _log_files(run: Path, folder: Path) -> list[Path]:
    try:
        names = files.names_in(run, folder)
    except OSError:
        return []
    return [folder / name for name in sorted(names) if name.endswith(tuple(paths.SUFFIX.values()))]


def _versions() -> str:
    """The versions on this machine; those of the run are in its facts."""
    python, packages = installed_versions("", os.environ, (), limit_s=_LIMIT_S)
    here = {
        "python": python,
        "implementation": platform.python_implementation(),
        "system": platform.platform(),
        "executable": sys.executable,
        "packages": packages,
    }
    return json.dumps(here, indent=1)
