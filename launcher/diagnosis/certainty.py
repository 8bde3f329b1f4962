"""How sure a cause is: all that those who only show causes need to know of the rules."""

from __future__ import annotations

from enum import StrEnum


class Certainty(StrEnum):
    """Whether the evidence leaves no other cause, or another one is possible."""

    CERTAIN = "certain"
    LIKELY = "likely"


def weakest(*steps: Certainty) -> Certainty:
    """How certain a conclusion is that needs each of these steps."""
    return Certainty.LIKELY if Certainty.LIKELY in steps else Certainty.CERTAIN
