"""What is written for users, README and the manual, cut into what can be checked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
MANUAL = ROOT / "console" / "manual"
TOPICS = sorted(MANUAL.glob("*.md"))
DOCUMENTS = [ROOT / "README.md", *TOPICS]
NEEDS = {"browser", "cloud", "frameworks", "gpu", "internet", "spark", "terminal"}

_FENCE = re.compile(r"(?:^<!-- needs: ([a-z ]+) -->\n)?^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`]+`")
_EXIT = re.compile(r"# exit (\d+)")


@dataclass(frozen=True, slots=True)
class Block:
    """Code of a document, and what it needs besides this machine."""

    language: str
    text: str
    needs: frozenset[str]
    line: int

    @property
    def commands(self) -> list[tuple[str, int]]:
        """The commands of a shell's block, each with the exit code that its comment tells, else 0."""
        lines = self.text.replace("\\\n", " ").splitlines()
        return [(line, int(found[1]) if (found := _EXIT.search(line)) else 0) for line in lines if line]


def blocks(path: Path) -> Iterator[Block]:
    """The blocks of a document."""
    text = path.read_text()
    for found in _FENCE.finditer(text):
        line = text.count("\n", 0, found.start(2)) + 1
        yield Block(found[2], found[3], frozenset((found[1] or "").split()), line)


def commands(path: Path) -> Iterator[str]:
    """Every command that is shown, wherever it stands: in blocks, and in sentences."""
    text = path.read_text()
    for block in blocks(path):
        if block.language == "sh":
            yield from (command for command, _ in block.commands)
    for code in _CODE.findall(_FENCE.sub("", text)):
        yield code.strip("`").replace("\n", " ")
