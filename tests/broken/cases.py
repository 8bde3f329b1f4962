"""The corpus of broken trainings: each script names in its first lines what it needs and what is to be found.

# ranks: 2                          how many
# function: train                   a function of the script, if it is not run whole
# options: --no-progress-timeout 6  options of `rankdeck run`
# needs: shm                        what this machine must allow: see `tests.broken.test_trainings`
# cause: left-early                 the cause's id; `none` where nobody could tell; `a or b` by chance
# says: rank 1                      words of the cause or its evidence
# remedy: same number of            words of a remedy
# certainty: likely                 where only that may be said
# author: independent               who wrote it had not seen the rules
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

TRAININGS = Path(__file__).parent / "trainings"
UNKNOWN = "none"
_NAMES = frozenset(
    ["ranks", "function", "options", "needs", "cause", "says", "remedy", "certainty", "author"]
)


@dataclass(frozen=True, slots=True)
class Case:
    """One broken training and what a person would want to be told of it."""

    path: Path
    ranks: int
    causes: tuple[str, ...]
    function: str = ""
    options: tuple[str, ...] = ()
    needs: str = ""
    says: str = ""
    remedy: str = ""
    certainty: str = ""
    author: str = ""

    @property
    def name(self) -> str:
        """The script's name."""
        return self.path.stem

    @property
    def command(self) -> list[str]:
        """The words of `rankdeck run` for it."""
        target = f"{self.path}:{self.function}" if self.function else str(self.path)
        return ["run", "--mode", "local", "-n", str(self.ranks), *self.options, target]


def read_case(path: Path) -> Case:
    """The case that a script's first lines describe.

    Raises:
        ValueError: a line has a name that none of them has, or `ranks` or `cause` is missing.
    """
    head = _head(path.read_text())
    if unknown := head.keys() - _NAMES:
        raise ValueError(f"{path.name}: no such line: {', '.join(sorted(unknown))}")
    if missing := {"ranks", "cause"} - head.keys():
        raise ValueError(f"{path.name}: it does not say: {', '.join(sorted(missing))}")
    options, ranks = tuple(shlex.split(head.pop("options", ""))), int(head.pop("ranks"))
    return Case(path, ranks, tuple(head.pop("cause").split(" or ")), options=options, **head)


def cases() -> list[Case]:
    """All of them, by name."""
    return [read_case(path) for path in sorted(TRAININGS.glob("*.py"))]


def _head(text: str) -> dict[str, str]:
    lines = {}
    for line in text.splitlines():
        name, colon, value = line.removeprefix("# ").partition(": ")
        if name == "#" or not line.startswith("# ") or not colon:
            break
        lines[name] = value.strip()
    return lines
