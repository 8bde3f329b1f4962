"""A run folder is foreign input: however it is spoiled, it spoils what is shown of itself, and nothing else.

CI tries some mutants; ``RANKDECK_SOAK=20000`` tries so many, from number ``RANKDECK_MUTANT`` on.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import re
import shutil
import stat
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.reading import Answer, Reader
from tests.spoiling import SECRET, Spoiler, make_outside, record_all

MUTANTS = int(os.environ.get("RANKDECK_SOAK", "200"))
FIRST = int(os.environ.get("RANKDECK_MUTANT", "0"))
COMMANDS, CONSOLES = 6, 40
LIMIT_S = 5.0
CLEAN = "20260101-000000-000abc"
CODES = {0, 2, 69, 70, 75, 124, 125, 130, 143}
CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb]"
)
OWN_CODES = ("attach", "logs -f")

Words = Callable[[str, Path], list[str]]
_READING: dict[str, Words] = {
    "ps": lambda run, out: ["ps"],
    "ps --json": lambda run, out: ["ps", "--json"],
    "show": lambda run, out: ["show", run],
    "show --json": lambda run, out: ["show", run, "--json"],
    "logs": lambda run, out: ["logs", run],
    "logs --raw": lambda run, out: ["logs", run, "-r", "0", "--raw"],
    "logs --raw --stderr": lambda run, out: ["logs", run, "-r", "1", "--raw", "--stderr"],
    "logs -r": lambda run, out: ["logs", run, "-r", "1"],
    "logs --attempt": lambda run, out: ["logs", run, "--attempt", "0", "--grep", "hello"],
    "logs -f": lambda run, out: ["logs", run, "-f"],
    "attach": lambda run, out: ["attach", run],
    "result": lambda run, out: ["result", run],
    "result --json": lambda run, out: ["result", run, "--json", "-r", "1"],
    "compare": lambda run, out: ["compare", run, CLEAN],
    "compare --json": lambda run, out: ["compare", CLEAN, run, "--json"],
    "export": lambda run, out: ["export", run, "-o", str(out), "--force"],
    "export --results": lambda run, out: ["export", run, "-o", str(out), "--force", "--results"],
    "stacks": lambda run, out: ["stacks", run],
    "stacks --json": lambda run, out: ["stacks", run, "--json"],
    "rerun": lambda run, out: ["rerun", run, "--dry-run"],
    "prune": lambda run, out: ["prune", "--keep", "0", "--dry-run"],
    "rm": lambda run, out: ["rm", run, "--dry-run"],
    "show CLEAN": lambda run, out: ["show", CLEAN],
    "logs CLEAN": lambda run, out: ["logs", CLEAN],
}


@dataclass(slots=True)
class Place:
    """A home with a run that is in order, recorded runs to be spoiled, and a place outside."""

    home: Path
    recorded: list[Path]
    outside: Path
    out: Path
    before: str = ""
    expected: dict[str, str] = field(default_factory=dict)

    @property
    def root(self) -> Path:
        return self.home / "runs"

    def put(self, number: int) -> tuple[Path, str]:
        """The mutant of a number, in the folder of runs; and what was done to it."""
        chance = random.Random(number)
        recorded = self.recorded[number % len(self.recorded)]
        run = self.root / recorded.name
        shutil.copytree(recorded, run)
        return run, Spoiler(run, self.outside / recorded.name, chance).spoil()


@pytest.fixture
def place(tmp_path: Path, home: Path) -> Place:
    recorded = record_all(tmp_path / "recorded")
    for run in recorded:
        make_outside(tmp_path / "outside" / run.name, run)
    shutil.copytree(recorded[0], home / "runs" / CLEAN)
    made = Place(home, recorded, tmp_path / "outside", tmp_path / "out.zip")
    made.before = digest(made.root / CLEAN) + digest(made.outside)
    with Reader(home) as reader:
        for name in ("show CLEAN", "logs CLEAN"):
            made.expected[name] = reader.run(*_READING[name](CLEAN, made.out)).out
    assert all(made.expected.values())
    return made


def digest(folder: Path) -> str:
    """What a folder holds."""
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        found.update(f"{path.relative_to(folder)} {mode}".encode("utf-8", "surrogateescape"))
        if stat.S_ISREG(mode):
            found.update(path.read_bytes())
    return found.hexdigest()


def complaints(name: str, answer: Answer, out: Path) -> Iterator[str]:
    """All that must not be."""
    if answer.hung or answer.seconds > LIMIT_S:
        yield f"takes {answer.seconds:.1f} s"
    if answer.fell:
        yield answer.fell
    if answer.code not in CODES and not (name in OWN_CODES and 0 <= answer.code <= 255):
        yield f"exit code {answer.code}"
    if SECRET in answer.out or SECRET in answer.err:
        yield "tells what is outside"
    if found := CONTROLS.search(answer.err if "--raw" in name else answer.out + answer.err):
        yield f"a control character: {found[0]!r}"
    if name.startswith("export") and out.exists():
        yield from _in_zip(out)


def _in_zip(out: Path) -> Iterator[str]:
    with zipfile.ZipFile(out) as packed:
        for member in packed.infolist():
            if member.file_size < (8 << 20) and SECRET.encode() in packed.read(member):
                yield f"carries what is outside in {member.filename}"
    out.unlink()


def names_for(number: int) -> list[str]:
    """The commands for a mutant: the list of runs, and some others."""
    chance = random.Random(~number)
    return ["ps", *chance.sample(sorted(_READING), COMMANDS)]


def tried(place: Place, reader: Reader, number: int, count: Counter[str]) -> Iterator[str]:
    """Spoil a run and look at it in several ways; what went wrong."""
    run, done = place.put(number)
    try:
        for name in names_for(number):
            answer = reader.run(*_READING[name](run.name, place.out))
            count["commands"] += 1
            for complaint in complaints(name, answer, place.out):
                yield f"mutant {number} ({done}), {name}: {complaint}"
            expected = place.expected.get(name, answer.out)
            if name.endswith("CLEAN") and (answer.out != expected or answer.code):
                yield f"mutant {number} ({done}), {name}: tells something else of a run that is in order"
        if number % CONSOLES == 0:
            for opened in (run.name, CLEAN):
                answer = reader.look(opened, place.root)
                count["consoles"] += 1
                for complaint in complaints("console", answer, place.out):
                    yield f"mutant {number} ({done}), the console with {opened}: {complaint}"
    finally:
        shutil.rmtree(run)


@pytest.mark.process
@pytest.mark.timeout(max(300, MUTANTS))
def test_a_spoiled_run_spoils_only_itself(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    wrong: list[str] = []
    count: Counter[str] = Counter()
    numbers = range(FIRST, FIRST + MUTANTS)
    log = os.environ.get("RANKDECK_SOAK_LOG")
    with Reader(place.home) as reader, contextlib.ExitStack() as stack:
        told = stack.enter_context(open(log, "a")) if log else None
        for number in numbers:
            for complaint in tried(place, reader, number, count):
                wrong.append(complaint)
                if told is not None:
                    print(complaint, file=told, flush=True)
            if told is not None and number % 100 == 99:
                print(f"-- {number + 1} mutants, {dict(count)}, {len(wrong)} wrong", file=told, flush=True)

    assert place.before == digest(place.root / CLEAN) + digest(place.outside)
    assert [] == wrong[:20], f"{len(wrong)} of {len(numbers)} mutants, {dict(count)}"
