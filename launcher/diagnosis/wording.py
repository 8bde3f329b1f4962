"""The cause of a failure in words: what it is, what shows it, and what to do. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from ..state.events import CauseFound
from .certainty import Certainty

_LABEL = 9


def cause_text(found: CauseFound) -> str:
    """The cause in one sentence, which says so if another one is possible."""
    return f"{'' if found.certainty == Certainty.CERTAIN else 'likely: '}{found.text}"


def cause_lines(found: CauseFound | None) -> Iterator[str]:
    """The cause, its evidence and the remedies, each after a label of equal width; none without a cause."""
    if found is None:
        return
    yield f"{'cause':<{_LABEL}}{cause_text(found)}"
    for sentence in found.evidence:
        yield f"{'':<{_LABEL}}{sentence}"
    for place, remedy in enumerate(found.remedy):
        yield f"{'' if place else 'remedy':<{_LABEL}}{remedy}"
